//! How two captures' clocks compare, found from the packets that both have.
//!
//! A packet's difference is its time in the second capture less its time in the first: the offset of
//! the clocks plus the time it took. Nothing is known of the offset, which may be hours.

use std::fmt;

use hashbrown::HashMap;

use super::{Ends, Mark};

/// Identities that are compared, about, on either side.
const SAMPLE: usize = 1 << 18;
/// Packets with one identity that are all compared with each other, on one side times the other.
const GROUP: usize = 1024;
/// Pairs altogether, at most; those of the rarest identities are taken first.
const PAIRS: usize = 1 << 22;
/// A difference with this share of the winner's votes is as good.
const AS_GOOD: f64 = 0.9;
/// Packets of a kind that are enough to leave less certain ones out.
const ENOUGH: usize = 30;
/// Fewer packets, or parts of the time with packets, are no evidence of a drift.
const LEAST_PACKETS: usize = 32;
const LEAST_PARTS: usize = 8;
/// The time is cut into so many parts for the evidence, and for the line itself.
const PARTS: usize = 16;
const FINE: usize = 512;
/// What one clock gains on another at most, as far as it is believed: what NTP corrects at most.
const LARGEST_DRIFT: f64 = 5e-4;
/// A part of the time bears the line out if its least delay is this near: ns, share of the effect.
const NEAR_NS: f64 = 50_000.0;
const NEAR_SHARE: f64 = 0.1;
/// Share of the parts that must.
const BEARING: f64 = 0.75;

/// The second capture's clock, seen from the first's: t1 = t2 - offset - drift (t2 - reference).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clock {
    /// Where it was estimated, the least delay is part of it, as nothing tells them apart.
    pub offset_ns: i64,
    /// What the second clock gains, seconds per second.
    pub drift: f64,
    /// Instant of the second clock.
    pub reference_ns: i64,
    /// Whether the offset was given, so that delays are whole; else the least of them counts 0.
    pub given: bool,
    /// What the offset of the clocks alone is between, where packets cross both ways.
    pub between_ns: Option<(i64, i64)>,
    /// Pairs of packets that the estimate is made of.
    pub coincidences: usize,
    /// Whether another offset explains nearly as many.
    pub ambiguous: bool,
    /// The drift that the least delays suggest; `drift` is 0 if they are no evidence for it.
    pub drift_seen: f64,
}

impl Clock {
    /// Give an instant of the second clock on the first.
    pub fn on_first(&self, second_ns: i64) -> i64 {
        // The correction alone is small enough for a float; the time itself is not.
        second_ns - self.offset_ns - gained(self.drift, second_ns - self.reference_ns)
    }
}

fn gained(drift: f64, passed_ns: i64) -> i64 {
    (passed_ns as f64 * drift).round_ties_even() as i64
}

/// Why two captures cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmatched {
    NothingInCommon,
    NothingCrosses,
    /// Nothing crosses by the offset that was given; most packets agree on this one.
    Contradicted {
        agreed_ns: i64,
    },
}

impl Unmatched {
    /// What to try.
    pub fn hint(self) -> &'static str {
        match self {
            Unmatched::NothingInCommon => {
                "are both of the same time and traffic, with no address translation in between?"
            }
            _ => "name the capture first whose packets come first",
        }
    }
}

impl fmt::Display for Unmatched {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Unmatched::NothingInCommon => "the captures have no packet in common",
            Unmatched::NothingCrosses => "nothing goes from the first capture to the second",
            Unmatched::Contradicted { .. } => {
                "nothing goes from the first capture to the second by this offset"
            }
        })
    }
}

impl std::error::Error for Unmatched {}

/// Which side of the device each capture was taken on, flow by flow, and by which clocks.
pub(super) struct Sides {
    pub clock: Clock,
    /// Whether each flow crosses from the first capture to the second, and whether against that; one
    /// between hosts of which nothing crossed does neither.
    pub there: Vec<bool>,
    pub back: Vec<bool>,
}

