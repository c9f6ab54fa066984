"""One run, to look at from all sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tcpf_lab.base.errors import RequestError
from tcpf_lab.metrics.captured import CapturedRecord, read_captured
from tcpf_lab.metrics.record import made_without_captures
from tcpf_lab.report.export.columns import KEY, LAYOUTS, Layout
from tcpf_lab.report.export.tidy import (
    check_rows,
    dscp_rows,
    flow_rows,
    frame,
    group_rows,
    probe_rows,
    with_units,
)
from tcpf_lab.report.section import read_manifest, read_metrics, read_series
from tcpf_lab.results.command import again
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.spec.load import load
from tcpf_lab.spec.marker import AnyMarker
from tcpf_lab.spec.model import Experiment
from tcpf_lab.spec.queue import AnyQueue
from tcpf_lab.trace.follow import KIND_NAMES
from tcpf_lab.trace.packet import ACK, SYN, Packets
from tcpf_lab.trace.passage import backlog

#: Columns that identify a flow.
_ENDS = ("src", "sport", "dst", "dport")
#: The reasons of retransmissions, by the number less one that the analysis has for them.
_REASONS = pd.Index([KIND_NAMES[number] for number in range(1, 1 + len(KIND_NAMES))])


def _framed(layout: Layout, columns: Mapping[str, Any]) -> pd.DataFrame:
    return with_units(pd.DataFrame({name: columns[name] for name in layout.names}), layout)


def _seconds(record: CapturedRecord, time_ns: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray((time_ns - record.epoch_ns) / 1e9, np.float64)


def _reasons(kind: NDArray[np.uint8]) -> pd.Categorical[str]:
    return pd.Categorical.from_codes(kind.astype(np.int64) - 1, categories=_REASONS)


def _header_columns(record: CapturedRecord, found: Packets) -> dict[str, Any]:
    """Give the columns that are read from a packet's headers and its time stamp."""
    flow, forward = _flows(record, found)
    first = _first_numbers(record)
    own, other = (np.where(flow < 0, 0, base[flow]) for base in (first[0], first[1]))
    seq = found["seq"] - np.where(forward, own, other).astype(np.uint32)
    ack = found["ack"] - np.where(forward, other, own).astype(np.uint32)
    ack[(found["flags"] & ACK) == 0] = 0  # the field means nothing there
    return {
        "time_s": _seconds(record, found["time_ns"]),
        "flow": pd.Series(pd.arrays.IntegerArray(flow, flow < 0)),
        "forward": forward,
        "seq": seq.astype(np.int64),
        "ack": ack.astype(np.int64),
        "payload_bytes": found["payload"].astype(np.int64),
        "ip_bytes": found["ip_length"].astype(np.int64),
        "wire_bytes": found["wire_length"].astype(np.int64),
        "dscp": (found["tos"] >> 2).astype(np.int64),
        "flags": found["flags"].astype(np.int64),
    }


def _flows(record: CapturedRecord, found: Packets) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Number of each packet's flow, -1 for none, and whether it runs with the data."""
    rows = record.row[record.row >= 0]
    number = np.append(np.flatnonzero(record.row >= 0), -1)
    ends = [getattr(record.flows, name)[rows] for name in _ENDS]
    known = pd.MultiIndex.from_arrays(ends)
    there = known.get_indexer(pd.MultiIndex.from_arrays([found[n] for n in _ENDS]))
    back = known.get_indexer(
        pd.MultiIndex.from_arrays([found[n] for n in (*_ENDS[2:], *_ENDS[:2])])
    )
    return number[np.where(there >= 0, there, back)], there >= 0


