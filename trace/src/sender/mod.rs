//! Follow a TCP sender through a capture: left edge, scoreboard, RTT, retransmission timer.
//!
//! A packet leaves because an ACK liberated it or because a timer did. The sender's state is
//! followed packet by packet, and every retransmission is explained by it:
//!
//! - `Sender::acknowledge` takes what comes back (tcp_ack),
//! - `Sender::send` takes what it sends, in `send.rs`; `cause.rs` says why a segment is retransmitted,
//! - `doubt.rs` decides by what follows where the timer and an ACK explain the same packet,
//! - `board.rs` has what is outstanding, `timer.rs` the RTT estimators, `pacing.rs` pacing,
//! - `spurious.rs` judges retransmissions by the ACKs behind them.
//!
//! Sequence numbers have 64 bits and are relative: the SYN is byte 0, data begins at byte 1. Times are
//! nanoseconds.

mod board;
mod cause;
mod doubt;
mod pacing;
mod send;
mod spurious;
#[cfg(test)]
mod tests;
mod timer;

pub use self::timer::{Linux22, RTO_MAX, Whose};

use self::board::{Board, Segment};
use self::doubt::Doubt;
use self::pacing::Pace;
use self::spurious::{STRETCH, is_older};
use crate::event::{CAUSES, Event};
use crate::packet::{ACK, FIN, Packet, RST, SYN};

pub const MS: i64 = 1_000_000;
/// `TCP_TIMEOUT_INIT`, and `TCP_TIMEOUT_FALLBACK` of a handshake that gave no sample.
const RTO_INITIAL: i64 = 1000 * MS;
const RTO_FALLBACK: i64 = 3000 * MS;
/// Duplicate ACKs that begin a recovery; fewer may, more are not modelled.
const THRESHOLD: i64 = 3;
/// No segment is smaller by agreement.
const LEAST_MSS: i64 = 88;
/// The timer does not run.
const STOPPED: i64 = -1;

/// What is known of a sender from outside of the capture.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Linux: smallest variance term of the timer; RFC 6298: smallest timer.
    pub rto_min_ns: i64,
    /// Whether it may send tail loss probes.
    pub probes: bool,
    pub whose: Whose,
    pub linux22: Linux22,
}

/// Whether a loss is being recovered from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Loss {
    #[default]
    Open,
    Recovery,
    Timeout,
}

/// Whether a recovery has sent anything yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Begun {
    #[default]
    Sent,
    Nothing,
    /// Nothing, because the head had been retransmitted before.
    Stalled,
}

/// What is counted of a sender while it is followed, and its events if they are listed.
pub struct Tally<'a> {
    /// Events by cause, and timeouts that are no back-offs.
    pub counts: &'a mut [u64; CAUSES],
    pub episodes: &'a mut u64,
    pub spurious: &'a mut [u64; CAUSES],
    pub events: &'a mut Vec<Event>,
}

