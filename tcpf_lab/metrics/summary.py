"""The numbers of a run, from its captures or from its counters alone; and means over runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.metrics import definitions
from tcpf_lab.metrics.agreement import truth
from tcpf_lab.metrics.capacity import mean_rate
from tcpf_lab.metrics.captured import (
    CapturedRecord,
    flow_report,
    flow_row,
    gained_bytes,
    with_captures,
)
from tcpf_lab.metrics.definitions import mean_goodput, utilisation
from tcpf_lab.metrics.from_counters import Extra, Numbers, from_counters, of_flows, or_none
from tcpf_lab.metrics.groups import groups
from tcpf_lab.metrics.pftk import pftk_error
from tcpf_lab.metrics.probes import probes
from tcpf_lab.metrics.queue_counters import queue
from tcpf_lab.metrics.record import Record, read_record
from tcpf_lab.metrics.sections import background, parking_lot, users, wires
from tcpf_lab.metrics.series import series_of, write_series
from tcpf_lab.metrics.validity import Check, check_captured
from tcpf_lab.results.layout import FORMAT, RunFiles, write_json
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
    counted = truth(files, run, flows)
    line = backlog(run.transit)
    write_series(files, series_of(run, line))
    return Numbers(
        metrics=_metrics(run, line, flows),
        by_dscp=_by_dscp(run),
        per_flow=[_with_report(files, run, row) for row in flows],
        truth=counted,
        checks=check_captured(files, run, gained, counted),
    )


def _with_report(files: RunFiles, run: CapturedRecord, row: dict[str, Any]) -> dict[str, Any]:
    """Add iperf3's report of a flow to its numbers, if it made the traffic."""
    reported = flow_report(files, run, int(row["flow"]))
    return row if reported is None else {**row, "iperf3": reported}


def _metrics(
    run: CapturedRecord, line: Backlog, flows: list[dict[str, Any]]
) -> dict[str, float | int | None]:
    """Numbers of the whole run; None where a number is undefined."""
    shares = [flow["goodput_bytes_per_s"] for flow in flows]
    sent = _sent(run)
    return {
        **of_flows(run, flows),
        **_second_readings(run, sent, shares),
        **_recovery_metrics(run, sent),
        **_queue_metrics(run, line),
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
    """Loss as the share of bytes retransmitted, and goodput with headers.

    The papers do not state which they count.
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


def _queue_metrics(run: CapturedRecord, line: Backlog) -> dict[str, float | int | None]:
    """Loss, use and length of the bottleneck's queue."""
    transit, (start, end) = run.transit, run.window_ns
    left = transit.departure_ns
    gone = transit.wire_length[(left >= start) & (left < end)]
    rate = mean_rate(run.expect["bottleneck"], run.window_s)
    judged = run.judged(transit)
    stay = definitions.delays(transit.arrival_ns[judged], left[judged])
    size, lost = transit.ip_length[judged], transit.lost[judged]
    byte_loss = or_none(definitions.loss_fraction, size, lost)
    packet_loss = or_none(definitions.loss_fraction, np.ones_like(size), lost)
    return {
        "loss_percent": None if byte_loss is None else 100 * byte_loss,
        "packet_loss_percent": None if packet_loss is None else 100 * packet_loss,
        "utilisation": or_none(utilisation, int(np.sum(gone)), rate, run.seconds),
        "backlog_mean_bytes": definitions.mean_backlog(line.time_ns, line.size, start, end),
        "backlog_max_bytes": definitions.largest_backlog(line.time_ns, line.size, start, end),
        "queueing_delay_mean_s": float(np.mean(stay)) if stay.size else None,
        "queueing_delay_p95_s": or_none(definitions.percentile, stay, 95.0),
    }


def _by_dscp(run: CapturedRecord) -> dict[str, dict[str, float | int]]:
    """Arrivals and loss for each code point that entered the bottleneck in the window."""
    judged = run.judged(run.transit)
    seconds = (run.window_ns[1] - run.max_delay_ns - run.window_ns[0]) / 1e9
    dscp, lost = run.transit.tos[judged] >> 2, run.transit.lost[judged]
    size = run.transit.ip_length[judged]
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


#: Version of the analysis: of the rules in ``trace``, ``metrics`` and ``models``.  Raise it with
#: every change that changes a number in ``metrics.json`` or ``series.npz``, and with no other: runs
#: that an earlier version analysed are stale.  ``tests/metrics/test_analysis_version.py`` fails
#: when numbers change and this does not.
ANALYSIS = "6"


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
    """Turn what a run left behind into ``metrics.json``, and captures into ``series.npz``.

    Parameters
    ----------
    run : RunFiles
        A run directory, complete or partial, with its captures if it was made with any.

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
    if record.was_captured:
        record = with_captures(run, record)
    numbers = _numbers(run, record)
    manifest = record.manifest
    names = ("experiment", "config", "case", "flows", "seed", "run", "window_s")
    extras = [extra(run, record) for extra in EXTRAS]
    more = {name: value for extra in extras for name, value in extra.metrics.items()}
    metrics = numbers.metrics | more
    unmeasured = [
        n for n in metrics if metrics[n] is None and (n in numbers.unmeasured or n in more)
    ]
    result = {
        "format": FORMAT,
        "analysis": ANALYSIS,
        **{name: manifest.get(name) for name in names},
        "metrics": metrics,
        **({"unmeasured": unmeasured} if unmeasured else {}),
        "by_dscp": numbers.by_dscp,
        "per_flow": numbers.per_flow,
        "truth": numbers.truth,
        **{name: value for extra in extras for name, value in extra.sections.items()},
        "validity": _validity([*numbers.checks, *(c for extra in extras for c in extra.checks)]),
    }
    write_json(run.metrics, result)
    return result


def _numbers(run: RunFiles, record: Record) -> Numbers:
    if isinstance(record, CapturedRecord):
        return from_packets(run, record)
    return from_counters(run, record)


#: Each is called for every run, and gives an empty `Extra` where it does not apply.
EXTRAS: tuple[Callable[[RunFiles, Record], Extra], ...] = (
    background,
    users,
    parking_lot,
    pftk_error,
    wires,
    groups,
    probes,
    queue,
)


def _validity(checks: list[Check]) -> dict[str, Any]:
    failed = [check for check in checks if check.ok is False]
    return {
        "valid": not failed,
        "reasons": [f"{check.name}: {check.detail}" for check in failed],
        "checks": [check.as_dict() for check in checks],
    }
