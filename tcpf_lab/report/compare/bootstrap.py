"""What other seeds would have given: means of cells, resampled jointly over the seeds.

Run k of every cell starts from the same seed, so cells are drawn together: one resample takes the
same seeds, with the same multiplicity, in every cell. ``docs/compare.md`` has the formulas.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.errors import LabError
from tcpf_lab.reference.published import CONFIGS, FLOWS, published
from tcpf_lab.report.collect import CellResult
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
