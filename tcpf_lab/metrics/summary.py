"""The numbers of one run, and means over runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tcpf_lab.metrics.background import background
from tcpf_lab.metrics.captured import CapturedRecord, with_captures
from tcpf_lab.metrics.from_counters import Extra, Numbers, from_counters
from tcpf_lab.metrics.from_packets import from_packets
from tcpf_lab.metrics.parking_lot import parking_lot
from tcpf_lab.metrics.pftk import pftk_error
from tcpf_lab.metrics.record import Record, read_record
from tcpf_lab.metrics.users import users
from tcpf_lab.metrics.validity import Check
from tcpf_lab.metrics.wire import wires
from tcpf_lab.results.layout import FORMAT, RunFiles, write_json

#: Version of the analysis: of the rules in ``trace``, ``metrics`` and ``models``.  Raise it with
#: every change that changes a number in ``metrics.json`` or ``series.npz``, and with no other: runs
#: that an earlier version analysed are stale.  ``tests/metrics/test_analysis_version.py`` fails
#: when numbers change and this does not.
ANALYSIS = "4"


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


#: Each is asked about every run, and gives an empty `Extra` where it has nothing to say.
EXTRAS: tuple[Callable[[RunFiles, Record], Extra], ...] = (
    background,
    users,
    parking_lot,
    pftk_error,
    wires,
)


def _validity(checks: list[Check]) -> dict[str, Any]:
    failed = [check for check in checks if check.ok is False]
    return {
        "valid": not failed,
        "reasons": [f"{check.name}: {check.detail}" for check in failed],
        "checks": [check.as_dict() for check in checks],
    }
