//! The IP header behind each kind of link-layer header.
//!
//! Link types: <https://www.tcpdump.org/linktypes.html>.

use crate::bytes::{be16, be32};

/// How an IP header is found behind a link-layer header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Ethernet,
    LinuxCooked2,
    /// An EtherType at this offset.
    Type(usize),
    /// A PPP header at this offset.
    Ppp(usize),
    /// The IP header is at this offset.
    At(usize),
}

/// Each number that a capture may have for a link type, what it is, and what it is called.
pub const LINKS: [(u32, Link, &str); 16] = [
    (0, Link::At(4), "BSD loopback"),
    (1, Link::Ethernet, "Ethernet"),
    (9, Link::Ppp(0), "PPP"),
    (12, Link::At(0), "raw IP"),
    (14, Link::At(0), "raw IP"),
    (50, Link::Ppp(0), "PPP in HDLC framing"),
    (51, Link::Ppp(6), "PPPoE"),
    (101, Link::At(0), "raw IP"),
    (104, Link::Type(2), "Cisco HDLC"),
    (108, Link::At(4), "OpenBSD loopback"),
    (109, Link::At(12), "OpenBSD encapsulated IP"),
    (113, Link::Type(14), "Linux cooked"),
    (204, Link::Ppp(1), "PPP with direction"),
    (228, Link::At(0), "raw IPv4"),
    (229, Link::At(0), "raw IPv6"),
    (276, Link::LinuxCooked2, "Linux cooked v2"),
];

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

impl Link {
    /// What a capture's number for a link type stands for; `None` if it is not read.
    pub fn of(number: u32) -> Option<Link> {
        LINKS.iter().find(|one| one.0 == number).map(|one| one.1)
    }

    /// Offset of the IP header in a frame; `None` if it carries no IP.
    ///
    /// The offset may be the frame's end or lie behind it, if the frame is cut off.
    #[inline(always)]
    pub fn ip_offset(self, frame: &[u8]) -> Option<usize> {
        if self == Link::Ethernet {
            if let IPV4 | IPV6 = be16(frame, 12)? {
                return Some(14);
            }
        }
        self.rare_offset(frame)
    }

    #[inline(never)]
    fn rare_offset(self, frame: &[u8]) -> Option<usize> {
        match self {
            Link::Ethernet => behind_type(frame, 12),
            Link::LinuxCooked2 => match (frame.len() >= 20, be16(frame, 0)?) {
                (true, IPV4 | IPV6) => Some(20),
                (true, 0x8100 | 0x88a8) => behind_type(frame, 22), // the tag's control comes first
                _ => None,
            },
            Link::Type(at) => behind_type(frame, at),
            Link::Ppp(at) => behind_ppp(frame, at),
            Link::At(at) => Some(at),
        }
    }
}

/// Offset behind a PPP header (RFC 1661, 1662).
fn behind_ppp(frame: &[u8], mut at: usize) -> Option<usize> {
    if matches!(be16(frame, at)?, 0xff03 | 0x0f00) {
        at += 2;
    }
    let protocol = be16(frame, at)?;
    match (protocol >> 8, protocol) {
        (0x21 | 0x57, _) => Some(at + 1), // the field may be compressed to one byte
        (_, 0x0021 | 0x0057) => Some(at + 2),
        _ => None,
    }
}

/// Offset behind a stack of MPLS labels (RFC 3032).
fn behind_labels(frame: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let label = be32(frame, at)?;
        at += 4;
        if label & 0x100 != 0 {
            return Some(at);
        }
    }
}

/// Offset behind the EtherType at `at`, behind tags, PPPoE, MPLS or LLC.
fn behind_type(frame: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match be16(frame, at)? {
            IPV4 | IPV6 => return Some(at + 2),
            0x8100 | 0x88a8 | 0x9100 | 0x9200 => at += 4,
            0x8864 => return behind_ppp(frame, at + 8),
            0x8847 | 0x8848 => return behind_labels(frame, at + 2),
            // a length, and LLC with SNAP (RFC 1042)
            ..=1500 if be32(frame, at + 2)? == 0xaaaa_0300 && be16(frame, at + 6)? == 0 => at += 8,
            _ => return None,
        }
    }
}
