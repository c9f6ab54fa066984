//! Captures before and after a device.

use std::path::PathBuf;

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tcpf_trace::compare::{self, Ends, Mark, Origin, Stay, Unmatched};
use tcpf_trace::packet::Packet;
use tcpf_trace::reader::Reader;

use crate::raised;
use crate::rows::{EndsRow, MarkRow, PacketRow};

/// Numbers the ends of packets and reduces packets to marks.
#[pyclass]
#[derive(Default)]
pub struct Marks(compare::Marks);

/// Rows in the order of time; those of one instant stay as they are.
fn sorted(mut marks: Vec<Mark>) -> Vec<MarkRow> {
    if !marks.is_sorted_by_key(|mark| mark.time_ns) {
        marks.sort_by_key(|mark| mark.time_ns);
    }
    marks.into_iter().map(MarkRow).collect()
}

#[pymethods]
impl Marks {
    #[new]
    fn new() -> Marks {
        Marks::default()
    }

    #[getter]
    fn ends<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<EndsRow>> {
        self.0.ends.iter().map(EndsRow::from).collect::<Vec<_>>().into_pyarray(py)
    }

    fn of<'py>(
        &mut self,
        py: Python<'py>,
        packets: PyReadonlyArray1<'py, PacketRow>,
    ) -> PyResult<Bound<'py, PyArray1<MarkRow>>> {
        let packets = packets.as_slice()?;
        let marks =
            py.detach(|| sorted(packets.iter().map(|row| self.0.mark(&row.into())).collect()));
        Ok(marks.into_pyarray(py))
    }

    /// Read a capture: its marks, and what is wrong with it.
    fn read<'py>(
        &mut self,
        py: Python<'py>,
        path: PathBuf,
    ) -> PyResult<(Bound<'py, PyArray1<MarkRow>>, String)> {
        let found = py.detach(|| {
            let mut reader = Reader::open(&path)?;
            let (mut packet, mut marks) = (Packet::default(), Vec::new());
            while reader.next(&mut packet)? {
                marks.push(self.0.mark(&packet));
            }
            Ok((sorted(marks), reader.truncated))
        });
        let (marks, truncated) = found.map_err(|error| raised(py, &error))?;
        Ok((marks.into_pyarray(py), truncated))
    }
}

/// Match the packets that entered a queue with those that left it, by one clock: for each that
/// entered when it left, -1 if it never did; how many left without having entered, or once more than
/// they had; those of them that are copies.
#[pyfunction]
#[allow(clippy::type_complexity)]
pub fn cross<'py>(
    py: Python<'py>,
    entered: PyReadonlyArray1<'py, MarkRow>,
    left: PyReadonlyArray1<'py, MarkRow>,
    longest_ns: i64,
) -> PyResult<(Bound<'py, PyArray1<i64>>, usize, usize)> {
    let (entered, left) = (MarkRow::marks(entered.as_slice()?), MarkRow::marks(left.as_slice()?));
    let (departure, unmatched, copies) = py.detach(|| {
        let times: Vec<_> = left.iter().map(|mark| mark.time_ns).collect();
        let (taken, origins) = compare::match_packets(entered, left, &times, longest_ns);
        let departure: Vec<_> = taken.iter().map(|row| row.map_or(-1, |row| times[row])).collect();
        let count = |unmatched: fn(&&Origin) -> bool| origins.iter().filter(unmatched).count();
        let unmatched = count(|origin| !matches!(origin, Origin::Entered(_)));
        (departure, unmatched, count(|origin| **origin == Origin::Copy))
    });
    Ok((departure.into_pyarray(py), unmatched, copies))
}

