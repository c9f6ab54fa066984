//! How senders make a timer of round-trip times.

use super::{Loss, Sender};

/// Whose timer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whose {
    #[default]
    Linux,
    /// RFC 6298, whose whole timer has a minimum.
    Rfc6298,
    /// Linux without SACK that recovers as the Reno of 1990 did.
    Classic,
}

/// What Linux 2.2 did otherwise, as far as following a sender needs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Linux22 {
    pub rto: bool,
    /// The timer counts from when the oldest packet was sent.
    pub rto_age: bool,
    pub go_back_n: bool,
    pub fast_retransmit: bool,
}

impl Linux22 {
    pub const ALL: Linux22 =
        Linux22 { rto: true, rto_age: true, go_back_n: true, fast_retransmit: true };
}

/// `TCP_RTO_MAX`.
pub const RTO_MAX: i64 = 120_000_000_000;
/// A clock tick of Linux 2.2.
const TICK: i64 = 10_000_000;
/// Where clocks jump by years, eight times an RTT would not fit into 64 bits: more counts as this.
const LONGEST_RTT: i64 = 1 << 59;

impl Sender {
    /// Take an RTT sample into the timer.
    pub fn measure(&mut self, sample: i64) {
        self.sample = Some(sample);
        self.rtt_min = if self.rtt_min < 0 { sample } else { self.rtt_min.min(sample) };
        let lossy = self.loss == Loss::Timeout;
        let sample = sample.min(LONGEST_RTT);
        match self.settings.whose {
            _ if self.settings.linux22.rto => self.linux22_estimate(sample),
            Whose::Rfc6298 => self.rfc_estimate(sample),
            Whose::Linux | Whose::Classic => self.linux_estimate(sample),
        }
        if lossy && self.settings.linux22.go_back_n {
            // what was outstanding at a timeout still is: Linux 2.2 keeps the backoff
            self.rto = (self.rto << self.doubled.min(10)).min(RTO_MAX);
        } else {
            self.doubled = 0;
        }
    }

    /// Linux's estimator: a maximum filter over one window as the variance (tcp_rtt_estimator).
    fn linux_estimate(&mut self, sample: i64) {
        let least = self.settings.rto_min_ns;
        if self.srtt == 0 {
            self.srtt = 8 * sample;
            self.mdev = 2 * sample;
            self.rttvar = self.mdev.max(least);
            self.mdev_max = self.rttvar;
            self.rtt_seq = self.snd_max;
        } else {
            let error = sample - (self.srtt >> 3);
            self.srtt += error;
            let change = error.abs() - (self.mdev >> 2);
            self.mdev += if error < 0 && change > 0 { change >> 3 } else { change };
            self.mdev_max = self.mdev_max.max(self.mdev);
            self.rttvar = self.rttvar.max(self.mdev_max);
            if self.una > self.rtt_seq {
                self.rttvar -= (self.rttvar - self.mdev_max) >> 2;
                self.rtt_seq = self.snd_max;
                self.mdev_max = least;
            }
        }
        self.rto = ((self.srtt >> 3) + self.rttvar).min(RTO_MAX);
    }

    /// RFC 6298, section 2; `mdev` is 4 RTTVAR.
    fn rfc_estimate(&mut self, sample: i64) {
        if self.srtt == 0 {
            self.srtt = 8 * sample;
            self.mdev = 2 * sample;
        } else {
            let error = sample - (self.srtt >> 3);
            self.mdev += error.abs() - (self.mdev >> 2);
            self.srtt += error;
        }
        self.rttvar = self.mdev;
        self.rto = ((self.srtt >> 3) + self.mdev).max(self.settings.rto_min_ns).min(RTO_MAX);
    }

    /// Linux 2.2's: Jacobson's, in whole ticks, without a floor for the variance.
    ///
    /// The window, which adds to it, cannot be seen: this is what the timer waits at the least, one
    /// and a quarter of the base.
    fn linux22_estimate(&mut self, sample: i64) {
        let ticks = (sample + TICK / 2).div_euclid(TICK).max(1);
        let (mut srtt, mut mdev) = (self.srtt.div_euclid(TICK), self.mdev.div_euclid(TICK));
        if srtt == 0 {
            (srtt, mdev) = (8 * ticks, 4 * ticks);
        } else {
            let error = ticks - (srtt >> 3);
            srtt += error;
            mdev += error.abs() - (mdev >> 2);
        }
        self.srtt = srtt.max(1) * TICK;
        self.mdev = mdev * TICK;
        self.rttvar = self.mdev;
        let base = (srtt >> 3) + mdev;
        self.rto = ((base + (base >> 2)) * TICK).max(self.settings.rto_min_ns).min(RTO_MAX);
    }
}
