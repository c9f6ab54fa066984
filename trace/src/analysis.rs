//! Analyse a capture: every flow, every retransmission and what made the sender send it.

use crate::connection::is_near;
use crate::engine::{Engine, Flow, Row, Seen};
use crate::error::{Error, counted};
use crate::event::{CAUSES, Cause, Event, Rule};
use crate::packet::Packet;
use crate::parallel::follow;
use crate::reader::{Counters, Reader};
use crate::sender::{Linux22, Settings, Whose};

const RTO_MIN_NS: i64 = 200_000_000;
const RFC_MINIMUM_NS: i64 = 1_000_000_000;

/// What is known of the senders, and of where the capture was taken.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Linux: smallest variance term of the timer; RFC 6298: smallest timer. `None`: the profile's
    /// own, 200 ms and 1 s.
    pub rto_min_ns: Option<i64>,
    /// Whether senders may send tail loss probes.
    pub probes: bool,
    pub whose: Whose,
    pub linux22: Linux22,
    /// Where the capture was taken; `None`: found from the handshakes.
    pub at: Option<Seen>,
    /// Whether events are listed; they are counted in any case.
    pub events: bool,
    /// At most; with more than 1 one reads and dissects, the others, up to three, follow the flows.
    /// The answer is the same.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Options {
        let (whose, linux22) = (Whose::Linux, Linux22::default());
        Options {
            rto_min_ns: None,
            probes: true,
            whose,
            linux22,
            at: None,
            events: false,
            threads: 1,
        }
    }
}

impl Options {
    pub fn settings(&self) -> Settings {
        let own = if self.whose == Whose::Rfc6298 { RFC_MINIMUM_NS } else { RTO_MIN_NS };
        Settings {
            rto_min_ns: self.rto_min_ns.unwrap_or(own),
            probes: self.probes,
            whose: self.whose,
            linux22: self.linux22,
        }
    }
}

/// One flow of a finished analysis.
#[derive(Clone, Debug)]
pub struct Found {
    pub row: Row,
    /// Payload bytes acknowledged.
    pub acked_bytes: i64,
    /// As the SYN of the receiver says; else the largest payload seen.
    pub mss: u32,
    /// Whether SACK, or timestamps, were agreed on or seen.
    pub sack: bool,
    pub timestamps: bool,
    /// Shift of the receiver's window.
    pub window_scale: Option<u8>,
    pub rtt_min_ns: i64,
    /// Initial sequence number.
    pub isn: u32,
}

impl Found {
    /// Whether the capture has one direction of it only.
    pub fn is_one_way(&self) -> bool {
        is_unanswered(&self.row) && self.row.counts[Cause::Rto as usize] == 0
    }
}

/// Everything the analysis of one capture found.
#[derive(Clone, Debug)]
pub struct Analysis {
    pub name: String,
    pub format: &'static str,
    pub counters: Counters,
    /// What is wrong with the capture; empty if it is whole.
    pub truncated: String,
    pub link_types: Vec<u32>,
    pub skipped: u64,
    pub read_share: f64,
    /// In the order of their first packets.
    pub flows: Vec<Found>,
    /// In the order of the capture; empty if they were not asked for.
    pub events: Vec<Event>,
    pub at: Seen,
    /// First and last time stamp; 0 for a capture without packets.
    pub first_ns: i64,
    pub last_ns: i64,
    /// TCP packets that were captured more than once, and left out.
    pub copies: u64,
}

/// Analyse one capture; `-` is standard input.
///
/// `progress` is told now and then how many bytes of the file have been read, and says whether to
/// go on.
///
/// # Errors
///
/// If the capture cannot be read.
pub fn analyse(
    mut reader: Reader,
    options: &Options,
    mut progress: impl FnMut(u64) -> bool,
) -> Result<Analysis, Error> {
    let new = || Engine::new(options.settings(), options.at, options.events);
    let position = reader.position();
    let goes_on = |packet: &Packet| packet.record & 0xffff > 0 || progress(position.bytes());
    let engine = follow(&mut reader, options.threads, new, goes_on)?;
    let (first_ns, last_ns) = engine.times();
    let at = options.at.unwrap_or_else(|| seen_from(&engine));
    let damage = Some(reader.truncated.clone()).filter(|damage| !damage.is_empty());
    let problems = [damage, untimed(&reader.counters), stepped(engine.steps)];
    let truncated = problems.into_iter().flatten().collect::<Vec<_>>().join("; ");
    let (copies, (flows, events)) = (engine.copies, complete(engine));
    Ok(Analysis {
        name: reader.name().into(),
        format: reader.format(),
        counters: reader.counters,
        truncated,
        skipped: reader.skipped,
        read_share: reader.read_share(),
        link_types: reader.link_types,
        flows,
        events,
        at,
        first_ns,
        last_ns,
        copies,
    })
}

