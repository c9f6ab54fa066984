//! Compare captures before and after a device.
//!
//! [`Marks`] reduces the packets of both captures to what tells them apart, `clock.rs` finds how their
//! clocks compare and which way each flow crosses, `matching.rs` which packet of one is which of the
//! other, and [`passage`] puts it together. `backlog.rs` rebuilds a queue from what entered and left.

mod backlog;
mod clock;
mod matching;
mod passage;

pub use self::backlog::{Stay, backlog, backlogged_rate};
pub use self::clock::{Clock, Unmatched};
pub use self::matching::{Origin, match_packets};
pub use self::passage::{Passage, passage};

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::packet::{CWR, Packet};

/// One direction of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ends {
    pub src: u128,
    pub dst: u128,
    pub sport: u16,
    pub dport: u16,
    pub protocol: u8,
}

/// All that a comparison keeps of a packet.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Mark {
    pub time_ns: i64,
    /// Digest of everything that no router changes: addresses, ports, protocol, IP identification
    /// and length, TCP's sequence and acknowledgement number, flags and window, ICMP's checksum and
    /// second word; not type of service, time to live and the other checksums. Of a million packets two different ones have the same 64 bits
    /// with a probability of 3e-8.
    pub identity: u64,
    /// Number of its record in the capture, from 0.
    pub record: i64,
    /// Digest of TCP's timestamps, 0 without them (or if they were cut off).
    pub detail: u32,
    pub ip_length: u32,
    pub wire_length: u32,
    /// Place in `Marks::ends`.
    pub flow: u32,
    pub seq: u32,
    pub payload: i32,
    pub tos: u8,
}

/// Numbers the ends of packets and reduces packets to marks, alike for all captures it is given.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// Each direction of each connection, in the order of their first packets.
    pub ends: Vec<Ends>,
    table: HashTable<u32>,
    hasher: RandomState,
}

impl Marks {
    pub fn mark(&mut self, p: &Packet) -> Mark {
        let ends =
            Ends { src: p.src, dst: p.dst, sport: p.sport, dport: p.dport, protocol: p.protocol };
        let mut digest = digest_of(&ends);
        digest = stir(digest, pair(p.seq, p.ack));
        digest = stir(digest, pair(p.ip_id.into(), p.ip_length));
        // What cuts a packet of several segments apart leaves CWR to the first, or to each (AccECN).
        let fragment_and_flags = (p.fragment as u32) << 8 | u32::from(p.flags & !CWR);
        digest = stir(digest, pair(p.window.into(), fragment_and_flags));
        let stamps = || (stir(digest, pair(p.tsval, p.tsecr)) >> 32) as u32 | 1;
        Mark {
            time_ns: p.time_ns,
            identity: digest,
            record: p.record as i64,
            detail: if p.timestamps { stamps() } else { 0 },
            ip_length: p.ip_length,
            wire_length: p.wire_length,
            flow: self.number(ends),
            seq: p.seq,
            payload: p.payload as i32,
            tos: p.tos,
        }
    }

    fn number(&mut self, of: Ends) -> u32 {
        let Marks { ends, table, hasher } = self;
        let hash = hasher.hash_one(of);
        let known = table.entry(
            hash,
            |at| ends[*at as usize] == of,
            |at| hasher.hash_one(ends[*at as usize]),
        );
        let number = *known.or_insert(ends.len() as u32).get();
        if number as usize == ends.len() {
            ends.push(of);
        }
        number
    }
}

/// Mix 64 bits into a digest.
fn stir(digest: u64, value: u64) -> u64 {
    let mixed = (digest ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
    mixed ^ mixed >> 32
}

fn pair(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn digest_of(ends: &Ends) -> u64 {
    let mut digest = u64::from(ends.sport) << 16 | u64::from(ends.dport);
    for part in [ends.src as u64, ends.dst as u64, ends.protocol.into()] {
        digest = stir(digest, part);
    }
    let high = [(ends.src >> 64) as u64, (ends.dst >> 64) as u64];
    if high == [0, 0] { digest } else { stir(stir(digest, high[0]), high[1]) }
}
