//! Follow a sender through the packets that it sends, and explain them.

use super::board::{PIECES, Segment};
use super::cause::{EPSILON, SILENCE};
use super::{Begun, Loss, MS, RTO_MAX, Sender, Tally};
use crate::event::{Cause, Rule, Verdict};
use crate::packet::{ACK, FIN, Packet, RST, SYN};

/// Keep-alive probes and probes of a closed window leave in silence.
const IDLE: i64 = 190 * MS;
/// Pieces that the data of a packet are divided into at most: 64 kB of 536 bytes each. A length is
/// the header's word, of which the capture need not have a byte: pieces are memory.
const MOST_PIECES: i64 = 128;

impl Sender {
    /// Follow the sender through a packet of its own; what it is, if it is an event.
    #[inline(always)]
    pub fn send(&mut self, p: &Packet, tally: &mut Tally) -> Option<Verdict> {
        let more = self.needed(p);
        if !self.board.has_room(more) {
            self.make_room(more);
        }
        if p.flags & SYN > 0 {
            return self.send_syn(p);
        }
        if p.payload == 0 && p.flags & FIN == 0 {
            let silent = self.known && p.time_ns - self.sent_at >= IDLE && p.flags & ACK > 0;
            let start = self.relative(p.seq);
            return if silent { self.probe_below(p, start) } else { None };
        }
        if !self.known {
            self.begin(i64::from(p.seq) - 1, 1);
        }
        self.send_data(p, tally)
    }

    #[cold]
    fn make_room(&mut self, more: i64) {
        for _ in 0..self.board.surplus(more, self.heard) {
            self.forget_oldest();
        }
        self.board.grow(more);
    }

    /// Segments that a packet may add to those outstanding.
    #[inline(always)]
    fn needed(&self, p: &Packet) -> i64 {
        if !self.known || p.flags & SYN > 0 {
            return 1;
        }
        let payload = i64::from(p.payload);
        let pieces = if self.split > 0 { payload / self.piece(payload) + 1 } else { 0 };
        let gap = if self.relative(p.seq) > self.snd_max { PIECES + 1 } else { 0 };
        1 + pieces + gap
    }

    /// Bytes of the segments that `length` bytes in one packet were sent as.
    #[inline(always)]
    fn piece(&self, length: i64) -> i64 {
        self.split.max(length / MOST_PIECES + 1)
    }

    /// A SYN or SYN-ACK: a new connection, an expired timer, or asked for again.
    fn send_syn(&mut self, p: &Packet) -> Option<Verdict> {
        self.backoff = 0;
        if !self.known || self.isn != i64::from(p.seq) {
            self.begin(p.seq.into(), 0);
            self.passive = p.flags & ACK > 0;
            self.agree(p, true);
            self.read_clock(p);
            self.append(0, 1, p, false);
            return None;
        }
        self.agree(p, true);
        if self.una != 0 || self.board.is_empty() {
            return None;
        }
        let head = self.board.head;
        self.board.at_mut(head).ever = true;
        self.read_clock(p);
        if p.flags & ACK > 0 && p.time_ns - self.cause_at <= EPSILON {
            self.arm(p.time_ns); // the SYN that came again asked
            return None;
        }
        self.rto = (2 * self.rto).min(RTO_MAX);
        self.arm(p.time_ns);
        Some(Verdict::new(Cause::SynRto, Rule::SynUnanswered))
    }

    /// Note the sender's clock: an ACK that echoes it gives the RTT.
    #[inline(always)]
    fn read_clock(&mut self, p: &Packet) {
        if p.timestamps {
            (self.tick, self.tick_at) = (p.tsval, p.time_ns);
        }
    }

