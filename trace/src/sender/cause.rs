//! Why a segment is retransmitted: the timer, or an ACK and the recovery it belongs to.
//!
//! What follows from it for the sender's state is done in `send.rs`.

use super::board::Segment;
use super::pacing::AT_ONCE;
use super::{Begun, Loss, MS, Sender, Whose};
use crate::event::{Cause, Rule, Verdict};

/// A packet this soon after an ACK may be that ACK's doing; no timer is as short.
pub const EPSILON: i64 = 10 * MS;
pub const SILENCE: i64 = 100 * MS;
/// The kernel's clock tick at HZ=100, and a little.
const JIFFY: i64 = 12 * MS;
/// A probe waits this much longer than two RTTs; with one segment outstanding, by RFC 8985.
const LEAST: i64 = 2 * MS;
const DELAYED: i64 = 200 * MS;

/// Whether at least nine tenths of a time have passed.
fn is_due(waited: i64, time: i64) -> bool {
    waited.saturating_mul(10) >= time.saturating_mul(9)
}

impl Sender {
    /// Why segment `number` is retransmitted; `tail`: it is the last one outstanding.
    pub(super) fn explain(&self, number: i64, now: i64, tail: bool) -> Verdict {
        let segment = self.board.at(number);
        let probe = tail && !segment.ever && self.may_probe(now);
        if number == self.board.head {
            if let Some(timer) = self.timed_out(segment, now, probe) {
                return timer;
            }
        } else if probe {
            return Verdict::new(Cause::Tlp, Rule::ProbeDue);
        }
        if self.begun != Begun::Sent {
            return Verdict::new(Cause::Fast, Rule::RecoveryBegins);
        }
        self.liberator(number, now - self.cause_at <= EPSILON || self.pace.is_steady())
    }

    /// Whether the retransmission of the head is a timer's doing, and whose.
    fn timed_out(&self, head: &Segment, now: i64, probe: bool) -> Option<Verdict> {
        let rto = |rule| Some(Verdict::new(Cause::Rto, rule));
        let tlp = Some(Verdict::new(Cause::Tlp, Rule::ProbeDue));
        if self.board.is_sacked(head) {
            return rto(Rule::Reneged); // only when the sender has given up the scoreboard
        }
        if self.settings.whose == Whose::Classic && self.loss == Loss::Recovery {
            return rto(Rule::ClassicRecovery); // its ACKs send the head once, and no hole
        }
        if self.settings.linux22.rto || self.settings.linux22.rto_age {
            let timer = self.linux22_timed_out(head, now);
            return timer.then_some(Verdict::new(Cause::Rto, Rule::Linux22Timer));
        }
        if probe && self.has_sack() {
            return tlp; // its timer ends with the other one at the latest
        }
        if self.armed >= 0 && is_due(now - self.armed, self.limit) {
            let explained = self.reordering_timer(head, now) || self.liberates(head, now);
            return if explained { None } else { rto(Rule::TimerDue) };
        }
        if self.held_back_too_long(head, now) {
            return rto(Rule::TimerDue);
        }
        let first = head.again != self.episode;
        if self.board.sacked_bytes > 0 && self.loss != Loss::Timeout && first {
            return None; // RACK's reordering timer waits for a fraction of an RTT, then resends
        }
        if probe {
            return tlp;
        }
        if self.refuses_probe(head, now) {
            return rto(Rule::SecondProbe);
        }
        let answered = now - self.ack_at <= (self.srtt >> 4).max(SILENCE);
        if answered || self.has_turn(now) && self.liberates(head, now) {
            return None;
        }
        rto(Rule::Silence)
    }

    /// Whether the timer of Linux 2.2 sends the head again, rather than an ACK of this very instant.
    fn linux22_timed_out(&self, head: &Segment, now: i64) -> bool {
        // What an ACK of this moment asks for again leaves first, and only once.
        let past = self.ack_at <= self.sent_at && self.sent_at < now;
        let answered = past || self.ack_at <= head.sent || self.is_repeated(head);
        let at_once = now - self.ack_at <= AT_ONCE && !answered;
        let asked = self.loss == Loss::Recovery || self.dups >= 3 || self.board.sacked_bytes > 0;
        let liberated = at_once && asked && self.loss != Loss::Timeout;
        self.armed >= 0 && is_due(now - self.armed, self.limit) && !liberated
    }

