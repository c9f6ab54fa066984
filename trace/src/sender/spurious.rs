//! Evidence that a retransmission was spurious: what it repeated had arrived, or was about to.
//!
//! Four kinds: the receiver says that it got the data twice (DSACK, RFC 2883); the ACK echoes a time
//! stamp older than the retransmission (Eifel, RFC 3522); the ACK came sooner after the
//! retransmission than any round trip takes; without SACK, the ACK jumps farther than a segment that
//! arrives by itself can move it.

use super::board::Segment;
use super::{Sender, Tally};
use crate::event::Evidence;
use crate::packet::Packet;

/// Full-sized segments that one ACK covers at most if nothing was missing (RFC 5681).
pub const STRETCH: i64 = 2;

/// Whether an ACK echoes a time stamp from before `stamp`; 0: there is none.
#[inline(always)]
pub fn is_older(p: &Packet, stamp: u32) -> bool {
    let echoed = p.timestamps && p.tsecr != 0 && stamp != 0;
    echoed && p.tsecr.wrapping_sub(stamp) > 0x7fff_ffff
}

/// Count a retransmission as spurious, once.
fn mark(segment: &mut Segment, evidence: Evidence, tally: &mut Tally) {
    let Some(cause) = segment.cause.take() else { return };
    tally.spurious[cause as usize] += 1;
    if let Some(event) = tally.events.get_mut(segment.event as usize) {
        event.spurious = Some(evidence);
    }
}

impl Sender {
    /// Look at the ACK `p` that covers a retransmitted segment for the first time.
    ///
    /// `front` is the segment at the left edge, `None` where a SACK block covers the other. Only at
    /// the left edge must the receiver echo the time stamp of what filled it (RFC 7323). What is
    /// retransmitted there was mostly lost, and queues may be shorter by then than in any round trip
    /// measured.
    pub(super) fn judge(&mut self, number: i64, p: &Packet, front: Option<i64>, tally: &mut Tally) {
        let segment = *self.board.at(number);
        let (head, waited) = (front == Some(self.board.head), p.time_ns - segment.sent);
        let sooner = |quarters| waited.saturating_mul(4) < self.rtt_min.saturating_mul(quarters);
        let measured = self.rtt_min > 0;
        let told = if measured && !sooner(3) { p.time_ns } else { 0 };
        let evidence = if head && is_older(p, segment.tsval) {
            Some(Evidence::Timestamp)
        } else if measured && sooner(if head { 2 } else { 3 }) {
            Some(Evidence::EarlyAck)
        } else {
            front
                .filter(|_| !head && !self.has_sack() && !self.stretched)
                .filter(|front| self.jumps(&segment, self.relative(p.ack), *front))
                .map(|_| Evidence::AckJump)
        };
        let segment = self.board.at_mut(number);
        segment.told = told;
        if let Some(evidence) = evidence {
            mark(segment, evidence, tally);
            self.doubt = None;
        }
    }

    /// Whether `ack` jumps over a segment that was retransmitted after the left edge.
    ///
    /// A receiver that holds segments out of order acknowledges each arrival at once (RFC 5681), and
    /// every second full-sized one otherwise: the left edge filled a gap, and all behind it was there.
    fn jumps(&self, segment: &Segment, ack: i64, front: i64) -> bool {
        let edge = self.board.at(front);
        let far = self.board.locate(ack) - front > STRETCH && ack - edge.start > STRETCH * self.mss;
        (far || self.ahead > 0) && edge.sent <= segment.sent
    }

    /// Look for a DSACK: a first block below the ACK, or inside the second block (RFC 2883).
    ///
    /// If what was retransmitted had been acknowledged just before, and late enough to be its own doing,
    /// the second arrival is a duplicate made by the network: the two come close to each other.
    pub(super) fn judge_duplicate(&mut self, p: &Packet, ack: i64, tally: &mut Tally) {
        let blocks = p.sacks();
        let Some(&[low, high]) = blocks.first() else { return };
        let (low, high) = (self.relative(low), self.relative(high));
        let inside =
            |&[begin, end]: &[u32; 2]| low >= self.relative(begin) && high <= self.relative(end);
        if low >= high || high > ack && !blocks.get(1).is_some_and(inside) {
            return;
        }
        let rtt_min = self.rtt_min;
        if let Some(place) = self.board.recall(low, high) {
            let segment = self.board.kept(place);
            let since = p.time_ns - segment.told;
            if segment.told == 0 || since.saturating_mul(2) >= rtt_min {
                mark(segment, Evidence::Dsack, tally);
                self.doubt = None;
            }
        }
    }
}