    #[inline(always)]
    fn send_data(&mut self, p: &Packet, tally: &mut Tally) -> Option<Verdict> {
        let (now, fin) = (p.time_ns, p.flags & FIN);
        let payload = i64::from(p.payload);
        let start = self.relative(p.seq);
        let end = start + payload + i64::from(fin);
        self.read_clock(p);
        self.stamped |= p.timestamps;
        if fin > 0 {
            self.fin = Some(end - 1);
        }
        let whole = if self.split > 0 { payload.min(self.split) } else { payload };
        self.mss = self.mss.max(whole);
        let mut found = None;
        if start < self.snd_max {
            if end <= self.una {
                return self.in_the_past(p, start);
            }
            found = self.send_again(start, end, p, tally);
        }
        if end > self.snd_max {
            let probe = found.is_none() && self.may_probe(now);
            if start >= self.snd_max {
                if self.doubt.is_some() {
                    self.deny_timeout(tally);
                }
                if !probe {
                    self.learn_pace(now);
                }
                self.depart(now, end - start);
            }
            if probe {
                (self.probe_end, self.probed) = (end, true);
                self.arm(now); // a tail loss probe of new data
            }
            self.enter(start, end, p);
            self.last_id = Some(p.ip_id);
        }
        self.sent_at = now;
        if now - self.cause_at <= EPSILON {
            self.cause_at = now;
        }
        found
    }

    /// Put new data on the scoreboard, one segment per packet that the receiver can tell apart.
    #[inline(always)]
    fn enter(&mut self, start: i64, end: i64, p: &Packet) {
        if start > self.snd_max {
            // the capture missed what lies between
            let size = self.mss.max((start - self.snd_max) / PIECES + 1);
            while self.snd_max < start {
                self.append(self.snd_max, (self.snd_max + size).min(start), p, true);
            }
        }
        let size = if self.split > 0 { self.piece(end - start) } else { end - start };
        while self.snd_max < end {
            self.append(self.snd_max, (self.snd_max + size).min(end), p, false);
        }
    }

    /// Enter new data; sending while nothing is outstanding arms the timer.
    #[inline(always)]
    fn append(&mut self, start: i64, end: i64, p: &Packet, unseen: bool) {
        if self.board.is_empty() {
            self.arm(p.time_ns);
        }
        self.board.push(Segment {
            start,
            end,
            sent: p.time_ns,
            tsval: p.tsval,
            ever: unseen,
            unseen,
            ..Segment::default()
        });
        self.snd_max = end;
    }

    /// Follow a packet that begins below what was sent before.
    fn send_again(
        &mut self,
        start: i64,
        end: i64,
        p: &Packet,
        tally: &mut Tally,
    ) -> Option<Verdict> {
        if self.window == Some(0) && p.payload <= 1 && start == self.una {
            return Some(Verdict::new(Cause::WindowProbe, Rule::WindowClosed));
        }
        if self.board.is_empty() {
            return Some(Verdict::new(Cause::Unknown, Rule::Unexplained));
        }
        if let Some(rule) = self.overtaken(p, start) {
            for number in self.board.locate(start)..self.board.tail {
                let segment = self.board.at_mut(number);
                if segment.start >= end {
                    break;
                }
                segment.unseen = false; // captured late, sent once
            }
            return Some(Verdict::new(Cause::Reordering, rule));
        }
        Some(self.resend(start, end, p, tally))
    }

    /// Whether a packet not captured before fills a gap that is none of the network's making.
    fn overtaken(&self, p: &Packet, start: i64) -> Option<Rule> {
        let number = self.board.locate(start);
        if number == self.board.tail || !self.board.at(number).unseen {
            return None;
        }
        let age = p.time_ns - self.board.at(number).sent;
        match self.last_id {
            Some(last) if p.ip_id > 0 && last > 0 => {
                let behind = last.wrapping_sub(p.ip_id);
                let young = age < (self.srtt >> 3).max(SILENCE);
                (0 < behind && behind < 1024 && young).then_some(Rule::LeftBefore)
            }
            _ => (age.saturating_mul(2) < self.rtt_min).then_some(Rule::YoungGap),
        }
    }

