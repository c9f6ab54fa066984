//! Read a capture packet by packet, in bounded memory, behind damage too.

use std::ffi::OsStr;

use crate::error::{Error, counted};
use crate::format::{
    Description, Frame, Interface, Kind, Layout, PCAP_HEADER, PCAPNG_MAGIC, PcapError, Record,
    Resumed, describe,
};
use crate::link::LINKS;
use crate::packet::{Fragment, Packet, TCP};
use crate::source::{Position, Source};

/// Bytes asked for at a time: they stay in the L2 cache until they are dissected.
const CHUNK: usize = 1 << 18;
const MOST_INTERFACES: usize = 1 << 16;

/// What was in the records so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub records: u64,
    /// Records without an IP packet.
    pub not_ip: u64,
    /// Those whose IP or TCP header is cut off or contradicts itself.
    pub short: u64,
    /// IP packets of other protocols.
    pub not_tcp: u64,
    /// Later fragments.
    pub fragments: u64,
    /// TCP packets whose options are cut off.
    pub without_options: u64,
    /// Records without a time stamp, which get the one of the record before.
    pub untimed: u64,
}

/// A record as the capture has it.
#[derive(Clone, Copy, Debug)]
pub struct RawFrame<'a> {
    pub time_ns: i64,
    pub wire_length: u32,
    /// The capture's number for the link type.
    pub link_number: u32,
    pub bytes: &'a [u8],
}

/// A capture being read.
pub struct Reader {
    pub counters: Counters,
    /// What is wrong with the capture; empty if it is whole.
    pub truncated: String,
    /// What may be done about that; may be empty.
    pub hint: String,
    /// Bytes of the (unpacked) capture that were damaged, and those behind them up to where records
    /// are credible again.
    pub skipped: u64,
    /// Link types of the interfaces so far, without repeats.
    pub link_types: Vec<u32>,
    source: Source,
    layout: Layout,
    interfaces: Vec<Interface>,
    data: Vec<u8>,
    base: u64,
    at: usize,
    end: usize,
    gaps: u64,
    done: bool,
}

impl Reader {
    /// Begin to read a capture: pcap or pcapng, plain or packed; `-` is standard input.
    ///
    /// # Errors
    ///
    /// If it is missing, empty, no capture, or cut off before the first record.
    pub fn open(path: impl AsRef<OsStr>) -> Result<Reader, Error> {
        Reader::of(Source::open(path)?, CHUNK)
    }

    /// Read from a source, `chunk` bytes at a time; a longer record makes the buffer grow.
    ///
    /// # Errors
    ///
    /// As `open`.
    pub fn of(source: Source, chunk: usize) -> Result<Reader, Error> {
        let mut reader = Reader {
            counters: Counters::default(),
            truncated: String::new(),
            hint: String::new(),
            skipped: 0,
            link_types: Vec::new(),
            source,
            layout: Layout::of_pcapng(),
            interfaces: Vec::new(),
            data: vec![0; chunk.max(PCAP_HEADER)],
            base: 0,
            at: 0,
            end: 0,
            gaps: 0,
            done: false,
        };
        reader.begin()?;
        Ok(reader)
    }

    pub fn name(&self) -> &str {
        &self.source.name
    }

