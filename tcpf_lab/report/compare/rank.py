"""Do the cases stand in the published order? Kendall's rank correlation, and ties within noise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

from tcpf_lab.report.compare.bootstrap import Array, CellKey, Interval, Sample, interval
from tcpf_lab.report.style import CASES, DRAWN

Pair = tuple[str, str]


@dataclass(frozen=True)
class Ranking:
    """The cases of one block (configuration and number of flows) ranked by one metric.

    ``order`` is the measured order from the smallest mean to the largest, ``published_order`` the
    published one. ``ties`` are neighbours in ``order`` whose difference has 0 in its interval;
    ``reversed`` are pairs, the smaller measured one first, that were published the other way round
    and whose difference is beyond noise. ``seeds`` is the smallest number of seeds of a case.
    """

    config: str
    flows: int
    metric: str
    tau: float | None
    interval: Interval | None
    seeds: int
    order: tuple[str, ...]
    ties: tuple[Pair, ...]
    reversed: tuple[Pair, ...]
    published_order: tuple[str, ...]
    published_ties: tuple[Pair, ...]
    missing: tuple[str, ...]
    note: str


def tau_b(x: Array, y: Array) -> Array:
    r"""Kendall's rank correlation with ties.

    .. math:: \tau_b = \frac{\sum_{i<j} s_{ij} r_{ij}}{\sqrt{\sum s_{ij}^2 \sum r_{ij}^2}},
       \quad s_{ij} = \operatorname{sign}(x_i - x_j),\; r_{ij} = \operatorname{sign}(y_i - y_j)

    Parameters
    ----------
    x : array of float, shape (n,)
        Values of n >= 2 cases.
    y : array of float, shape (n,) or (n, R)
        Values of the same cases, once or R times.

    Returns
    -------
    array of float, shape (1,) or (R,)
        Between -1 and 1; NaN where all of x or all of y are equal, or a value is NaN.

    Raises
    ------
    ValueError
        If there are fewer than two cases, or the lengths differ.

    Examples
    --------
    >>> tau_b(np.array([1.0, 2.0, 3.0]), np.array([[1.0, 3.0], [3.0, 2.0], [2.0, 1.0]]))
    array([ 0.33333333, -1.        ])
    """
    if len(x) < 2 or len(x) != len(y):
        raise ValueError(f"two cases or more on both sides are needed, not {len(x)} and {len(y)}")
    first, second = np.triu_indices(len(x), 1)
    columns = y.reshape(len(y), -1)
    s = np.sign(x[first] - x[second])[:, np.newaxis]
    r = np.sign(columns[first] - columns[second])
    norm = np.sqrt(np.sum(s**2, axis=0) * np.sum(r**2, axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        result: Array = np.clip(np.sum(s * r, axis=0) / norm, -1, 1)  # rounding
    return result


def correlation(theirs: Array, ours: Array) -> Array | None:
    """Give :func:`tau_b`, or None where it is undefined.

    Parameters
    ----------
    theirs : array of float, shape (n,)
        Published values of n cases.
    ours : array of float, shape (n,) or (n, 1 + R)
        Measured means, and resamples of them.

    Returns
    -------
    array of float, shape (1,) or (1 + R,); or None
        None for fewer than two cases, or if the means or the published values are all equal.
    """
    if len(theirs) < 2:
        return None
    taus = tau_b(theirs, ours)
    return None if np.isnan(taus[0]) else taus


def rankings(measured: Sample, known: Sample) -> Iterator[Ranking]:
    """Rank the cases of every block that has at least one measured case, by every metric."""
    for config, flows in dict.fromkeys((cell.config, cell.flows) for cell in known.means):
        cells = [CellKey(config, flows, case) for case in CASES]
        if any(cell in measured.means for cell in cells):
            for metric in DRAWN:
                yield _ranking(cells, metric, measured, known)


def _ranking(cells: list[CellKey], metric: str, measured: Sample, known: Sample) -> Ranking:
    there = [cell for cell in cells if metric in measured.means.get(cell, {})]
    seeds = min((measured.seeds[cell] for cell in there), default=0)
    taus = None
    if there:
        taus = correlation(
            np.array([_mean(known, cell, metric) for cell in there]),
            np.stack([measured.values(cell, metric) for cell in there]),
        )
    tau = None if taus is None else float(taus[0])
    order = _ascending(there, metric, measured)
    published = _ascending(there, metric, known)
    return Ranking(
        config=cells[0].config,
        flows=cells[0].flows,
        metric=metric,
        tau=tau,
        interval=None if taus is None else interval(taus[1:], seeds),
        seeds=seeds,
        order=_names(order),
        ties=tuple(_pair(a, b) for a, b in pairwise(order) if _tied(a, b, metric, measured)),
        reversed=tuple(
            _pair(a, b)
            for a, b in combinations(order, 2)
            if _mean(known, a, metric) > _mean(known, b, metric)
            and not _tied(a, b, metric, measured)
        ),
        published_order=_names(published),
        published_ties=tuple(
            _pair(a, b) for a, b in pairwise(published) if _tied(a, b, metric, known)
        ),
        missing=tuple(cell.case for cell in cells if cell not in there),
        note=_note(len(there), seeds, tau),
    )


def _note(cases: int, seeds: int, tau: float | None) -> str:
    """Say why a number is not there."""
    if cases == 0:
        return "no case measured it"
    if cases < 2:
        return "one case only: nothing to rank"
    if tau is None:
        return "all cases are equal: no order"
    return "one seed: no interval, no ties" if seeds < 2 else ""


def _mean(sample: Sample, cell: CellKey, metric: str) -> float:
    return float(sample.values(cell, metric)[0])


def _ascending(cells: list[CellKey], metric: str, sample: Sample) -> list[CellKey]:
    return sorted(cells, key=lambda cell: _mean(sample, cell, metric))


def _names(cells: list[CellKey]) -> tuple[str, ...]:
    return tuple(cell.case for cell in cells)


def _pair(one: CellKey, other: CellKey) -> Pair:
    return one.case, other.case


def _tied(one: CellKey, other: CellKey, metric: str, sample: Sample) -> bool:
    """Say whether two cells are equal, or may be: 0 is in the interval of their difference."""
    difference = sample.values(one, metric) - sample.values(other, metric)
    if difference[0] == 0:
        return True
    seeds = min(sample.seeds.get(cell, 0) for cell in (one, other))
    spread = interval(difference[1:], seeds)
    return spread is not None and spread[0] <= 0 <= spread[1]
