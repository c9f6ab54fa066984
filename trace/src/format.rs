//! The records of pcap and pcapng captures.
//!
//! <https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-03.html>,
//! <https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html>.

use crate::bytes::Order;
use crate::error::counted;
use crate::link::Link;

/// Bytes of the header of a pcap file.
pub const PCAP_HEADER: usize = 24;
/// How a pcapng capture begins, in either byte order.
pub const PCAPNG_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// Time stamps later than this (in the year 2116) are damage.
const LATEST_NS: i64 = 1 << 62;
const SECOND: i64 = 1_000_000_000;
/// libpcap refuses to write longer records (MAXIMUM_SNAPLEN).
const LARGEST_RECORD: u32 = 262_144;
/// Bytes of the longest credible pcapng block.
const LARGEST_BLOCK: u32 = 1 << 27;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OLD: u32 = 2;
const SIMPLE: u32 = 3;
const ENHANCED: u32 = 6;
const ORDER: u32 = 0x1a2b_3c4d;

/// How the records of a capture, or of a section of one, look.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub order: Order,
    pub kind: Kind,
    /// Bytes of the longest credible record.
    limit: u32,
    /// Time of the last record, ns.
    pub last_ns: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// pcap, with the bytes of a record's header: 16, or 24 of the "modified" format.
    Pcap {
        header: usize,
    },
    Pcapng,
}

/// One interface of a section; pcap has one for the file.
#[derive(Clone, Copy, Debug)]
pub struct Interface {
    /// `None`: of a type that is not read.
    pub link: Option<Link>,
    /// The number that the capture has for it.
    pub link_number: u32,
    unit: Unit,
    offset_ns: i64,
    /// Largest credible time stamp, in units.
    most_units: i64,
    snaplen: u32,
}

/// What a time stamp counts.
#[derive(Clone, Copy, Debug)]
enum Unit {
    Nanoseconds(i64),
    PerNanosecond(i64),
    /// 2 to the power of minus so much, of a second.
    Binary(u32),
}

/// A record with a packet.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Where it begins, counted from the record.
    pub begin: usize,
    pub captured: usize,
    /// Bytes on the wire.
    pub wire: u32,
    pub time_ns: i64,
    /// Its interface; `None`: a simple packet block, which has no time stamp either.
    pub interface: Option<usize>,
}

/// What begins at an offset.
#[derive(Clone, Copy, Debug)]
pub enum Record {
    Packet {
        length: usize,
        frame: Frame,
    },
    /// A pcapng block without a packet.
    Other {
        length: usize,
    },
    /// A section header or an interface description.
    Description,
    /// Nothing that is credible.
    Broken,
    /// More bytes are needed to say.
    Cut,
}

impl Interface {
    pub fn new(link_number: u32, unit_ns: i64) -> Interface {
        Interface {
            link: Link::of(link_number),
            link_number,
            unit: Unit::Nanoseconds(unit_ns),
            offset_ns: 0,
            most_units: LATEST_NS / unit_ns,
            snaplen: 0,
        }
    }

    /// Time stamp in nanoseconds, rounded down.
    #[inline(always)]
    fn nanoseconds(&self, units: i64) -> i64 {
        self.offset_ns
            + match self.unit {
                Unit::Nanoseconds(each) => units * each,
                Unit::PerNanosecond(many) => units / many,
                Unit::Binary(shift) => {
                    let fraction = i128::from(units) & ((1 << shift) - 1);
                    (units >> shift) * SECOND + ((fraction * i128::from(SECOND)) >> shift) as i64
                }
            }
    }

    /// Take in `if_tsresol`: a negative power of 10, of 2 with the highest bit set.
    fn set_resolution(&mut self, value: u8) -> Result<(), String> {
        let power = u32::from(value & 127);
        (self.unit, self.most_units) = match (value & 128 > 0, power) {
            // finer than 2^-63 s, 64 bits hold no whole second
            (true, 64..) => return Err(format!("its time stamps count units of 2^-{power} s")),
            (true, _) => {
                let most = i128::from(LATEST_NS / SECOND) << power;
                (Unit::Binary(power), i64::try_from(most).unwrap_or(i64::MAX))
            }
            (false, ..=9) => {
                let each = 10_i64.pow(9 - power);
                (Unit::Nanoseconds(each), LATEST_NS / each)
            }
            (false, 10..=27) => (Unit::PerNanosecond(10_i64.pow(power - 9)), i64::MAX),
            (false, _) => return Err(format!("its time stamps count units of 10^-{power} s")),
        };
        Ok(())
    }
}