    /// Whether a recovery has no reason to send a segment again: it has been since the last timeout.
    ///
    /// RACK, which Linux 2.2 lacked, may have one.
    fn is_repeated(&self, segment: &Segment) -> bool {
        let once = !self.has_sack() || self.settings.linux22.fast_retransmit;
        let running = self.loss == Loss::Recovery && self.begun == Begun::Sent;
        once && running && segment.again == self.episode
    }

    /// Which recovery sends a segment again; `driven`: an ACK came just now.
    fn liberator(&self, number: i64, driven: bool) -> Verdict {
        let (segment, head) = (self.board.at(number), number == self.board.head);
        // RACK: what was sent later has arrived, so a reordering timer or the next ACK resends.
        let late = self.is_outrun(segment);
        let again = segment.again == self.episode;
        let sacked = self.board.sacked_bytes > 0;
        let unexplained = Verdict::new(Cause::Unknown, Rule::Unexplained);
        match self.loss {
            // What was sent later has arrived: Linux leaves the loss state.
            Loss::Timeout if late && again => {
                Verdict::new(Cause::Fast, Rule::LostAgainAfterTimeout)
            }
            Loss::Timeout if driven => Verdict::new(Cause::PostRto, Rule::LiberatedAfterTimeout),
            Loss::Timeout if late => Verdict::new(Cause::PostRto, Rule::ReorderingTimer),
            // no timer does that: it has waited for its turn
            Loss::Timeout if !again => Verdict::new(Cause::PostRto, Rule::LiberatedAfterTimeout),
            Loss::Timeout => unexplained,
            Loss::Recovery if sacked || self.has_sack() && driven => {
                let rule = if again { Rule::LostAgain } else { Rule::HoleOfScoreboard };
                Verdict::new(Cause::SackRecovery, rule)
            }
            Loss::Recovery if late => Verdict::new(Cause::SackRecovery, Rule::ReorderingTimer),
            Loss::Recovery if driven || head && !again => {
                Verdict::new(Cause::PartialAck, Rule::PartialAck)
            }
            Loss::Recovery => unexplained,
            Loss::Open if self.dups >= 3 || sacked => {
                Verdict::new(Cause::Fast, Rule::RecoveryBegins)
            }
            Loss::Open if driven && self.has_few_duplicates() => {
                Verdict::new(Cause::Fast, Rule::ThresholdLowered)
            }
            // Without SACK Linux counts duplicate ACKs on when the left edge moves: those that answer
            // spurious retransmissions after a timeout start a recovery a little later.
            Loss::Open if driven && !self.has_sack() && self.held >= 3 => {
                Verdict::new(Cause::Fast, Rule::DuplicatesCountedOn)
            }
            Loss::Open if late => Verdict::new(Cause::Fast, Rule::ReorderingTimer),
            Loss::Open => unexplained,
        }
    }

    /// Whether a tail loss probe may leave now: one at a time, with SACK, nothing missing.
    pub(super) fn may_probe(&self, now: i64) -> bool {
        let possible = self.settings.probes
            && self.probe_end == 0
            && now - self.cause_at > EPSILON
            && self.nothing_missing()
            && self.srtt != 0
            && !self.board.is_empty();
        possible && !self.refused_sack() && self.probe_due(self.board.first().sent, now)
    }

    fn nothing_missing(&self) -> bool {
        self.loss == Loss::Open && self.dups == 0 && self.board.sacked_bytes == 0
    }

    /// Whether the SYNs of both sides are known and do not agree on SACK.
    fn refused_sack(&self) -> bool {
        !self.has_sack() && self.own_permit.is_some() && self.peer_permit.is_some()
    }

    /// Whether the probe's timer expires now (tcp_schedule_loss_probe); `head`: when that left.
    ///
    /// It is started by a packet and by an ACK of something new, and waits two RTTs; for a segment on
    /// its own longer, lest a delayed ACK be taken for a loss; but no longer than the timer would.
    /// Where the next packet is held back, so is the probe.
    fn probe_due(&self, head: i64, now: i64) -> bool {
        if self.is_on_time(now) {
            return false;
        }
        let since = self.sent_at.max(self.armed);
        let linux = self.settings.whose == Whose::Linux;
        let held = if linux { self.settings.rto_min_ns } else { DELAYED };
        let alone = self.board.len() == 1;
        let mut wait = (self.srtt >> 2) + if alone { held } else { LEAST };
        if self.armed > self.sent_at {
            wait = wait.min(self.rto);
        } else if head + self.rto > since {
            wait = wait.min(head + self.rto - since);
        }
        let waited = now - since;
        let latest = wait + (wait >> 2) + self.pace.delay(since) + 2 * JIFFY;
        is_due(waited, wait) && waited <= latest
    }