/// Find the offset and drift of the clocks, and which way the packets of each flow cross.
///
/// The difference that most coincidences agree on is right but for the delay. The least one bounds it
/// from above, that of packets which cross the other way from below.
pub(super) fn estimate(
    first: &[Mark],
    second: &[Mark],
    ends: &[Ends],
    longest_ns: i64,
    given_ns: Option<i64>,
) -> Result<Sides, Unmatched> {
    let every = coincidences(first, second);
    if every.is_empty() {
        return Err(Unmatched::NothingInCommon);
    }
    let span = |marks: &[Mark]| marks[marks.len() - 1].time_ns - marks[0].time_ns;
    let drifted = LARGEST_DRIFT * span(first).max(span(second)) as f64;
    let width = longest_ns + drifted.round_ties_even() as i64;
    let (near, ambiguous) = match given_ns {
        Some(given) => (given, false),
        None => most_agreed(&every, width),
    };
    let agree = |pair: &&Pair| pair.difference.abs_diff(near) <= width.unsigned_abs();
    let pairs: Vec<_> = every.iter().filter(agree).copied().collect();
    if given_ns.is_some_and(|given| !pairs.iter().any(|pair| pair.difference >= given)) {
        return Err(Unmatched::Contradicted { agreed_ns: most_agreed(&every, width).0 });
    }
    let (there, back) = ways(&pairs, first, ends, given_ns);
    let crosses = |pair: &Pair| there[first[pair.first].flow as usize];
    let clock = clock(&pairs, second, crosses, given_ns)?;
    Ok(Sides { clock: Clock { ambiguous, ..clock }, there, back })
}

/// Packets of both captures that may be the same, by their places.
#[derive(Clone, Copy)]
struct Pair {
    first: usize,
    second: usize,
    /// Time in the second capture less time in the first.
    difference: i64,
    /// 1 for an identity that each capture has once, less the oftener they have it.
    weight: f64,
}

/// Places in the order of their identities; of large captures a sample of identities, the same in
/// both.
fn sampled(marks: &[Mark], share: u32) -> Vec<usize> {
    let bits = (1_u64 << share) - 1;
    let chosen = |row: &usize| marks[*row].identity >> 40 & bits == 0;
    let mut rows: Vec<_> = (0..marks.len()).filter(chosen).collect();
    rows.sort_by_key(|row| marks[*row].identity);
    rows
}

/// Pair packets of the same identity, whenever they were seen, unless they are too many.
fn coincidences(first: &[Mark], second: &[Mark]) -> Vec<Pair> {
    let largest = first.len().max(second.len()).max(1);
    let share = usize::BITS - (largest / SAMPLE).leading_zeros();
    let (rows_a, rows_b) = (sampled(first, share), sampled(second, share));
    let a = |rows: &[usize]| first[rows[0]].identity;
    let b = |rows: &[usize]| second[rows[0]].identity;
    let mut known = rows_b.chunk_by(|i, j| b(&[*i]) == b(&[*j])).peekable();
    let mut both: Vec<(&[usize], &[usize])> = Vec::new();
    for group in rows_a.chunk_by(|i, j| a(&[*i]) == a(&[*j])) {
        while known.next_if(|other| b(other) < a(group)).is_some() {}
        both.extend(known.next_if(|other| b(other) == a(group)).map(|other| (group, other)));
    }
    let count = |group: &(&[usize], &[usize])| group.0.len() * group.1.len();
    both.sort_by_key(count);
    let (mut every, mut pairs) = (0, Vec::new());
    for group in both.iter().take_while(|group| count(group) <= GROUP) {
        every += count(group);
        if every >= PAIRS {
            break;
        }
        let weight = 1.0 / group.0.len().max(group.1.len()) as f64;
        for &i in group.0 {
            for &j in group.1 {
                let difference = second[j].time_ns.saturating_sub(first[i].time_ns);
                pairs.push(Pair { first: i, second: j, difference, weight });
            }
        }
    }
    pairs
}

/// Find the difference that most pairs are near to, and whether another one is as good: then the
/// smaller is given. Differences that agree are no more than `width` apart.
fn most_agreed(pairs: &[Pair], width: i64) -> (i64, bool) {
    let mut sorted: Vec<_> = pairs.iter().map(|pair| (pair.difference, pair.weight)).collect();
    sorted.sort_by_key(|pair| pair.0);
    let mut total = vec![0.0];
    total.extend(sorted.iter().scan(0.0, |sum, pair| {
        *sum += pair.1;
        Some(*sum)
    }));
    let ends: Vec<_> = sorted
        .iter()
        .map(|pair| sorted.partition_point(|other| other.0 <= pair.0.saturating_add(width)))
        .collect();
    let votes = |place: usize| total[ends[place]] - total[place];
    let most = (0..ends.len()).map(votes).fold(0.0, f64::max);
    let good = (0..ends.len()).filter(|place| votes(*place) >= AS_GOOD * most);
    // The middle of what a window holds: its edge may be a stray pair.
    let middle = |place: usize| {
        let half = (total[place] + total[ends[place]]) / 2.0;
        let at = total.partition_point(|sum| *sum < half);
        sorted[at.saturating_sub(1).min(sorted.len() - 1)].0
    };
    let middles: Vec<_> = good.map(middle).collect();
    let best = middles.iter().copied().min_by_key(|middle| middle.unsigned_abs()).unwrap_or(0);
    (best, middles.iter().any(|middle| middle.abs_diff(best) > 2 * width.unsigned_abs()))
}