impl Layout {
    /// Layout and interface of a pcap file that begins with `head`.
    ///
    /// # Errors
    ///
    /// In words, if it begins as no pcap file does or its header is cut off.
    pub fn of_pcap(head: &[u8]) -> Result<(Layout, Interface), PcapError> {
        let magic = head.first_chunk().map_or(0, |first| u32::from_be_bytes(*first));
        let (order, unit_ns, header) = match magic {
            0xd4c3_b2a1 => (Order::Little, 1000, 16),
            0xa1b2_c3d4 => (Order::Big, 1000, 16),
            0x4d3c_b2a1 => (Order::Little, 1, 16),
            0xa1b2_3c4d => (Order::Big, 1, 16),
            0x34cd_b2a1 => (Order::Little, 1000, 24), // the interface is in the record header
            0xa1b2_cd34 => (Order::Big, 1000, 24),
            _ => return Err(PcapError::Magic),
        };
        if head.len() < PCAP_HEADER {
            return Err(PcapError::Truncated);
        }
        let snaplen = order.u32_at(head, 16);
        let link = order.u32_at(head, 20) & 0xffff; // the rest describes frame check sequences
        let limit = if snaplen < 1 << 27 { snaplen.max(LARGEST_RECORD) } else { LARGEST_RECORD };
        let layout = Layout { order, kind: Kind::Pcap { header }, limit, last_ns: 0 };
        Ok((layout, Interface::new(link, unit_ns)))
    }

    pub fn of_pcapng() -> Layout {
        Layout { order: Order::Little, kind: Kind::Pcapng, limit: LARGEST_BLOCK, last_ns: 0 }
    }

    /// Say what begins at the start of `data`.
    #[inline(always)]
    pub fn record(&self, data: &[u8], interfaces: &[Interface]) -> Record {
        match self.kind {
            Kind::Pcap { header } => self.pcap_record(data, header, interfaces),
            Kind::Pcapng => self.block(data, interfaces),
        }
    }

    #[inline(always)]
    fn pcap_record(&self, data: &[u8], header: usize, interfaces: &[Interface]) -> Record {
        if data.len() < header {
            return Record::Cut;
        }
        let Some(unit_ns) = pcap_unit(interfaces) else { return Record::Broken };
        let word = |at| self.order.u32_at(data, at);
        let (second, captured) = (i64::from(word(0)), word(8));
        let fraction = i64::from(word(4)) * unit_ns;
        let zeros = captured == 0 && fraction == 0 && second == 0 && word(12) == 0; // a hole
        if captured > self.limit || fraction >= SECOND || zeros {
            return Record::Broken;
        }
        let captured = captured as usize;
        let frame = Frame {
            begin: header,
            captured,
            wire: word(12),
            time_ns: second * SECOND + fraction,
            interface: Some(0),
        };
        if data.len() < header + captured {
            return Record::Cut;
        }
        Record::Packet { length: header + captured, frame }
    }

    fn block(&self, data: &[u8], interfaces: &[Interface]) -> Record {
        if data.len() < 12 {
            return Record::Cut;
        }
        let kind = self.order.u32_at(data, 0);
        if matches!(kind, SECTION | INTERFACE) {
            return Record::Description;
        }
        let length = self.order.u32_at(data, 4);
        if length < 12 || length & 3 > 0 || length > self.limit {
            return Record::Broken;
        }
        let length = length as usize;
        match data.get(..length) {
            Some(block) => self.whole_block(block, kind, interfaces),
            None => Record::Cut,
        }
    }

