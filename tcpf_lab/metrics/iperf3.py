"""What iperf3 itself says of each flow: the client's JSON report."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcpf_lab.metrics.captured import CapturedRecord
from tcpf_lab.metrics.evidence import UnreadableError, stats_json
from tcpf_lab.metrics.in_force import Finding, verdict
from tcpf_lab.results import RunFiles

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
