"""The rows of ``per_flow`` in ``metrics.json``, and their comparison with the kernel's counters."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcpf_lab.metrics import timeouts
from tcpf_lab.metrics.goodput import acknowledged_at, goodput
from tcpf_lab.metrics.record import Record
from tcpf_lab.trace.recovery import RTO, SYN_RTO


def gained_bytes(run: Record, flow: int) -> int:
    """Payload bytes of a flow acknowledged within its window, according to the capture."""
    (first, _), (last, _) = (_acknowledged(run, flow, at) for at in ("start", "end"))
    return last - first


def possible_gains(run: Record, flow: int) -> set[int]:
    """Give what TCP_INFO may say instead of `gained_bytes`.

    In virtual time an acknowledgement can arrive at the very instant at which TCP_INFO is read, and
    either may come first.
    """
    starts, ends = (_acknowledged(run, flow, at) for at in ("start", "end"))
    return {last - first for first in starts for last in ends}


def _acknowledged(run: Record, flow: int, label: str) -> tuple[int, int]:
    """Payload bytes acknowledged by a label's instant, with and without the instant itself."""
    row = int(run.row[flow])
    if row < 0:
        return 0, 0
    back = run.flows.split(row)[1]
    came = run.captures["sender"].packets["time_ns"][back]
    acked, at = run.recovery.acked[back], run.instant(flow, label)
    return acknowledged_at(came, acked, at), acknowledged_at(came, acked, at - 1)


def flow_row(run: Record, flow: int, gained: int) -> dict[str, Any]:
    """Give the numbers of one flow; one that never came up has only zeros.

    ``timeouts`` and ``retransmissions`` are those of the window (data only); ``timeouts_whole_run``
    and ``syn_timeouts`` run from the start to the end sample, as the kernel's ``total_rto`` does.
    """
    begin, end = run.instant(flow, "start"), run.instant(flow, "end")
    row = int(run.row[flow])
    own = run.flows.split(row)[0] if row >= 0 else np.empty(0, np.int64)
    time, kind = run.captures["sender"].packets["time_ns"][own], run.recovery.kind[own]
    rto, syn = time[kind == RTO], time[kind == SYN_RTO]
    start_ns, end_ns = run.window_ns
    again = time[(kind > 0) & (kind != SYN_RTO)]
    sample = run.samples["end"][flow] if run.samples else None
    return {
        "flow": flow,
        "source_port": int(run.flows.sport[row]) if row >= 0 else _port(run, flow),
        "goodput_bytes_per_s": float(goodput(0, gained, begin, end)),
        "timeouts": timeouts.count_between(rto, start_ns, end_ns),
        "timeouts_whole_run": int(np.sum(rto <= end)),
        "syn_timeouts": int(np.sum(syn <= end)),
        "retransmissions": timeouts.count_between(again, start_ns, end_ns),
        "kernel": _kernel(sample) if sample else None,
    }


def _port(run: Record, flow: int) -> int | None:
    first = run.expect.get("source_port")
    return None if first is None else int(first) + flow


def _kernel(sample: dict[str, Any]) -> dict[str, Any]:
    names = ("connected", "total_rto", "total_retrans", "bytes_acked", "bytes_retrans", "rtt_us")
    return {name: sample[name] for name in names if name in sample}


def truth(flows: list[dict[str, Any]]) -> dict[str, Any]:
    """Compare timeouts by capture with the kernel's ``total_rto``, flow by flow.

    Parameters
    ----------
    flows : list of dict
        Rows of `flow_row`.

    Returns
    -------
    dict
        Sums over the whole run, SYN timeouts included; ``error_percent`` is relative to the kernel.
        What the kernel did not tell is None.
    """
    seen = [flow["timeouts_whole_run"] + flow["syn_timeouts"] for flow in flows]
    told = [(flow["kernel"] or {}).get("total_rto") for flow in flows]
    known = [(a, b) for a, b in zip(seen, told, strict=True) if b is not None]
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
