//! Senders that pace: how long a packet is held back, and the timer with it.
//!
//! Linux (tcp_update_skb_after_send) lets a packet go at the time its predecessor left plus what that
//! takes at the pacing rate; of what the predecessor itself came late, up to half is made good. What
//! a timer sends does not wait. A timer that is started while a packet is held runs from the packet's
//! time on (tcp_pacing_delay). The rate is learnt from packets that no ACK of the moment liberated.

use super::{MS, Sender};

/// What leaves this soon after an ACK is liberated by it; this soon after a packet, one burst.
pub const AT_ONCE: i64 = MS;
/// A gap this long is no pacing: Linux gives it up beyond the horizon of its scheduler, 10 s.
const LONGEST: i64 = 10_000 * MS;
/// How exactly the kernel's timers keep a packet's time; their slack is 50 us.
const SLACK: i64 = MS / 10;
/// So many packets in a row must have waited about equally long before a sender counts as paced.
const ENOUGH: i32 = 4;
const MOST: i32 = 16;

/// When a sender's packets have their turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// Nanoseconds that 1024 bytes take.
    pace: i64,
    /// For how many packets in a row that has held.
    steady: i32,
    /// When the next packet has its turn.
    pub slot: i64,
    /// When the last burst left, how late that was, and its bytes.
    from: i64,
    late: i64,
    bytes: i64,
}

impl Pace {
    /// Of a sender whose last turn was at `slot`.
    pub fn since(slot: i64) -> Pace {
        Pace { slot, ..Pace::default() }
    }

    /// Whether the sender paces.
    #[inline(always)]
    pub fn is_steady(&self) -> bool {
        self.steady >= ENOUGH
    }

    /// How much longer a packet must wait.
    #[inline(always)]
    pub fn delay(&self, now: i64) -> i64 {
        if self.is_steady() { (self.slot - now).max(0) } else { 0 }
    }

    /// Note that a packet leaves; `burst`: at once behind another.
    #[inline(always)]
    fn depart(&mut self, now: i64, size: i64, burst: bool) {
        if !burst {
            let before = self.slot;
            self.from = if self.is_steady() { before.max(now) } else { now };
            self.late = self.from - before;
            self.bytes = 0;
        }
        self.bytes += size;
        let length = self.pace.saturating_mul(self.bytes) >> 10;
        self.slot = self.from.saturating_add(length) - (length >> 1).min(self.late);
    }

    /// The pace by which a packet would leave now.
    fn implied(&self, now: i64) -> i64 {
        let wait = (now - self.from).max(0);
        let length = if self.late <= wait { wait + self.late } else { wait.saturating_mul(2) };
        length.saturating_mul(1024).div_euclid(self.bytes)
    }

    /// Whether it is a held packet's turn, by the pace so far and not much more.
    fn is_turn(&self, now: i64) -> bool {
        let (wait, expected) = (now - self.from, self.slot - self.from);
        wait.saturating_mul(2) >= expected && wait <= expected.saturating_mul(2) + AT_ONCE
    }
}

impl Sender {
    /// Note that a packet leaves: when the next one may.
    #[inline(always)]
    pub fn depart(&mut self, now: i64, size: i64) {
        self.pace.depart(now, size, now - self.sent_at <= AT_ONCE);
    }

    /// Learn the pace from a packet that waits for its turn, before it leaves.
    #[inline(always)]
    pub fn learn_pace(&mut self, now: i64) {
        if now - self.sent_at > AT_ONCE && self.pace.bytes > 0 {
            if now - self.ack_at > AT_ONCE {
                self.confirm_pace(now);
            } else if self.pace.steady > 0 {
                self.doubt_pace(now);
            }
        }
    }

    fn confirm_pace(&mut self, now: i64) {
        if self.board.is_empty() || now - self.pace.from > LONGEST {
            return;
        }
        let waiting = self.armed > self.sent_at && self.pace.slot > self.armed;
        if self.pace.is_steady() && waiting && self.pace.is_turn(now) {
            self.limit += now - self.pace.slot; // the timer was started while this packet waited
        }
        let pace = self.pace.implied(now);
        let before = self.pace.pace;
        if pace < before.saturating_mul(2) && before < pace.saturating_mul(2) {
            self.pace.steady = (self.pace.steady + 1).min(MOST);
        }
        (self.pace.pace, self.pace.slot) = (pace, now);
    }

    /// Look whether an ACK liberates a packet before its turn.
    fn doubt_pace(&mut self, now: i64) {
        let pace = self.pace.implied(now);
        if pace.saturating_mul(2) < self.pace.pace {
            self.pace.steady -= 1;
        }
        self.pace.pace = self.pace.pace.min(pace);
        self.pace.slot = self.pace.slot.min(now);
    }

    /// Whether a held packet has its turn.
    pub fn has_turn(&self, now: i64) -> bool {
        self.pace.is_steady() && self.pace.is_turn(now)
    }

    /// Whether a packet leaves the very moment that the pace foresees.
    pub fn is_on_time(&self, now: i64) -> bool {
        self.pace.is_steady() && (now - self.pace.slot).abs() <= SLACK
    }
}
