//! The engine: packets in, flows, events and counters out.
//!
//! Nothing is kept per packet: what grows, grows with connections, outstanding segments and events.

use std::collections::VecDeque;

use crate::connection::{Connection, Connections, is_near};
use crate::event::{CAUSES, Cause, Event, Rule, Verdict};
use crate::packet::{ACK, FIN, Packet, RST, SYN};
use crate::sender::{RTO_MAX, Sender, Settings, Tally};

/// Packets so far apart, against the order of the capture or along it, tell that a clock was set.
const BACK_NS: i64 = 1_000_000_000;
const AHEAD_NS: i64 = 86_400_000_000_000;
/// ACKs on their way to a sender elsewhere; more in one trip are of a capture whose clock stands.
const MOST_WAITING: usize = 1 << 16;

/// Where a capture was taken, seen from most data's sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Seen {
    Sender,
    Receiver,
    Between,
}

impl Seen {
    pub fn name(self) -> &'static str {
        match self {
            Seen::Sender => "sender",
            Seen::Receiver => "receiver",
            Seen::Between => "between",
        }
    }
}

/// What is counted of a flow: a data sender, of a connection that carries data one of at most two.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub src: u128,
    pub dst: u128,
    pub sport: u16,
    pub dport: u16,
    /// First and last packet of the flow itself, not of its ACKs.
    pub first_ns: i64,
    pub last_ns: i64,
    /// Packets from sender to receiver, and their frames' bytes.
    pub packets: u64,
    pub wire_bytes: u64,
    /// Those with payload, and that payload, repeats included.
    pub data_packets: u64,
    pub payload_bytes: u64,
    /// Packets that came back with an ACK.
    pub acks: u64,
    /// Largest payload.
    pub largest: u32,
    /// Code point of the first data packet.
    pub dscp: Option<u8>,
    pub rtt_sum_ns: i64,
    pub rtt_count: u64,
    pub syn: u64,
    pub fin: u64,
    pub rst: u64,
    /// Timeouts of data, back-offs not counted.
    pub episodes: u64,
    /// Events by cause, and those that were spurious.
    pub counts: [u64; CAUSES],
    pub spurious: [u64; CAUSES],
}

/// A flow as it is followed.
#[derive(Clone, Debug)]
pub struct Flow {
    pub row: Row,
    pub sender: Sender,
    /// Record of its first packet.
    record: u64,
    /// ACKs on their way to a sender that is elsewhere.
    ///
    /// It acts on an ACK one trip after that passed the capture, and what it sends then takes the
    /// trip back. By a clock that runs late by one trip, data is sent when it is captured, and an ACK
    /// arrives a round trip from the capture to the sender after it is captured. Queues on the way
    /// make it longer later, which is why such a capture tells less; what was lost before it leaves
    /// no trace.
    waiting: VecDeque<Packet>,
}

/// What a packet was to the flows of its connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Step {
    /// The flow that it belongs to, and what it is if it is an event.
    pub own: Option<u32>,
    pub verdict: Option<Verdict>,
    /// The flow to whose sender it comes back.
    pub back: Option<u32>,
}

/// Follows all flows of one capture.
pub struct Engine {
    settings: Settings,
    at: Option<Seen>,
    listed: bool,
    /// Whether one pair of ends is one connection, whatever SYNs say.
    pub joined: bool,
    pub connections: Connections,
    pub flows: Vec<Flow>,
    /// All events so far, if they are listed.
    pub events: Vec<Event>,
    seen: u64,
    first_ns: i64,
    last_ns: i64,
    /// Packets that had been captured before, and were left out.
    pub copies: u64,
    /// Packets whose time is a second before an earlier one's, or a day behind it.
    pub steps: u64,
}

impl Engine {
    pub fn new(settings: Settings, at: Option<Seen>, listed: bool) -> Engine {
        Engine {
            settings,
            at,
            listed,
            joined: false,
            connections: Connections::default(),
            flows: Vec::new(),
            events: Vec::new(),
            seen: 0,
            first_ns: i64::MAX,
            last_ns: 0,
            copies: 0,
            steps: 0,
        }
    }

    /// First and last time stamp so far; both 0 before the first packet.
    pub fn times(&self) -> (i64, i64) {
        if self.first_ns <= self.last_ns { (self.first_ns, self.last_ns) } else { (0, 0) }
    }

    /// Follow the flows through the next packet of the capture.
    #[inline(always)]
    pub fn feed(&mut self, p: &Packet) -> Step {
        self.note_time(p);
        if p.is_tcp() { self.advance(p) } else { Step::default() }
    }

    /// Note when a packet was captured.
    #[inline(always)]
    pub fn note_time(&mut self, p: &Packet) {
        let ahead = p.time_ns - self.last_ns;
        self.steps += u64::from(self.last_ns > 0 && !(-BACK_NS..=AHEAD_NS).contains(&ahead));
        self.first_ns = self.first_ns.min(p.time_ns);
        self.last_ns = self.last_ns.max(p.time_ns);
    }

