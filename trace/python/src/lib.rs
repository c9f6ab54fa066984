//! `tcpf_lab._trace`: the analysis of captures for Python; `tcpf_lab.trace` is what wraps it.
//!
//! Captures are read and followed without the GIL, and rows become numpy arrays without a copy.

mod compare;
mod rows;

use std::path::PathBuf;

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use tcpf_trace::analysis::{Options, analyse as analyse_capture};
use tcpf_trace::connection::Connections;
use tcpf_trace::engine::Seen;
use tcpf_trace::error::Error;
use tcpf_trace::event::{Cause, Evidence, Rule};
use tcpf_trace::packet::Packet;
use tcpf_trace::reader::Reader;
use tcpf_trace::sender::{Linux22, Settings, Whose};
use tcpf_trace::series;

use crate::rows::{DetailRow, EventRow, FlowRow, PacketRow};

/// What is known of the senders, and of where the capture was taken.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Known {
    rto_min_ns: i64,
    probes: bool,
    profile: String,
    linux22: Vec<String>,
    at: Option<String>,
}

impl Known {
    fn options(&self, events: bool) -> PyResult<Options> {
        let named = |name: &str| self.linux22.iter().any(|one| one == name);
        let mut linux22 = Linux22 {
            rto: named("rto"),
            rto_age: named("rto_age"),
            go_back_n: named("go_back_n"),
            fast_retransmit: named("fast_retransmit"),
        };
        let whose = match self.profile.as_str() {
            "linux" => Whose::Linux,
            "linux-2.2" => {
                linux22 = Linux22::ALL;
                Whose::Linux
            }
            "classic" => Whose::Classic,
            "rfc6298" => Whose::Rfc6298,
            other => return Err(PyValueError::new_err(format!("no profile '{other}'"))),
        };
        let at = match self.at.as_deref() {
            None => None,
            Some("sender") => Some(Seen::Sender),
            Some("receiver") => Some(Seen::Receiver),
            Some("between") => Some(Seen::Between),
            Some(other) => return Err(PyValueError::new_err(format!("no place '{other}'"))),
        };
        let rto_min_ns = (self.rto_min_ns > 0).then_some(self.rto_min_ns);
        Ok(Options { rto_min_ns, probes: self.probes, whose, linux22, at, events, threads: 1 })
    }

    fn settings(&self) -> PyResult<(Settings, Option<Seen>)> {
        self.options(false).map(|options| (options.settings(), options.at))
    }
}

/// Raise what is wrong with a capture as the package's own error.
fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let made = py.import("tcpf_lab.base.errors").and_then(|errors| {
        let named = PyDict::new(py);
        named.set_item("where", &error.place)?;
        named.set_item("hint", &error.hint)?;
        errors.getattr("TraceError")?.call((&error.message,), Some(&named))
    });
    made.map_or_else(|error| error, PyErr::from_value)
}

/// What the reader says of a capture.
fn described<'py>(
    py: Python<'py>,
    reader: (&tcpf_trace::reader::Counters, &str, &str, &[u32], u64, f64),
) -> PyResult<Bound<'py, PyDict>> {
    let (counters, format, truncated, link_types, skipped, read_share) = reader;
    let found = PyDict::new(py);
    found.set_item("format", format)?;
    found.set_item("records", counters.records)?;
    found.set_item("not_ip", counters.not_ip)?;
    found.set_item("not_tcp", counters.not_tcp)?;
    found.set_item("fragments", counters.fragments)?;
    found.set_item("short", counters.short)?;
    found.set_item("truncated", truncated)?;
    found.set_item("link_types", PyTuple::new(py, link_types)?)?;
    found.set_item("skipped", skipped)?;
    found.set_item("read_share", read_share)?;
    Ok(found)
}