/// The state of one sender.
#[derive(Clone, Debug, Default)]
pub struct Sender {
    pub settings: Settings,
    /// Whether a packet has told its sequence numbers.
    pub known: bool,
    pub isn: i64,
    /// Left edge: everything below is acknowledged.
    pub una: i64,
    pub snd_max: i64,
    board: Board,
    /// Highest edge that a SACK block has told.
    high: i64,
    /// Time from the capture to the sender and back; 0 where it is the sender's.
    pub away: i64,
    /// Bytes of the segments that one captured packet was sent as; 0: it is one.
    split: i64,
    mss: i64,
    pub sent_at: i64,
    ack_at: i64,
    /// When something last happened that packets may be the doing of.
    cause_at: i64,
    /// Number of the event that the packet at hand will be.
    pub event: u64,
    /// The receiver's window as the last ACK has it, not scaled.
    pub window: Option<u16>,
    /// Whether an ACK was seen.
    heard: bool,
    loss: Loss,
    begun: Begun,
    /// Duplicate ACKs in a row; those of a flow without SACK that are counted on.
    dups: i64,
    held: i64,
    /// Those that today's Linux counts, and how many of them begin a recovery.
    sacked_out: i64,
    reordering: i64,
    /// Segments that the receiver of a flow without SACK holds out of order, at the least.
    ahead: i64,
    sack_agreed: bool,
    pub sack_seen: bool,
    /// RTT sample that the last packet gave.
    pub sample: Option<i64>,
    /// When the timer was started; `STOPPED`.
    pub armed: i64,
    /// How long it waits.
    pub limit: i64,
    pub rto: i64,
    /// Eight times the smoothed RTT, four times its mean deviation; see `timer.rs`.
    pub srtt: i64,
    mdev: i64,
    mdev_max: i64,
    rttvar: i64,
    rtt_seq: i64,
    /// Least RTT, -1 before the first sample.
    pub rtt_min: i64,
    /// `snd_max` at the last tail loss probe; 0: none is outstanding.
    probe_end: i64,
    /// Whether it has ever sent one.
    probed: bool,
    last_id: Option<u16>,
    /// Timeouts in a row, of which the last had so many before it.
    retransmits: i64,
    pub backoff: u8,
    doubled: u32,
    /// What was outstanding at the start of a recovery.
    recover: i64,
    /// Time stamp of the recovery's first retransmission; 0: none.
    stamp: u32,
    /// When what arrived last had been sent (RACK).
    delivered_at: i64,
    episode: u32,
    /// The sender's clock, and when it was read; 0: never.
    tick: u32,
    tick_at: i64,
    pub stamped: bool,
    pub fin: Option<i64>,
    /// Payload bytes acknowledged on earlier connections of the same ends.
    acked_before: i64,
    pub given_up: i64,
    own_mss: u16,
    pub peer_mss: u16,
    own_permit: Option<bool>,
    pub peer_permit: Option<bool>,
    /// When the timer was started with nothing missing.
    whole: i64,
    stretched: bool,
    /// Whether its SYN answered one.
    passive: bool,
    pace: Pace,
    doubt: Option<Doubt>,
}

impl Sender {
    pub fn new(settings: Settings) -> Sender {
        Sender { settings, rtt_min: -1, reordering: THRESHOLD, ..Sender::default() }
    }

    /// Begin a connection whose relative byte 0 has the number `base`.
    fn begin(&mut self, base: i64, una: i64) {
        let long_ago = -RTO_MAX;
        let mut board = std::mem::take(&mut self.board);
        board.clear();
        *self = Sender {
            known: true,
            isn: base,
            una,
            snd_max: una,
            board,
            mss: 1,
            rto: if self.settings.linux22.rto { RTO_FALLBACK } else { RTO_INITIAL },
            armed: STOPPED,
            sent_at: long_ago,
            ack_at: long_ago,
            cause_at: long_ago,
            delivered_at: long_ago,
            pace: Pace::since(long_ago),
            episode: 1,
            acked_before: self.acked_before + self.acknowledged(),
            // what the capture and the SYNs told stays
            away: self.away,
            split: self.split,
            event: self.event,
            limit: self.limit,
            backoff: self.backoff,
            tick: self.tick,
            stamped: self.stamped,
            own_mss: self.own_mss,
            peer_mss: self.peer_mss,
            own_permit: self.own_permit,
            peer_permit: self.peer_permit,
            whole: self.whole,
            passive: self.passive,
            rtt_min: self.rtt_min,
            ..Sender::new(self.settings)
        };
    }

    /// Unwrap a sequence number near the left edge.
    #[inline(always)]
    pub fn relative(&self, number: u32) -> i64 {
        let edge = (self.isn + self.una) as u32;
        self.una + i64::from(number.wrapping_sub(edge) as i32)
    }

    /// Payload bytes acknowledged on this connection.
    fn acknowledged(&self) -> i64 {
        let fin = self.fin.is_some_and(|fin| self.una > fin);
        (self.una - 1 - i64::from(fin) - self.given_up).max(0)
    }

    /// Whether this is a state that can be; for tests and the fuzz loop.
    pub fn is_sound(&self) -> bool {
        let known = self.known && !self.board.is_empty();
        let whole = !known || self.board.edges() == (self.una, self.snd_max);
        self.una <= self.snd_max && whole && self.board.is_sound()
    }

