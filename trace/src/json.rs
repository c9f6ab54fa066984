//! What an analysis found, as JSON: base units, missing values null.

use std::io;
use std::net::Ipv6Addr;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::ser::{Formatter, PrettyFormatter};

use crate::analysis::{Analysis, Found};
use crate::event::{CAUSES, Cause, Event};

/// Write captures with their flows, and with their events if `events`.
///
/// # Errors
///
/// If `out` cannot be written.
pub fn write(out: impl io::Write, captures: &[Analysis], events: bool) -> io::Result<()> {
    let captures: Vec<_> = captures.iter().map(|found| Capture::of(found, events)).collect();
    let document = Document { captures, runs: [], written: [] };
    let mut serializer = serde_json::Serializer::with_formatter(out, Layout::new());
    Ok(document.serialize(&mut serializer)?)
}

#[derive(Serialize)]
struct Document {
    captures: Vec<Capture>,
    runs: [(); 0],
    written: [(); 0],
}

#[derive(Serialize)]
pub(crate) struct Capture {
    pub file: String,
    pub format: &'static str,
    pub packets: u64,
    pub not_ip: u64,
    pub not_tcp: u64,
    pub fragments: u64,
    pub short: u64,
    pub duplicates: u64,
    pub truncated: String,
    pub skipped_bytes: u64,
    pub read_share: f64,
    pub at: &'static str,
    pub flow_count: usize,
    pub one_way_count: usize,
    pub handshake_count: usize,
    pub start_ns: i64,
    pub duration_s: f64,
    pub flows: Vec<Flow>,
    pub totals: Totals,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_list: Option<Vec<Listed>>,
}

#[derive(Serialize, Default)]
pub(crate) struct Flow {
    pub flow: usize,
    pub src: String,
    pub sport: u16,
    pub dst: String,
    pub dport: u16,
    pub start_s: f64,
    pub duration_s: f64,
    pub packets: u64,
    pub wire_bytes: u64,
    pub data_packets: u64,
    pub payload_bytes: u64,
    pub acks: u64,
    pub one_way: bool,
    pub acked_bytes: Option<i64>,
    pub retransmissions: u64,
    pub timeouts: Option<u64>,
    pub syn_timeouts: u64,
    pub timeout_episodes: Option<u64>,
    pub events: Counts,
    pub spurious: Known,
    pub rtt_min_s: Option<f64>,
    pub rtt_mean_s: Option<f64>,
    pub rtt_samples: u64,
    pub mss: Option<u32>,
    pub sack: bool,
    pub timestamps: bool,
    pub window_scale: Option<u8>,
    pub dscp: Option<u8>,
    pub syn: u64,
    pub fin: u64,
    pub rst: u64,
}

#[derive(Serialize)]
pub(crate) struct Totals {
    pub flows: usize,
    pub data_packets: u64,
    pub payload_bytes: u64,
    pub acked_bytes: Option<i64>,
    pub retransmissions: u64,
    pub timeouts: Option<u64>,
    pub syn_timeouts: u64,
    pub timeout_episodes: Option<u64>,
    pub events: Counts,
    pub spurious: Known,
    pub unknown_share: f64,
}

#[derive(Serialize, Default)]
pub(crate) struct Listed {
    pub time_s: f64,
    pub time_ns: i64,
    pub record: u64,
    pub flow: u32,
    pub src: String,
    pub sport: u16,
    pub dst: String,
    pub dport: u16,
    pub seq: i64,
    pub payload_bytes: u32,
    pub kind: &'static str,
    pub backoff: u8,
    pub spurious: Option<&'static str>,
    pub rule: u8,
    pub explanation: &'static str,
}

/// A number per cause.
#[derive(Default)]
pub(crate) struct Counts(pub [u64; CAUSES]);

/// The same of those that occurred.
#[derive(Default)]
pub(crate) struct Known(pub [u64; CAUSES]);

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Cause::ALL.iter().map(|one| (one.name(), self.0[*one as usize])))
    }
}

impl Serialize for Known {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let known = Cause::ALL.iter().filter(|one| self.0[**one as usize] > 0);
        let mut map = serializer.serialize_map(None)?;
        for one in known {
            map.serialize_entry(one.name(), &self.0[*one as usize])?;
        }
        map.end()
    }
}

impl Capture {
    pub fn of(found: &Analysis, events: bool) -> Capture {
        let flows: Vec<_> = (0..found.flows.len()).map(|place| Flow::of(found, place)).collect();
        let handshakes = found.flows.iter().filter(|one| one.window_scale.is_some());
        Capture {
            file: found.name.clone(),
            format: found.format,
            packets: found.counters.records,
            not_ip: found.counters.not_ip,
            not_tcp: found.counters.not_tcp,
            fragments: found.counters.fragments,
            short: found.counters.short,
            duplicates: found.copies,
            truncated: found.truncated.clone(),
            skipped_bytes: found.skipped,
            read_share: found.read_share,
            at: found.at.name(),
            flow_count: flows.len(),
            one_way_count: flows.iter().filter(|one| one.one_way).count(),
            handshake_count: handshakes.count(),
            start_ns: found.first_ns,
            duration_s: seconds(found.last_ns - found.first_ns),
            totals: Totals::of(&flows),
            flows,
            event_list: events
                .then(|| found.events.iter().map(|event| Listed::of(found, event)).collect()),
        }
    }
}

