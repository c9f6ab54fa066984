"""Runs over several bottlenecks: what each of them did, and what the traffic across each got."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcpf_lab.metrics.agreement import WRAPS
from tcpf_lab.metrics.captured import CapturedRecord
from tcpf_lab.metrics.counters import queue_window, ring_of, window_counters
from tcpf_lab.metrics.definitions import goodput, mean_goodput, utilisation
from tcpf_lab.metrics.from_counters import Extra
from tcpf_lab.metrics.in_force import Finding, verdict
from tcpf_lab.metrics.record import Record, UnreadableError
from tcpf_lab.metrics.validity import acked_by_kernel, apply
from tcpf_lab.results.layout import RunFiles

#: A shaper may send so much more than its rate within a window: its burst at the beginning.
_RATE_TOLERANCE = 0.005
#: The longest frame of a ring, bytes.
_FRAME = 1514
#: Packets that the captures and the counters may see on different sides of an end of the window.
_EDGE_PACKETS = 2


def parking_lot(files: RunFiles, run: Record) -> Extra:
    """Give the sections ``bottlenecks`` and ``cross`` of a run with cross traffic.

    Every bottleneck has its share of use (1 is all of it), packets dropped and their share in per
    cent, from its counters at the window's ends. Cross traffic has, for each bottleneck in the same
    order, mean goodput in bytes/s and timeouts of all its flows, from their TCP_INFO.

    Parameters
    ----------
    files : RunFiles
        The run's directory.
    run : Record
        What was read from it.

    Returns
    -------
    Extra
        Empty for a run without cross traffic.
    """
    if "cross" not in run.expect:
        return Extra()
    bottlenecks = [_bottleneck(files, run, one) for one in run.expect["bottlenecks"]]
    cross = [_cross(run, one) for one in run.expect["cross"]]
    tests = {
        **({"window_counters": window_counters} if run.was_captured else {}),
        "window_matches_captures": _matches_captures,
        "no_bottleneck_too_fast": _not_too_fast,
    }
    return Extra(
        sections={"bottlenecks": bottlenecks, "cross": cross}, checks=apply(tests, files, run)
    )


def _bottleneck(files: RunFiles, run: Record, wanted: dict[str, Any]) -> dict[str, Any]:
    """One bottleneck's window; numbers are None where its counters cannot be read."""
    start, end = run.window_ns
    try:
        window = queue_window(files, wanted["device"])
    except UnreadableError:  # `window_counters` says so
        nothing = dict.fromkeys(("utilisation", "packets_dropped", "packet_loss_percent"))
        return {"node": wanted["node"], **nothing}
    rate = float(wanted["rate_bits_per_s"])
    share = 100 * window.drops / window.arrivals if window.arrivals > 0 else None
    return {
        "node": wanted["node"],
        "utilisation": utilisation(window.bytes, rate, (end - start) / 1e9),
        "packets_dropped": window.drops,
        "packet_loss_percent": share,
    }


def _cross(run: Record, wanted: dict[str, Any]) -> dict[str, Any]:
    """The flows across one bottleneck; None where they left no TCP_INFO, or it has no count."""
    first = int(wanted["first"]) - run.count
    own = slice(first, first + int(wanted["flows"]))
    ends = list(
        zip(*(run.cross_samples.get(label, [])[own] for label in ("start", "end")), strict=True)
    )
    if not ends:
        return {"node": wanted["node"], "goodput_bytes_per_s": None, "timeouts": None}
    acked, times = (
        np.array([[read(sample) for sample in pair] for pair in ends], np.int64)
        for read in (acked_by_kernel, lambda sample: int(sample["time_ns"]))
    )
    expiries = [
        (int(end["total_rto"]) - int(start.get("total_rto", 0))) % WRAPS
        for start, end in ends
        if "total_rto" in end
    ]
    return {
        "node": wanted["node"],
        "goodput_bytes_per_s": mean_goodput(goodput(*acked.T, *times.T)),
        "timeouts": sum(expiries) if len(expiries) == len(ends) else None,
    }


def _matches_captures(files: RunFiles, run: Record) -> Finding:
    """At the bottleneck with the captures both must have seen the same packets leave."""
    if not isinstance(run, CapturedRecord):
        return None, "no captures"
    start, end = run.window_ns
    left = run.crossing.departure_ns
    seen = int(np.sum((left >= start) & (left < end)))
    device = run.expect["bottleneck"]["device"]
    told = queue_window(files, device).packets
    edge = _EDGE_PACKETS + ring_of(run.expect, device)
    return abs(seen - told) <= edge, f"captures {seen}, counters {told}"


def _not_too_fast(files: RunFiles, run: Record) -> Finding:
    """No bottleneck may have sent more than its rate lets through, and its ring holds."""
    start, end = run.window_ns
    problems = []
    for one in run.expect["bottlenecks"]:
        share = _bottleneck(files, run, one)["utilisation"]
        held = ring_of(run.expect, one["device"]) * _FRAME
        rate = float(one["rate_bits_per_s"])
        most = 1 + _RATE_TOLERANCE + utilisation(held, rate, (end - start) / 1e9)
        if share is not None and share > most:
            problems.append(f"{one['device']}: {share:.3f} of its rate")
    return verdict(problems, f"{len(run.expect['bottlenecks'])} bottlenecks")
