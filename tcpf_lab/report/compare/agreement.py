"""How near the published tables are: a few numbers for each configuration, and over all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tcpf_lab.reference.published import CONFIGS
from tcpf_lab.report.compare.bootstrap import Array, CellKey, Interval, Sample, interval
from tcpf_lab.report.compare.rank import correlation
from tcpf_lab.report.style import DRAWN, SECOND_READINGS

#: What stands for a configuration in the row over all of them.
ALL = "all"
#: Added to both counts of timeouts: a few more or less of few are no factor.
ADDED = 3
#: Timeouts are near the published ones within this factor, or this many.
FACTOR, APART = 1.5, 5
_TIMEOUTS, _, _GOODPUT, _ = DRAWN


@dataclass(frozen=True)
class Measure:
    """One number and its 95 % interval, over so many cells (of a tau: blocks).

    ``value`` is None where nothing was measured, or nothing is defined.
    """

    metric: str
    value: float | None
    interval: Interval | None
    of: int


@dataclass(frozen=True)
class Agreement:
    """How near the measured cells of a configuration are.

    ``errors`` are root mean squares of ln(measured / published) over the cells; ``taus`` Kendall's
    tau of the block (number of flows) in which it is least; ``near`` counts the cells whose
    timeouts are within ``FACTOR`` or ``APART``. ``seeds`` is the smallest number of a cell.
    """

    config: str
    seeds: int
    errors: tuple[Measure, ...]
    taus: tuple[Measure, ...]
    near: Measure


def agreement(measured: Sample, known: Sample) -> Iterator[Agreement]:
    """Give a row for each measured configuration, and one over all if there are several."""
    cells = [cell for cell in known.means if cell in measured.means]
    configs = [config for config in CONFIGS if any(cell.config == config for cell in cells)]
    for config in configs:
        yield _agreement(config, [cell for cell in cells if cell.config == config], measured, known)
    if len(configs) > 1:
        yield _agreement(ALL, cells, measured, known)


def _agreement(config: str, cells: list[CellKey], measured: Sample, known: Sample) -> Agreement:
    seeds = min(measured.seeds[cell] for cell in cells)

    def pairs(metric: str, among: Sequence[CellKey]) -> list[tuple[Array, Array]]:
        column = SECOND_READINGS.get(metric, metric)
        there = [cell for cell in among if metric in measured.means[cell]]
        return [(measured.values(cell, metric), known.values(cell, column)) for cell in there]

    def measure(metric: str, parts: Sequence[Array], whole: Array | None) -> Measure:
        if whole is None:
            return Measure(metric, None, None, 0)
        return Measure(metric, float(whole[0]), interval(whole[1:], seeds), len(parts))

    def error(metric: str) -> Measure:
        added = ADDED if metric == _TIMEOUTS else 0
        with np.errstate(divide="ignore"):
            logs = [np.log((m + added) / (p + added)) for m, p in pairs(metric, cells)]
        return measure(metric, logs, np.sqrt(np.mean(np.square(logs), axis=0)) if logs else None)

    def least_tau(metric: str) -> Measure:
        taus = []
        for block in dict.fromkeys((cell.config, cell.flows) for cell in cells):
            own = pairs(metric, [cell for cell in cells if (cell.config, cell.flows) == block])
            if own:
                ours = np.stack([m for m, _ in own])
                taus.append(correlation(np.concatenate([p for _, p in own]), ours))
        found = [tau for tau in taus if tau is not None]
        return measure(metric, found, np.min(found, axis=0) if found else None)

    near = [_near(m, p) for m, p in pairs(_TIMEOUTS, cells)]
    return Agreement(
        config=config,
        seeds=seeds,
        errors=tuple(map(error, (*DRAWN, *SECOND_READINGS))),
        taus=(least_tau(_TIMEOUTS), least_tau(_GOODPUT)),
        near=measure(_TIMEOUTS, near, np.sum(near, axis=0) if near else None),
    )


def _near(measured: Array, known: Array) -> Array:
    """Give 1 where the numbers are near each other, 0 where not; NaN stays."""
    factor = (measured <= FACTOR * known) & (FACTOR * measured >= known)
    near = factor | (np.abs(measured - known) <= APART)
    result: Array = np.where(np.isnan(measured), np.nan, near)
    return result