/// Say how many packets have no time of their own: nothing that lasts can be told of those.
fn untimed(counters: &Counters) -> Option<String> {
    let every = counted(counters.records, "packet");
    let count = counters.untimed;
    (count > 0).then(|| format!("{count} of {every} without a time of their own"))
}

/// Say before how many packets the clock of the capture was set.
fn stepped(packets: u64) -> Option<String> {
    let place = counted(packets, "packet");
    (packets > 0).then(|| {
        format!(
            "time goes back by a second, or ahead by a day, at {place}: a clock was set or captures \
             were joined, and what lasts across that is not to be believed"
        )
    })
}

/// Finish the flows; leave out directions that only acknowledge.
fn complete(engine: Engine) -> (Vec<Found>, Vec<Event>) {
    let (owners, carrying) = (engine.owners(), engine.carrying());
    let mut places = vec![None; engine.flows.len()];
    let mut one_way = Vec::new();
    let mut found = Vec::new();
    for (number, flow) in engine.flows.iter().enumerate() {
        if !carrying[number] {
            continue;
        }
        places[number] = Some(found.len() as u32);
        let (connection, way) = owners[number];
        let ends = &engine.connections.all[connection].directions;
        let shaken = ends.iter().all(|one| one.isn.is_some());
        let scaled = ends.iter().all(|one| one.window_scale.is_some());
        let mut row = flow.row.clone();
        let alone = is_one_way(flow);
        if alone {
            forget(&mut row);
        }
        one_way.push(alone);
        let sender = &flow.sender;
        found.push(Found {
            acked_bytes: sender.acked_bytes(),
            mss: if sender.peer_mss > 0 { sender.peer_mss.into() } else { row.largest },
            sack: ends.iter().all(|one| one.sack_permitted) || sender.has_sack(),
            timestamps: ends.iter().all(|one| one.timestamps) || sender.stamped,
            window_scale: if scaled { ends[1 - way].window_scale } else { shaken.then_some(0) },
            rtt_min_ns: if row.rtt_count > 0 { sender.rtt_min } else { -1 },
            isn: sender.isn as u32,
            row,
        });
    }
    let mut events = engine.events;
    events.retain_mut(|event| {
        let Some(place) = places[event.flow as usize] else { return false };
        event.flow = place;
        if one_way[place as usize] && event.cause.repeats_data() {
            (event.cause, event.rule, event.backoff) = (Cause::Unknown, Rule::OneWay, 0);
        }
        true
    });
    (found, events)
}

/// Whether a flow sent more than SYNs, of which nothing acknowledges any.
fn is_unanswered(row: &Row) -> bool {
    row.acks == 0 && row.packets > row.syn
}

fn repeats(counts: &[u64; CAUSES]) -> u64 {
    Cause::ALL.iter().filter(|one| one.repeats_data()).map(|one| counts[*one as usize]).sum()
}

/// Whether the capture has one direction of a flow only.
///
/// Asymmetric routes, mirror ports and captures on one side of an interface leave out what comes
/// back. A sender that is cut off looks alike: its timer sends the head of its window again and again.
/// Unlike one whose acknowledgements are elsewhere, it sends nothing else then.
fn is_one_way(flow: &Flow) -> bool {
    let row = &flow.row;
    let timeouts = row.counts[Cause::Rto as usize];
    let head_only = timeouts > 0 && timeouts == repeats(&row.counts);
    let cut_off = head_only && row.syn == 0 && flow.sender.sent_at == flow.sender.armed;
    is_unanswered(row) && !cut_off
}

/// Take back why data was retransmitted where nothing came back: without acknowledgements nothing says
/// what liberated a packet.
fn forget(row: &mut Row) {
    let again = repeats(&row.counts);
    for cause in Cause::ALL.iter().filter(|one| one.repeats_data()) {
        row.counts[*cause as usize] = 0;
    }
    row.counts[Cause::Unknown as usize] = again;
    row.episodes = 0;
}

/// Where most data was captured, by the handshakes; the sender's side where none tells.
///
/// Flows of one direction only count as seen between the ends: ACKs are the sender's too.
fn seen_from(engine: &Engine) -> Seen {
    let [mut sender, mut receiver, mut between] = [0; 3];
    for (flow, (connection, way)) in engine.flows.iter().zip(engine.owners()) {
        let ends = &engine.connections.all[connection].directions;
        if let (Some(own), Some(far)) = (ends[way].away.told(), ends[1 - way].away.told()) {
            *match (is_near(own, far), is_near(far, own)) {
                (true, _) => &mut sender,
                (_, true) => &mut receiver,
                _ => &mut between,
            } += flow.row.data_packets;
        }
        if is_one_way(flow) {
            between += flow.row.packets;
        }
    }
    if sender >= receiver && sender >= between {
        Seen::Sender
    } else if receiver >= between {
        Seen::Receiver
    } else {
        Seen::Between
    }
}
