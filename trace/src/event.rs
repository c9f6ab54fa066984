//! What the analysis says: why a packet was sent again, how that was told, and whether it was
//! spurious.

/// What made a data sender send a packet again, or out of its turn.
///
/// Up to `SynRto` they are retransmissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Cause {
    /// The retransmission timer expired (RFC 6298, 5.4).
    Rto = 1,
    /// Fast retransmit: a recovery begins (RFC 5681, 3.2).
    Fast,
    /// A recovery with SACK fills a hole (RFC 6675).
    SackRecovery,
    /// A recovery without SACK answers a partial ACK (RFC 6582).
    PartialAck,
    /// Sent again after a timeout, liberated by an ACK.
    PostRto,
    /// Tail loss probe (RFC 8985, 7).
    Tlp,
    Unknown,
    /// A SYN's timer expired (RFC 6298, 5).
    SynRto,
    /// Keep-alive probe (RFC 9293, 3.8.4).
    Keepalive,
    /// Probe of a closed window (RFC 9293, 3.8.6.1).
    WindowProbe,
    /// Captured late; it was sent once.
    Reordering,
}

/// Entries of an array with one number per cause; entry 0 is none's.
pub const CAUSES: usize = 12;

impl Cause {
    pub const ALL: [Cause; CAUSES - 1] = [
        Cause::Rto,
        Cause::Fast,
        Cause::SackRecovery,
        Cause::PartialAck,
        Cause::PostRto,
        Cause::Tlp,
        Cause::Unknown,
        Cause::SynRto,
        Cause::Keepalive,
        Cause::WindowProbe,
        Cause::Reordering,
    ];

    /// Its name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Rto => "rto",
            Cause::Fast => "fast",
            Cause::SackRecovery => "sack_recovery",
            Cause::PartialAck => "partial_ack",
            Cause::PostRto => "post_rto",
            Cause::Tlp => "tlp",
            Cause::Unknown => "unknown",
            Cause::SynRto => "syn_rto",
            Cause::Keepalive => "keepalive",
            Cause::WindowProbe => "window_probe",
            Cause::Reordering => "reordering",
        }
    }

    /// Whether it sends data again; a SYN's is apart.
    pub fn repeats_data(self) -> bool {
        self < Cause::SynRto
    }
}

/// The rule that named an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rule {
    TimerDue = 1,
    Reneged,
    Silence,
    SynUnanswered,
    ProbeDue,
    LiberatedAfterTimeout,
    RecoveryBegins,
    DuplicatesCountedOn,
    HoleOfScoreboard,
    PartialAck,
    LostAgain,
    ReorderingTimer,
    BelowLeftEdge,
    WindowClosed,
    LeftBefore,
    YoungGap,
    AlreadyAcknowledged,
    Unexplained,
    FarAck,
    FarTimer,
    LostAgainAfterTimeout,
    OneWay,
    ClassicRecovery,
    Linux22Timer,
    SecondProbe,
    OthersFollow,
    NewFollows,
}

impl Rule {
    pub const ALL: [Rule; 27] = [
        Rule::TimerDue,
        Rule::Reneged,
        Rule::Silence,
        Rule::SynUnanswered,
        Rule::ProbeDue,
        Rule::LiberatedAfterTimeout,
        Rule::RecoveryBegins,
        Rule::DuplicatesCountedOn,
        Rule::HoleOfScoreboard,
        Rule::PartialAck,
        Rule::LostAgain,
        Rule::ReorderingTimer,
        Rule::BelowLeftEdge,
        Rule::WindowClosed,
        Rule::LeftBefore,
        Rule::YoungGap,
        Rule::AlreadyAcknowledged,
        Rule::Unexplained,
        Rule::FarAck,
        Rule::FarTimer,
        Rule::LostAgainAfterTimeout,
        Rule::OneWay,
        Rule::ClassicRecovery,
        Rule::Linux22Timer,
        Rule::SecondProbe,
        Rule::OthersFollow,
        Rule::NewFollows,
    ];