    /// Explain a retransmission and follow the sender through it.
    fn resend(&mut self, start: i64, end: i64, p: &Packet, tally: &mut Tally) -> Verdict {
        let now = p.time_ns;
        let first = self.board.locate(start).min(self.board.tail - 1);
        if first > self.board.head {
            self.confirm_timeout(tally);
        }
        let verdict = self.explain(first, now, end >= self.snd_max);
        let cause = verdict.cause;
        self.note_doubt(first, now, verdict);
        if !matches!(cause, Cause::Rto | Cause::Tlp) {
            self.learn_pace(now);
        }
        self.depart(now, end - start);
        self.backoff = self.retransmits.min(255) as u8;
        if matches!(cause, Cause::Rto | Cause::Fast)
            && (self.stamp == 0 || !self.is_retransmission_outstanding())
        {
            self.stamp = p.tsval;
        }
        match cause {
            Cause::Rto => self.time_out(now),
            Cause::Fast => {
                if self.dups == 0 && self.una > self.recover {
                    self.sacked_out = 0; // the ACK that ended a timeout's episode began it
                }
                // What left since the duplicate had been queued before it, unless that asked for what
                // had been already retransmitted: then new data may have followed.
                if self.begun != Begun::Stalled {
                    self.recover = self.snd_max;
                }
                (self.loss, self.begun) = (Loss::Recovery, Begun::Sent);
            }
            Cause::Tlp => (self.probe_end, self.probed) = (self.snd_max, true),
            _ => {}
        }
        // Holes that Linux 2.2 fills further on in a recovery restart no timer.
        let filled = self.settings.linux22.rto_age
            && self.loss == Loss::Recovery
            && cause != Cause::Fast
            && self.board.sacked_bytes > 0;
        if cause == Cause::Tlp || cause != Cause::Rto && first == self.board.head && !filled {
            self.arm(now);
        }
        let (episode, event) = (self.episode, self.event);
        let mut named = Some(cause); // one packet is one event, however many segments it repeats
        for number in first..self.board.tail {
            let segment = self.board.at_mut(number);
            if segment.start >= end {
                break;
            }
            *segment = Segment {
                sent: now,
                again: episode,
                ever: true,
                unseen: false,
                told: 0,
                cause: named.take(),
                event,
                tsval: p.tsval,
                ..*segment
            };
        }
        verdict
    }

    /// Whether a retransmission is outstanding: the first one's time stamp then counts on.
    fn is_retransmission_outstanding(&self) -> bool {
        let again = |number| {
            let segment = self.board.at(number);
            segment.again == self.episode && !self.board.is_sacked(segment)
        };
        self.board.first().ever || (self.board.head..self.board.tail).any(again)
    }

    /// Enter loss state: everything not SACKed is lost, the timer doubles (tcp_enter_loss).
    fn time_out(&mut self, now: i64) {
        let reneged = self.board.is_sacked(self.board.first());
        if self.settings.linux22.go_back_n || reneged {
            self.board.renew();
            self.high = 0;
        }
        self.episode += 1;
        (self.loss, self.begun, self.recover) = (Loss::Timeout, Begun::Sent, self.snd_max);
        (self.dups, self.held, self.sacked_out, self.probe_end) = (0, 0, 0, 0);
        self.rto = (2 * self.rto).min(RTO_MAX);
        self.doubled += 1;
        (self.armed, self.limit) = (now, self.rto);
        self.retransmits += 1;
    }

    /// Name a packet of data that is acknowledged: a keep-alive probe, or overtaken by its ACK.
    fn in_the_past(&self, p: &Packet, start: i64) -> Option<Verdict> {
        if p.payload <= 1 {
            return self.probe_below(p, start);
        }
        Some(Verdict::new(Cause::Unknown, Rule::AlreadyAcknowledged))
    }

    /// Name a packet that ends at the left edge with a byte or none: a probe, or nothing.
    fn probe_below(&self, p: &Packet, start: i64) -> Option<Verdict> {
        let flagged = p.flags & (FIN | SYN | RST) > 0;
        if start != self.una - 1 || p.time_ns - self.sent_at < IDLE || flagged {
            return None;
        }
        if self.window == Some(0) {
            return Some(Verdict::new(Cause::WindowProbe, Rule::WindowClosed));
        }
        let idle = self.board.is_empty();
        idle.then_some(Verdict::new(Cause::Keepalive, Rule::BelowLeftEdge))
    }
}
