"""What one run has over time, as frames; `export.frame_columns` says what is in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tcpf_lab.command import again
from tcpf_lab.errors import RequestError
from tcpf_lab.metrics.captured import CapturedRecord, read_captured
from tcpf_lab.metrics.record import made_without_captures
from tcpf_lab.report.export.columns import Layout
from tcpf_lab.report.export.frame_columns import (
    BACKLOG,
    BOTTLENECK,
    FLOW_SERIES,
    PACKETS,
    QUEUE_SERIES,
    RETRANSMISSIONS,
)
from tcpf_lab.report.export.tidy import with_units
from tcpf_lab.report.run_records import read_series
from tcpf_lab.results import RunFiles
from tcpf_lab.trace.bottleneck import backlog
from tcpf_lab.trace.packet import ACK, SYN, Packets
from tcpf_lab.trace.recovery import KIND_NAMES

#: What tells flows apart.
_ENDS = ("src", "sport", "dst", "dport")
#: The reasons of retransmissions, by the number less one that the analysis has for them.
_REASONS = pd.Index([KIND_NAMES[number] for number in range(1, 1 + len(KIND_NAMES))])


def flow_series(files: RunFiles) -> pd.DataFrame:
    """Goodput, retransmissions and timeouts of every flow, second by second."""
    series = read_series(files)
    flows, seconds = series.acked_bytes.shape
    columns = {
        "flow": np.repeat(np.arange(flows), seconds),
        "time_s": np.tile(series.flow_time_s, flows),
        "goodput_bytes_per_s": series.acked_bytes.ravel() / float(series.flow_bin_s),
        "retransmissions": series.retransmissions.ravel().astype(np.int64),
        "timeouts": series.timeouts.ravel().astype(np.int64),
    }
    return _framed(FLOW_SERIES, columns)


def queue_series(files: RunFiles) -> pd.DataFrame:
    """Length of the bottleneck's queue and its drops, a tenth of a second each."""
    series = read_series(files)
    columns = {
        "time_s": series.queue_time_s,
        "backlog_mean_bytes": series.backlog_mean_bytes.astype(np.float64),
        "backlog_max_bytes": series.backlog_max_bytes.astype(np.int64),
        "packets_lost": series.packets_lost.astype(np.int64),
    }
    return _framed(QUEUE_SERIES, columns)


def kept_record(files: RunFiles) -> CapturedRecord:
    """Read the captures of a run.

    Raises
    ------
    RequestError
        If they were not kept.
    """
    if made_without_captures(files):
        return read_captured(files)  # says so
    if not any(files.pcap.glob("*.pcap*")):
        raise RequestError(
            "its captures were not kept, and this is read from them",
            where=str(files.root),
            hint=f"`{again(files, '--keep-pcaps')}`",
        )
    return read_captured(files)


def packets(record: CapturedRecord, point: str) -> pd.DataFrame:
    """Every packet of a capture.

    Parameters
    ----------
    record : CapturedRecord
        The run.
    point : str
        Name of the capture, as ``S`` or ``R1-in``.

    Raises
    ------
    RequestError
        If the run has no capture of this name.
    """
    roles = {record.expect["captures"][role]: role for role in ("sender", "ingress", "egress")}
    if point not in roles:
        raise RequestError(f"no capture '{point}'; there are {', '.join(roles)}")
    role = roles[point]
    columns = _header_columns(record, record.captures[role].packets)
    kind = record.recovery.kind if role == "sender" else np.zeros(len(columns["seq"]), np.uint8)
    return _framed(PACKETS, {**columns, "retransmission": _reasons(kind)})


def retransmissions(record: CapturedRecord) -> pd.DataFrame:
    """Every data segment and SYN of the flows that was sent again, and why."""
    found = _header_columns(record, record.captures["sender"].packets)
    kind = record.recovery.kind
    # Classified for whatever sends data: control connections of a generator are no flows.
    again = np.flatnonzero((kind > 0) & (found["flow"].notna().to_numpy()))
    columns = {name: values[again] for name, values in found.items() if name != "flow"}
    columns["flow"] = found["flow"].to_numpy(np.int64, na_value=-1)[again]
    columns["retransmission"] = _reasons(kind[again])
    columns["backoff"] = record.recovery.backoff[again].astype(np.int64)
    return _framed(RETRANSMISSIONS, columns)


def bottleneck(record: CapturedRecord) -> pd.DataFrame:
    """Every packet that came to the bottleneck's queue, and how long it stayed."""
    crossing = record.crossing
    delay = np.where(crossing.lost, np.nan, (crossing.departure_ns - crossing.arrival_ns) / 1e9)
    columns = _header_columns(record, record.captures["ingress"].packets)
    return _framed(BOTTLENECK, {**columns, "delay_s": delay, "lost": crossing.lost})


def queue_length(record: CapturedRecord) -> pd.DataFrame:
    """Every change of the bottleneck's queue."""
    line = backlog(record.crossing)
    time = _seconds(record, line.time_ns)
    return _framed(BACKLOG, {"time_s": time, "backlog_bytes": line.size})


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
