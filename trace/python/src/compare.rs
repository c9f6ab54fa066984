//! Captures before and after a device.

use std::path::PathBuf;

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use tcpf_trace::compare::{self, Mark, Origin};
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

/// Match marks: for each that entered its row among those that left, -1 if it never did; for each
/// that left its row among those that entered, -1 if it never did, -2 if it had left before.
#[pyfunction]
#[allow(clippy::type_complexity)]
pub fn match_packets<'py>(
    py: Python<'py>,
    entered: PyReadonlyArray1<'py, MarkRow>,
    left: PyReadonlyArray1<'py, MarkRow>,
    left_ns: PyReadonlyArray1<'py, i64>,
    longest_ns: i64,
) -> PyResult<(Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>)> {
    let (entered, left, left_ns) = (entered.as_slice()?, left.as_slice()?, left_ns.as_slice()?);
    let (taken, origin) = py.detach(|| {
        let (taken, origin) = compare::match_packets(entered, left, left_ns, longest_ns);
        let taken: Vec<_> = taken.iter().map(|row| row.map_or(-1, |row| row as i64)).collect();
        let origin: Vec<_> = origin
            .iter()
            .map(|origin| match origin {
                Origin::Entered(row) => *row as i64,
                Origin::Foreign => -1,
                Origin::Copy => -2,
            })
            .collect();
        (taken, origin)
    });
    Ok((taken.into_pyarray(py), origin.into_pyarray(py)))
}
