"""The rows of ``per_flow`` in ``metrics.json``, and their comparison with the kernel's counters."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcpf_lab.metrics import definitions
from tcpf_lab.metrics.captured import CapturedRecord
from tcpf_lab.metrics.definitions import acknowledged_at, goodput
from tcpf_lab.metrics.in_force import Finding, verdict
from tcpf_lab.metrics.record import Record, UnreadableError, stats_json
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.trace.follow import KIND_NAMES, RTO, SYN_RTO

#: How long it may take in real time to read TCP_INFO, or to take an acknowledgement.
READING_NS = 50_000_000


def gained_bytes(run: CapturedRecord, flow: int) -> int:
    """Payload bytes of a flow acknowledged within its window, according to the capture."""
    (first, _), (last, _) = (_acknowledged(run, flow, at) for at in ("start", "end"))
    return last - first


def is_possible_gain(run: CapturedRecord, flow: int, told: int) -> bool:
    """Tell whether TCP_INFO may say `told` instead of `gained_bytes`.

    In virtual time an acknowledgement can arrive at the very instant at which TCP_INFO is read, and
    either may come first.  In real time reading takes a while, and so does an acknowledgement from
    where it is captured to the socket: all between the bounds of `READING_NS` around is possible.
    """
    if not run.real_time:
        starts, ends = (_acknowledged(run, flow, at) for at in ("start", "end"))
        return told in {last - first for first in starts for last in ends}
    starts, ends = (_acknowledged(run, flow, at, READING_NS, READING_NS) for at in ("start", "end"))
    return min(ends) - max(starts) <= told <= max(ends) - min(starts)


def _acknowledged(
    run: CapturedRecord, flow: int, label: str, before: int = 1, after: int = 0
) -> tuple[int, int]:
    """Payload bytes acknowledged shortly after a label's instant and shortly before it, in ns."""
    row = int(run.row[flow])
    if row < 0:
        return 0, 0
    back = run.flows.split(row)[1]
    came = run.captures["sender"].packets["time_ns"][back]
    acked, at = run.recovery.acked[back], run.instant(flow, label)
    return acknowledged_at(came, acked, at + after), acknowledged_at(came, acked, at - before)


def flow_row(run: CapturedRecord, flow: int, gained: int) -> dict[str, Any]:
    """Give the numbers of one flow; one that never came up has only zeros.

    ``timeouts`` and ``retransmissions`` are those of the window (data only); ``timeouts_whole_run``
    and ``syn_timeouts`` run from the start to the end sample, as the kernel's ``total_rto`` does.
    ``events`` counts what was sent again in the window by what made the sender send it.
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
        "source_port": int(run.flows.sport[row]) if row >= 0 else planned_port(run, flow),
        "goodput_bytes_per_s": float(goodput(0, gained, begin, end)),
        "timeouts": definitions.count_between(rto, start_ns, end_ns),
        "timeouts_whole_run": int(np.sum(rto <= end)),
        "syn_timeouts": int(np.sum(syn <= end)),
        "retransmissions": definitions.count_between(again, start_ns, end_ns),
        "events": {
            name: definitions.count_between(time[kind == number], start_ns, end_ns)
            for number, name in KIND_NAMES.items()
        },
        "kernel": kernel_words(sample) if sample else None,
    }


def planned_port(run: Record, flow: int) -> int | None:
    """Source port of a flow, if the plan fixes it."""
    first = run.expect.get("source_port")
    return None if first is None else int(first) + flow


def kernel_words(sample: dict[str, Any]) -> dict[str, Any]:
    """What a row keeps of TCP_INFO."""
    names = ("connected", "total_rto", "total_retrans", "bytes_acked", "bytes_retrans", "rtt_us")
    return {name: sample[name] for name in names if name in sample}


#: A connection begins with the name of the test, which iperf3 does not count: 36 letters and a 0.
COOKIE = 37
#: Retransmissions may differ by this share, and by a few where there are not many.
RETRANSMISSION_TOLERANCE, FEW = 0.02, 3


def generated(files: RunFiles, flow: int) -> dict[str, int]:
    """Give a flow's numbers by iperf3's report.

    Returns
    -------
    dict
        ``retransmits``: the kernel's ``tcpi_total_retrans`` at the sender, SYN included;
        ``bytes_received``: payload that the server read; ``block``: what it reads at a time.

    Raises
    ------
    UnreadableError
        If there is no such report, or it tells of an error instead.
    """
    name = f"iperf3-{flow}.json"
    report = stats_json(files, name)
    try:
        (stream,) = report["end"]["streams"]
        return {
            "retransmits": int(stream["sender"]["retransmits"]),
            "bytes_received": int(stream["receiver"]["bytes"]),
            "block": int(report["start"]["test_start"]["blksize"]),
        }
    except (KeyError, TypeError, ValueError) as error:
        said = report.get("error") if isinstance(report, dict) else None
        reason = f"error {said!r}" if said else f"{type(error).__name__} {error}"
        raise UnreadableError(f"stats/{name} is not a report of one flow: {reason}") from None


def flow_report(files: RunFiles, run: CapturedRecord, flow: int) -> dict[str, Any] | None:
    """Give what ``per_flow`` keeps of iperf3's report; None with another generator."""
    if run.expect.get("generator") != "iperf3":
        return None
    try:
        found = generated(files, flow)
    except UnreadableError:
        return None  # `flows_match` says so
    return {name: found[name] for name in ("retransmits", "bytes_received")}


def flows_match(files: RunFiles, run: CapturedRecord) -> Finding:
    """Over the whole run the captures must tell of each flow what its iperf3 tells.

    What is acknowledged is what the server has read; one that is told to end may leave less than a
    block unread.  A client may read its last count of retransmissions a little before the last one.
    """
    if run.expect.get("generator") != "iperf3":
        return None, f"generator {run.expect.get('generator')}"
    problems, total, again = [], 0, [0, 0]
    for flow in range(run.count):
        told = generated(files, flow)
        acked, resent = _captured(run, flow)
        if not 0 <= acked - COOKIE - told["bytes_received"] < told["block"]:
            said = f"capture {acked - COOKIE} bytes, iperf3 {told['bytes_received']}"
            problems.append(f"flow {flow}: {said}")
        total += told["bytes_received"]
        again = [again[0] + resent, again[1] + told["retransmits"]]
    counted = f"retransmissions: captures {again[0]}, iperf3 {again[1]}"
    if abs(again[0] - again[1]) > max(FEW, RETRANSMISSION_TOLERANCE * again[1]):
        problems.append(counted)
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return verdict([p + more for p in problems[:1]], f"{run.count} flows, {total} bytes, {counted}")


def _captured(run: CapturedRecord, flow: int) -> tuple[int, int]:
    """Payload bytes acknowledged over the whole run, and retransmissions, SYNs included."""
    row = int(run.row[flow])
    if row < 0:
        return 0, 0
    own, back = run.flows.split(row)
    acked = int(np.max(run.recovery.acked[back], initial=0))
    return acked, int(np.sum(run.recovery.kind[own] > 0))
