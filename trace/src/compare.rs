//! Compare captures before and after a device: which packet of one is which of the other.

use std::borrow::Borrow;
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::packet::Packet;

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
    /// and length, TCP's sequence and acknowledgement number, flags and window; not type of service,
    /// time to live and checksums. Of a million packets two different ones have the same 64 bits
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
        let fragment_and_flags = (p.fragment as u32) << 8 | u32::from(p.flags);
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

/// Where a packet that left a device came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Place of the one that entered.
    Entered(usize),
    /// It never entered.
    Foreign,
    /// It has left before.
    Copy,
}

/// Match packets that left a device with those that entered it; both in the order of time.
///
/// `left_ns`: when those of `left` left, by the clock of `entered`; `longest_ns`: longest possible
/// stay. Gives for each that entered its place in `left`, if it left, and for each that left where
/// it came from.
///
/// IP identifications repeat after 65,536 packets, and sooner where a sender draws them, so a packet
/// matches one that entered shortly before: one of its own codepoint if there is one, else of any, as
/// something may mark in between. Of several equal packets that have not left that one is taken
/// whose stay is closest to the last one of its codepoint: a queue's delay changes little from one
/// packet to the next.
pub fn match_packets<M: Borrow<Mark>>(
    entered: &[M],
    left: &[M],
    left_ns: &[i64],
    longest_ns: i64,
) -> (Vec<Option<usize>>, Vec<Origin>) {
    let buckets = 1_usize << (usize::BITS - entered.len().leading_zeros()).max(10);
    let mut matcher = Matcher {
        entered,
        longest_ns,
        known: 0,
        newest: vec![None; buckets],
        older: vec![None; entered.len()],
        taken: vec![None; entered.len()],
        stay_ns: [None; 64],
    };
    let origins = left.iter().zip(left_ns).enumerate();
    let origins =
        origins.map(|(place, (mark, now))| matcher.origin(place, mark.borrow(), *now)).collect();
    (matcher.taken, origins)
}

struct Matcher<'a, M> {
    entered: &'a [M],
    longest_ns: i64,
    /// How many have entered until now.
    known: usize,
    /// The newest packet of each hash value, and the next older one of each packet.
    newest: Vec<Option<usize>>,
    older: Vec<Option<usize>>,
    taken: Vec<Option<usize>>,
    /// The last stay of each codepoint.
    stay_ns: [Option<i64>; 64],
}

impl<M: Borrow<Mark>> Matcher<'_, M> {
    fn entered(&self, row: usize) -> &Mark {
        self.entered[row].borrow()
    }

    fn bucket(&self, identity: u64) -> usize {
        identity as usize & (self.newest.len() - 1)
    }

    fn origin(&mut self, place: usize, mark: &Mark, now: i64) -> Origin {
        while let Some(next) =
            self.entered.get(self.known).map(M::borrow).filter(|next| next.time_ns <= now)
        {
            let bucket = self.bucket(next.identity);
            self.older[self.known] = self.newest[bucket].replace(self.known);
            self.known += 1;
        }
        let found = self.choose(mark, now);
        if let Origin::Entered(row) = found {
            self.taken[row] = Some(place);
            self.stay_ns[usize::from(mark.tos >> 2)] = Some(now - self.entered(row).time_ns);
        }
        found
    }

    /// Which packet has left as `mark`.
    fn choose(&self, mark: &Mark, now: i64) -> Origin {
        let expected = self.stay_ns[usize::from(mark.tos >> 2)];
        let stay = |row: usize| now - self.entered(row).time_ns;
        // Whether a packet's stay is as near to what is expected as that of the best one so far; of
        // those before it in time, as nothing is expected yet, the oldest is best.
        let nearer = |row: usize, best: Option<usize>| match (expected, best) {
            (Some(expected), Some(best)) => stay(row) - expected <= (stay(best) - expected).abs(),
            _ => true,
        };
        let (mut same, mut remarked, mut none) = (None, None, Origin::Foreign);
        let mut next = self.newest[self.bucket(mark.identity)];
        while let Some(row) = next.filter(|row| stay(*row) <= self.longest_ns) {
            let one = self.entered(row);
            let alike = one.detail == mark.detail || one.detail == 0 || mark.detail == 0;
            if one.identity == mark.identity && alike {
                if self.taken[row].is_some() {
                    none = Origin::Copy;
                } else if one.tos >> 2 != mark.tos >> 2 {
                    if nearer(row, remarked) {
                        remarked = Some(row);
                    }
                } else if nearer(row, same) {
                    same = Some(row);
                }
                if same.is_some() && expected.is_some_and(|expected| stay(row) > expected) {
                    break; // those before it stayed longer still
                }
            }
            next = self.older[row];
        }
        same.or(remarked).map_or(none, Origin::Entered)
    }
}
