"""The numbers of one run, and means over runs."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.metrics import fairness, loss, queue, timeouts
from tcpf_lab.metrics.goodput import mean_goodput
from tcpf_lab.metrics.iperf3 import flow_report
from tcpf_lab.metrics.per_flow import flow_row, gained_bytes
from tcpf_lab.metrics.record import Record, read_record
from tcpf_lab.metrics.series import series_of, write_series
from tcpf_lab.metrics.truth import truth
from tcpf_lab.metrics.utilisation import utilisation
from tcpf_lab.metrics.validity import Check, check_run
from tcpf_lab.results import FORMAT, RunFiles, write_json
from tcpf_lab.trace.bottleneck import Backlog, backlog
from tcpf_lab.trace.recovery import KIND_NAMES, RTO


def mean_ci(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float | None]:
    r"""Mean and half-width of its confidence interval.

    .. math:: h = t_{n-1, (1 + c)/2} \; s / \sqrt n

    Parameters
    ----------
    values : sequence of float, length n
        One per run.
    confidence : float
        Between 0 and 1.

    Returns
    -------
    tuple of (float, float or None)
        In the unit of `values`; the half-width is None for a single value.

    Raises
    ------
    ValueError
        If there are no values, or `confidence` is out of range.

    Examples
    --------
    Standard deviation 2 (ddof = 1), Student's t for 2 degrees of freedom 4.302653:

    >>> mean, half = mean_ci([2.0, 4.0, 6.0])
    >>> mean, round(half, 5)
    (4.0, 4.96828)
    """
    if len(values) == 0:
        raise ValueError("a mean needs at least one value")
    if not 0 < confidence < 1:
        raise ValueError("confidence must lie between 0 and 1")
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, None
    from scipy.special import stdtrit  # here, because the analysis of a run does without scipy

    quantile = float(stdtrit(len(values) - 1, (1 + confidence) / 2))
    return mean, quantile * float(np.std(values, ddof=1)) / math.sqrt(len(values))


def analyse(run: RunFiles) -> dict[str, Any]:
    """Turn the captures and counters of a run into ``metrics.json`` and ``series.npz``.

    Parameters
    ----------
    run : RunFiles
        A run directory, complete or partial, with its captures.

    Returns
    -------
    dict
        What was written to ``metrics.json``.

    Raises
    ------
    LabError
        If the manifest or a capture cannot be read.  Everything else that is wrong with the run is
        in the verdict.
    """
    record = read_record(run)
    gained = [gained_bytes(record, flow) for flow in range(record.count)]
    flows = [flow_row(record, flow, gained[flow]) for flow in range(record.count)]
    told = truth(run, record, flows)
    checks = check_run(run, record, gained, told)
    line = backlog(record.crossing)
    manifest = record.manifest
    names = ("experiment", "config", "case", "flows", "seed", "run", "window_s")
    result = {
        "format": FORMAT,
        "analysis": analysis_identity(),
        **{name: manifest.get(name) for name in names},
        "metrics": _metrics(record, line, flows),
        "by_dscp": _by_dscp(record),
        "per_flow": [_with_report(run, record, row) for row in flows],
        "truth": told,
        "validity": _validity(checks),
    }
    write_series(run, series_of(record, line))
    write_json(run.metrics, result)
    return result


def _with_report(files: RunFiles, run: Record, row: dict[str, Any]) -> dict[str, Any]:
    """Put what iperf3 says of a flow beside its numbers, if it made the traffic."""
    said = flow_report(files, run, int(row["flow"]))
    return row if said is None else {**row, "iperf3": said}


@functools.cache
def analysis_identity() -> str:
    """Identify the code that turns captures into numbers: a hash of its sources."""
    package = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for source in sorted(
        file for part in ("trace", "metrics") for file in package.glob(f"{part}/*.py")
    ):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _metrics(
    run: Record, line: Backlog, flows: list[dict[str, Any]]
) -> dict[str, float | int | None]:
    """Numbers of the whole run; None where a number is undefined."""
    start, end = run.window_ns
    seconds = (end - start) / 1e9
    shares = [flow["goodput_bytes_per_s"] for flow in flows]
    expiries = sum(flow["timeouts"] for flow in flows)
    return {
        "timeouts": expiries,
        "timeouts_per_flow_minute": _or_none(
            timeouts.per_flow_minute, expiries, len(flows), seconds
        ),
        "syn_timeouts": sum(flow["syn_timeouts"] for flow in flows),
        "retransmissions": sum(flow["retransmissions"] for flow in flows),
        "goodput_bytes_per_s": _or_none(mean_goodput, shares),
        "goodput_cov": _or_none(fairness.coefficient_of_variation, shares),
        "goodput_jain": _or_none(fairness.jain_index, shares),
        "goodput_min_max": _or_none(fairness.min_max_ratio, shares),
        **_recovery_metrics(run, start, end),
        **_queue_metrics(run, line, start, end),
    }


def _or_none(function: Callable[..., float], *arguments: Any) -> float | None:
    """Value of a metric, None where it is undefined (JSON has no NaN)."""
    try:
        return function(*arguments)
    except ValueError:
        return None


def _recovery_metrics(run: Record, start: int, end: int) -> dict[str, int]:
    """Retransmissions of the plan's flows in the window, by kind, and episodes of timeouts."""
    wanted = [run.flows.split(int(row))[0] for row in run.row if row >= 0]
    rows = np.concatenate(wanted) if wanted else np.empty(0, np.int64)
    time = run.captures["sender"].packets["time_ns"][rows]
    rows = rows[(time >= start) & (time < end)]
    kind, backoff = run.recovery.kind[rows], run.recovery.backoff[rows]
    counts = {f"{name}_packets": int(np.sum(kind == k)) for k, name in KIND_NAMES.items()}
    for separate in ("rto_packets", "syn_rto_packets"):
        del counts[separate]
    return {"timeout_episodes": timeouts.episodes(backoff[kind == RTO]), **counts}