    /// The same of all connections of its ends so far.
    pub fn acked_bytes(&self) -> i64 {
        self.acked_before + if self.known { self.acknowledged() } else { 0 }
    }

    /// Whether the flow counts as one with SACK: its SYNs agree on it, or a block has come.
    #[inline(always)]
    pub fn has_sack(&self) -> bool {
        self.sack_agreed || self.sack_seen
    }

    /// Bytes sent and not acknowledged, SACKed ones left out.
    pub fn in_flight(&self) -> i64 {
        self.snd_max - self.una - self.board.sacked_bytes
    }

    #[inline(always)]
    pub fn has_nothing_outstanding(&self) -> bool {
        self.board.is_empty()
    }

    /// Whether the recovery that runs is one that Linux 2.2 has in a way of its own.
    fn recovers_as_linux22(&self) -> bool {
        match self.loss {
            Loss::Timeout => self.settings.linux22.go_back_n,
            _ => self.settings.linux22.fast_retransmit,
        }
    }

    /// Start the timer; a later RTT sample changes the next start, not this one.
    #[inline(always)]
    fn arm(&mut self, now: i64) {
        self.armed = now;
        self.limit = self.rto + self.pace.delay(now);
        let whole = self.loss == Loss::Open && self.board.sacked_bytes == 0;
        self.whole = if whole { now } else { -2 };
    }

    /// Give up the oldest segment: the left edge moves, but nothing is acknowledged by that.
    fn forget_oldest(&mut self) {
        let oldest = *self.board.first();
        if self.board.is_sacked(&oldest) {
            self.board.sacked_bytes -= oldest.end - oldest.start;
        }
        self.given_up += (oldest.end - self.una).max(0);
        self.una = self.una.max(oldest.end);
        self.board.head += 1;
    }

    /// Note when what arrives was sent, unless a copy sent earlier may be meant (RACK).
    #[inline(always)]
    fn deliver(&mut self, segment: &Segment, now: i64) {
        let sure = !segment.ever || now - segment.sent >= self.rtt_min;
        let set_back = self.delivered_at > now; // the capture's clock was
        if sure && (segment.sent > self.delivered_at || set_back) {
            self.delivered_at = segment.sent.min(now);
        }
    }

    /// Follow the sender through a packet that comes back to it.
    #[inline(always)]
    pub fn receive(&mut self, p: &Packet, tally: &mut Tally) {
        self.sample = None;
        if p.flags & SYN > 0 {
            self.agree(p, false);
            if p.flags & ACK == 0 {
                self.cause_at = p.time_ns;
            }
        }
        if p.flags & ACK > 0 {
            if !self.known {
                self.begin(i64::from(p.ack) - 1, 1);
            }
            self.acknowledge(p, tally);
        }
    }

    /// Learn from the SYNs whether SACK is on, and how much one packet carries.
    ///
    /// Captures before offloading show larger packets.
    fn agree(&mut self, p: &Packet, own: bool) {
        let permit = Some(p.sack_permitted);
        if own {
            (self.own_mss, self.own_permit) = (p.mss, permit);
        } else {
            (self.peer_mss, self.peer_permit) = (p.mss, permit);
        }
        if p.flags & ACK == 0 {
            return;
        }
        self.sack_agreed |= self.own_permit == Some(true) && self.peer_permit == Some(true);
        if self.own_mss > 0 && self.peer_mss > 0 {
            let stamps = if p.timestamps { 12 } else { 0 };
            let size = i64::from(self.own_mss.min(self.peer_mss)) - stamps;
            self.split = if size >= LEAST_MSS { size } else { 0 };
        }
    }