    /// Whether the timer takes the place of a second probe, when the head has waited for it.
    ///
    /// What is sent starts the probe's timer anew, for no longer than is left of the head's.
    fn refuses_probe(&self, head: &Segment, now: i64) -> bool {
        let outstanding = self.probe_end != 0 && self.snd_max > self.probe_end;
        let latest = self.sent_at >= self.armed;
        outstanding && self.nothing_missing() && latest && is_due(now - head.sent, self.rto)
    }

    /// Whether the reordering timer of RACK runs in place of the other one (tcp_rack_mark_lost).
    ///
    /// It begins with the SACK of something sent later, and waits for a quarter of an RTT. A sender
    /// that has sent no tail loss probe is not taken for one with RACK: of 2299 timeouts of a sender
    /// without either, 436 come within a tick of such a SACK by chance.
    fn reordering_timer(&self, head: &Segment, now: i64) -> bool {
        let open = self.loss == Loss::Open && self.board.sacked_bytes > 0;
        let first = open && head.again != self.episode;
        let soon = now - self.ack_at <= (self.srtt >> 5) + 2 * JIFFY;
        self.probed && first && self.is_outrun(head) && soon
    }

    /// Whether the timer expires in a recovery that could not send anything yet.
    ///
    /// A window far below what is in flight, such as BBR's in ProbeRTT, holds the head back. The
    /// timer that follows the one for reordering then counts from when the head was sent
    /// (tcp_rack_reo_timeout, tcp_rearm_rto), not from the last ACK of something new.
    fn held_back_too_long(&self, head: &Segment, now: i64) -> bool {
        let linux = self.settings.whose == Whose::Linux && self.settings.probes;
        let lost = self.loss == Loss::Open && self.board.sacked_bytes > 0 && self.is_outrun(head);
        let held_back = !head.ever
            && self.sent_at < self.armed
            && now - self.armed > (self.srtt >> 5) + 2 * JIFFY;
        let late = now - head.sent - self.rto;
        let driven = now - self.ack_at <= AT_ONCE / 10;
        linux && lost && held_back && !driven && (-MS..=3 * JIFFY).contains(&late)
    }

    /// Whether something sent later than a segment has arrived (RACK).
    fn is_outrun(&self, segment: &Segment) -> bool {
        self.has_sack() && self.delivered_at > segment.sent
    }

    /// Whether only the probe's timer runs: with nothing missing the other one waits for it.
    fn only_probe_timer(&self) -> bool {
        let running = self.settings.probes && self.has_sack() && self.whole == self.armed;
        running && self.loss == Loss::Open && self.probe_end == 0
    }

    /// Whether an ACK of this very instant, or pacing, explains that the head is retransmitted.
    fn liberates(&self, head: &Segment, now: i64) -> bool {
        let open = self.loss != Loss::Timeout;
        let turn = self.has_turn(now) && self.ack_at >= self.sent_at;
        let recent = now - self.ack_at <= AT_ONCE;
        if !turn && (!recent || !open) {
            return false;
        }
        let sacked = self.board.sacked_bytes;
        let first = head.again != self.episode;
        let reason =
            if open { self.has_duplicates() || sacked > 0 } else { first || self.is_outrun(head) };
        if self.only_probe_timer() {
            return reason;
        }
        let waited = now - self.armed;
        let early = waited < self.limit - JIFFY;
        let late = waited > self.limit + (self.limit >> 2) + 2 * JIFFY;
        if early || late || self.is_on_time(now) {
            return reason; // no timer fires now, or pacing foresees the packet
        }
        // What was sent after an ACK would have been the head, had that ACK called for it.
        let past = !recent || self.ack_at <= self.sent_at && self.sent_at < now;
        let begins = self.begun != Begun::Sent || self.has_duplicates() || sacked >= 3 * self.mss;
        first && open && !past && begins
    }
}
