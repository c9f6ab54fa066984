"""Measured against the published tables: cells, orders of the cases, gains, every claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from tcpf_lab.base.errors import LabError
from tcpf_lab.papers.thesis.claims import BASELINES, CLAIMS, FRIO, GOODPUT, TIMEOUTS
from tcpf_lab.report.claims.judge import FEWEST_SEEDS, Check, judge, read
from tcpf_lab.report.claims.published import CONFIGS
from tcpf_lab.report.compare.published import (
    ADDED,
    APART,
    FACTOR,
    Agreement,
    CellComparison,
    Comparison,
    Conditions,
    Measure,
    TimeoutGain,
    left_out,
)
from tcpf_lab.report.compare.statistics import (
    PUBLISHED_CELLS,
    Array,
    CellKey,
    Interval,
    Sample,
    correlation,
    interval,
    key_of,
    measured_sample,
    published_sample,
    rankings,
)
from tcpf_lab.report.contents.model import sentences
from tcpf_lab.report.section import CellResult, Estimate
from tcpf_lab.report.style import DRAWN, SECOND_READINGS
from tcpf_lab.results.command import command

#: What stands for a configuration in the row over all of them.
ALL = "all"


#: Defaults of the bootstrap.
SEED = 1
RESAMPLES = 5000
#: Below these the intervals are not what they are called.
FEW_SEEDS = 5
FEW_RESAMPLES = 1000


def compare(
    results: Sequence[CellResult],
    seed: int = SEED,
    resamples: int = RESAMPLES,
    conditions: Iterable[tuple[str, str]] = (),
) -> Comparison:
    """Hold measured cells to the published tables.

    Parameters
    ----------
    results : sequence of CellResult
        Cells of one or several configurations, those without runs included.
    seed : int
        Of the bootstrap's random numbers: the same seed gives the same intervals.
    resamples : int
        Number of bootstrap resamples.
    conditions : iterable of (str, str)
        Configurations and the conditions that their runs were made under.

    Returns
    -------
    Comparison
        What is missing is listed; cells that nobody published are compared with nothing.

    Raises
    ------
    LabError
        If no published cell has a used run, a cell is given twice, or a run id has no seed.
    """
    measured, known = measured_sample(results, seed, resamples), published_sample()
    missing = tuple(cell for cell in PUBLISHED_CELLS if cell not in measured.means)
    if len(missing) == len(PUBLISHED_CELLS):
        raise _nothing_to_compare(results)
    return Comparison(
        seed=seed,
        resamples=resamples,
        conditions=tuple(_conditions(conditions)),
        agreement=tuple(agreement(measured, known)),
        cells=tuple(_cells(results)),
        blocks=tuple(rankings(measured, known)),
        gains=tuple(_gains(measured, known)),
        claims=tuple(judge(claim, known, measured) for claim in CLAIMS),
        missing=missing,
        problems=tuple(str(problem) for result in results for problem in result.problems),
        left_out=tuple(left_out(results)),
        notes=tuple(_notes(results, resamples)),
    )


def _conditions(conditions: Iterable[tuple[str, str]]) -> Iterator[Conditions]:
    """Name the configurations that share their conditions together."""
    shared: dict[str, list[str]] = {}
    for config, text in dict.fromkeys(conditions):
        shared.setdefault(text, []).append(config)
    for text, configs in shared.items():
        yield Conditions(tuple(configs), text)


def _notes(results: Sequence[CellResult], resamples: int) -> list[str]:
    used = [result.used for result in results if result.used]
    return sentences(
        "published_notes",
        fewest=min(used),
        most=max(used),
        fewest_judged=FEWEST_SEEDS,
        few_seeds=FEW_SEEDS,
        resamples=resamples,
        few_resamples=FEW_RESAMPLES,
        invalid=any(problem.used for result in results for problem in result.problems),
    )


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
        added = ADDED if metric == TIMEOUTS else 0
        with np.errstate(divide="ignore"):
            logs = [np.log((m + added) / (p + added)) for m, p in pairs(metric, cells)]
        return measure(metric, logs, np.sqrt(np.mean(np.square(logs), axis=0)) if logs else None)

    def minimum_tau(metric: str) -> Measure:
        taus = []
        for block in dict.fromkeys((cell.config, cell.flows) for cell in cells):
            own = pairs(metric, [cell for cell in cells if (cell.config, cell.flows) == block])
            if own:
                ours = np.stack([m for m, _ in own])
                taus.append(correlation(np.concatenate([p for _, p in own]), ours))
        found = [tau for tau in taus if tau is not None]
        return measure(metric, found, np.min(found, axis=0) if found else None)

    near = [_near(m, p) for m, p in pairs(TIMEOUTS, cells)]
    return Agreement(
        config=config,
        seeds=seeds,
        errors=tuple(map(error, (*DRAWN, *SECOND_READINGS))),
        taus=(minimum_tau(TIMEOUTS), minimum_tau(GOODPUT)),
        near=measure(TIMEOUTS, near, np.sum(near, axis=0) if near else None),
    )


def _near(measured: Array, known: Array) -> Array:
    """Give 1 where the numbers are near each other, 0 where not; NaN stays."""
    factor = (measured <= FACTOR * known) & (FACTOR * measured >= known)
    near = factor | (np.abs(measured - known) <= APART)
    result: Array = np.where(np.isnan(measured), np.nan, near)
    return result


def _nothing_to_compare(results: Sequence[CellResult]) -> LabError:
    """List what exists instead."""
    states = Counter(problem.state for result in results for problem in result.problems)
    parts = [f"{count} {state}" for state, count in sorted(states.items())]
    used = [str(key_of(result)) for result in results if result.used]
    parts += [f"{len(used)} unpublished, such as {used[0]}"] if used else []
    return LabError(
        f"no published cell has a usable run (found: {', '.join(parts) or 'no runs at all'})",
        hint=f"`{command('run', 'chapter4.yaml')}`, then compare again",
    )


def _cells(results: Sequence[CellResult]) -> Iterator[CellComparison]:
    for result in results:
        for metric in DRAWN:
            estimate = result.metrics[metric]
            ratio, spread, note = _ratio(estimate, result.used)
            yield CellComparison(
                config=result.cell.config,
                flows=result.cell.flows,
                case=result.cell.case,
                metric=metric,
                n=result.used,
                mean=estimate.mean,
                ci95=estimate.ci95,
                published=estimate.published,
                ratio=ratio,
                ratio_ci=spread,
                note=note,
            )


def _ratio(estimate: Estimate, used: int) -> tuple[float | None, Interval | None, str]:
    """Measured over published, its interval, and why one of them is not there.

    The published value has no interval, so the mean's own is divided by it; no metric can be
    negative, so it ends at 0.
    """
    mean, half, known = estimate.mean, estimate.ci95, estimate.published
    if mean is None:
        return None, None, "not measured" if used else "no usable run"
    if known is None:
        return None, None, "nothing published"
    if known == 0:
        return None, None, "published as 0: no ratio"
    if half is None:
        return mean / known, None, "one seed: no interval"
    return mean / known, (max(0.0, (mean - half) / known), (mean + half) / known), ""


def _gains(measured: Sample, known: Sample) -> Iterator[TimeoutGain]:
    for config, flows in dict.fromkeys((cell.config, cell.flows) for cell in known.means):
        for other in BASELINES:
            yield _gain(
                CellKey(config, flows, FRIO), CellKey(config, flows, other), measured, known
            )


def _gain(cell: CellKey, other: CellKey, measured: Sample, known: Sample) -> TimeoutGain:
    check = Check("", lambda look: look(other, TIMEOUTS) / look(cell, TIMEOUTS))
    ours = read(check, measured)
    return TimeoutGain(
        config=cell.config,
        flows=cell.flows,
        metric=TIMEOUTS,
        case=cell.case,
        against=other.case,
        published=read(check, known).value,
        measured=ours.value,
        interval=ours.interval,
        seeds=ours.seeds,
        missing=ours.missing,
        note=ours.note,
    )