    /// Follow the sender through an incoming ACK (tcp_ack, tcp_clean_rtx_queue).
    fn acknowledge(&mut self, p: &Packet, tally: &mut Tally) {
        let (ack, now) = (self.relative(p.ack), p.time_ns);
        let blocks = !p.sacks().is_empty();
        self.heard = true;
        self.given_up = self.given_up.min((self.una - ack).max(0));
        if blocks {
            self.sack_seen = true;
            self.judge_duplicate(p, ack, tally);
        }
        if self.board.is_empty() || ack < self.una {
            self.mark_sacked(p, tally);
            if ack >= self.una {
                self.window = Some(p.window);
            }
            if ack > self.una {
                self.advance(ack);
            }
            return;
        }
        (self.ack_at, self.cause_at) = (now, now);
        let known = self.board.sacked_bytes;
        let mut sacked = if blocks { self.mark_sacked(p, tally) } else { None };
        let advanced = ack > self.una;
        let news = blocks && self.board.sacked_bytes > known;
        let before = self.board.head;
        let sent = self.release(p, ack, tally);
        let (opening, lossy) = (self.una == 0, self.loss == Loss::Timeout);
        if lossy && self.settings.linux22.go_back_n {
            sacked = None; // what was forgotten and is SACKed again tells no time
        }
        if advanced {
            let released = self.board.head - before;
            let loss = self.loss;
            self.held = (self.held - (released - 1).max(0)).max(0); // as tcp_remove_reno_sacks
            self.sacked_out = (self.sacked_out - (released - 1).max(0)).max(0);
            self.limit_sacked_out(released);
            self.advance(ack);
            self.reset_sacked_out(loss);
            self.undo(p);
        } else {
            let pure = p.payload == 0 && p.flags & (FIN | SYN | RST) == 0;
            self.count_duplicate(pure && self.is_duplicate(p, ack, news));
        }
        self.window = Some(p.window);
        let mut sample = sent.or(sacked).map(|sent| now - sent);
        if self.settings.linux22.rto {
            sample = sent.filter(|_| !lossy && !opening).map(|sent| now - sent);
            if advanced && p.timestamps {
                sample = if opening && self.passive { None } else { self.timestamp_rtt(p) };
            }
        } else if advanced && sample.is_none_or(|sample| sample < 0) {
            sample = self.timestamp_rtt(p);
        }
        self.time(now, sample.filter(|sample| *sample >= 0), sacked, advanced, opening);
    }

    /// Take the RTT sample of an ACK; start, restart or stop the timer.
    #[inline(always)]
    fn time(
        &mut self,
        now: i64,
        sample: Option<i64>,
        sacked: Option<i64>,
        advanced: bool,
        opening: bool,
    ) {
        if let Some(sample) = sample {
            self.measure(sample);
        } else if advanced && opening {
            self.rto = RTO_FALLBACK;
            (self.rttvar, self.mdev, self.mdev_max) = (RTO_FALLBACK, RTO_FALLBACK, RTO_FALLBACK);
        }
        if self.board.is_empty() {
            self.armed = STOPPED;
            if self.fin.is_some_and(|fin| self.una > fin) {
                self.board.release_room();
            }
            return;
        }
        // by a SACK of what was sent before the head was; in Linux 2.2 that gave no sample
        let earlier = sacked.is_some_and(|sacked| sacked < self.board.first().sent);
        if advanced || earlier && !self.settings.linux22.rto {
            let aged = self.settings.linux22.rto_age && self.loss != Loss::Timeout;
            self.arm(if aged { self.board.first().sent } else { now });
        }
    }

    /// Enter SACK blocks on the scoreboard; send time of the first new one fit for an RTT.
    fn mark_sacked(&mut self, p: &Packet, tally: &mut Tally) -> Option<i64> {
        let mut first: Option<i64> = None;
        for &[low, high] in p.sacks() {
            let (low, high) = (self.relative(low), self.relative(high));
            self.high = self.high.max(high.min(self.snd_max));
            let mut number = self.board.locate(low);
            if number < self.board.tail && self.board.at(number).start < low {
                number += 1;
            }
            number = self.board.unsacked(number);
            while number < self.board.tail && self.board.at(number).end <= high {
                self.board.sack(number);
                let segment = *self.board.at(number);
                self.deliver(&segment, p.time_ns);
                if segment.cause.is_some() {
                    self.judge(number, p, None, tally);
                }
                if !segment.ever && first.is_none_or(|first| segment.sent < first) {
                    first = Some(segment.sent);
                }
                number = self.board.unsacked(number);
            }
        }
        first
    }