    fn whole_block(&self, block: &[u8], kind: u32, interfaces: &[Interface]) -> Record {
        let length = block.len();
        if self.order.u32_at(block, length - 4) as usize != length {
            return Record::Broken;
        }
        let frame = match kind {
            OLD | ENHANCED => self.timed(block, kind, interfaces),
            SIMPLE => self.simple(block, interfaces),
            _ => return Record::Other { length },
        };
        frame.map_or(Record::Broken, |frame| Record::Packet { length, frame })
    }

    /// Read an enhanced packet block, or the obsolete one: they differ in one field.
    fn timed(&self, block: &[u8], kind: u32, interfaces: &[Interface]) -> Option<Frame> {
        let room = block.len().checked_sub(32)?;
        let word = |at| self.order.u32_at(block, at);
        let number = match kind {
            ENHANCED => word(8) as usize,
            _ => usize::from(self.order.u16_at(block, 8)),
        };
        let captured = word(20) as usize;
        let units = i64::try_from(u64::from(word(12)) << 32 | u64::from(word(16))).ok()?;
        let interface = interfaces.get(number)?;
        if captured > room || units > interface.most_units {
            return None;
        }
        let time_ns = interface.nanoseconds(units);
        if !(0..=LATEST_NS).contains(&time_ns) {
            return None; // by the interface's offset
        }
        Some(Frame { begin: 28, captured, wire: word(24), time_ns, interface: Some(number) })
    }

    fn simple(&self, block: &[u8], interfaces: &[Interface]) -> Option<Frame> {
        let room = block.len().checked_sub(16)?;
        let snaplen = interfaces.first()?.snaplen as usize;
        let wire = self.order.u32_at(block, 8);
        let captured = room.min(wire as usize);
        Some(Frame {
            begin: 12,
            captured: if snaplen > 0 { captured.min(snaplen) } else { captured },
            wire,
            time_ns: self.last_ns,
            interface: None,
        })
    }

    /// Say what is wrong with a record that is `Broken`.
    pub fn reason(&self, record: &[u8], interfaces: &[Interface]) -> String {
        let word = |at| self.order.u32_at(record, at);
        if let (Kind::Pcap { .. }, Some(unit_ns)) = (self.kind, pcap_unit(interfaces)) {
            let captured = word(8);
            if captured > self.limit {
                return format!(
                    "its header gives {captured} bytes, at most {} are allowed",
                    self.limit
                );
            }
            if record.iter().take(16).all(|byte| *byte == 0) {
                return "its header is zeros".into();
            }
            let parts = SECOND / unit_ns;
            return format!("its time stamp has {} fractions of a second, of {parts}", word(4));
        }
        let (kind, length) = (word(0), word(4));
        if length < 12 || length & 3 > 0 || length > self.limit {
            return not_credible(length);
        }
        let last = word(length as usize - 4);
        if last != length {
            return differing(length, last);
        }
        let (shortest, name) = match kind {
            SIMPLE => (16, "a simple packet block"),
            OLD => (32, "a packet block"),
            _ => (32, "an enhanced packet block"),
        };
        if length < shortest {
            return format!("its length of {length} bytes is too short for {name} ({shortest})");
        }
        let number = match kind {
            SIMPLE => 0,
            ENHANCED => word(8),
            _ => self.order.u16_at(record, 8).into(),
        };
        let known = interfaces.len();
        if number as usize >= known {
            return format!("it names interface {number}; interfaces described before it: {known}");
        }
        let (high, low, captured) = (word(12), word(16), word(20));
        let room = length - shortest;
        if captured > room {
            let said = counted(captured.into(), "byte");
            return format!("its header gives {said}, it has room for {room}");
        }
        let units = u64::from(high) << 32 | u64::from(low);
        format!("its time stamp of {units} units is out of range")
    }
}

/// Why the first bytes are no header of a pcap file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PcapError {
    Magic,
    Truncated,
}

fn pcap_unit(interfaces: &[Interface]) -> Option<i64> {
    match interfaces.first()?.unit {
        Unit::Nanoseconds(each) => Some(each),
        _ => None,
    }
}

fn not_credible(length: u32) -> String {
    format!("its length of {} is not credible", counted(length.into(), "byte"))
}