    /// What it says, and the section or kernel function that it comes from; empty: it is this
    /// analysis' own.
    pub fn told(self) -> (&'static str, &'static str) {
        match self {
            Rule::TimerDue => (
                "the timer was due and no ACK of that moment explains the head of the window",
                "RFC 6298, 5.4; tcp_retransmit_timer",
            ),
            Rule::Reneged => (
                "the head was sent again although the receiver holds it: \
                 the sender gave up its scoreboard",
                "RFC 2018, 8; tcp_check_sack_reneging, tcp_timeout_mark_lost",
            ),
            Rule::Silence => (
                "the head was sent again after silence: \
                 no ACK arrived for long enough to blame the timer",
                "RFC 6298, 5.4",
            ),
            Rule::SynUnanswered => (
                "the SYN was sent again before it was answered",
                "RFC 6298, 5.4; inet_csk_reqsk_queue_prune, tcp_retransmit_timer",
            ),
            Rule::ProbeDue => (
                "the tail was sent again when a tail loss probe was due, nothing missing",
                "RFC 8985, 7.2; tcp_schedule_loss_probe",
            ),
            Rule::LiberatedAfterTimeout => (
                "an ACK after the timer expired liberated data that was outstanding when it did",
                "RFC 5681, 3.1; tcp_xmit_retransmit_queue",
            ),
            Rule::RecoveryBegins => (
                "three duplicate ACKs, or a SACKed segment behind it, began a recovery",
                "RFC 5681, 3.2; RFC 6675, 5; tcp_time_to_recover",
            ),
            Rule::DuplicatesCountedOn => {
                ("duplicate ACKs counted on over a timeout began a recovery", "tcp_add_reno_sack")
            }
            Rule::HoleOfScoreboard => {
                ("a recovery with SACK fills a hole of the scoreboard", "RFC 6675, 5 (C)")
            }
            Rule::PartialAck => (
                "a recovery without SACK answers an ACK that ends inside the window",
                "RFC 6582, 3.2; tcp_try_undo_partial",
            ),
            Rule::LostAgain => (
                "a segment sent again in recovery was lost again: what left later is acknowledged",
                "RFC 8985, 6.2; tcp_rack_detect_loss",
            ),
            Rule::ReorderingTimer => (
                "no ACK of the moment: the reordering timer expired, \
                 as a segment sent later has arrived",
                "RFC 8985, 6.2; tcp_rack_reo_timeout",
            ),
            Rule::BelowLeftEdge => (
                "one byte or none just below the left edge: a keep-alive probe",
                "RFC 9293, 3.8.4; tcp_xmit_probe_skb",
            ),
            Rule::WindowClosed => (
                "the receiver's window was closed: a probe of it",
                "RFC 9293, 3.8.6.1; tcp_write_wakeup",
            ),
            Rule::LeftBefore => {
                ("the identification says that it left before a segment captured before it", "")
            }
            Rule::YoungGap => (
                "the gap it fills is younger than a round trip: it was overtaken on its way here",
                "",
            ),
            Rule::AlreadyAcknowledged => ("data that is already acknowledged", ""),
            Rule::Unexplained => ("nothing the model knows explains it", ""),
            Rule::FarAck => (
                "seen behind the sender: \
                 it fills a gap a round trip after the ACKs that asked for it",
                "",
            ),
            Rule::FarTimer => {
                ("seen behind the sender: it fills a gap after a silence as long as the timer", "")
            }
            Rule::LostAgainAfterTimeout => (
                "a segment sent again after a timeout was lost again: a recovery began",
                "tcp_process_loss (FLAG_LOST_RETRANS)",
            ),
            Rule::OneWay => {
                ("nothing came back in the capture: why it was sent again cannot be told", "")
            }
            Rule::ClassicRecovery => (
                "in the recovery of 1990 ACKs send the head once: the timer sent it again",
                "4.3BSD Reno, tcp_input",
            ),
            Rule::Linux22Timer => (
                "the timer of Linux 2.2 was due, \
                 and no ACK of that moment explains the head of the window",
                "Linux 2.2.10, tcp_retransmit_timer",
            ),
            Rule::SecondProbe => (
                "a second probe was due while one was outstanding: \
                 the timer sent the head in its place",
                "RFC 8985, 7.2; tcp_send_loss_probe",
            ),
            Rule::OthersFollow => (
                "the timer was due, and what followed without SACK was sent again from behind the \
                 head: no recovery does that",
                "RFC 6582, 3.2; tcp_xmit_retransmit_queue",
            ),
            Rule::NewFollows => (
                "three duplicate ACKs or an ACK inside the window, not the timer: new data followed \
                 while more of the window was missing",
                "RFC 6582, 3.2; tcp_xmit_retransmit_queue",
            ),
        }
    }
}

/// By which evidence a retransmission was spurious: what it repeated had arrived, or was about to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Evidence {
    /// The receiver says that it got the data twice (RFC 2883).
    Dsack = 1,
    /// The ACK echoes a time stamp older than the retransmission (RFC 3522).
    Timestamp,
    /// The ACK came sooner after it than any round trip takes.
    EarlyAck,
    /// Without SACK: the ACK jumps farther than a segment that arrives by itself can move it.
    AckJump,
}

impl Evidence {
    pub const ALL: [Evidence; 4] =
        [Evidence::Dsack, Evidence::Timestamp, Evidence::EarlyAck, Evidence::AckJump];

    pub fn name(self) -> &'static str {
        match self {
            Evidence::Dsack => "dsack",
            Evidence::Timestamp => "timestamp",
            Evidence::EarlyAck => "early_ack",
            Evidence::AckJump => "ack_jump",
        }
    }
}

/// What made a packet leave, and the rule that told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub cause: Cause,
    pub rule: Rule,
}

impl Verdict {
    pub fn new(cause: Cause, rule: Rule) -> Verdict {
        Verdict { cause, rule }
    }
}

/// A packet that a data sender sent again, or out of its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it was captured, ns since 1970.
    pub time_ns: i64,
    /// Its flow's place in the analysis.
    pub flow: u32,
    /// Number of its record in the capture, from 0.
    pub record: u64,
    /// Relative sequence number: the SYN is byte 0, data begins at byte 1.
    pub start: i64,
    /// Bytes of payload.
    pub length: u32,
    pub cause: Cause,
    pub rule: Rule,
    /// Of a timeout: expiries before it without an ACK of new data between.
    pub backoff: u8,
    pub spurious: Option<Evidence>,
}
