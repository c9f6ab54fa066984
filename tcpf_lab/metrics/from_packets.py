"""The numbers of a run that come from its captures."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.metrics import definitions
from tcpf_lab.metrics.agreement import truth
from tcpf_lab.metrics.captured import CapturedRecord
from tcpf_lab.metrics.definitions import mean_goodput, utilisation
from tcpf_lab.metrics.from_counters import Numbers, or_none
from tcpf_lab.metrics.per_flow import flow_report, flow_row, gained_bytes
from tcpf_lab.metrics.series import series_of, write_series
from tcpf_lab.metrics.validity import check_captured
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.trace.follow import KIND_NAMES, RTO
from tcpf_lab.trace.passage import Backlog, backlog


def from_packets(files: RunFiles, run: CapturedRecord) -> Numbers:
    """Work out the numbers of a run with captures, and write ``series.npz``.

    Parameters
    ----------
    files : RunFiles
        The run's directory.
    run : CapturedRecord
        What was read from it.
    """
    gained = [gained_bytes(run, flow) for flow in range(run.count)]
    flows = [flow_row(run, flow, gained[flow]) for flow in range(run.count)]
    told = truth(files, run, flows)
    line = backlog(run.crossing)
    write_series(files, series_of(run, line))
    return Numbers(
        metrics=_metrics(run, line, flows),
        by_dscp=_by_dscp(run),
        per_flow=[_with_report(files, run, row) for row in flows],
        truth=told,
        checks=check_captured(files, run, gained, told),
    )


def _with_report(files: RunFiles, run: CapturedRecord, row: dict[str, Any]) -> dict[str, Any]:
    """Put what iperf3 says of a flow beside its numbers, if it made the traffic."""
    said = flow_report(files, run, int(row["flow"]))
    return row if said is None else {**row, "iperf3": said}


def _metrics(
    run: CapturedRecord, line: Backlog, flows: list[dict[str, Any]]
) -> dict[str, float | int | None]:
    """Numbers of the whole run; None where a number is undefined."""
    start, end = run.window_ns
    seconds = (end - start) / 1e9
    shares = [flow["goodput_bytes_per_s"] for flow in flows]
    expiries = sum(flow["timeouts"] for flow in flows)
    sent = _sent(run)
    return {
        "timeouts": expiries,
        "timeouts_per_flow_minute": or_none(
            definitions.per_flow_minute, expiries, len(flows), seconds
        ),
        "syn_timeouts": sum(flow["syn_timeouts"] for flow in flows),
        "retransmissions": sum(flow["retransmissions"] for flow in flows),
        "goodput_bytes_per_s": or_none(mean_goodput, shares),
        "goodput_cov": or_none(definitions.coefficient_of_variation, shares),
        "goodput_jain": or_none(definitions.jain_index, shares),
        "goodput_min_max": or_none(definitions.min_max_ratio, shares),
        **_second_readings(run, sent, shares),
        **_recovery_metrics(run, sent),
        **_queue_metrics(run, line, start, end),
    }


def _sent(run: CapturedRecord) -> NDArray[np.int64]:
    """Rows of what the plan's flows sent in the window, in the sender's capture."""
    start, end = run.window_ns
    wanted = [run.flows.split(int(row))[0] for row in run.row if row >= 0]
    rows = np.concatenate(wanted) if wanted else np.empty(0, np.int64)
    time = run.captures["sender"].packets["time_ns"][rows]
    return rows[(time >= start) & (time < end)]


def _second_readings(
    run: CapturedRecord, rows: NDArray[np.int64], shares: list[float]
) -> dict[str, float | None]:
    """Loss as the share of bytes that were sent again, and goodput with headers.

    The papers do not say how they counted either.
    """
    packets = run.captures["sender"].packets
    payload = packets["payload"][rows].astype(np.int64)
    again = or_none(definitions.loss_fraction, payload, run.recovery.kind[rows] > 0)
    whole = int(np.sum(packets["ip_length"][rows][payload > 0], dtype=np.int64))
    mean, plain = or_none(mean_goodput, shares), int(np.sum(payload))
    return {
        "retransmitted_percent": None if again is None else 100 * again,
        "goodput_ip_bytes_per_s": mean * whole / plain if mean is not None and plain else None,
    }


def _recovery_metrics(run: CapturedRecord, rows: NDArray[np.int64]) -> dict[str, int]:
    """Retransmissions of the plan's flows in the window, by kind, and episodes of timeouts."""
    kind, backoff = run.recovery.kind[rows], run.recovery.backoff[rows]
    counts = {f"{name}_packets": int(np.sum(kind == k)) for k, name in KIND_NAMES.items()}
    for separate in ("rto_packets", "syn_rto_packets"):
        del counts[separate]
    return {"timeout_episodes": definitions.episodes(backoff[kind == RTO]), **counts}


def _queue_metrics(
    run: CapturedRecord, line: Backlog, start: int, end: int
) -> dict[str, float | int | None]:
    """Loss, use and length of the bottleneck's queue."""
    crossing = run.crossing
    left = crossing.departure_ns
    gone = crossing.wire_length[(left >= start) & (left < end)]
    rate = float(run.expect["bottleneck"]["rate_bits_per_s"])
    judged = _judged(run, start, end)
    stay = definitions.delays(crossing.arrival_ns[judged], left[judged])
    size, lost = crossing.ip_length[judged], crossing.lost[judged]
    byte_loss = or_none(definitions.loss_fraction, size, lost)
    packet_loss = or_none(definitions.loss_fraction, np.ones_like(size), lost)
    return {
        "loss_percent": None if byte_loss is None else 100 * byte_loss,
        "packet_loss_percent": None if packet_loss is None else 100 * packet_loss,
        "utilisation": utilisation(int(np.sum(gone)), rate, (end - start) / 1e9),
        "backlog_mean_bytes": definitions.mean_backlog(line.time_ns, line.size, start, end),
        "backlog_max_bytes": definitions.largest_backlog(line.time_ns, line.size, start, end),
        "queueing_delay_mean_s": float(np.mean(stay)) if stay.size else None,
        "queueing_delay_p95_s": or_none(definitions.percentile, stay, 95.0),
    }


def _judged(run: CapturedRecord, start: int, end: int) -> NDArray[np.bool_]:
    """Packets that entered in the window, early enough to have left before its end."""
    came = run.crossing.arrival_ns
    return (came >= start) & (came < end - run.max_delay_ns)


def _by_dscp(run: CapturedRecord) -> dict[str, dict[str, float | int]]:
    """Arrivals and loss for each code point that entered the bottleneck in the window."""
    judged = _judged(run, *run.window_ns)
    seconds = (run.window_ns[1] - run.max_delay_ns - run.window_ns[0]) / 1e9
    dscp, lost = run.crossing.tos[judged] >> 2, run.crossing.lost[judged]
    size = run.crossing.ip_length[judged]
    result: dict[str, dict[str, float | int]] = {}
    for value in np.unique(dscp):
        mine = dscp == value
        result[str(int(value))] = {
            "packets": int(np.sum(mine)),
            "packets_per_s": int(np.sum(mine)) / seconds,
            "packets_lost": int(np.sum(lost[mine])),
            "loss_percent": 100 * definitions.loss_fraction(size[mine], lost[mine]),
            "packet_loss_percent": 100
            * definitions.loss_fraction(np.ones_like(size[mine]), lost[mine]),
        }
    return result