    /// Take acknowledged segments off; send time fit for an RTT, if there is one (Karn).
    #[inline(always)]
    fn release(&mut self, p: &Packet, ack: i64, tally: &mut Tally) -> Option<i64> {
        let (mut first, mut karn, front) = (None, false, self.board.head);
        while !self.board.is_empty() && self.board.first().end <= ack {
            let number = self.board.head;
            let segment = *self.board.at(number);
            karn |= segment.ever;
            if self.board.is_sacked(&segment) {
                self.board.sacked_bytes -= segment.end - segment.start;
            } else {
                self.deliver(&segment, p.time_ns);
                // the last one's in Linux 2.2
                if !segment.ever && (first.is_none() || self.settings.linux22.rto) {
                    first = Some(segment.sent);
                }
                if segment.cause.is_some() {
                    self.judge(number, p, Some(front), tally);
                }
            }
            if segment.cause.is_some() {
                let judged = *self.board.at(number);
                if judged.cause.is_some() {
                    self.board.remember(judged);
                }
            }
            self.board.head += 1;
        }
        let released = self.board.head - front;
        if !karn && released > STRETCH {
            self.stretched = true;
        }
        self.ahead = (self.ahead - (released - 1).max(0)).max(0);
        if !self.board.is_empty() && self.board.first().start < ack {
            let number = self.board.head;
            let part = ack - self.board.first().start;
            if self.board.is_sacked(self.board.first()) {
                self.board.sacked_bytes -= part;
            }
            self.board.at_mut(number).start = ack;
        }
        first.filter(|_| !karn)
    }

    /// Move the left edge; leave recovery when what was outstanding at its start is acknowledged.
    #[inline(always)]
    fn advance(&mut self, ack: i64) {
        self.una = ack;
        self.snd_max = self.snd_max.max(ack);
        (self.dups, self.retransmits) = (0, 0);
        if ack >= self.probe_end {
            self.probe_end = 0;
        }
        if self.loss == Loss::Open {
            return;
        }
        // Without SACK, Linux waits for one byte more, lest old duplicates start a recovery anew; the
        // Reno of 1990 is content with any.
        let exact = self.has_sack() || self.recovers_as_linux22();
        let over = ack > self.recover || ack == self.recover && exact;
        let recovering = self.loss == Loss::Recovery;
        if over || recovering && self.settings.whose == Whose::Classic {
            if recovering {
                self.held = 0;
            }
            self.doubt = None;
            (self.loss, self.begun) = (Loss::Open, Begun::Sent);
        }
    }

    /// Leave recovery when its first retransmission proves spurious (tcp_packet_delayed).
    ///
    /// Linux goes back from loss state so only with SACK.
    fn undo(&mut self, p: &Packet) {
        if self.stamp == 0 || self.loss == Loss::Open || self.recovers_as_linux22() {
            return;
        }
        if self.una == self.recover && self.emulates_sack() {
            return; // the state is held until something above is acknowledged
        }
        if is_older(p, self.stamp) && (self.loss == Loss::Recovery || self.has_sack()) {
            (self.loss, self.doubt) = (Loss::Open, None);
        }
    }

    /// RTT from the echoed time stamp, which ticks every millisecond; 0 is none.
    #[inline(always)]
    fn timestamp_rtt(&self, p: &Packet) -> Option<i64> {
        if !p.timestamps || p.tsecr == 0 || self.tick_at == 0 {
            return None;
        }
        let ticks = self.tick.wrapping_sub(p.tsecr);
        (ticks < 0x7fff_ffff).then(|| p.time_ns - self.tick_at + i64::from(ticks) * MS)
    }

