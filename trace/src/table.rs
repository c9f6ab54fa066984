//! What an analysis found, for people and for spreadsheets.

use std::io::{self, Write};
use std::iter;

use comfy_table::{CellAlignment, Table, presets::NOTHING};

use crate::analysis::Analysis;
use crate::engine::Seen;
use crate::error::counted;
use crate::event::Cause;
use crate::json::{Capture, Flow, Listed, python_float};

/// Flows that a table shows at most: those with the most retransmissions.
const SHOWN: usize = 40;

/// What made the sender send a packet, in words.
fn meaning(cause: Cause) -> &'static str {
    match cause {
        Cause::Rto => "retransmission timeout",
        Cause::Fast => "fast retransmit",
        Cause::SackRecovery => "recovery with SACK",
        Cause::PartialAck => "partial ACK, without SACK",
        Cause::PostRto => "slow start after a timeout",
        Cause::Tlp => "tail loss probe",
        Cause::Unknown => "unknown",
        Cause::SynRto => "timeout of a SYN",
        Cause::Keepalive => "keep-alive probe",
        Cause::WindowProbe => "zero-window probe",
        Cause::Reordering => "captured late, sent once",
    }
}

/// Write each capture: a line on itself, its events by cause, its flows or its events.
///
/// # Errors
///
/// If `out` cannot be written.
pub fn text(out: &mut impl Write, captures: &[Analysis], events: bool) -> io::Result<()> {
    for (place, found) in captures.iter().enumerate() {
        if place > 0 {
            writeln!(out)?;
        }
        let capture = Capture::of(found, events);
        let taken = match found.at {
            Seen::Sender => "at the sender",
            Seen::Receiver => "at the receiver",
            Seen::Between => "between the ends",
        };
        writeln!(
            out,
            "{}: {}, {} in {:.3} s, {}; taken {taken}",
            capture.file,
            capture.format,
            counted(capture.packets, "packet"),
            capture.duration_s,
            counted(capture.flows.len() as u64, "flow"),
        )?;
        causes(out, &capture)?;
        match &capture.event_list {
            Some(listed) => events_of(out, listed)?,
            None => flows(out, &capture)?,
        }
    }
    Ok(())
}

/// Write a line per flow, or per event: commas, line feeds, a missing value is an empty field.
///
/// # Errors
///
/// If `out` cannot be written.
pub fn csv(out: &mut impl Write, captures: &[Analysis], events: bool) -> io::Result<()> {
    let mut lines = csv::Writer::from_writer(out);
    let columns = if events { Listed::default().columns() } else { Flow::default().columns() };
    lines.write_record(iter::once("capture").chain(columns.iter().map(|one| one.0)))?;
    for found in captures {
        let capture = Capture::of(found, events);
        let listed = capture.event_list.iter().flatten().map(Listed::columns);
        let flows = capture.flows.iter().filter(|_| !events).map(Flow::columns);
        for columns in listed.chain(flows) {
            let values = columns.iter().map(|one| &one.1);
            lines.write_record(iter::once(&capture.file).chain(values))?;
        }
    }
    lines.flush()
}