fn differing(first: u32, last: u32) -> String {
    format!("its lengths differ: {first} and {last} bytes")
}

/// A section header or an interface description.
pub enum Description {
    Section(Layout),
    Interface(Interface),
}

/// Read the section header or interface description that `data` begins with, and its length.
///
/// `None`: more bytes are needed.
///
/// # Errors
///
/// In words, if it contradicts itself.
pub fn describe(data: &[u8], layout: &Layout) -> Result<Option<(usize, Description)>, String> {
    let is_section = data.starts_with(&PCAPNG_MAGIC);
    let (order, shortest) = match (is_section, data.get(8..12)) {
        (_, None) => return Ok(None),
        (false, _) => (layout.order, 20),
        (true, Some(magic)) => match u32::from_be_bytes([magic[0], magic[1], magic[2], magic[3]]) {
            ORDER => (Order::Big, 28),
            other if other.swap_bytes() == ORDER => (Order::Little, 28),
            other => {
                let bytes: Vec<_> = other.to_be_bytes().map(|b| format!("{b:02x}")).into();
                return Err(format!("its byte-order magic is {}", bytes.join(" ")));
            }
        },
    };
    let length = order.u32_at(data, 4);
    if length < shortest || length & 3 > 0 || length > LARGEST_BLOCK {
        return Err(not_credible(length));
    }
    let Some(block) = data.get(..length as usize) else { return Ok(None) };
    let last = order.u32_at(block, block.len() - 4);
    if last != length {
        return Err(differing(length, last));
    }
    let found = if is_section {
        let (major, minor) = (order.u16_at(block, 12), order.u16_at(block, 14));
        if major != 1 {
            return Err(format!("it is of pcapng version {major}.{minor}; version 1 is read"));
        }
        Description::Section(Layout { order, last_ns: layout.last_ns, ..Layout::of_pcapng() })
    } else {
        Description::Interface(interface(block, order)?)
    };
    Ok(Some((block.len(), found)))
}

const END_OF_OPTIONS: u16 = 0;
const RESOLUTION: u16 = 9;
const TIME_OFFSET: u16 = 14;

fn interface(block: &[u8], order: Order) -> Result<Interface, String> {
    let mut found = Interface::new(order.u16_at(block, 8).into(), 1000);
    found.snaplen = order.u32_at(block, 12);
    let mut offset = 0;
    let mut options = &block[16..block.len() - 4];
    while options.len() >= 4 {
        let (code, length) = (order.u16_at(options, 0), usize::from(order.u16_at(options, 2)));
        let value = match options.get(4..4 + length) {
            Some(value) if code != END_OF_OPTIONS => value,
            _ => break,
        };
        match (code, value) {
            (RESOLUTION, &[resolution]) => found.set_resolution(resolution)?,
            (TIME_OFFSET, _) => {
                if let Ok(eight) = <[u8; 8]>::try_from(value) {
                    offset = match order {
                        Order::Little => i64::from_le_bytes(eight),
                        Order::Big => i64::from_be_bytes(eight),
                    };
                }
            }
            _ => {}
        }
        options = options.get(4 + ((length + 3) & !3)..).unwrap_or(&[]);
    }
    match offset.checked_mul(SECOND) {
        Some(offset_ns) if offset_ns.abs() <= LATEST_NS => found.offset_ns = offset_ns,
        _ => return Err(format!("its time stamps are offset by {offset} s")),
    }
    Ok(found)
}

/// Credible records in a row that are enough; whole ones up to the end of the capture that are.
const ENOUGH: usize = 3;
const TO_THE_END: usize = 2;
/// Longest time between two packets, either way, that is credible behind damage: a day.
const NEAR_NS: i64 = 86_400 * SECOND;
/// Bytes of the longest pcapng block that is credible behind damage: no snapshot length is larger.
const LONGEST_BLOCK: u32 = 1 << 20;

/// What was found where a damaged capture may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resumed {
    /// Records are credible from here on.
    Credible,
    /// More bytes are needed to say so.
    Cut,
    /// There are none.
    Nothing,
}

