//! What the analysis needs of a packet, from its IP header on.

use crate::bytes::{be16, be32};

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;
pub const CWR: u8 = 128;

pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;

/// What stands above an IPv4 address in one of 128 bits (RFC 4291, 2.5.5.2).
const MAPPED: u128 = 0xffff << 32;
/// SACK blocks that fit into the 40 bytes of TCP options.
const SACK_BLOCKS: usize = 4;

/// Which part of a datagram a packet is; a later one has no TCP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Fragment {
    #[default]
    Whole,
    First,
    Later,
}

/// One IP packet of a capture.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packet {
    /// Nanoseconds since 1970.
    pub time_ns: i64,
    /// Number of its record in the capture, from 0.
    pub record: u64,
    /// Addresses; an IPv4 one is mapped, `::ffff:a.b.c.d`.
    pub src: u128,
    pub dst: u128,
    pub seq: u32,
    /// Of ICMP the second word: identifier and sequence number of an echo.
    pub ack: u32,
    pub tsval: u32,
    pub tsecr: u32,
    /// Bytes from the IP header on, as that header says.
    pub ip_length: u32,
    /// Bytes of the whole frame: what `tc` counts.
    pub wire_length: u32,
    /// Bytes behind the TCP or UDP header; of other protocols behind the IP header.
    pub payload: u32,
    /// Start and end of each SACK block; the first `sack_blocks` count.
    pub sack: [[u32; 2]; SACK_BLOCKS],
    pub sack_blocks: u8,
    pub sport: u16,
    pub dport: u16,
    /// IPv4 identification, lower half of an IPv6 fragment's; 0 for other IPv6.
    pub ip_id: u16,
    /// The window field, not scaled; of ICMP its checksum.
    pub window: u16,
    /// TCP option maximum segment size; 0 without it.
    pub mss: u16,
    /// IP protocol number of what stands behind IPv6 extension headers.
    pub protocol: u8,
    pub tos: u8,
    pub ttl: u8,
    pub fragment: Fragment,
    pub flags: u8,
    /// Whether `tsval` and `tsecr` are there (RFC 7323).
    pub timestamps: bool,
    pub sack_permitted: bool,
    /// TCP option window scale; -1 without it.
    pub window_scale: i8,
    /// Number of the interface in a pcapng capture; 255: that or a larger one.
    pub interface: u8,
}

/// Why a frame gives no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooShort;

impl Packet {
    /// Whether it is a TCP segment with its header.
    #[inline(always)]
    pub fn is_tcp(&self) -> bool {
        self.protocol == TCP && self.fragment != Fragment::Later
    }

    /// The SACK blocks (RFC 2018): start and end of each.
    #[inline(always)]
    pub fn sacks(&self) -> &[[u32; 2]] {
        &self.sack[..usize::from(self.sack_blocks).min(SACK_BLOCKS)]
    }

    /// Fill everything from the IP header `ip` on, of which the first byte is there.
    ///
    /// `overhead` is the length of the link-layer header, which is 0 where only the frame tells how
    /// long an offloaded packet is. Returns whether TCP's options are whole.
    ///
    /// # Errors
    ///
    /// `TooShort` if its IP or TCP header is cut off or contradicts itself.
    #[inline(always)]
    pub fn fill(&mut self, ip: &[u8], overhead: usize) -> Result<bool, TooShort> {
        let behind = if ip[0] >> 4 == 4 { self.ip4(ip) } else { self.ip6(ip) }.ok_or(TooShort)?;
        if self.ip_length == 0 {
            // an offloaded packet of 64 kB or more
            let rest = i64::from(self.wire_length) - overhead as i64;
            self.ip_length = rest.clamp(0, i64::from(i32::MAX)) as u32;
        }
        let header = self.transport(ip.get(behind..).unwrap_or(&[])).ok_or(TooShort)?;
        let payload = i64::from(self.ip_length) - (behind + header) as i64;
        self.payload = u32::try_from(payload).map_err(|_| TooShort)?;
        Ok(behind + header <= ip.len() || self.protocol != TCP)
    }

    /// Fill the IPv4 fields; offset of what follows.
    #[inline(always)]
    fn ip4(&mut self, ip: &[u8]) -> Option<usize> {
        let header: &[u8; 20] = ip.first_chunk()?;
        let size = usize::from(header[0] & 15) * 4;
        if size < 20 {
            return None;
        }
        let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let address = |at: usize| {
            MAPPED
                | u128::from(u32::from_be_bytes([
                    header[at],
                    header[at + 1],
                    header[at + 2],
                    header[at + 3],
                ]))
        };
        let offset = word(6);
        self.fragment = match (offset & 0x1fff, offset & 0x2000) {
            (0, 0) => Fragment::Whole,
            (0, _) => Fragment::First,
            _ => Fragment::Later,
        };
        self.tos = header[1];
        self.ip_length = word(2).into();
        self.ip_id = word(4);
        self.ttl = header[8];
        self.protocol = header[9];
        self.src = address(12);
        self.dst = address(16);
        Some(size)
    }

    /// Fill the IPv6 fields; offset of what follows the extension headers.
    #[inline(always)]
    fn ip6(&mut self, ip: &[u8]) -> Option<usize> {
        let header: &[u8; 40] = ip.first_chunk()?;
        let length = u16::from_be_bytes([header[4], header[5]]);
        self.fragment = Fragment::Whole;
        self.tos = header[0] << 4 | header[1] >> 4;
        self.ip_length = if length > 0 { u32::from(length) + 40 } else { 0 };
        self.ip_id = 0;
        self.ttl = header[7];
        self.protocol = header[6];
        self.src = u128::from_be_bytes(*header[8..].first_chunk()?);
        self.dst = u128::from_be_bytes(*header[24..].first_chunk()?);
        if is_extension(self.protocol) { self.extensions(ip, 40) } else { Some(40) }
    }

