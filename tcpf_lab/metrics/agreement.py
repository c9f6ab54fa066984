"""Timeouts of a run by its captures against those that the senders' kernels counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tcpf_lab.metrics.captured import CapturedRecord
from tcpf_lab.metrics.in_force import CheckResult
from tcpf_lab.metrics.record import Record, UnreadableError, kernel_counters
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.trace.follow import RTO, SYN_RTO

#: What the kernel counts with.
PER_FLOW, TOTAL = "tcpi_total_rto", "TcpExtTCPTimeouts"
#: The first has 16 bits.
WRAPS = 2**16
#: The classifier may be this far from the kernel: a share, and a few where there are not many.
TOLERANCE, FEW = 0.10, 3


def truth(files: RunFiles, run: CapturedRecord, flows: list[dict[str, Any]]) -> dict[str, Any]:
    """Compare timeouts by capture with the kernel's, SYN timeouts and back-offs included.

    Parameters
    ----------
    files : RunFiles
        The run's directory.
    run : Record
        What was read from it.
    flows : list of dict
        Rows of `tcpf_lab.metrics.captured.flow_row`.

    Returns
    -------
    dict
        ``source`` names the kernel's counter.  ``tcpi_total_rto`` is there for each flow, from the
        start of the run to the end sample, with the native generator on Linux 6.7 or later.
        ``TcpExtTCPTimeouts`` counts all connections of the senders over the whole run, and so does
        ``timeouts_pcap`` then.  None if neither was recorded.
        ``error_percent`` is relative to the kernel.
    """
    by_flow = per_flow(flows)
    if by_flow["timeouts_kernel"] is not None:
        return {"source": PER_FLOW, **by_flow}
    try:
        counted = kernel_total(files, run)
    except UnreadableError:
        return {"source": None, **by_flow}  # reported by `timeouts_match`
    seen = captured_total(run)
    error = 100.0 * (seen - counted) / counted if counted else None
    total = {"timeouts_pcap": seen, "timeouts_kernel": counted, "error_percent": error}
    return {"source": TOTAL, **by_flow, **total}


def kernel_alone(
    files: RunFiles, run: Record, flows: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Give the kernel's count where there is no capture to hold against it: same keys as `truth`.

    Parameters
    ----------
    files : RunFiles
        The run's directory.
    run : Record
        What was read from it.
    flows : sequence of mapping
        Rows of ``per_flow``.
    """
    by_flow = [(flow["kernel"] or {}).get("total_rto") for flow in flows]
    counted = [count for count in by_flow if count is not None]
    count: int | None = sum(counted)
    source: str | None = PER_FLOW
    if len(counted) < len(flows) or not flows:
        try:
            source, count = TOTAL, kernel_total(files, run)
        except UnreadableError:
            source, count = None, None
    names = ("timeouts_pcap", "error_percent", "flows_exact", "largest_flow_error")
    unknown = dict.fromkeys(names)
    return {"source": source, **unknown, "timeouts_kernel": count, "flows": len(flows)}


def per_flow(flows: list[dict[str, Any]]) -> dict[str, Any]:
    """Compare flow by flow with ``tcpi_total_rto``; what the kernel does not count is None.

    A count that has wrapped is taken for the one nearest to the capture's.
    """
    seen = [flow["timeouts_whole_run"] + flow["syn_timeouts"] for flow in flows]
    counted = [(flow["kernel"] or {}).get("total_rto") for flow in flows]
    known = [
        (a, b + WRAPS * max(round((a - b) / WRAPS), 0))
        for a, b in zip(seen, counted, strict=True)
        if b is not None
    ]
    by_capture, by_kernel = sum(a for a, _ in known), sum(b for _, b in known)
    complete = len(known) == len(flows) and bool(flows)
    return {
        "timeouts_pcap": sum(seen),
        "timeouts_kernel": by_kernel if complete else None,
        "error_percent": 100.0 * (by_capture - by_kernel) / by_kernel
        if complete and by_kernel
        else None,
        "flows_exact": sum(a == b for a, b in known) if complete else None,
        "flows": len(flows),
        "largest_flow_error": max(abs(a - b) for a, b in known) if complete else None,
    }


def captured_total(run: CapturedRecord) -> int:
    """Expiries of every connection of the senders, those of control connections included."""
    packets = run.captures["sender"].packets
    senders = np.unique(run.flows.src[run.row[run.row >= 0]])
    mine = np.isin(packets["src"], senders)
    return int(np.sum(mine & np.isin(run.recovery.kind, (RTO, SYN_RTO))))


def kernel_total(files: RunFiles, run: Record) -> int:
    """``TcpExtTCPTimeouts`` of all senders: their network namespaces begin with the run.

    Raises
    ------
    UnreadableError
        If a sender's counters are missing or lack it.
    """
    beside = {cross["sender"] for cross in run.expect.get("cross", ())}
    senders = (run.expect.get("routes") or {}).keys() - beside
    if not senders:
        raise UnreadableError("the manifest's expect.routes names no sender")
    return sum(_counter(files, node) for node in senders)


def _counter(files: RunFiles, node: str) -> int:
    found = kernel_counters(files, node, "TcpExt")
    if "TCPTimeouts" not in found:
        raise UnreadableError(f"stats/netstat-{node}.txt has no {TOTAL}")
    return found["TCPTimeouts"]


def timeouts_match(files: RunFiles, run: CapturedRecord, found: dict[str, Any]) -> CheckResult:
    """The capture's count of timeouts is near the kernel's."""
    seen, counted, source = found["timeouts_pcap"], found["timeouts_kernel"], found["source"]
    if source is None:
        counted = kernel_total(files, run)  # raises if it is missing
    scope = "of each flow" if source == PER_FLOW else "of all connections, none of each flow"
    detail = f"captures {seen}, kernel {counted} ({source} {scope})"
    return abs(seen - counted) <= max(FEW, TOLERANCE * counted), detail