/// Whether each flow crosses there, or back: the differences there are greater than those back.
///
/// Flows between the same hosts, in the same direction, go the same way.
fn ways(
    pairs: &[Pair],
    first: &[Mark],
    ends: &[Ends],
    given_ns: Option<i64>,
) -> (Vec<bool>, Vec<bool>) {
    let mut by_hosts: HashMap<(u128, u128), Vec<i64>> = HashMap::new();
    for pair in pairs {
        let ends = &ends[first[pair.first].flow as usize];
        by_hosts.entry((ends.src, ends.dst)).or_default().push(pair.difference);
    }
    let middles: HashMap<_, _> = by_hosts
        .into_iter()
        .map(|(hosts, mut differences)| {
            differences.sort_unstable();
            (hosts, differences[differences.len() / 2])
        })
        .collect();
    let opposite = |hosts: &(u128, u128)| middles.get(&(hosts.1, hosts.0)).copied();
    let (mut forward, mut backward) = (Vec::new(), Vec::new());
    for (hosts, middle) in &middles {
        if let Some(other) = opposite(hosts) {
            if *middle >= other { &mut forward } else { &mut backward }.push(*middle);
        }
    }
    // Where one direction alone was seen, between what is known of others.
    let limit = (!backward.is_empty()).then(|| (median(forward) + median(backward)) / 2.0);
    let goes_there = |hosts: (u128, u128), middle: i64| match (given_ns, opposite(&hosts), limit) {
        (Some(given), ..) => middle >= given,
        (None, Some(other), _) => middle >= other,
        (None, None, Some(limit)) => middle as f64 >= limit,
        (None, None, None) => true,
    };
    ends.iter()
        .map(|ends| {
            let hosts = (ends.src, ends.dst);
            let there = middles.get(&hosts).map(|middle| goes_there(hosts, *middle));
            (there == Some(true), there == Some(false))
        })
        .unzip()
}

fn median(mut values: Vec<i64>) -> f64 {
    values.sort_unstable();
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        return values[middle] as f64;
    }
    (values[middle - 1] as f64 + values[middle] as f64) / 2.0
}

/// Draw the line under what crosses there, and the one above what crosses back.
fn clock(
    pairs: &[Pair],
    second: &[Mark],
    crosses: impl Fn(&Pair) -> bool,
    given_ns: Option<i64>,
) -> Result<Clock, Unmatched> {
    let (mut there, mut back): (Vec<Pair>, Vec<Pair>) =
        pairs.iter().partition(|pair| crosses(pair));
    if there.is_empty() {
        return Err(Unmatched::NothingCrosses);
    }
    let reference_ns = second[0].time_ns;
    if let Some(offset_ns) = given_ns {
        let coincidences = pairs.len();
        return Ok(Clock {
            offset_ns,
            reference_ns,
            given: true,
            coincidences,
            ..Clock::default()
        });
    }
    let single = |pair: &Pair| pair.weight == 1.0;
    if there.iter().filter(|pair| single(pair)).count() >= ENOUGH {
        there.retain(single);
        back.retain(single);
    }
    let passed = |pair: &Pair| second[pair.second].time_ns - reference_ns;
    let points = |pairs: &[Pair], sign: i64| -> Vec<(i64, i64)> {
        pairs.iter().map(|pair| (passed(pair), sign * pair.difference)).collect()
    };
    let (below, above) = (lower_line(&points(&there, 1)), lower_line(&points(&back, -1)));
    // First of the way back, whose queue is shorter.
    let drift = match (below, above) {
        (_, (slope, true)) => -slope,
        ((slope, true), _) => slope,
        _ => 0.0,
    };
    let rest = |pair: &Pair| pair.difference - gained(drift, passed(pair));
    let least = there.iter().map(rest).min().unwrap_or(0);
    Ok(Clock {
        offset_ns: least,
        drift,
        reference_ns,
        given: false,
        between_ns: back.iter().map(rest).max().map(|most| (most, least)),
        coincidences: there.len() + back.len(),
        ambiguous: false,
        drift_seen: below.0,
    })
}