def _queue_metrics(
    run: Record, line: Backlog, start: int, end: int
) -> dict[str, float | int | None]:
    """Loss, use and length of the bottleneck's queue."""
    crossing = run.crossing
    left = crossing.departure_ns
    gone = crossing.wire_length[(left >= start) & (left < end)]
    rate = float(run.expect["bottleneck"]["rate_bits_per_s"])
    judged = _judged(run, start, end)
    stay = queue.delays(crossing.arrival_ns[judged], left[judged])
    size, lost = crossing.ip_length[judged], crossing.lost[judged]
    byte_loss = _or_none(loss.loss_fraction, size, lost)
    packet_loss = _or_none(loss.loss_fraction, np.ones_like(size), lost)
    return {
        "loss_percent": None if byte_loss is None else 100 * byte_loss,
        "packet_loss_percent": None if packet_loss is None else 100 * packet_loss,
        "utilisation": utilisation(int(np.sum(gone)), rate, (end - start) / 1e9),
        "backlog_mean_bytes": queue.mean_backlog(line.time_ns, line.size, start, end),
        "backlog_max_bytes": queue.largest_backlog(line.time_ns, line.size, start, end),
        "queueing_delay_mean_s": float(np.mean(stay)) if stay.size else None,
        "queueing_delay_p95_s": _or_none(queue.percentile, stay, 95.0),
    }


def _judged(run: Record, start: int, end: int) -> NDArray[np.bool_]:
    """Packets that entered in the window, early enough to have left before its end."""
    came = run.crossing.arrival_ns
    return (came >= start) & (came < end - run.max_delay_ns)


def _by_dscp(run: Record) -> dict[str, dict[str, float | int]]:
    """Loss for each code point that entered the bottleneck in the window."""
    judged = _judged(run, *run.window_ns)
    dscp, lost = run.crossing.tos[judged] >> 2, run.crossing.lost[judged]
    size = run.crossing.ip_length[judged]
    result: dict[str, dict[str, float | int]] = {}
    for value in np.unique(dscp):
        mine = dscp == value
        result[str(int(value))] = {
            "packets": int(np.sum(mine)),
            "packets_lost": int(np.sum(lost[mine])),
            "loss_percent": 100 * loss.loss_fraction(size[mine], lost[mine]),
            "packet_loss_percent": 100 * loss.loss_fraction(np.ones_like(size[mine]), lost[mine]),
        }
    return result


def _validity(checks: list[Check]) -> dict[str, Any]:
    failed = [check for check in checks if check.ok is False]
    return {
        "valid": not failed,
        "reasons": [f"{check.name}: {check.detail}" for check in failed],
        "checks": [check.as_dict() for check in checks],
    }