    /// Whether an ACK that moves nothing says that a segment has arrived out of order.
    ///
    /// With SACK it must say which, except for Linux 2.2; of blocks inside packets that were captured
    /// before they were divided the scoreboard knows nothing.
    fn is_duplicate(&self, p: &Packet, ack: i64, news: bool) -> bool {
        if self.sack_seen && !self.settings.linux22.fast_retransmit {
            let first = p.sacks().first();
            return news || self.split == 0 && first.is_some_and(|one| self.relative(one[0]) > ack);
        }
        self.window == Some(p.window)
    }

    /// Count duplicates; in Linux 2.2 one may begin a recovery that has nothing to send yet.
    fn count_duplicate(&mut self, duplicate: bool) {
        let own_way = self.settings.linux22.fast_retransmit && self.loss == Loss::Open;
        if duplicate {
            self.dups += 1;
            self.held += 1;
            self.add_sacked_out();
            if self.loss != Loss::Timeout {
                self.ahead += 1; // after a timeout it may answer what was retransmitted and was there
            }
            let far = self.board.sacked_bytes > 0 && self.high - self.una > 3 * self.mss;
            if own_way && (self.dups >= 3 || far) {
                (self.loss, self.recover) = (Loss::Recovery, self.snd_max);
                let again = self.board.first().ever;
                self.begun = if again { Begun::Stalled } else { Begun::Nothing };
            }
        } else if own_way {
            self.dups = 0; // data or a window update come between
        }
    }

    /// Whether Linux emulates SACK by counting duplicate ACKs (tcp_add_reno_sack).
    #[inline(always)]
    fn emulates_sack(&self) -> bool {
        let own_way = self.settings.linux22.go_back_n || self.settings.linux22.fast_retransmit;
        self.settings.whose == Whose::Linux && !own_way && !self.has_sack()
    }

    /// Count a segment that the receiver of a flow without SACK holds, as a duplicate ACK says.
    ///
    /// Linux counts none that repeats the end of a recovery, and after a timeout only those that new
    /// data may have caused (tcp_process_loss).
    fn add_sacked_out(&mut self) {
        let over = self.una >= self.recover;
        let counted = match self.loss {
            _ if !self.emulates_sack() => false,
            Loss::Open => true,
            Loss::Recovery => !over,
            Loss::Timeout => !over && self.snd_max > self.recover,
        };
        if counted {
            self.sacked_out += 1;
            self.limit_sacked_out(0);
        }
    }

    /// Bound the duplicate ACKs counted by what is outstanding and not lost; more of them are
    /// reordering to Linux, whose threshold is what is outstanding from then on, however little
    /// (tcp_check_reno_reordering). No timeout restores it: tcp_enter_loss looks at a count of 0.
    fn limit_sacked_out(&mut self, released: i64) {
        if self.sacked_out == 0 {
            return;
        }
        let out = self.board.len();
        let lost = match self.loss {
            Loss::Timeout => self.board.locate(self.recover) - self.board.head,
            _ => 1,
        };
        let most = (out - lost.max(1)).max(0);
        if self.sacked_out > most {
            self.sacked_out = most;
            self.reordering = (out + released).min(THRESHOLD);
        }
    }

    /// Discard the duplicate ACKs counted when the left edge has moved (tcp_reset_reno_sack); `loss`:
    /// the state before. Those that suffice at the end of a timeout's episode begin a recovery first.
    fn reset_sacked_out(&mut self, loss: Loss) {
        let kept = match loss {
            Loss::Open => false,
            Loss::Recovery => self.una < self.recover,
            Loss::Timeout if self.loss == Loss::Timeout => self.una == self.recover,
            Loss::Timeout => self.sacked_out >= self.reordering,
        };
        if !kept {
            self.sacked_out = 0;
        }
    }

    /// Whether duplicate ACKs begin a recovery, by the threshold of three.
    #[inline(always)]
    fn has_duplicates(&self) -> bool {
        self.dups >= THRESHOLD || self.has_few_duplicates()
    }

    /// Whether fewer begin one, as more have come before than packets were outstanding.
    #[inline(always)]
    fn has_few_duplicates(&self) -> bool {
        let few = self.reordering < THRESHOLD && self.sacked_out >= self.reordering;
        few && self.loss == Loss::Open && !self.has_sack()
    }
}
