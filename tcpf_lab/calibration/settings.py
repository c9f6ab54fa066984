"""Which settings are looked at closely after the search, and which of them is the best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.calibration.ledger import Point, point_at, units
from tcpf_lab.calibration.objective import (
    Target,
    complete,
    least_of,
    logged,
    misfit,
    threshold,
)
from tcpf_lab.calibration.responses import Wanted
from tcpf_lab.calibration.search import Search
from tcpf_lab.calibration.space import Floats
from tcpf_lab.report.section import CellResult
from tcpf_lab.run.selection import Choice

#: How many settings are taken for what the emulator expects of them, beside the best one measured.
_EXPECTED = 3
#: Round of settings that the search has not run: none.
_AFTERWARDS = -1


@dataclass(frozen=True)
class Tried:
    """What is known of the points that were run; arrays have one entry for each of them.

    ``totals`` are the misfits measured; ``whole`` says which have measured everything, ``allowed``
    which are not excluded.
    """

    points: Sequence[Point]
    totals: Floats
    whole: NDArray[np.bool_]
    allowed: NDArray[np.bool_]


def close_look(
    search: Search, tried: Tried, within: Floats, expected: Callable[[Floats], Floats]
) -> tuple[Point, ...]:
    """Choose settings that stand for all that the published numbers do not exclude.

    Parameters
    ----------
    search : Search
        Whose unknowns they are.
    tried : Tried
        Every point that was run.
    within : array, shape (n, d)
        Places that were not run and are not excluded either: those of the profiles, which reach the
        ends of every range that is left.
    expected : callable
        Gives the misfits (m,) that the emulator expects at places (m, d).

    Returns
    -------
    tuple of Point
        The uncalibrated setting, then that of the least misfit, then up to three of which the
        emulator expects the least, then of those that are allowed the farthest from all chosen
        ones, again and again; at most `check.settings`. What an experiment refuses is none, nor
        are points of which cells have no usable run, unless there is no other.

    Notes
    -----
    The least misfit measured is that of few seeds, and in part luck; the emulator has learned from
    all points, so that one run's luck weighs less in what it expects. All of it follows from the
    points and their runs, so that it is the same again after an interruption.
    """
    most = search.subject.calibration.check_.settings
    chosen = [search.default]
    best = tried.points[least_of(tried.totals, tried.whole)]
    if best.id != search.default.id:
        chosen.append(best)
    names = {point.id for point in chosen}
    left = [point for point in _candidates(search, tried, within) if point.id not in names]
    if left:
        order = np.argsort(expected(units(left)), kind="stable")
        left = [left[place] for place in order]
    first = min(_EXPECTED, (most - len(chosen)) // 2)
    chosen, left = chosen + left[:first], left[first:]
    while left and len(chosen) < most:
        places, taken = (search.space.encode(units(some)) for some in (left, chosen))
        apart = ((places[:, None, :] - taken[None, :, :]) ** 2).sum(axis=2).min(axis=1)
        chosen.append(left.pop(int(np.argmax(apart))))
    return tuple(chosen)


def _candidates(search: Search, tried: Tried, within: Floats) -> list[Point]:
    """Give the settings that are not excluded, each once: points that were run, then places."""
    whole = tried.allowed & tried.whole
    usable = whole if whole.any() else tried.allowed
    points = [point for point, ok in zip(tried.points, usable, strict=True) if ok]
    known = {point.id for point in tried.points}
    for place in within:
        point = point_at(search.subject, search.space, place, _AFTERWARDS)
        if point.id not in known:
            points.append(point)
            known.add(point.id)
    return [point for point in points if search.responses.is_allowed(point)]


def look_closely(search: Search, chosen: Sequence[Point], carry: Callable[[Choice], None]) -> None:
    """Run settings on all experiments, held out or not, with more seeds."""
    calibration = search.subject.calibration
    title = f"{calibration.name}: {len(chosen)} settings with {calibration.check_.seeds} seeds"
    carry(search.responses.choice(title, wanted_of(search, chosen)))


def wanted_of(search: Search, chosen: Sequence[Point]) -> list[Wanted]:
    """Give what the close look runs of settings."""
    seeds = search.subject.calibration.check_.seeds
    return [Wanted(point, search.subject.experiments, seeds) for point in chosen]


@dataclass(frozen=True)
class Judged:
    """The settings of the close look, judged by their runs; arrays have an entry for each.

    ``totals`` are their misfits with all seeds, ``unseen`` with those alone that the search has not
    seen; ``limit`` is the threshold of ``totals``, ``allowed`` tells which are not above it,
    ``best`` is the one that fits best.
    """

    best: Point
    totals: Floats
    unseen: Floats
    limit: float
    allowed: NDArray[np.bool_]


def judged(
    search: Search, chosen: Sequence[Point], target: Target, before: NDArray[np.bool_]
) -> Judged:
    """Judge settings by the seeds of the close look.

    Parameters
    ----------
    search : Search
        Whose unknowns they are.
    chosen : sequence of Point
        The settings.
    target : Target
        What the search was for.
    before : ndarray of bool
        Which of the settings the emulator does not exclude: of one that lacks runs nothing better
        is known.

    Notes
    -----
    The best is that of the least misfit with the seeds that the search has not seen: of many points
    some are lucky with the seed that they were chosen by. A cell without a usable run of such a
    seed is judged by those that it has. What is held out has no say in it. Settings are excluded by
    the misfit with all seeds, at a threshold above the least one that was measured so: that of the
    profiles is above what the emulator expects at its best place, without the noise of any run.
    """
    calibration = search.subject.calibration
    seen, seeds = calibration.seeds, calibration.check_.seeds
    results = [search.responses.results(point, search.cells, seeds) for point in chosen]
    every, others = _means(results, target, 0), _means(results, target, seen)
    others = np.where(np.isfinite(others), others, every)
    closely = replace(target, seeds=seeds)
    totals = misfit(every, closely).total
    unseen = misfit(others, replace(target, seeds=seeds - seen)).total
    whole = complete(every, target)
    limit = np.nan
    if np.isfinite(totals).any():
        worth = None if (asked := calibration.independent) is None else min(asked, target.fitted)
        least = float(totals[least_of(totals, whole)])
        limit = threshold(least, closely, search.space.parameters, worth).limit
    if np.isfinite(unseen).any():
        best = chosen[least_of(unseen, complete(others, target))]
    else:
        best = chosen[min(1, len(chosen) - 1)]
    return Judged(best, totals, unseen, limit, np.where(whole, totals <= limit, before))


def _means(results: Sequence[Sequence[CellResult]], target: Target, after: int) -> Floats:
    """Give logarithms of means (settings, cells, metrics) without each cell's first runs."""
    values = [
        [[_mean(cell, metric, after) for metric in target.metrics] for cell in cells]
        for cells in results
    ]
    return logged(np.array(values, dtype=float), target.metrics)


def _mean(result: CellResult, metric: str, after: int) -> float:
    """Give the mean over the runs that stand after so many of the cell's, NaN of none."""
    values, others = result.metrics[metric].values, set(result.cell.runs[after:])
    made_of = result.used_runs if values else ()
    kept = [value for run, value in zip(made_of, values, strict=True) if run in others]
    return float(np.mean(kept)) if kept else float("nan")
