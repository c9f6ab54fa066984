//! Flows packet by packet: what each was, and what the model of its sender knows behind it.

use crate::engine::{Engine, Seen};
use crate::event::Cause;
use crate::packet::{FIN, Packet, SYN};
use crate::sender::{Sender, Settings};

/// What a capture at the data senders says of each of its packets.
#[derive(Clone, Debug, Default)]
pub struct Explained {
    /// Why a data packet or SYN was retransmitted.
    pub causes: Vec<Option<Cause>>,
    /// Of a timeout: how many expiries went before it without an ACK of new data between.
    pub backoffs: Vec<u8>,
    /// Of a packet that comes back to a data sender: payload bytes acknowledged so far.
    pub acked: Vec<i64>,
}

/// Explain every retransmission of every flow of packets that were captured at the data senders.
pub fn explain(packets: impl Iterator<Item = Packet>, settings: Settings) -> Explained {
    let mut engine = Engine::new(settings, Some(Seen::Sender), true);
    engine.joined = true;
    let mut steps = Vec::new();
    let mut found = Explained::default();
    for packet in packets {
        let step = engine.feed(&packet);
        let acked = step.back.map_or(0, |back| engine.flows[back as usize].sender.acked_bytes());
        found.acked.push(acked);
        steps.push(step);
    }
    let mut events = engine.events.iter();
    for step in &steps {
        let event = step.verdict.and_then(|_| events.next());
        found.causes.push(event.map(|event| event.cause));
        found.backoffs.push(event.map_or(0, |event| event.backoff));
    }
    let carrying = engine.carrying();
    let counts = |flow: Option<u32>| flow.is_some_and(|flow| carrying[flow as usize]);
    for (place, step) in steps.iter().enumerate() {
        if !counts(step.own) || found.causes[place] > Some(Cause::SynRto) {
            (found.causes[place], found.backoffs[place]) = (None, 0);
        }
        if !counts(step.back) {
            found.acked[place] = 0;
        }
    }
    found
}

/// What is known of a sender behind a packet of its connection.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    pub cause: Option<Cause>,
    pub backoff: u8,
    /// First byte and the first behind, by relative sequence numbers; -1 for what comes back.
    pub start: i64,
    pub end: i64,
    pub una: i64,
    pub in_flight: i64,
    /// The receiver's window, not scaled; -1 before it said so.
    pub window: i64,
    /// RTT sample that the packet gave, -1 without one.
    pub rtt_ns: i64,
    pub srtt_ns: i64,
    pub rto_ns: i64,
    /// When the retransmission timer expires, -1 if it does not run.
    pub expires_ns: i64,
}

/// Follow one sender through the packets of its connection, as it sees them.
///
/// `towards`: whether each runs from it to the receiver.
pub fn follow(packets: impl Iterator<Item = (Packet, bool)>, settings: Settings) -> Vec<Known> {
    let mut engine = Engine::new(settings, Some(Seen::Sender), true);
    engine.joined = true;
    let mut found = Vec::new();
    let mut places = Vec::new();
    for (p, towards) in packets {
        let step = engine.feed(&p);
        if step.verdict.is_some() {
            places.push((found.len(), towards));
        }
        let number = if towards { step.own } else { step.back };
        found.push(number.map_or(Known::UNKNOWN, |number| {
            Known::of(&engine.flows[number as usize].sender, &p, towards)
        }));
    }
    for (event, (place, towards)) in engine.events.iter().zip(places) {
        if towards {
            (found[place].cause, found[place].backoff) = (Some(event.cause), event.backoff);
        }
    }
    found
}

impl Known {
    /// Of a packet of another connection.
    const UNKNOWN: Known = Known {
        cause: None,
        backoff: 0,
        start: -1,
        end: -1,
        una: 0,
        in_flight: 0,
        window: -1,
        rtt_ns: -1,
        srtt_ns: 0,
        rto_ns: 0,
        expires_ns: -1,
    };

    fn of(sender: &Sender, p: &Packet, towards: bool) -> Known {
        let start = if towards { sender.relative(p.seq) } else { -1 };
        let flags = i64::from(p.flags & FIN > 0) + i64::from(p.flags & SYN > 0);
        Known {
            start,
            end: if towards { start + i64::from(p.payload) + flags } else { -1 },
            una: sender.una,
            in_flight: sender.in_flight(),
            window: sender.window.map_or(-1, i64::from),
            rtt_ns: sender.sample.filter(|_| !towards).unwrap_or(-1),
            srtt_ns: sender.srtt >> 3,
            rto_ns: sender.rto,
            expires_ns: if sender.armed >= 0 { sender.armed + sender.limit } else { -1 },
            ..Known::UNKNOWN
        }
    }
}

/// Time from the capture to the sender of a connection and back, 0 if unknown.
///
/// `towards`: whether the first packet is the sender's.
pub fn distance(
    packets: impl Iterator<Item = Packet>,
    settings: Settings,
    at: Option<Seen>,
    towards: bool,
) -> i64 {
    let mut engine = Engine::new(settings, at, false);
    for packet in packets {
        engine.feed(&packet);
    }
    let first = engine.connections.all.first();
    let flow = first.and_then(|one| one.directions[usize::from(!towards)].flow);
    flow.map_or(0, |number| engine.flows[number as usize].sender.away)
}
