"""What one capture says by itself: flows, retransmissions, timeouts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from tcpf_lab.trace.flow import Flows, find_flows
from tcpf_lab.trace.packet import address_text
from tcpf_lab.trace.pcap import Capture, read_capture
from tcpf_lab.trace.recovery import RTO, SYN_RTO, Recovery, classify

_COUNTS = ("data_packets", "acked_bytes", "retransmissions", "timeouts", "syn_timeouts")


def describe_capture(path: Path | str, *, accept_truncated: bool = False) -> dict[str, Any]:
    """Describe the TCP flows of a capture taken at their data senders.

    Parameters
    ----------
    path : Path or str
        A capture, plain or ``.zst``; ``-`` is standard input.
    accept_truncated : bool
        Take a capture whose end is cut off, with a warning.

    Returns
    -------
    dict
        ``file``, ``packets`` (all records), ``flows`` (one per data sender: ``src``, ``sport``,
        ``dst``, ``dport``, data packets, payload bytes acknowledged, retransmissions, timeouts of
        data and of the SYN) and ``totals`` of the same counts.

    Raises
    ------
    TraceError
        If the capture cannot be read.
    """
    capture = read_capture(path, accept_truncated=accept_truncated)
    flows = find_flows(capture.packets)
    # A capture does not tell its sender's settings; today's kernels send tail loss probes.
    recovery = classify(capture.packets, flows, probes=True)
    rows = [_row(capture, flows, recovery, flow) for flow in range(flows.count)]
    totals = {name: sum(int(row[name]) for row in rows) for name in _COUNTS}
    return {
        "file": capture.name,
        "packets": capture.records,
        "flows": rows,
        "totals": {"flows": len(rows), **totals},
    }


def describe_captures(
    paths: Iterable[Path | str], *, accept_truncated: bool = False
) -> dict[str, Any]:
    """Describe several captures, each by itself.

    Parameters
    ----------
    paths : iterable of Path or str
        As for `describe_capture`.
    accept_truncated : bool
        As for `describe_capture`.

    Returns
    -------
    dict
        ``{"captures": [...]}`` in the order of `paths`.

    Raises
    ------
    TraceError
        If one cannot be read.
    """
    found = [describe_capture(path, accept_truncated=accept_truncated) for path in paths]
    return {"captures": found}


def _row(capture: Capture, flows: Flows, recovery: Recovery, flow: int) -> dict[str, Any]:
    own, back = flows.split(flow)
    kind = recovery.kind[own]
    source, target = _addresses(capture, flows, flow)
    return {
        "src": source,
        "sport": int(flows.sport[flow]),
        "dst": target,
        "dport": int(flows.dport[flow]),
        "data_packets": int(np.sum(capture.packets["payload"][own] > 0)),
        "acked_bytes": int(np.max(recovery.acked[back], initial=0)),
        "retransmissions": int(np.sum((kind > 0) & (kind != SYN_RTO))),
        "timeouts": int(np.sum(kind == RTO)),
        "syn_timeouts": int(np.sum(kind == SYN_RTO)),
    }


def _addresses(capture: Capture, flows: Flows, flow: int) -> tuple[str, str]:
    """Both ends in writing; IPv6 addresses are read from the flow's first packet."""
    row = int(flows.both_ways(flow)[0])
    header = int(capture.packets["header_at"][row])
    places = (header + 8, header + 24)
    if bool(flows.backward[row]) != bool(flows.reverse[flow]):
        places = places[::-1]
    ends = (int(flows.src[flow]), int(flows.dst[flow]))
    source, target = (
        address_text(end, capture.data, at) for end, at in zip(ends, places, strict=True)
    )
    return source, target