def _first_numbers(record: CapturedRecord) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Sequence number of the SYN of every flow of the plan, of its own and of the other way.

    Where a capture has no SYN, the first packet's number less one stands for it.
    """
    found = record.captures["sender"].packets
    first = np.zeros((2, record.count), np.uint32)
    for flow, row in enumerate(record.row):
        if row < 0:
            continue
        for way, own in enumerate(record.flows.split(int(row))):
            if own.size:
                head = found[own[0]]
                opened = bool(head["flags"] & SYN)
                first[way, flow] = head["seq"] if opened else head["seq"] - np.uint32(1)
    return first[0], first[1]


#: What frames and properties take from ``metrics.json``.
_READ = ("metrics", "per_flow", "by_dscp", "validity")


@dataclass(frozen=True)
class Run:
    """A complete run; everything is read on first use.

    Frames have their columns' units in ``attrs["units"]``, times are seconds after the run's epoch.
    ``docs/reference/columns.md`` describes every column.

    Parameters
    ----------
    files : RunFiles
        Its directory.
    """

    files: RunFiles

    def __repr__(self) -> str:
        """Give its name and whether it is valid."""
        return f"Run({self.id}: {'valid' if self.valid else 'invalid'})"

    @property
    def id(self) -> str:
        """Name of its directory, such as ``nomark+red-flows100-seed1``."""
        return self.files.root.name

    @cached_property
    def manifest(self) -> Mapping[str, Any]:
        """Facts about the run: ``manifest.json``."""
        found: Mapping[str, Any] = read_manifest(self.files, "case", "window_s", "expect")
        return found

    @cached_property
    def _numbers(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = read_metrics(self.files, *_READ)
        return found

    @property
    def metrics(self) -> Mapping[str, float | int | None]:
        """The numbers of the run by name, None where one is undefined."""
        found: Mapping[str, float | int | None] = self._numbers["metrics"]
        return found

    @property
    def valid(self) -> bool:
        """Whether it passed every check; `checks` has them."""
        return bool(self._numbers["validity"]["valid"])

    @property
    def window(self) -> tuple[float, float]:
        """Start and end of what was measured, seconds."""
        start, end = self.manifest["window_s"]
        return float(start), float(end)

    @cached_property
    def experiment(self) -> Experiment:
        """What the run was made from, in base units: bytes, bit/s, seconds."""
        return load(self.files.spec)

    @property
    def marker(self) -> AnyMarker:
        """The marker of its case with its parameters, under the keys of an experiment file."""
        return self.experiment.cases[self.manifest["case"]].marker

    @property
    def queue(self) -> AnyQueue:
        """The queue of its case with its parameters, under the keys of an experiment file."""
        return self.experiment.cases[self.manifest["case"]].queue

    @property
    def flows(self) -> pd.DataFrame:
        """A row per flow: goodput, timeouts, retransmissions, and the kernel's counts."""
        return self._table(LAYOUTS["flows"], list(flow_rows(self._numbers)))

    @property
    def dscp(self) -> pd.DataFrame:
        """A row per code point: packets and loss at the bottleneck."""
        return self._table(LAYOUTS["dscp"], list(dscp_rows(self._numbers)))

    @property
    def checks(self) -> pd.DataFrame:
        """A row per check of validity."""
        return self._table(LAYOUTS["checks"], list(check_rows(self._numbers)))

    @property
    def groups(self) -> pd.DataFrame:
        """A row per group of flows: throughput, share, delay and marks."""
        return self._table(LAYOUTS["groups"], list(group_rows(self._numbers)))

    @property
    def probes(self) -> pd.DataFrame:
        """A row per probe and phase: delay, jitter and loss, idle and under load."""
        return self._table(LAYOUTS["probes"], list(probe_rows(self._numbers)))

    def _table(self, layout: Layout, rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
        """Make a table of one run, without columns of the run."""
        return frame(replace(layout, columns=layout.columns[len(KEY) :]), rows)

    def flow_series(self) -> pd.DataFrame:
        """Goodput, retransmissions and timeouts of every flow, second by second.

        Raises
        ------
        TraceError
            If the run has no ``series.npz``, or a damaged one.
        """
        series = read_series(self.files)
        flows, seconds = series.acked_bytes.shape
        columns = {
            "flow": np.repeat(np.arange(flows), seconds),
            "time_s": np.tile(series.flow_time_s, flows),
            "goodput_bytes_per_s": series.acked_bytes.ravel() / float(series.flow_bin_s),
            "retransmissions": series.retransmissions.ravel().astype(np.int64),
            "timeouts": series.timeouts.ravel().astype(np.int64),
        }
        return _framed(LAYOUTS["flow_series"], columns)

    def queue_series(self) -> pd.DataFrame:
        """Length of the bottleneck's queue and its drops, a tenth of a second each.

        Raises
        ------
        TraceError
            If the run has no ``series.npz``, or a damaged one.
        """
        series = read_series(self.files)
        columns = {
            "time_s": series.queue_time_s,
            "backlog_mean_bytes": series.backlog_mean_bytes.astype(np.float64),
            "backlog_max_bytes": series.backlog_max_bytes.astype(np.int64),
            "packets_lost": series.packets_lost.astype(np.int64),
        }
        return _framed(LAYOUTS["queue_series"], columns)

    @cached_property
    def _record(self) -> CapturedRecord:
        """Its captures.

        Raises
        ------
        RequestError
            If they are not stored.
        """
        if not made_without_captures(self.files) and not any(self.files.pcap.glob("*.pcap*")):
            raise RequestError(
                "this is read from its captures, which are not stored",
                where=str(self.files.root),
                hint=f"`{again(self.files, '--keep-pcaps')}`",
            )
        return read_captured(self.files)  # which raises if there never were any

    @property
    def captures(self) -> tuple[str, ...]:
        """Names of the captures, for `packets`: at the sender, before and after the queue.

        None if the run was made without captures.
        """
        names = self.manifest["expect"].get("captures")
        if names is None:
            return ()
        return names["sender"], names["ingress"], names["egress"]

    def packets(self, capture: str) -> pd.DataFrame:
        """Every packet of a stored capture, such as ``S``.

        Raises
        ------
        RequestError
            If no captures are stored (``tcpf-lab run --keep-pcaps``), or none is called so.
        TraceError
            If one cannot be read.
        """
        record = self._record
        roles = {record.expect["captures"][role]: role for role in ("sender", "ingress", "egress")}
        if capture not in roles:
            raise RequestError(f"no capture '{capture}'; there are {', '.join(roles)}")
        role = roles[capture]
        columns = _header_columns(record, record.captures[role].packets)
        none = np.zeros(len(columns["seq"]), np.uint8)
        kind = record.recovery.kind if role == "sender" else none
        return _framed(LAYOUTS["packets"], {**columns, "retransmission": _reasons(kind)})

    def retransmissions(self) -> pd.DataFrame:
        """Retransmissions and their causes, from the captures as `packets`."""
        record = self._record
        found = _header_columns(record, record.captures["sender"].packets)
        kind = record.recovery.kind
        # Classified for whatever sends data: control connections of a generator are no flows.
        sent = np.flatnonzero((kind > 0) & (found["flow"].notna().to_numpy()))
        columns = {name: values[sent] for name, values in found.items() if name != "flow"}
        columns["flow"] = found["flow"].to_numpy(np.int64, na_value=-1)[sent]
        columns["retransmission"] = _reasons(kind[sent])
        columns["backoff"] = record.recovery.backoff[sent].astype(np.int64)
        return _framed(LAYOUTS["retransmissions"], columns)

    def bottleneck(self) -> pd.DataFrame:
        """Every packet that came to the bottleneck's queue; from the captures, as `packets`."""
        record, transit = self._record, self._record.transit
        delay = np.where(transit.lost, np.nan, (transit.departure_ns - transit.arrival_ns) / 1e9)
        columns = _header_columns(record, record.captures["ingress"].packets)
        return _framed(LAYOUTS["bottleneck"], {**columns, "delay_s": delay, "lost": transit.lost})

    def backlog(self) -> pd.DataFrame:
        """Every change of the bottleneck's queue; from the captures, as `packets`."""
        line = backlog(self._record.transit)
        time = _seconds(self._record, line.time_ns)
        return _framed(LAYOUTS["backlog"], {"time_s": time, "backlog_bytes": line.size})