    /// Take what is still on its way at the end of the capture.
    pub fn finish(&mut self) {
        for flow in &mut self.flows {
            flow.catch_up(&mut self.events, i64::MAX - RTO_MAX);
        }
    }

    /// Take in what another engine found in other connections of the same capture.
    ///
    /// Flows and events keep the order of the capture. An engine has noted the times of all packets,
    /// or of none.
    pub fn merge(&mut self, mut other: Engine) {
        let shift = self.flows.len() as u32;
        other.renumber(|flow| flow + shift);
        self.flows.extend(other.flows);
        self.connections.all.extend(other.connections.all);
        self.events.extend(other.events);
        let mut order: Vec<u32> = (0..self.flows.len() as u32).collect();
        order.sort_by_key(|&flow| self.flows[flow as usize].record);
        let mut places = vec![0; order.len()];
        for (place, &flow) in order.iter().enumerate() {
            places[flow as usize] = place as u32;
        }
        self.renumber(|flow| places[flow as usize]);
        self.flows.sort_by_key(|flow| flow.record);
        self.events.sort_by_key(|event| event.record);
        self.first_ns = self.first_ns.min(other.first_ns);
        self.last_ns = self.last_ns.max(other.last_ns);
        self.steps = self.steps.max(other.steps);
        self.copies += other.copies;
    }

    /// Give flows other numbers, wherever they are named.
    fn renumber(&mut self, number: impl Fn(u32) -> u32) {
        for direction in self.connections.all.iter_mut().flat_map(|one| &mut one.directions) {
            direction.flow = direction.flow.map(&number);
        }
        for event in &mut self.events {
            event.flow = number(event.flow);
        }
    }

    #[inline(always)]
    pub fn advance(&mut self, p: &Packet) -> Step {
        let (number, way) =
            if self.joined { self.connections.find_ends(p) } else { self.connections.find(p) };
        let connection = &mut self.connections.all[number];
        let back = connection.directions[1 - way].flow;
        if connection.is_copy(p, way) {
            self.copies += 1;
            return Step { own: connection.directions[way].flow, back, verdict: None };
        }
        let begins = p.payload > 0 || p.flags & SYN > 0;
        let own = match connection.directions[way].flow {
            None if begins => {
                let number = self.flows.len() as u32;
                connection.directions[way].flow = Some(number);
                self.flows.push(Flow::new(p, self.settings, connection, way));
                Some(number)
            }
            known => known,
        };
        let mut verdict = None;
        if let Some(number) = own {
            let flow = &mut self.flows[number as usize];
            flow.catch_up(&mut self.events, p.time_ns);
            flow.row.count(p);
            flow.sender.event = self.seen;
            verdict = flow.sender.send(p, &mut flow.row.tally(&mut self.events));
            if let Some(verdict) = verdict {
                let event = flow.note(p, number, verdict);
                self.seen += 1;
                if self.listed {
                    self.events.push(event);
                }
            }
        }
        connection.keep(p, way);
        if connection.is_shaking(p) {
            connection.shake(p, way);
            for way in 0..2 {
                if let Some(number) = connection.directions[way].flow {
                    self.flows[number as usize].settle(connection, way, self.at);
                }
            }
        }
        if let Some(number) = back {
            self.flows[number as usize].come_back(p, &mut self.events);
        }
        Step { own, verdict, back }
    }

    /// Connection and direction of each flow.
    pub fn owners(&self) -> Vec<(usize, usize)> {
        let mut owners = vec![(0, 0); self.flows.len()];
        for (number, connection) in self.connections.all.iter().enumerate() {
            for (way, direction) in connection.directions.iter().enumerate() {
                if let Some(flow) = direction.flow {
                    owners[flow as usize] = (number, way);
                }
            }
        }
        owners
    }

    /// Which flows carry data; of a connection without any, the flow of the one that opened it.
    pub fn carrying(&self) -> Vec<bool> {
        let has_data = |number: u32| self.flows[number as usize].row.data_packets > 0;
        let carries = |(number, (connection, way)): (usize, (usize, usize))| {
            let connection = &self.connections.all[connection];
            let across = connection.directions[1 - way].flow;
            let opens = connection.opener == Some(way) || across.is_none();
            has_data(number as u32) || opens && !across.is_some_and(has_data)
        };
        self.owners().into_iter().enumerate().map(carries).collect()
    }
}

impl Row {
    fn new(p: &Packet) -> Row {
        Row {
            src: p.src,
            dst: p.dst,
            sport: p.sport,
            dport: p.dport,
            first_ns: p.time_ns,
            ..Row::default()
        }
    }

    fn tally<'a>(&'a mut self, events: &'a mut Vec<Event>) -> Tally<'a> {
        Tally {
            counts: &mut self.counts,
            episodes: &mut self.episodes,
            spurious: &mut self.spurious,
            events,
        }
    }