/// Analyse one capture: what the reader says of it, its flows and events, where it was taken, first
/// and last time stamp, copies.
#[pyfunction]
#[pyo3(signature = (path, known, events, progress=None))]
#[allow(clippy::type_complexity)]
fn analyse<'py>(
    py: Python<'py>,
    path: PathBuf,
    known: Known,
    events: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<(
    Bound<'py, PyDict>,
    Bound<'py, PyArray1<FlowRow>>,
    Bound<'py, PyArray1<EventRow>>,
    &'static str,
    i64,
    i64,
    u64,
)> {
    let options = known.options(events)?;
    let mut stopped = None;
    let found = py.detach(|| {
        let tell = |position: u64| {
            Python::attach(|py| {
                let told = progress.as_ref().map(|told| told.call1(py, (position,)));
                let signals = py.check_signals();
                stopped = stopped.take().or(told.and_then(Result::err)).or(signals.err());
                stopped.is_none()
            })
        };
        Reader::open(&path).and_then(|reader| analyse_capture(reader, &options, tell))
    });
    if let Some(stopped) = stopped {
        return Err(stopped);
    }
    let found = found.map_err(|error| raised(py, &error))?;
    let told = (&found.counters, found.format, &*found.truncated, &*found.link_types);
    let info = described(py, (told.0, told.1, told.2, told.3, found.skipped, found.read_share))?;
    let flows: Vec<FlowRow> = found.flows.iter().map(FlowRow::from).collect();
    let events: Vec<EventRow> = found.events.iter().map(EventRow::from).collect();
    Ok((
        info,
        flows.into_pyarray(py),
        events.into_pyarray(py),
        found.at.name(),
        found.first_ns,
        found.last_ns,
        found.copies,
    ))
}

/// Two ends: addresses and ports.
type Ends = ([u8; 16], u16, [u8; 16], u16);

/// Whether a packet runs between two ends, either way.
fn is_between(p: &Packet, (src, sport, dst, dport): &Ends) -> bool {
    let ends = [(p.src, p.sport), (p.dst, p.dport)];
    let wanted = [(u128::from_be_bytes(*src), *sport), (u128::from_be_bytes(*dst), *dport)];
    ends == wanted || ends == [wanted[1], wanted[0]]
}

/// Read the packets of a capture: what the reader says of it, the packets, and what to try.
///
/// `between`: only those between two ends, either way.
#[pyfunction]
#[pyo3(signature = (path, between=None))]
fn read<'py>(
    py: Python<'py>,
    path: PathBuf,
    between: Option<Ends>,
) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyArray1<PacketRow>>, String)> {
    let found = py.detach(|| {
        let mut reader = Reader::open(&path)?;
        let (mut packet, mut rows) = (Packet::default(), Vec::new());
        while reader.next(&mut packet)? {
            if between.as_ref().is_none_or(|ends| is_between(&packet, ends)) {
                rows.push(PacketRow::from(&packet));
            }
        }
        Ok((reader, rows))
    });
    let (reader, rows) = found.map_err(|error| raised(py, &error))?;
    let told = (&reader.counters, reader.format(), &*reader.truncated, &*reader.link_types);
    let info =
        described(py, (told.0, told.1, told.2, told.3, reader.skipped, reader.read_share()))?;
    Ok((info, rows.into_pyarray(py), reader.hint))
}

/// Read records of a capture, in their order, as they are: time, bytes on the wire, link type, bytes.
#[pyfunction]
#[allow(clippy::type_complexity)]
fn frames<'py>(
    py: Python<'py>,
    path: PathBuf,
    records: PyReadonlyArray1<'py, i64>,
) -> PyResult<Vec<(i64, u32, u32, Bound<'py, PyBytes>)>> {
    let mut wanted = records.as_slice()?.iter().peekable();
    let found = py.detach(|| {
        let (mut reader, mut found, mut number) = (Reader::open(&path)?, Vec::new(), 0);
        while wanted.peek().is_some() {
            let Some(frame) = reader.next_frame()? else { break };
            if wanted.next_if(|wanted| **wanted == number).is_some() {
                let (wire, link) = (frame.wire_length, frame.link_number);
                found.push((frame.time_ns, wire, link, frame.bytes.to_vec()));
            }
            number += 1;
        }
        Ok(found)
    });
    let found = found.map_err(|error| raised(py, &error))?;
    let with_bytes = |(time_ns, wire, link, bytes): (i64, u32, u32, Vec<u8>)| {
        (time_ns, wire, link, PyBytes::new(py, &bytes))
    };
    Ok(found.into_iter().map(with_bytes).collect())
}

/// Number the TCP connections of packets: each packet's connection, -1 for other packets; the first
/// packet of each; whether each packet runs against it.
#[pyfunction]
#[allow(clippy::type_complexity)]
fn connections<'py>(
    py: Python<'py>,
    packets: PyReadonlyArray1<'py, PacketRow>,
) -> PyResult<(Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<bool>>)> {
    let packets = packets.as_slice()?;
    let (label, first, backward) = py.detach(|| {
        let mut known = Connections::default();
        let (mut label, mut first, mut backward) = (Vec::new(), Vec::new(), Vec::new());
        for (place, row) in packets.iter().enumerate() {
            let packet = Packet::from(row);
            let (number, way) =
                if packet.is_tcp() { known.find_ends(&packet) } else { (usize::MAX, 0) };
            if number == first.len() {
                first.push(place as i64);
            }
            label.push(number as i64);
            backward.push(way == 1);
        }
        (label, first, backward)
    });
    Ok((label.into_pyarray(py), first.into_pyarray(py), backward.into_pyarray(py)))
}