impl Flow {
    fn of(analysis: &Analysis, place: usize) -> Flow {
        let found = &analysis.flows[place];
        let Found { row, .. } = found;
        let one_way = found.is_one_way();
        let samples = (row.rtt_count > 0).then_some(row.rtt_count as f64);
        let count = |cause: Cause| row.counts[cause as usize];
        let again = Cause::ALL.iter().filter(|one| one.repeats_data());
        Flow {
            flow: place,
            src: address(row.src),
            sport: row.sport,
            dst: address(row.dst),
            dport: row.dport,
            start_s: seconds(row.first_ns - analysis.first_ns),
            duration_s: seconds(row.last_ns - row.first_ns),
            packets: row.packets,
            wire_bytes: row.wire_bytes,
            data_packets: row.data_packets,
            payload_bytes: row.payload_bytes,
            acks: row.acks,
            one_way,
            acked_bytes: (!one_way).then_some(found.acked_bytes),
            retransmissions: again.map(|one| count(*one)).sum(),
            timeouts: (!one_way).then_some(count(Cause::Rto)),
            syn_timeouts: count(Cause::SynRto),
            timeout_episodes: (!one_way).then_some(row.episodes),
            events: Counts(row.counts),
            spurious: Known(row.spurious),
            rtt_min_s: samples.map(|_| seconds(found.rtt_min_ns)),
            rtt_mean_s: samples.map(|samples| seconds(row.rtt_sum_ns) / samples),
            rtt_samples: row.rtt_count,
            mss: (found.mss > 0).then_some(found.mss),
            sack: found.sack,
            timestamps: found.timestamps,
            window_scale: found.window_scale,
            dscp: row.dscp,
            syn: row.syn,
            fin: row.fin,
            rst: row.rst,
        }
    }
}

impl Totals {
    fn of(flows: &[Flow]) -> Totals {
        let (mut events, mut spurious) = ([0; CAUSES], [0; CAUSES]);
        for flow in flows {
            for place in 0..CAUSES {
                events[place] += flow.events.0[place];
                spurious[place] += flow.spurious.0[place];
            }
        }
        let retransmissions = flows.iter().map(|one| one.retransmissions).sum();
        let unknown = events[Cause::Unknown as usize] as f64;
        Totals {
            flows: flows.len(),
            data_packets: flows.iter().map(|one| one.data_packets).sum(),
            payload_bytes: flows.iter().map(|one| one.payload_bytes).sum(),
            acked_bytes: sum(flows.iter().map(|one| one.acked_bytes)),
            retransmissions,
            timeouts: sum(flows.iter().map(|one| one.timeouts)),
            syn_timeouts: flows.iter().map(|one| one.syn_timeouts).sum(),
            timeout_episodes: sum(flows.iter().map(|one| one.timeout_episodes)),
            events: Counts(events),
            spurious: Known(spurious),
            unknown_share: if retransmissions > 0 { unknown / retransmissions as f64 } else { 0.0 },
        }
    }
}

/// Add up what is known; `None` if that is nothing of anything.
fn sum<T: Default + std::ops::Add<Output = T>>(
    numbers: impl Iterator<Item = Option<T>>,
) -> Option<T> {
    let (mut any, mut unknown, mut total) = (false, false, T::default());
    for number in numbers {
        match number {
            Some(number) => (any, total) = (true, total + number),
            None => unknown = true,
        }
    }
    (any || !unknown).then_some(total)
}

impl Listed {
    fn of(analysis: &Analysis, event: &Event) -> Listed {
        let row = &analysis.flows[event.flow as usize].row;
        Listed {
            time_s: seconds(event.time_ns - analysis.first_ns),
            time_ns: event.time_ns,
            record: event.record,
            flow: event.flow,
            src: address(row.src),
            sport: row.sport,
            dst: address(row.dst),
            dport: row.dport,
            seq: event.start,
            payload_bytes: event.length,
            kind: event.cause.name(),
            backoff: event.backoff,
            spurious: event.spurious.map(|one| one.name()),
            rule: event.rule as u8,
            explanation: event.rule.told().0,
        }
    }
}

fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

/// Write an address the usual way.
pub fn address(bits: u128) -> String {
    let address = Ipv6Addr::from(bits);
    address.to_ipv4_mapped().map_or_else(|| address.to_string(), |four| four.to_string())
}

/// Layout and numbers as Python's `json` writes them with an indent of 1.
struct Layout(PrettyFormatter<'static>);

impl Layout {
    fn new() -> Layout {
        Layout(PrettyFormatter::with_indent(b" "))
    }
}

/// A number as Python writes it: the shortest digits, exponents of two digits at least.
pub(crate) fn python_float(value: f64) -> String {
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        return format!("{value:?}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

impl Formatter for Layout {
    fn write_f64<W: ?Sized + io::Write>(&mut self, out: &mut W, value: f64) -> io::Result<()> {
        out.write_all(python_float(value).as_bytes())
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        for letter in fragment.encode_utf16() {
            match u8::try_from(letter) {
                Ok(byte) if byte.is_ascii() && byte != 0x7f => out.write_all(&[byte])?,
                _ => write!(out, "\\u{letter:04x}")?,
            }
        }
        Ok(())
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_array(out)
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array(out)
    }

    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_array_value(out, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array_value(out)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object(out)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object(out)
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_object_key(out, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object_value(out)
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object_value(out)
    }
}
