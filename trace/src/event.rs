//! What the analysis says: why a packet was retransmitted, by which rule, and whether it was
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
    ThresholdLowered,
}

impl Rule {
    pub const ALL: [Rule; 28] = [
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
        Rule::ThresholdLowered,
    ];

    /// What it says, and the section or kernel function that it comes from; empty: it is this
    /// analysis' own.
    pub fn told(self) -> (&'static str, &'static str) {
        match self {
            Rule::TimerDue => (
                "the timer is due and no ACK at that moment explains the head of the window",
                "RFC 6298, 5.4; tcp_retransmit_timer",
            ),
            Rule::Reneged => (
                "the head is retransmitted although the receiver holds it: \
                 the sender discarded its scoreboard",
                "RFC 2018, 8; tcp_check_sack_reneging, tcp_timeout_mark_lost",
            ),
            Rule::Silence => (
                "the head is retransmitted after silence: \
                 no ACK arrived for an RTO",
                "RFC 6298, 5.4",
            ),
            Rule::SynUnanswered => (
                "the SYN is retransmitted before it is answered",
                "RFC 6298, 5.4; inet_csk_reqsk_queue_prune, tcp_retransmit_timer",
            ),
            Rule::ProbeDue => (
                "the tail is retransmitted when a tail loss probe is due, with no loss indicated",
                "RFC 8985, 7.2; tcp_schedule_loss_probe",
            ),
            Rule::LiberatedAfterTimeout => (
                "an ACK after an RTO expiration clocks out data that was outstanding at the expiration",
                "RFC 5681, 3.1; tcp_xmit_retransmit_queue",
            ),
            Rule::RecoveryBegins => (
                "three duplicate ACKs, or a SACKed segment above it, begin a recovery",
                "RFC 5681, 3.2; RFC 6675, 5; tcp_time_to_recover",
            ),
            Rule::DuplicatesCountedOn => {
                ("duplicate ACKs counted across a timeout begin a recovery", "tcp_add_reno_sack")
            }
            Rule::HoleOfScoreboard => {
                ("a recovery with SACK fills a hole in the scoreboard", "RFC 6675, 5 (C)")
            }
            Rule::PartialAck => (
                "a recovery without SACK answers an ACK that ends inside the window",
                "RFC 6582, 3.2; tcp_try_undo_partial",
            ),
            Rule::LostAgain => (
                "a segment retransmitted in recovery is lost again: a later one is acknowledged",
                "RFC 8985, 6.2; tcp_rack_detect_loss",
            ),
            Rule::ReorderingTimer => (
                "no ACK at that moment: the reordering timer expires, \
                 as a segment sent later has arrived",
                "RFC 8985, 6.2; tcp_rack_reo_timeout",
            ),
            Rule::BelowLeftEdge => (
                "one byte or none just below the left edge: a keep-alive probe",
                "RFC 9293, 3.8.4; tcp_xmit_probe_skb",
            ),
            Rule::WindowClosed => (
                "the receiver's window is closed: a window probe",
                "RFC 9293, 3.8.6.1; tcp_write_wakeup",
            ),
            Rule::LeftBefore => {
                ("by its IP identification it was sent before a segment captured earlier", "")
            }
            Rule::YoungGap => {
                ("the gap it fills is younger than a round trip: reordered before the capture", "")
            }
            Rule::AlreadyAcknowledged => ("data that is already acknowledged", ""),
            Rule::Unexplained => ("no rule of the model explains it", ""),
            Rule::FarAck => (
                "captured away from the sender: \
                 it fills a gap a round trip after the ACKs that indicate the loss",
                "",
            ),
            Rule::FarTimer => {
                ("captured away from the sender: it fills a gap after a silence of an RTO", "")
            }
            Rule::LostAgainAfterTimeout => (
                "a segment retransmitted after a timeout is lost again: a recovery begins",
                "tcp_process_loss (FLAG_LOST_RETRANS)",
            ),
            Rule::OneWay => {
                ("no packets of the other direction in the capture: the cause is unknown", "")
            }
            Rule::ClassicRecovery => (
                "in the recovery of 1990 ACKs send the head once: the timer retransmits it",
                "4.3BSD Reno, tcp_input",
            ),
            Rule::Linux22Timer => (
                "the timer of Linux 2.2 is due, \
                 and no ACK at that moment explains the head of the window",
                "Linux 2.2.10, tcp_retransmit_timer",
            ),
            Rule::SecondProbe => (
                "a second probe is due while one is outstanding: \
                 the timer retransmits the head instead",
                "RFC 8985, 7.2; tcp_send_loss_probe",
            ),
            Rule::OthersFollow => (
                "the timer is due, and without SACK the segments after the head are retransmitted: \
                 no recovery does that",
                "RFC 6582, 3.2; tcp_xmit_retransmit_queue",
            ),
            Rule::NewFollows => (
                "three duplicate ACKs or an ACK inside the window, not the timer: new data follows \
                 while more of the window is missing",
                "RFC 6582, 3.2; tcp_xmit_retransmit_queue",
            ),
            Rule::ThresholdLowered => (
                "fewer than three duplicate ACKs begin a recovery: without SACK, more had come than \
                 segments were outstanding",
                "tcp_check_reno_reordering, tcp_newreno_mark_lost",
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

/// A packet that a data sender retransmitted, or out of its turn.
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
