//! Where both a timer and an ACK explain that the left edge is retransmitted, what follows decides.
//!
//! Without SACK a recovery sends the left edge again and nothing behind it (RFC 6582). After a timeout
//! a sender sends all that is outstanding again, and nothing new before it has an ACK (RFC 5681, 3.1;
//! tcp_xmit_retransmit_queue).

use super::{Begun, Loss, RTO_MAX, Sender, Tally, Whose};
use crate::event::{Cause, Rule, Verdict};

/// Retransmissions behind the one in doubt that are looked back on at most.
const LATER: usize = 4;

/// A retransmission of the left edge, as it was explained at first, and the state that it met.
#[derive(Clone, Debug)]
pub struct Doubt {
    event: u64,
    verdict: Verdict,
    sent: i64,
    una: i64,
    snd_max: i64,
    loss: Loss,
    recover: i64,
    dups: i64,
    held: i64,
    sacked_out: i64,
    rto: i64,
    retransmits: i64,
    /// The events behind it.
    later: Vec<u64>,
}

impl Sender {
    /// Note that segment `number` is retransmitted, for what follows: whether that is in doubt, or comes
    /// behind one that is.
    pub(super) fn note_doubt(&mut self, number: i64, now: i64, verdict: Verdict) {
        let settings = &self.settings;
        let plain = settings.whose == Whose::Linux && !settings.linux22.fast_retransmit;
        let due = self.armed >= 0 && (now - self.armed).saturating_mul(2) >= self.limit;
        let undecided = match verdict.cause {
            Cause::Rto => {
                self.loss == Loss::Recovery || self.loss == Loss::Open && self.has_duplicates()
            }
            Cause::Fast | Cause::PartialAck => due,
            _ => false,
        };
        if undecided && plain && number == self.board.head && !self.has_sack() && self.away == 0 {
            self.doubt = Some(Doubt {
                event: self.event,
                verdict,
                sent: now,
                una: self.una,
                snd_max: self.snd_max,
                loss: self.loss,
                recover: self.recover,
                dups: self.dups,
                held: self.held,
                sacked_out: self.sacked_out,
                rto: self.rto,
                retransmits: self.retransmits,
                later: Vec::new(),
            });
        } else if let Some(doubt) = &mut self.doubt {
            let decided = doubt.verdict.cause == Cause::Rto || verdict.cause != Cause::PartialAck;
            doubt.later.push(self.event);
            if decided || doubt.later.len() > LATER {
                self.doubt = None;
            }
        }
    }

    /// A segment behind the left edge is about to be retransmitted: the timer did what is in doubt.
    pub(super) fn confirm_timeout(&mut self, tally: &mut Tally) {
        let recovers = self.loss == Loss::Recovery && !self.has_sack();
        let Some(doubt) = self.doubt.take().filter(|_| recovers) else { return };
        let timeout = Verdict::new(Cause::Rto, Rule::OthersFollow);
        self.revise(doubt.event, doubt.verdict.cause, timeout, doubt.retransmits, tally);
        *tally.episodes += u64::from(doubt.retransmits == 0);
        for later in &doubt.later {
            let liberated = Verdict::new(Cause::PostRto, Rule::LiberatedAfterTimeout);
            self.revise(*later, Cause::PartialAck, liberated, 0, tally);
        }
        self.episode += 1;
        for number in self.board.head..self.board.tail {
            let segment = self.board.at_mut(number);
            if segment.ever && segment.sent >= doubt.sent {
                segment.again = self.episode;
            }
        }
        (self.loss, self.begun, self.recover) = (Loss::Timeout, Begun::Sent, doubt.snd_max);
        (self.dups, self.held, self.sacked_out, self.probe_end) = (0, 0, 0, 0);
        if self.una == doubt.una {
            self.rto = (2 * self.rto).min(RTO_MAX);
            self.doubled += 1;
            self.retransmits += 1;
            self.limit = self.rto;
        }
    }

    /// New data is about to be sent: if it was the timer's, what is in doubt was an ACK's doing.
    pub(super) fn deny_timeout(&mut self, tally: &mut Tally) {
        let Some(doubt) = &self.doubt else { return };
        let timeout = doubt.verdict.cause == Cause::Rto;
        if !timeout || self.una != doubt.una || self.board.len() < 2 {
            return;
        }
        let Some(doubt) = self.doubt.take() else { return };
        let open = doubt.loss == Loss::Open;
        let cause = if open { Cause::Fast } else { Cause::PartialAck };
        self.revise(doubt.event, Cause::Rto, Verdict::new(cause, Rule::NewFollows), 0, tally);
        *tally.episodes -= u64::from(doubt.retransmits == 0);
        self.episode -= 1;
        for number in self.board.head..self.board.tail {
            let segment = self.board.at_mut(number);
            segment.again = segment.again.min(self.episode);
        }
        self.recover = if open { doubt.snd_max } else { doubt.recover };
        (self.loss, self.begun) = (Loss::Recovery, Begun::Sent);
        (self.dups, self.held) = (doubt.dups + self.dups, doubt.held + self.held);
        self.sacked_out += doubt.sacked_out;
        (self.rto, self.retransmits) = (doubt.rto, doubt.retransmits);
        self.doubled = self.doubled.saturating_sub(1);
        self.limit = self.rto;
    }

    /// Say of an event of cause `before`, which nothing has marked yet, what else it was, and behind
    /// how many timeouts.
    fn revise(
        &mut self,
        event: u64,
        before: Cause,
        after: Verdict,
        timeouts: i64,
        tally: &mut Tally,
    ) {
        tally.counts[before as usize] -= 1;
        tally.counts[after.cause as usize] += 1;
        if let Some(event) = tally.events.get_mut(event as usize) {
            let backoff = timeouts.min(255) as u8;
            (event.cause, event.rule, event.backoff) = (after.cause, after.rule, backoff);
        }
        self.board.rename(event, after.cause);
    }
}