    /// `pcap` or `pcapng`.
    pub fn format(&self) -> &'static str {
        if self.layout.kind == Kind::Pcapng { "pcapng" } else { "pcap" }
    }

    /// Whether the capture is unpacked while it is read.
    pub fn is_packed(&self) -> bool {
        self.source.packed.is_some()
    }

    /// Bytes of the file that were read so far, while it is being read.
    pub fn position(&self) -> Position {
        self.source.position()
    }

    /// Share of the bytes so far, 0 to 1, that were not skipped.
    pub fn read_share(&self) -> f64 {
        match self.base + self.end as u64 {
            0 => 1.0,
            every => 1.0 - self.skipped as f64 / every as f64,
        }
    }

    /// Fill `packet` with the next IP packet; false at the end of the capture.
    ///
    /// # Errors
    ///
    /// If there is nothing to be had: the first record is damaged or cannot be read, or no link type
    /// is known.
    #[inline(always)]
    pub fn next(&mut self, packet: &mut Packet) -> Result<bool, Error> {
        while let Some(frame) = self.advance()? {
            if self.enter(&frame, packet) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Give the next record as it is, of whatever protocol; `None` at the end of the capture.
    ///
    /// # Errors
    ///
    /// As `next`.
    pub fn next_frame(&mut self) -> Result<Option<RawFrame<'_>>, Error> {
        let Some(frame) = self.advance()? else { return Ok(None) };
        self.layout.last_ns = frame.time_ns;
        self.counters.records += 1;
        let interface = self.interfaces.get(frame.interface.unwrap_or(0));
        Ok(Some(RawFrame {
            time_ns: frame.time_ns,
            wire_length: frame.wire,
            link_number: interface.map_or(0, |interface| interface.link_number),
            bytes: &self.data[frame.begin..frame.begin + frame.captured],
        }))
    }

    /// Go to the next record with a packet; where it begins is counted from the start of the data.
    #[inline(always)]
    fn advance(&mut self) -> Result<Option<Frame>, Error> {
        loop {
            let data = &self.data[self.at..self.end];
            match self.layout.record(data, &self.interfaces) {
                Record::Packet { length, frame } => {
                    let begin = self.at + frame.begin;
                    self.at += length;
                    return Ok(Some(Frame { begin, ..frame }));
                }
                Record::Other { length } => self.at += length,
                _ if self.done => return Ok(None),
                other => self.go_on(&other)?,
            }
        }
    }

    /// Count a record and fill a packet from it; whether it is one.
    #[inline(always)]
    fn enter(&mut self, frame: &Frame, packet: &mut Packet) -> bool {
        let number = frame.interface.unwrap_or(0);
        let counters = &mut self.counters;
        counters.untimed += u64::from(frame.interface.is_none());
        self.layout.last_ns = frame.time_ns;
        packet.time_ns = frame.time_ns;
        packet.record = counters.records;
        packet.wire_length = frame.wire.max(frame.captured as u32);
        packet.interface = number.min(255) as u8;
        counters.records += 1;
        let bytes = &self.data[frame.begin..frame.begin + frame.captured];
        let link = self.interfaces.get(number).and_then(|one| one.link);
        let ip = link.and_then(|link| link.ip_offset(bytes)).unwrap_or(bytes.len());
        let Some(header) = bytes
            .get(ip..)
            .filter(|header| header.first().is_some_and(|first| matches!(first >> 4, 4 | 6)))
        else {
            counters.not_ip += 1;
            return false;
        };
        let Ok(options) = packet.fill(header, ip) else {
            counters.short += 1;
            return false;
        };
        counters.without_options += u64::from(!options);
        counters.not_tcp += u64::from(packet.protocol != TCP);
        counters.fragments += u64::from(packet.fragment == Fragment::Later);
        true
    }

    /// Do what reading stopped for; a later problem ends the capture, the first one is an error.
    #[cold]
    fn go_on(&mut self, record: &Record) -> Result<(), Error> {
        let found = match record {
            Record::Broken => {
                let rest = &self.data[self.at..self.end];
                self.skip(&self.layout.reason(rest, &self.interfaces))
            }
            Record::Description => self.describe(),
            _ => self.more().and_then(|more| if more { Ok(()) } else { self.finish() }),
        };
        match found {
            Err(error) if self.done || self.counters.records == 0 => Err(error),
            Err(error) => {
                self.end_with(&error.message);
                self.hint = error.hint;
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Read the first bytes and learn the format.
    fn begin(&mut self) -> Result<(), Error> {
        while self.end < PCAP_HEADER && self.more()? {}
        let head = &self.data[..self.end.min(PCAP_HEADER)];
        let name = &self.source.name;
        if head.is_empty() && !self.source.problem.is_empty() {
            return Err(Error::new(self.source.problem.clone(), name));
        }
        if head.is_empty() {
            let error = Error::new("the capture is empty (0 bytes)", name);
            return Err(error.hint("was tcpdump killed?"));
        }
        if head.starts_with(&PCAPNG_MAGIC) {
            return Ok(());
        }
        match Layout::of_pcap(head) {
            Ok((layout, interface)) => {
                if interface.link.is_none() {
                    return Err(link_refused(interface.link_number, name));
                }
                self.at = PCAP_HEADER;
                self.layout = layout;
                self.link_types.push(interface.link_number);
                self.interfaces.push(interface);
                Ok(())
            }
            Err(PcapError::Magic) => {
                let first: Vec<_> = head.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
                let begins = first.join(" ");
                let error =
                    Error::new(format!("not a pcap capture: it begins with {begins}"), name);
                let hint =
                    "give a capture that 'tcpdump -w' or Wireshark wrote (plain or compressed)";
                Err(error.hint(hint))
            }
            Err(PcapError::Truncated) => {
                let message =
                    format!("truncated in the file header: {} of {PCAP_HEADER} bytes", head.len());
                Err(Error::new(message, name))
            }
        }
    }

    /// Put more bytes behind those that are left; whether there were any.
    fn more(&mut self) -> Result<bool, Error> {
        self.data.copy_within(self.at..self.end, 0);
        self.base += self.at as u64;
        self.end -= self.at;
        self.at = 0;
        if self.end == self.data.len() {
            self.data.resize(2 * self.end, 0); // a record longer than the buffer
        }
        let count = self.source.read(&mut self.data[self.end..])?;
        self.end += count;
        Ok(count > 0)
    }

    /// Take in a section header or an interface description of pcapng.
    fn describe(&mut self) -> Result<(), Error> {
        let found = match describe(&self.data[self.at..self.end], &self.layout) {
            Ok(None) => return if self.more()? { Ok(()) } else { self.finish() },
            Ok(Some((length, Description::Section(layout)))) => {
                self.layout = layout;
                self.interfaces.clear();
                Ok(length)
            }
            Ok(Some(_)) if self.interfaces.len() == MOST_INTERFACES => {
                Err(format!("its section has more than {MOST_INTERFACES} interfaces"))
            }
            Ok(Some((length, Description::Interface(interface)))) => {
                if !self.link_types.contains(&interface.link_number) {
                    self.link_types.push(interface.link_number);
                }
                self.interfaces.push(interface);
                Ok(length)
            }
            Err(why) => Err(why),
        };
        match found {
            Ok(length) => {
                self.at += length;
                Ok(())
            }
            Err(why) => self.skip(&why),
        }
    }

    /// Offset of the next record in the (unpacked) capture.
    fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Name the next record, and what is before it.
    fn place(&self) -> (String, String) {
        let whole = self.counters.records;
        let verb = if whole == 1 { "is" } else { "are" };
        let before = format!("{} before it {verb} whole", counted(whole, "packet"));
        (format!("packet {} at byte {}", whole + 1, self.offset()), before)
    }

    fn damaged(&self, why: &str) -> Error {
        let (place, before) = self.place();
        let name = self.name();
        let error = Error::new(format!("damaged: {place}: {why}; {before}"), name);
        let plain =
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+,:@".contains(&byte));
        if self.counters.records == 0 || self.is_packed() || name == "-" || !plain {
            return error;
        }
        error.hint(format!("keep what is before it: head -c {} {name} > whole", self.offset()))
    }

    /// Go on behind damage where records are credible again, or to the end of the capture.
    fn skip(&mut self, why: &str) -> Result<(), Error> {
        let (error, start) = (self.damaged(why), self.offset());
        if self.counters.records == 0 {
            return Err(error);
        }
        if self.gaps == 0 {
            (self.truncated, self.hint) = (error.message, error.hint);
        }
        self.gaps += 1;
        self.at += 1;
        let found = self.seek();
        self.skipped += self.offset() - start;
        if found? { Ok(()) } else { self.finish() }
    }

    /// Go to where records are credible again, else to the end; whether they are.
    fn seek(&mut self) -> Result<bool, Error> {
        let mut last = false;
        loop {
            let rest = &self.data[self.at..self.end];
            let (further, found) = self.layout.resume(rest, &self.interfaces, last);
            self.at += further;
            match found {
                Resumed::Credible => return Ok(true),
                Resumed::Nothing => return Ok(false),
                Resumed::Cut => last = !self.more()?,
            }
        }
    }

    /// Whether there are credible records in what is left at the end of the capture.
    fn goes_on(&self) -> bool {
        let rest = &self.data[(self.at + 1).min(self.end)..self.end];
        let (_, found) = self.layout.resume(rest, &self.interfaces, true);
        self.counters.records > 0 && found == Resumed::Credible
    }

    /// Note that the capture ends, what is wrong with its end, and what was skipped before.
    fn end_with(&mut self, problem: &str) {
        self.done = true;
        self.at = self.end;
        let mut said = vec![std::mem::take(&mut self.truncated)];
        if self.gaps > 0 {
            let places =
                if self.gaps > 1 { format!(" in {} places", self.gaps) } else { String::new() };
            let bytes = counted(self.skipped, "byte");
            let share = 100.0 * self.read_share();
            said.push(format!("{bytes} skipped{places}: {share:.1} % of the capture was read"));
        }
        said.push(problem.into());
        said.retain(|one| !one.is_empty());
        self.truncated = said.join("; ");
    }

    /// Note the end of the capture, and what is wrong with it.
    fn finish(&mut self) -> Result<(), Error> {
        let left = self.end - self.at;
        if left > 0 && self.goes_on() {
            return self.skip("its length exceeds the rest of the file");
        }
        let (place, before) = self.place();
        let mut problem = String::new();
        let stopped = &self.source.problem;
        if left > 0 || !stopped.is_empty() {
            let verb = if left == 1 { "is" } else { "are" };
            let rest = format!("{} {verb} left of it", counted(left as u64, "byte"));
            problem = format!("truncated in {place}: {rest}; {before}");
        }
        if !stopped.is_empty() {
            problem += &format!(" ({stopped})");
        }
        self.end_with(&problem);
        let known = |number: &u32| LINKS.iter().any(|one| one.0 == *number);
        match self.link_types.first() {
            Some(first) if !self.link_types.iter().any(known) => {
                Err(link_refused(*first, self.name()))
            }
            _ => Ok(()),
        }
    }
}

/// Say that no frame of this link type can be read.
fn link_refused(link: u32, name: &str) -> Error {
    let known: Vec<_> =
        LINKS.iter().map(|(number, _, text)| format!("{text} ({number})")).collect();
    Error::new(format!("unknown link type {link}; known are {}", known.join(", ")), name)
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read};

    use super::*;

    /// Bytes, and then an error.
    struct Failing(&'static [u8]);

    impl Read for Failing {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Err(io::Error::from_raw_os_error(5));
            }
            self.0.read(buffer)
        }
    }

    #[test]
    fn capture_that_cannot_be_read_on_ends_there() -> Result<(), Error> {
        let empty = [0; 16]; // a record's header, but for its lengths and time
        let mut data = b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\x04\0\x01\0\0\0".to_vec();
        data.extend([&[1, 0, 0, 0], &empty[..8], &[60, 0, 0, 0]].concat());
        let whole: &'static [u8] = data.leak();
        for (length, records) in [(whole.len(), 1), (whole.len() - 1, 0)] {
            let source = Source::of("x", Box::new(Failing(&whole[..length])))?;
            let mut reader = Reader::of(source, CHUNK)?;
            let read = reader.next(&mut Packet::default());
            assert_eq!(read.is_ok(), records > 0);
            assert_eq!(reader.counters.records, records);
            let said = read.err().map_or(reader.truncated, |error| error.message);
            assert_eq!(said, "cannot read the capture: Input/output error");
        }
        Ok(())
    }
}