/// Match what two captures saw of the traffic through a device; where nothing crosses, why (`error`),
/// what to try, and the offset that most packets agree on, if another was given.
#[pyfunction]
pub fn passage<'py>(
    py: Python<'py>,
    first: PyReadonlyArray1<'py, MarkRow>,
    second: PyReadonlyArray1<'py, MarkRow>,
    ends: PyReadonlyArray1<'py, EndsRow>,
    longest_ns: i64,
    given_ns: Option<i64>,
) -> PyResult<Bound<'py, PyDict>> {
    let (first, second) = (MarkRow::marks(first.as_slice()?), MarkRow::marks(second.as_slice()?));
    let ends: Vec<_> = ends.as_slice()?.iter().map(Ends::from).collect();
    let found = py.detach(|| compare::passage(first, second, &ends, longest_ns, given_ns));
    let told = PyDict::new(py);
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            let agreed = match error {
                Unmatched::Contradicted { agreed_ns } => Some(agreed_ns),
                _ => None,
            };
            told.set_item("error", error.to_string())?;
            told.set_item("hint", error.hint())?;
            told.set_item("agreed_ns", agreed)?;
            return Ok(told);
        }
    };
    let clock = PyDict::new(py);
    clock.set_item("offset_ns", found.clock.offset_ns)?;
    clock.set_item("drift", found.clock.drift)?;
    clock.set_item("reference_ns", found.clock.reference_ns)?;
    clock.set_item("given", found.clock.given)?;
    clock.set_item("between_ns", found.clock.between_ns)?;
    clock.set_item("coincidences", found.clock.coincidences)?;
    clock.set_item("ambiguous", found.clock.ambiguous)?;
    clock.set_item("drift_seen", found.clock.drift_seen)?;
    let departure = found.departure_ns.iter().map(|time| time.unwrap_or(-1));
    let entered: Vec<_> = found.entered.into_iter().map(MarkRow).collect();
    told.set_item("clock", clock)?;
    told.set_item("entered", entered.into_pyarray(py))?;
    told.set_item("departure_ns", departure.collect::<Vec<_>>().into_pyarray(py))?;
    told.set_item("tos_out", found.tos_out.into_pyarray(py))?;
    told.set_item("overtaken", found.overtaken.into_pyarray(py))?;
    told.set_item("judged_ns", found.judged_ns)?;
    told.set_item("back", found.back)?;
    told.set_item("elsewhere", found.elsewhere)?;
    told.set_item("foreign", found.foreign)?;
    told.set_item("unmatched", found.unmatched)?;
    told.set_item("copies", found.copies)?;
    Ok(told)
}

fn stays(
    arrival_ns: &PyReadonlyArray1<'_, i64>,
    departure_ns: &PyReadonlyArray1<'_, i64>,
    wire_length: &PyReadonlyArray1<'_, i64>,
) -> PyResult<Vec<Stay>> {
    let (arrival_ns, departure_ns) = (arrival_ns.as_slice()?, departure_ns.as_slice()?);
    let stays = arrival_ns.iter().zip(departure_ns).zip(wire_length.as_slice()?);
    let stay = |((arrival, departure), bytes): ((&i64, &i64), &i64)| Stay {
        arrival_ns: *arrival,
        departure_ns: (*departure >= 0).then_some(*departure),
        wire_length: *bytes,
    };
    Ok(stays.map(stay).collect())
}

/// A queue's length as a step function: bytes from each instant on.
#[pyfunction]
#[allow(clippy::type_complexity)]
pub fn backlog<'py>(
    py: Python<'py>,
    arrival_ns: PyReadonlyArray1<'py, i64>,
    departure_ns: PyReadonlyArray1<'py, i64>,
    wire_length: PyReadonlyArray1<'py, i64>,
) -> PyResult<(Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>)> {
    let stays = stays(&arrival_ns, &departure_ns, &wire_length)?;
    let (times, sizes): (Vec<_>, Vec<_>) =
        py.detach(|| compare::backlog(&stays).into_iter().unzip());
    Ok((times.into_pyarray(py), sizes.into_pyarray(py)))
}

/// Rate of departures while the next packet was waiting, bit/s, and how many departures that were.
#[pyfunction]
pub fn backlogged_rate(
    arrival_ns: PyReadonlyArray1<'_, i64>,
    departure_ns: PyReadonlyArray1<'_, i64>,
    wire_length: PyReadonlyArray1<'_, i64>,
    settle_bytes: i64,
) -> PyResult<Option<(f64, usize)>> {
    let stays = stays(&arrival_ns, &departure_ns, &wire_length)?;
    Ok(compare::backlogged_rate(&stays, settle_bytes))
}