    /// Count a packet of the flow itself.
    #[inline(always)]
    fn count(&mut self, p: &Packet) {
        self.last_ns = p.time_ns;
        self.packets += 1;
        self.wire_bytes += u64::from(p.wire_length);
        if p.payload > 0 {
            if self.data_packets == 0 {
                self.dscp = Some(p.tos >> 2);
            }
            self.data_packets += 1;
            self.payload_bytes += u64::from(p.payload);
            self.largest = self.largest.max(p.payload);
        }
        if p.flags & (FIN | SYN | RST) > 0 {
            self.fin += u64::from(p.flags & FIN > 0);
            self.syn += u64::from(p.flags & SYN > 0);
            self.rst += u64::from(p.flags & RST > 0);
        }
    }
}

impl Flow {
    fn new(p: &Packet, settings: Settings, connection: &Connection, way: usize) -> Flow {
        let mut sender = Sender::new(settings);
        let peer = &connection.directions[1 - way];
        if peer.isn.is_some() {
            sender.peer_mss = peer.mss;
            sender.peer_permit = Some(peer.sack_permitted);
        }
        Flow { row: Row::new(p), sender, record: p.record, waiting: VecDeque::new() }
    }

    /// Count an event, and give it.
    fn note(&mut self, p: &Packet, flow: u32, verdict: Verdict) -> Event {
        let Verdict { cause, mut rule } = verdict;
        let timeout = cause == Cause::Rto;
        self.row.counts[cause as usize] += 1;
        self.row.episodes += u64::from(timeout && self.sender.backoff == 0);
        if self.sender.away > 0 && cause.repeats_data() {
            rule = match cause {
                Cause::Rto => Rule::FarTimer,
                Cause::Tlp | Cause::Unknown => rule,
                _ => Rule::FarAck,
            };
        }
        Event {
            time_ns: p.time_ns,
            flow,
            record: p.record,
            start: self.sender.relative(p.seq),
            length: p.payload,
            cause,
            rule,
            backoff: if timeout { self.sender.backoff } else { 0 },
            spurious: None,
        }
    }

    /// Decide once the handshake is known how far the sender of direction `way` is away.
    fn settle(&mut self, connection: &Connection, way: usize, at: Option<Seen>) {
        let [own, far] = [way, 1 - way].map(|one| connection.directions[one].away.told());
        let (Some(own), Some(far)) = (own, far) else { return };
        let sender = &mut self.sender;
        if at == Some(Seen::Sender) || sender.away > 0 {
            return;
        }
        if at.is_some() || !is_near(own, far) {
            sender.away = own;
            if sender.una == 1 && connection.opener == Some(way) {
                // its only sample was a part of the round trip
                (sender.srtt, sender.rtt_min) = (0, -1);
                sender.measure(own + far);
            }
        }
    }

    /// Take a packet that comes back to the sender, or let it wait until it has reached it.
    ///
    /// The data that a sender which only acknowledges receives need not wait: most of such a capture.
    #[inline(always)]
    fn come_back(&mut self, p: &Packet, events: &mut Vec<Event>) {
        if self.sender.away > 0 {
            self.catch_up(events, p.time_ns);
            if !self.waiting.is_empty() || !self.is_untold(p) {
                if self.waiting.len() == MOST_WAITING {
                    self.take_first(events);
                }
                let time_ns = p.time_ns + self.sender.away;
                self.waiting.push_back(Packet { time_ns, ..*p });
                return;
            }
        }
        self.receive(p, events);
    }

    /// Take the ACKs that have reached a sender elsewhere by `now`.
    #[inline(always)]
    fn catch_up(&mut self, events: &mut Vec<Event>, now: i64) {
        while let Some(p) = self.waiting.front() {
            // earlier than it can be: the clock was set back
            let early = 1..=self.sender.away + BACK_NS;
            if early.contains(&(p.time_ns - now)) && !self.is_untold(p) {
                return;
            }
            self.take_first(events);
        }
    }

    #[inline(always)]
    fn take_first(&mut self, events: &mut Vec<Event>) {
        if let Some(p) = self.waiting.pop_front() {
            self.receive(&p, events);
        }
    }

    /// Whether it does not matter when data reaches a sender: it has sent none itself yet.
    #[inline(always)]
    fn is_untold(&self, p: &Packet) -> bool {
        p.payload > 0 && self.row.data_packets == 0 && self.sender.has_nothing_outstanding()
    }

    #[inline(always)]
    fn receive(&mut self, p: &Packet, events: &mut Vec<Event>) {
        self.row.acks += u64::from(p.flags & ACK > 0);
        self.sender.receive(p, &mut self.row.tally(events));
        if let Some(sample) = self.sender.sample {
            self.row.rtt_sum_ns = self.row.rtt_sum_ns.wrapping_add(sample);
            self.row.rtt_count += 1;
        }
    }
}