/// Explain packets that were captured at the data senders: cause, back-off, bytes acknowledged.
#[pyfunction]
#[allow(clippy::type_complexity)]
fn explain<'py>(
    py: Python<'py>,
    packets: PyReadonlyArray1<'py, PacketRow>,
    known: Known,
) -> PyResult<(Bound<'py, PyArray1<u8>>, Bound<'py, PyArray1<u8>>, Bound<'py, PyArray1<i64>>)> {
    let packets = packets.as_slice()?;
    let (settings, _) = known.settings()?;
    let (causes, found) = py.detach(|| {
        let found = series::explain(packets.iter().map(Packet::from), settings);
        let causes: Vec<u8> =
            found.causes.iter().map(|cause| cause.map_or(0, |cause| cause as u8)).collect();
        (causes, found)
    });
    Ok((causes.into_pyarray(py), found.backoffs.into_pyarray(py), found.acked.into_pyarray(py)))
}

/// Follow one sender through the packets of its connection in the order that it sees them: what is
/// known behind each, cause and back-off.
#[pyfunction]
#[allow(clippy::type_complexity)]
fn follow<'py>(
    py: Python<'py>,
    packets: PyReadonlyArray1<'py, PacketRow>,
    towards: PyReadonlyArray1<'py, bool>,
    known: Known,
) -> PyResult<(Bound<'py, PyArray1<DetailRow>>, Bound<'py, PyArray1<u8>>, Bound<'py, PyArray1<u8>>)>
{
    let (packets, towards) = (packets.as_slice()?, towards.as_slice()?);
    let (settings, _) = known.settings()?;
    let (rows, causes, backoffs) = py.detach(|| {
        let pairs = packets.iter().map(Packet::from).zip(towards.iter().copied());
        let found = series::follow(pairs, settings);
        let rows: Vec<_> = found.iter().map(DetailRow::from).collect();
        let causes: Vec<_> =
            found.iter().map(|one| one.cause.map_or(0, |cause| cause as u8)).collect();
        let backoffs: Vec<_> = found.iter().map(|one| one.backoff).collect();
        (rows, causes, backoffs)
    });
    Ok((rows.into_pyarray(py), causes.into_pyarray(py), backoffs.into_pyarray(py)))
}

/// Time from the capture to the sender of a connection and back, ns; 0 if unknown.
#[pyfunction]
fn distance(
    packets: PyReadonlyArray1<'_, PacketRow>,
    towards: bool,
    known: Known,
) -> PyResult<i64> {
    let packets = packets.as_slice()?;
    let (settings, at) = known.settings()?;
    Ok(series::distance(packets.iter().map(Packet::from), settings, at, towards))
}

#[pymodule]
fn _trace(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("SOURCES", env!("SOURCES"))?;
    let (causes, evidence) = (Cause::ALL.map(Cause::name), Evidence::ALL.map(Evidence::name));
    module.add("CAUSES", PyTuple::new(module.py(), causes)?)?;
    module.add("EVIDENCE", PyTuple::new(module.py(), evidence)?)?;
    module.add("RULES", PyTuple::new(module.py(), Rule::ALL.map(Rule::told))?)?;
    module.add_function(wrap_pyfunction!(analyse, module)?)?;
    module.add_function(wrap_pyfunction!(read, module)?)?;
    module.add_function(wrap_pyfunction!(frames, module)?)?;
    module.add_function(wrap_pyfunction!(connections, module)?)?;
    module.add_function(wrap_pyfunction!(explain, module)?)?;
    module.add_function(wrap_pyfunction!(follow, module)?)?;
    module.add_function(wrap_pyfunction!(distance, module)?)?;
    module.add_function(wrap_pyfunction!(compare::cross, module)?)?;
    module.add_function(wrap_pyfunction!(compare::passage, module)?)?;
    module.add_function(wrap_pyfunction!(compare::backlog, module)?)?;
    module.add_function(wrap_pyfunction!(compare::backlogged_rate, module)?)?;
    module.add_class::<compare::Marks>()
}