/// Fit the line under all delays that is closest to them: its slope, and whether it is a drift.
///
/// `points`: when each packet was seen, and its delay, a constant and a drift included. Queues that
/// never empty make slopes too, but not such that the least delays of most parts of the time lie on
/// one line.
///
/// Of all lines below the points the one with the least sum of distances is the edge of their lower
/// hull above the mean of their times (Moon, Skelly, Towsley: Estimation and Removal of Clock Skew
/// from Network Delay Measurements, INFOCOM 1999). The hull is made of the least delay in each of 512
/// parts of the time.
fn lower_line(points: &[(i64, i64)]) -> (f64, bool) {
    let begin = points.iter().map(|point| point.0).min().unwrap_or(0);
    let span = points.iter().map(|point| point.0).max().unwrap_or(0) - begin;
    if points.len() < LEAST_PACKETS || span == 0 {
        return (0.0, false);
    }
    let lowest = points.iter().map(|point| point.1).min().unwrap_or(0);
    let sum: i128 = points.iter().map(|point| i128::from(point.0 - begin)).sum();
    let mean = sum as f64 / points.len() as f64;
    let points: Vec<_> =
        points.iter().map(|(x, y)| ((x - begin) as f64, (y - lowest) as f64)).collect();
    let hull = hull(&least(&points, span, FINE));
    if hull.len() < 2 {
        return (0.0, false);
    }
    let k = hull.partition_point(|point| point.0 < mean).clamp(1, hull.len() - 1);
    let (a, b) = (hull[k - 1], hull[k]);
    let slope = (b.1 - a.1) / (b.0 - a.0);
    let over: Vec<_> = points.iter().map(|(x, y)| (*x, y - slope * x)).collect();
    (slope, is_borne_out(&over, span, slope))
}

/// Point of the least y in each part of x that has one, in the order of x.
fn least(points: &[(f64, f64)], span: i64, parts: usize) -> Vec<(f64, f64)> {
    let mut found: Vec<Option<(f64, f64)>> = vec![None; parts];
    let scale = parts as f64 / span as f64;
    for point in points {
        let part = &mut found[((point.0 * scale) as usize).min(parts - 1)];
        if part.is_none_or(|known| point.1 < known.1) {
            *part = Some(*point);
        }
    }
    found.into_iter().flatten().collect()
}

/// Lower convex hull of points in the order of x (Andrew's monotone chain).
fn hull(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut kept: Vec<(f64, f64)> = Vec::new();
    for c in points {
        while let [.., a, b] = &kept[..] {
            // Whether b lies on or above the line from a to c.
            if (b.0 - a.0) * (c.1 - a.1) > (c.0 - a.0) * (b.1 - a.1) {
                break;
            }
            kept.pop();
        }
        kept.push(*c);
    }
    kept
}

/// Whether the least delays of most parts of the time lie on the line.
fn is_borne_out(over: &[(f64, f64)], span: i64, slope: f64) -> bool {
    let effect = slope.abs() * span as f64;
    let near = NEAR_NS.max(NEAR_SHARE * effect);
    if slope.abs() > LARGEST_DRIFT || effect < 3.0 * near {
        return false;
    }
    let lowest = over.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let parts = least(over, span, PARTS);
    let bearing = parts.iter().filter(|point| point.1 - lowest <= near).count();
    parts.len() >= LEAST_PARTS && bearing as f64 / parts.len() as f64 >= BEARING
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn queue_that_only_grows_is_no_drift() {
        let last = 20_000.0 * 3e6;
        let grown: [fn(f64) -> f64; 2] =
            [|share| share.sqrt() * 25e6, |share| (share * 150e6).min(20e6)];
        for queue in grown {
            let point = |k: i64| (k * 3 * MS, queue(k as f64 * 3e6 / last) as i64);
            assert!(!lower_line(&(0..20_000).map(point).collect::<Vec<_>>()).1);
        }
    }

    #[test]
    fn few_packets_or_one_instant_are_no_evidence_of_a_drift() {
        let line = |count, step| (0..count).map(|k| (k * step, k * MS / 10)).collect::<Vec<_>>();
        assert_eq!(lower_line(&[]), (0.0, false));
        assert!(!lower_line(&line(100, 0)).1);
        assert!(!lower_line(&line(20, 1000 * MS)).1);
        assert!(lower_line(&line(100, 1000 * MS)).1);
    }
}