impl Layout {
    /// Find where records are credible again: an offset, and what it is.
    ///
    /// A record by itself proves little, so several in a row must be credible: of pcap those whose
    /// captured bytes are at most those on the wire, of pcapng blocks whose length stands at both of
    /// their ends; the time of each is near that of the one before. `last`: the capture ends with
    /// `data`.
    pub fn resume(&self, data: &[u8], interfaces: &[Interface], last: bool) -> (usize, Resumed) {
        for at in 0..data.len() {
            match self.credible(&data[at..], interfaces, last) {
                Resumed::Nothing => {}
                found => return (at, found),
            }
        }
        (data.len(), if last { Resumed::Nothing } else { Resumed::Cut })
    }

    fn credible(&self, mut data: &[u8], interfaces: &[Interface], last: bool) -> Resumed {
        let (mut count, mut time_ns) = (0, self.last_ns);
        while count < ENOUGH {
            match self.credible_record(data, interfaces, time_ns) {
                Guess::Record { length, time_ns: later, weight } if length <= data.len() => {
                    data = &data[length..];
                    time_ns = later;
                    count += weight;
                }
                Guess::Record { weight, .. } if count + weight >= ENOUGH => {
                    return Resumed::Credible;
                }
                Guess::Record { .. } | Guess::Cut if !last => return Resumed::Cut,
                _ if data.is_empty() && count >= TO_THE_END => return Resumed::Credible,
                _ => return Resumed::Nothing,
            }
        }
        Resumed::Credible
    }

    fn credible_record(&self, data: &[u8], interfaces: &[Interface], before_ns: i64) -> Guess {
        match self.kind {
            Kind::Pcap { header } if data.len() < header => Guess::Cut,
            Kind::Pcap { header } => {
                let word = |at| self.order.u32_at(data, at);
                let Some(unit_ns) = pcap_unit(interfaces) else { return Guess::None };
                let (captured, wire) = (word(8), word(12));
                let fraction = i64::from(word(4)) * unit_ns;
                let time_ns = i64::from(word(0)) * SECOND + fraction;
                let whole = captured > 0 && captured <= wire && captured <= self.limit;
                if whole && fraction < SECOND && (time_ns - before_ns).abs() <= NEAR_NS {
                    let length = header + captured as usize;
                    Guess::Record { length, time_ns, weight: 1 }
                } else {
                    Guess::None
                }
            }
            Kind::Pcapng => self.credible_block(data, interfaces, before_ns),
        }
    }

    /// A section or an interface is enough by itself.
    fn credible_block(&self, data: &[u8], interfaces: &[Interface], before_ns: i64) -> Guess {
        if data.len() < 12 {
            return Guess::Cut;
        }
        let word = |at| self.order.u32_at(data, at);
        let (kind, length) = (word(0), word(4));
        if kind == SECTION {
            return match word(8) == ORDER || word(8).swap_bytes() == ORDER {
                true => Guess::Record { length: 12, time_ns: before_ns, weight: ENOUGH },
                false => Guess::None,
            };
        }
        if !(1..=ENHANCED).contains(&kind)
            || length < 12
            || length & 3 > 0
            || length > LONGEST_BLOCK
        {
            return Guess::None;
        }
        let length = length as usize;
        let Some(block) = data.get(..length) else { return Guess::Cut };
        if self.order.u32_at(block, length - 4) as usize != length {
            return Guess::None;
        }
        if kind == INTERFACE {
            return Guess::Record { length, time_ns: before_ns, weight: ENOUGH };
        }
        match self.whole_block(block, kind, interfaces) {
            Record::Other { .. } => Guess::Record { length, time_ns: before_ns, weight: 1 },
            Record::Packet { frame, .. } if (frame.time_ns - before_ns).abs() <= NEAR_NS => {
                Guess::Record { length, time_ns: frame.time_ns, weight: 1 }
            }
            _ => Guess::None,
        }
    }
}

/// What may begin at an offset behind damage, and how much it counts.
enum Guess {
    Record { length: usize, time_ns: i64, weight: usize },
    None,
    Cut,
}
