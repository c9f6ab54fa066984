"""What other seeds would have given: means of cells, resampled jointly over the seeds.

Run k of every cell starts from the same seed, so cells are drawn together: one resample takes the
same seeds, with the same multiplicity, in every cell. ``docs/papers.md`` has the formulas.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.base.errors import LabError
from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.report.claims.published import CONFIGS, FLOWS, published
from tcpf_lab.report.section import CellResult
from tcpf_lab.report.style import CASES, DRAWN, SECOND_READINGS

Array = NDArray[np.float64]
#: Lower and upper end of a confidence interval.
Interval = tuple[float, float]

CONFIDENCE = 0.95
_SEED = re.compile(r"-seed(\d+)$")


@dataclass(frozen=True, order=True)
class CellKey:
    """Name of a cell: configuration, number of flows, case."""

    config: str
    flows: int
    case: str

    def __str__(self) -> str:
        """Give ``A 100 TB+RIO``."""
        return f"{self.config} {self.flows} {self.case}"


#: Every published cell, in the order of the tables.
PUBLISHED_CELLS = tuple(
    CellKey(config, flows, case) for config in CONFIGS for flows in FLOWS for case in CASES
)


@dataclass(frozen=True)
class Sample:
    """Means of cells and their resamples.

    ``means[cell][metric]`` is an array of length 1 + R: the mean over the cell's runs, then its R
    resamples (NaN in a resample that holds none of the cell's seeds). ``seeds[cell]`` is the number
    of runs behind it. A cell without runs is absent.
    """

    means: Mapping[CellKey, Mapping[str, Array]]
    seeds: Mapping[CellKey, int]

    def values(self, cell: CellKey, metric: str) -> Array:
        """Give the mean and resamples of a metric; a single NaN if the cell is absent."""
        found = self.means.get(cell, {}).get(metric)
        return np.full(1, np.nan) if found is None else found


def published_sample() -> Sample:
    """Give the published tables in the same form: no resamples, nobody knows how many runs."""
    means = {}
    for cell in PUBLISHED_CELLS:
        known = published(cell.config, cell.case, cell.flows) or {}
        means[cell] = {name: np.array([known[name]]) for name in DRAWN if name in known}
    return Sample(means, {})


def measured_sample(results: Sequence[CellResult], seed: int, resamples: int) -> Sample:
    """Resample the runs of all cells over their seeds.

    Parameters
    ----------
    results : sequence of CellResult
        Cells with the values of their runs; those without a used run are left out.
    seed : int
        Of the resampling's random numbers.
    resamples : int
        Number R of resamples, 0 or more.

    Returns
    -------
    Sample
        With every metric of ``style.DRAWN`` and ``SECOND_READINGS`` that the cell's runs measured.

    Raises
    ------
    LabError
        If a run id does not end in its seed, or a cell is given twice.
    """
    runs = {key_of(result): used_seeds(result) for result in results if result.used}
    if len(runs) < sum(1 for result in results if result.used):
        raise LabError("a cell is given twice", hint="compare one variant of each configuration")
    everyone = sorted({number for seeds in runs.values() for number in seeds})
    place = {number: index for index, number in enumerate(everyone)}
    counts = _draws(len(everyone), seed, resamples)
    means = {}
    for result in results:
        if result.used:
            mine = counts[:, [place[number] for number in runs[key_of(result)]]]
            means[key_of(result)] = {
                name: _weighted(mine, np.asarray(result.metrics[name].values))
                for name in (*DRAWN, *SECOND_READINGS)
                if name in result.metrics and result.metrics[name].values
            }
    return Sample(means, {cell: len(seeds) for cell, seeds in runs.items()})


def key_of(result: CellResult) -> CellKey:
    """Give the key of a cell's result."""
    return CellKey(result.cell.config, result.cell.flows, result.cell.case)


def used_seeds(result: CellResult) -> tuple[int, ...]:
    """Give the seeds of the runs that the values of a cell come from, in the values' order."""
    return tuple(map(_seed_of, result.used_runs))


def _seed_of(run: str) -> int:
    found = _SEED.search(run)
    if found is None:
        raise LabError("a run id must end in -seedN", where=run)
    return int(found[1])


def _draws(seeds: int, seed: int, resamples: int) -> Array:
    """How often each seed is in each resample, (1 + R) x seeds; row 0 holds each one once."""
    once = np.ones((1, seeds))
    if seeds == 0:
        return once
    generator = np.random.default_rng(seed)
    drawn = generator.multinomial(seeds, np.full(seeds, 1 / seeds), size=resamples)
    return np.concatenate([once, drawn])


def _weighted(counts: Array, values: Array) -> Array:
    """Means of ``values`` taken as often as ``counts`` says; NaN where nothing is taken."""
    total = counts.sum(axis=1)
    with np.errstate(invalid="ignore"):
        result: Array = (counts @ values) / np.where(total == 0, np.nan, total)
    # A constant stays that very number, whatever the order of its additions.
    return np.clip(result, values.min(), values.max())


def interval(resampled: Array, seeds: int) -> Interval | None:
    r"""Give the 95 % confidence interval of a number from its resamples.

    The percentile interval is too short for few seeds by two causes: a resample's spread lacks the
    factor :math:`\sqrt{n/(n-1)}`, and the normal quantile stands for Student's. Both are put right
    by moving the percentiles outwards (Hesterberg 2015, the expanded percentile interval):

    .. math:: \alpha' / 2 = \Phi\left(-\sqrt{n/(n-1)}\; t_{n-1,\,1-\alpha/2}\right)

    Parameters
    ----------
    resampled : array of float, length R
        NaN entries do not count; infinite ones do.
    seeds : int
        Number n of seeds that were resampled, the smallest one of the cells involved.

    Returns
    -------
    tuple of (float, float), or None
        None for fewer than two seeds, or without resamples.

    Examples
    --------
    Ten seeds: the tail is 0.86 % instead of 2.5 %.

    >>> interval(np.arange(1001.0), 10)
    (8.0, 992.0)
    """
    known = np.sort(resampled[~np.isnan(resampled)])
    if seeds < 2 or known.size == 0:
        return None
    from scipy.special import ndtr, stdtrit  # here, because the command line starts without scipy

    quantile = float(stdtrit(seeds - 1, (1 + CONFIDENCE) / 2))
    tail = float(ndtr(-math.sqrt(seeds / (seeds - 1)) * quantile))
    last = known.size - 1
    low, high = math.floor(tail * last), math.ceil((1 - tail) * last)
    return float(known[low]), float(known[high])


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


#: What rounding can leave of no change at all, as a share of the means: no effect is that small.
_ROUNDING = 1e-9
#: Weights and the cells they are for; the weights of a contrast add up to 0.
Terms = Sequence[tuple[float, CellResult]]


@dataclass(frozen=True)
class Contrast:
    """What a metric's means make of a contrast.

    ``difference`` is the weighted sum of the means in the metric's unit, ``log_ratio`` that of
    their natural logarithms; each with the half width of its 95 % interval (Student's t over the
    pairs), which is None for fewer than two pairs. ``log_ratio`` is None where a mean is 0, and
    both are where no seed is in every cell; ``note`` says so.
    """

    pairs: int
    difference: float | None = None
    difference_ci: float | None = None
    log_ratio: float | None = None
    log_ratio_ci: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """The ratio that the difference of logarithms stands for."""
        return None if self.log_ratio is None else math.exp(self.log_ratio)

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of the ratio."""
        if self.log_ratio is None or self.log_ratio_ci is None:
            return None
        return _ends(self.log_ratio, self.log_ratio_ci)

    @property
    def beyond_noise(self) -> bool | None:
        """Whether no change at all is outside of the interval; None without an interval.

        The ratio's interval decides, and where there is no ratio that of the difference.
        """
        change, half = self.log_ratio, self.log_ratio_ci
        if change is None:
            change, half = self.difference, self.difference_ci
        return None if change is None or half is None else abs(change) > half


def _ends(middle: float, half: float) -> Interval:
    """Give the ends of an interval of logarithms as ratios."""
    return math.exp(middle - half), math.exp(middle + half)


def contrast(terms: Terms, metric: str) -> Contrast:
    r"""Estimate a contrast of cells from the seeds that all of them have.

    With :math:`y_{ck}` the metric of cell c in the run of seed k and :math:`\bar y_c` its mean,

    .. math:: D = \sum_c w_c \bar y_c, \quad L = \sum_c w_c \ln \bar y_c, \quad
       d_k = \sum_c w_c y_{ck}, \quad l_k = \sum_c w_c y_{ck} / \bar y_c

    and the half widths are those of the means of d and of l (the delta method: l is what the
    logarithms of the means change with, to first order).

    Parameters
    ----------
    terms : sequence of (float, CellResult)
        Weights that add up to 0, and cells.
    metric : str
        A name of ``style.METRICS``.

    Returns
    -------
    Contrast
        Over as many pairs as there are seeds that every cell has a used run of.

    Raises
    ------
    ValueError
        If the weights do not add up to 0.

    References
    ----------
    G. W. Oehlert, The American Statistician 46, 1992, for the delta method.
    """
    weights = np.array([weight for weight, _ in terms])
    if abs(weights.sum()) > 1e-9:
        raise ValueError(f"the weights of a contrast add up to 0, not to {weights.sum()}")
    values = _paired([result for _, result in terms], metric)
    pairs = values.shape[1]
    if pairs == 0:
        return Contrast(0, note="no seed has a usable run that measured it in every cell")
    means = values.mean(axis=1)
    difference, difference_ci = mean_ci(list(weights @ values))
    difference = _settled(difference, float(np.abs(means).max()))
    if means.min() <= 0:
        return Contrast(pairs, difference, difference_ci, note="a mean of 0: no ratio")
    log_ratio = _settled(float(weights @ np.log(means)), 1.0)
    _, log_ratio_ci = mean_ci(list(weights @ (values / means[:, np.newaxis])))
    note = "" if pairs > 1 else "one pair: no interval"
    return Contrast(pairs, difference, difference_ci, log_ratio, log_ratio_ci, note)


def _settled(change: float, size: float) -> float:
    """Take what rounding left of no change for none."""
    return change if abs(change) > _ROUNDING * size else 0.0


def _paired(results: Sequence[CellResult], metric: str) -> Array:
    """Values of the seeds that all cells have, cells x seeds."""
    known = [
        dict(zip(used_seeds(one), one.metrics[metric].values, strict=True))
        if one.metrics[metric].values
        else {}  # its runs could not measure it
        for one in results
    ]
    shared = [seed for seed in known[0] if all(seed in own for own in known)] if known else []
    return np.array([[own[seed] for seed in shared] for own in known]).reshape(
        len(known), len(shared)
    )


def slope_weights(places: Sequence[float]) -> list[float]:
    """Weights that give a straight line's rise from the least place to the greatest.

    Parameters
    ----------
    places : sequence of float
        Where the values stand, at least two different ones.

    Returns
    -------
    list of float
        Of ordinary least squares, in the order of `places`; they add up to 0.

    Examples
    --------
    >>> slope_weights([100.0, 200.0, 300.0])
    [-1.0, 0.0, 1.0]
    """
    x = np.asarray(places, float)
    unit = (x - x.min()) / (x.max() - x.min())
    centred = unit - unit.mean()
    return [float(weight) for weight in centred / np.sum(centred**2)]
