//! The way of packets through a device.

use super::clock::{Clock, Sides, Unmatched, estimate};
use super::matching::{Origin, match_packets};
use super::{Ends, Mark};

/// The clocks' estimate is as good as the packets that it was made of: others may be faster.
const SLACK_NS: i64 = 2_000_000;

/// What crossed a device from one capture to the other, packet by packet.
#[derive(Clone, Debug)]
pub struct Passage {
    /// The packets that entered, in the order of arrival, times by the first clock.
    pub entered: Vec<Mark>,
    /// When each left, by the first clock; `None` if it never did.
    pub departure_ns: Vec<Option<i64>>,
    /// Type of service with which each left; as it entered for those that did not.
    pub tos_out: Vec<u8>,
    /// Whether a packet that came later left earlier (RFC 4737's reordering, by arrival).
    pub overtaken: Vec<bool>,
    pub clock: Clock,
    /// From the first to behind the last arrival whose departure the second capture would have.
    pub judged_ns: (i64, i64),
    /// Packets of either capture that cross the other way.
    pub back: (usize, usize),
    /// Packets of either capture between hosts of which nothing crossed.
    pub elsewhere: (usize, usize),
    /// Packets that left and must have entered while the first capture was made, but did not.
    pub foreign: usize,
    /// Packets that left without having entered, or once more than they had; those of them that are
    /// copies of one that left before.
    pub unmatched: usize,
    pub copies: usize,
}

/// Match what two captures saw of the traffic through a device, by clocks of their own.
///
/// `ends` is what the marks' `flow` counts. `longest_ns`: longest possible stay in the device;
/// `given_ns`: what the second clock shows more than the first. Without it it is estimated, and then
/// the least delay counts 0.
///
/// # Errors
///
/// If nothing crosses from the first capture to the second.
pub fn passage(
    first: &[Mark],
    second: &[Mark],
    ends: &[Ends],
    longest_ns: i64,
    given_ns: Option<i64>,
) -> Result<Passage, Unmatched> {
    let Sides { mut clock, there, back } = estimate(first, second, ends, longest_ns, given_ns)?;
    let of = |marks: &[Mark]| -> Vec<Mark> {
        marks.iter().filter(|mark| there[mark.flow as usize]).copied().collect()
    };
    let (entered, left) = (of(first), of(second));
    let slack = if clock.given { 0 } else { SLACK_NS };
    let late: Vec<_> = left.iter().map(|mark| clock.on_first(mark.time_ns) + slack).collect();
    let (taken, origins) = match_packets(&entered, &left, &late, longest_ns + 2 * slack);
    let stay = |(late, origin): (&i64, &Origin)| match origin {
        Origin::Entered(row) => Some(late - slack - entered[*row].time_ns),
        _ => None,
    };
    let stays = late.iter().zip(&origins).filter_map(stay);
    // The estimate knew a sample of the packets only: the least stay of all is 0.
    let least = if clock.given { 0 } else { stays.clone().min().unwrap_or(0) };
    let longest = stays.max().map_or(0, |longest| (longest - least).max(0));
    clock.offset_ns += least;
    clock.between_ns = clock.between_ns.map(|(low, high)| (low, high + least));
    let left_ns = |row: usize| late[row] - slack - least;
    let departure_ns = taken.iter().map(|row| row.map(left_ns)).collect();
    let tos_out = entered.iter().zip(&taken).map(|(mark, row)| match row {
        Some(row) => left[*row].tos,
        None => mark.tos,
    });
    let (began, ended) = (first[0].time_ns, second[second.len() - 1].time_ns);
    let lone = |(row, origin): (usize, &Origin)| {
        *origin == Origin::Foreign && left_ns(row) > began + longest
    };
    let count = |marks: &[Mark], chosen: &dyn Fn(usize) -> bool| {
        marks.iter().filter(|mark| chosen(mark.flow as usize)).count()
    };
    let crosses_back = |flow: usize| back[flow];
    let neither = |flow: usize| !there[flow] && !back[flow];
    Ok(Passage {
        departure_ns,
        tos_out: tos_out.collect(),
        overtaken: overtaken(&origins, entered.len()),
        judged_ns: (clock.on_first(second[0].time_ns).max(began), clock.on_first(ended) - longest),
        back: (count(first, &crosses_back), count(second, &crosses_back)),
        elsewhere: (count(first, &neither), count(second, &neither)),
        foreign: origins.iter().enumerate().filter(|one| lone(*one)).count(),
        unmatched: origins.iter().filter(|one| !matches!(one, Origin::Entered(_))).count(),
        copies: origins.iter().filter(|one| **one == Origin::Copy).count(),
        clock,
        entered,
    })
}

/// Which packets left behind one that entered after them.
fn overtaken(origins: &[Origin], count: usize) -> Vec<bool> {
    let (mut found, mut last) = (vec![false; count], 0);
    for origin in origins {
        if let Origin::Entered(row) = *origin {
            found[row] = row < last;
            last = last.max(row);
        }
    }
    found
}
