//! Which packet of one capture is which of the other.

use super::Mark;

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
pub fn match_packets(
    entered: &[Mark],
    left: &[Mark],
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
    let origins = origins.map(|(place, (mark, now))| matcher.origin(place, mark, *now)).collect();
    (matcher.taken, origins)
}

struct Matcher<'a> {
    entered: &'a [Mark],
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

impl Matcher<'_> {
    fn bucket(&self, identity: u64) -> usize {
        identity as usize & (self.newest.len() - 1)
    }

    fn origin(&mut self, place: usize, mark: &Mark, now: i64) -> Origin {
        while let Some(next) = self.entered.get(self.known).filter(|next| next.time_ns <= now) {
            let bucket = self.bucket(next.identity);
            self.older[self.known] = self.newest[bucket].replace(self.known);
            self.known += 1;
        }
        let found = self.choose(mark, now);
        if let Origin::Entered(row) = found {
            self.taken[row] = Some(place);
            self.stay_ns[usize::from(mark.tos >> 2)] = Some(now - self.entered[row].time_ns);
        }
        found
    }

    /// Which packet has left as `mark`.
    fn choose(&self, mark: &Mark, now: i64) -> Origin {
        let expected = self.stay_ns[usize::from(mark.tos >> 2)];
        let stay = |row: usize| now - self.entered[row].time_ns;
        // Whether a packet's stay is as near to what is expected as that of the best one so far; of
        // those before it in time, as nothing is expected yet, the oldest is best.
        let nearer = |row: usize, best: Option<usize>| match (expected, best) {
            (Some(expected), Some(best)) => stay(row) - expected <= (stay(best) - expected).abs(),
            _ => true,
        };
        let (mut same, mut remarked, mut none) = (None, None, Origin::Foreign);
        let mut next = self.newest[self.bucket(mark.identity)];
        while let Some(row) = next.filter(|row| stay(*row) <= self.longest_ns) {
            let one = &self.entered[row];
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