    /// Follow IPv6 extension headers from `at` on; offset behind them.
    #[inline(never)]
    fn extensions(&mut self, ip: &[u8], mut at: usize) -> Option<usize> {
        while is_extension(self.protocol) {
            let header: &[u8; 8] = ip.get(at..)?.first_chunk()?;
            let units = usize::from(header[1]);
            match self.protocol {
                AUTHENTICATION => at += (units + 2) * 4,
                FRAGMENT => {
                    let offset = u16::from_be_bytes([header[2], header[3]]);
                    self.ip_id = u16::from_be_bytes([header[6], header[7]]);
                    self.fragment = match (offset >> 3, offset & 1) {
                        (0, 0) => Fragment::Whole,
                        (0, _) => Fragment::First,
                        _ => Fragment::Later,
                    };
                    at += 8;
                }
                _ => at += (units + 1) * 8,
            }
            self.protocol = header[0];
            if self.fragment == Fragment::Later {
                break;
            }
        }
        Some(at)
    }

    /// Fill what stands behind the IP header; bytes of that header.
    #[inline(always)]
    fn transport(&mut self, data: &[u8]) -> Option<usize> {
        self.mss = 0;
        self.sack_blocks = 0;
        self.timestamps = false;
        self.sack_permitted = false;
        self.window_scale = -1;
        self.tsval = 0;
        self.tsecr = 0;
        if self.is_tcp() {
            return self.tcp(data);
        }
        self.seq = 0;
        self.ack = 0;
        self.flags = 0;
        self.window = 0;
        self.sport = 0;
        self.dport = 0;
        if self.protocol == UDP && self.fragment != Fragment::Later && data.len() >= 8 {
            self.sport = be16(data, 0)?;
            self.dport = be16(data, 2)?;
            return Some(8);
        }
        let echo = matches!(self.protocol, ICMP | ICMP_V6) && self.fragment != Fragment::Later;
        if echo && data.len() >= 8 {
            self.window = be16(data, 2)?;
            self.ack = u32::from(be16(data, 4)?) << 16 | u32::from(be16(data, 6)?);
        }
        Some(0)
    }

    #[inline(always)]
    fn tcp(&mut self, data: &[u8]) -> Option<usize> {
        let header: &[u8; 20] = data.first_chunk()?;
        let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let long = |at: usize| u32::from(word(at)) << 16 | u32::from(word(at + 2));
        self.sport = word(0);
        self.dport = word(2);
        self.seq = long(4);
        self.ack = long(8);
        self.flags = header[13];
        self.window = word(14);
        let size = usize::from(header[12] >> 4) * 4;
        if size < 20 {
            return None;
        }
        if size > 20 {
            self.options(&data[20..size.min(data.len())]);
        }
        Some(size)
    }

    /// Read the TCP options; as most stacks lay them out (RFC 7323, appendix A) without a loop.
    #[inline(always)]
    fn options(&mut self, mut options: &[u8]) {
        if let Some((&[1, 1, 8, 10, a, b, c, d, e, f, g, h], rest)) = options.split_first_chunk() {
            self.timestamps = true;
            self.tsval = u32::from_be_bytes([a, b, c, d]);
            self.tsecr = u32::from_be_bytes([e, f, g, h]);
            options = rest;
        }
        if let [1, 1, 5, length, blocks @ ..] = options {
            if usize::from(*length) == blocks.len() + 2 {
                self.sack_option(blocks);
                return;
            }
        }
        if !options.is_empty() {
            self.any_options(options);
        }
    }

    /// Read TCP options in any order; a broken one ends their list.
    #[inline(never)]
    fn any_options(&mut self, mut rest: &[u8]) {
        while let [kind, behind @ ..] = rest {
            if *kind == 1 && !behind.is_empty() {
                rest = behind;
                continue;
            }
            let Some(&length) = behind.first() else { return };
            let length = usize::from(length);
            if *kind == 0 || length < 2 || length > rest.len() {
                return;
            }
            let value = &rest[2..length];
            match (*kind, value) {
                (5, blocks) => self.sack_option(blocks),
                (8, _) if value.len() == 8 => {
                    self.timestamps = true;
                    self.tsval = be32(value, 0).unwrap_or(0);
                    self.tsecr = be32(value, 4).unwrap_or(0);
                }
                (2, &[high, low]) => self.mss = u16::from_be_bytes([high, low]),
                (3, &[shift]) => self.window_scale = shift.min(14) as i8,
                (4, &[]) => self.sack_permitted = true,
                _ => {}
            }
            rest = &rest[length..];
        }
    }

    #[inline(always)]
    fn sack_option(&mut self, blocks: &[u8]) {
        self.sack_blocks = (blocks.len() / 8).min(SACK_BLOCKS) as u8;
        for (block, bytes) in self.sack.iter_mut().zip(blocks.chunks_exact(8)) {
            *block = [be32(bytes, 0).unwrap_or(0), be32(bytes, 4).unwrap_or(0)];
        }
    }
}

/// IPv6 extension headers (RFC 8200, 4302, 6275, 7401, 5533).
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;

#[inline(always)]
fn is_extension(protocol: u8) -> bool {
    matches!(protocol, 0 | 43 | FRAGMENT | AUTHENTICATION | 60 | 135 | 139 | 140)
}