fn or_empty(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn truth(value: bool) -> String {
    if value { "True".into() } else { "False".into() }
}

impl Flow {
    /// The columns of a line, as `tcpf-lab analyze --format csv` has them.
    fn columns(&self) -> Vec<(&'static str, String)> {
        let count = |cause: Cause| self.events.0[cause as usize].to_string();
        let spurious = |cause: &Cause| self.spurious.0[*cause as usize];
        let again = Cause::ALL.iter().filter(|one| **one <= Cause::SynRto);
        vec![
            ("flow", self.flow.to_string()),
            ("src", self.src.clone()),
            ("sport", self.sport.to_string()),
            ("dst", self.dst.clone()),
            ("dport", self.dport.to_string()),
            ("start_s", python_float(self.start_s)),
            ("duration_s", python_float(self.duration_s)),
            ("packets", self.packets.to_string()),
            ("wire_bytes", self.wire_bytes.to_string()),
            ("data_packets", self.data_packets.to_string()),
            ("payload_bytes", self.payload_bytes.to_string()),
            ("acks", self.acks.to_string()),
            ("one_way", truth(self.one_way)),
            ("acked_bytes", or_empty(self.acked_bytes)),
            ("retransmissions", self.retransmissions.to_string()),
            ("timeouts", or_empty(self.timeouts)),
            ("syn_timeouts", self.syn_timeouts.to_string()),
            ("timeout_episodes", or_empty(self.timeout_episodes)),
            ("fast_packets", count(Cause::Fast)),
            ("sack_recovery_packets", count(Cause::SackRecovery)),
            ("partial_ack_packets", count(Cause::PartialAck)),
            ("post_rto_packets", count(Cause::PostRto)),
            ("tlp_packets", count(Cause::Tlp)),
            ("unknown_packets", count(Cause::Unknown)),
            ("keepalive_packets", count(Cause::Keepalive)),
            ("window_probe_packets", count(Cause::WindowProbe)),
            ("reordering_packets", count(Cause::Reordering)),
            ("spurious_packets", again.map(spurious).sum::<u64>().to_string()),
            ("spurious_timeouts", spurious(&Cause::Rto).to_string()),
            ("rtt_min_s", or_empty(self.rtt_min_s.map(python_float))),
            ("rtt_mean_s", or_empty(self.rtt_mean_s.map(python_float))),
            ("rtt_samples", self.rtt_samples.to_string()),
            ("mss", or_empty(self.mss)),
            ("sack", truth(self.sack)),
            ("timestamps", truth(self.timestamps)),
            ("window_scale", or_empty(self.window_scale)),
            ("dscp", or_empty(self.dscp)),
            ("syn", self.syn.to_string()),
            ("fin", self.fin.to_string()),
            ("rst", self.rst.to_string()),
        ]
    }
}

impl Listed {
    fn columns(&self) -> Vec<(&'static str, String)> {
        vec![
            ("time_s", python_float(self.time_s)),
            ("time_ns", self.time_ns.to_string()),
            ("record", self.record.to_string()),
            ("flow", self.flow.to_string()),
            ("src", self.src.clone()),
            ("sport", self.sport.to_string()),
            ("dst", self.dst.clone()),
            ("dport", self.dport.to_string()),
            ("seq", self.seq.to_string()),
            ("payload_bytes", self.payload_bytes.to_string()),
            ("kind", self.kind.into()),
            ("backoff", self.backoff.to_string()),
            ("spurious", or_empty(self.spurious)),
            ("rule", self.rule.to_string()),
            ("explanation", self.explanation.into()),
        ]
    }
}

/// Write how many packets each cause sent, and how many of them were spurious.
fn causes(out: &mut impl Write, capture: &Capture) -> io::Result<()> {
    let totals = &capture.totals;
    let every = totals.events.0.iter().sum::<u64>();
    if every == 0 {
        return Ok(());
    }
    let mut rows = Vec::new();
    for cause in Cause::ALL {
        let count = totals.events.0[cause as usize];
        if count > 0 {
            let spurious = totals.spurious.0[cause as usize];
            rows.push(vec![
                cause.name().into(),
                meaning(cause).into(),
                count.to_string(),
                format!("{:.1}", 100.0 * count as f64 / every as f64),
                or_empty((spurious > 0).then_some(spurious)),
            ]);
        }
    }
    writeln!(out)?;
    aligned(out, &["cause", "", "packets", "%", "spurious"], &rows)
}

/// Write the flows with the most retransmissions.
fn flows(out: &mut impl Write, capture: &Capture) -> io::Result<()> {
    let mut order: Vec<_> = capture.flows.iter().collect();
    order.sort_by_key(|flow| std::cmp::Reverse(flow.retransmissions));
    order.truncate(SHOWN);
    if order.is_empty() {
        return Ok(());
    }
    let head = [
        "flow",
        "sender",
        "receiver",
        "start s",
        "time s",
        "data",
        "acked bytes",
        "rexmit",
        "timeouts",
        "RTT ms",
        "min",
        "options",
    ];
    let mut rows = Vec::new();
    let ms = |seconds: Option<f64>| or_empty(seconds.map(|one| format!("{:.1}", 1e3 * one)));
    for flow in &order {
        let mut options = Vec::new();
        options.extend(flow.sack.then(|| "SACK".into()));
        options.extend(flow.timestamps.then(|| "TS".into()));
        options.extend(flow.window_scale.map(|shift| format!("WS{shift}")));
        options.extend(flow.one_way.then(|| "one way".into()));
        rows.push(vec![
            flow.flow.to_string(),
            end(&flow.src, flow.sport),
            end(&flow.dst, flow.dport),
            format!("{:.3}", flow.start_s),
            format!("{:.3}", flow.duration_s),
            flow.data_packets.to_string(),
            or_empty(flow.acked_bytes),
            flow.retransmissions.to_string(),
            or_empty(flow.timeouts),
            ms(flow.rtt_mean_s),
            ms(flow.rtt_min_s),
            options.join(" "),
        ]);
    }
    writeln!(out)?;
    aligned(out, &head, &rows)?;
    if order.len() < capture.flows.len() {
        let every = capture.flows.len();
        writeln!(out, "{} of {every} flows, by retransmissions; --csv has all", order.len())?;
    }
    Ok(())
}

fn events_of(out: &mut impl Write, listed: &[Listed]) -> io::Result<()> {
    let head = ["time s", "record", "flow", "ends", "seq", "bytes", "cause", "", "why"];
    let mut rows = Vec::new();
    for event in listed {
        let ends = [end(&event.src, event.sport), end(&event.dst, event.dport)];
        let backoff = (event.backoff > 0).then(|| format!("back-off {}", event.backoff));
        let spurious = event.spurious.map(|one| format!("spurious: {one}"));
        rows.push(vec![
            format!("{:.6}", event.time_s),
            event.record.to_string(),
            event.flow.to_string(),
            ends.join(" > "),
            event.seq.to_string(),
            event.payload_bytes.to_string(),
            event.kind.into(),
            backoff.into_iter().chain(spurious).collect::<Vec<_>>().join(", "),
            event.explanation.into(),
        ]);
    }
    writeln!(out)?;
    aligned(out, &head, &rows)
}

fn end(address: &str, port: u16) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

/// Write rows under their heads in columns: numbers to the right, text to the left.
fn aligned(out: &mut impl Write, head: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(head).add_rows(rows);
    for (place, column) in table.column_iter_mut().enumerate() {
        let number = |row: &Vec<String>| row[place].is_empty() || row[place].parse::<f64>().is_ok();
        if rows.iter().all(number) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
