"""Cells as `collect` would give them, from values that a test makes up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.report.claims.published import published
from tcpf_lab.report.compare.statistics import PUBLISHED_CELLS, CellKey
from tcpf_lab.report.section import Cell, CellResult, Estimate, Problem
from tcpf_lab.report.style import DRAWN, METRICS, SECOND_READINGS

#: Values of each metric, one per seed.
Values = Mapping[str, Sequence[float]]


def known(cell: CellKey) -> dict[str, float]:
    values = published(cell.config, cell.case, cell.flows)
    assert values is not None
    return values


def cell_result(cell: CellKey, values: Values, seeds: Sequence[int]) -> CellResult:
    """One run per seed; ``values`` has as many of each metric."""
    numbers = published(cell.config, cell.case, cell.flows) or {}
    metrics = {}
    for name in (*METRICS, *(name for name in SECOND_READINGS if name in values)):
        own = tuple(values.get(name, [0.0] * len(seeds)))
        assert len(own) == len(seeds)
        mean, half = mean_ci(own) if own else (None, None)
        metrics[name] = Estimate(own, mean, half, numbers.get(SECOND_READINGS.get(name, name)))
    runs = tuple(f"{cell.case.lower()}-flows{cell.flows}-seed{seed}" for seed in seeds)
    count = len(seeds)
    return CellResult(
        Cell(cell.config, cell.case, cell.flows, runs), count, count, count, metrics, ()
    )


def without_runs(cell: CellKey, seeds: Sequence[int] = (1, 2)) -> CellResult:
    """A cell of the matrix whose runs have not been made."""
    empty = cell_result(cell, dict.fromkeys(METRICS, ()), ())
    runs = tuple(f"x-seed{seed}" for seed in seeds)
    problems = tuple(Problem(run, "missing") for run in runs)
    own = Cell(cell.config, cell.case, cell.flows, runs)
    return CellResult(own, 0, 0, 0, empty.metrics, problems)


def with_problems(result: CellResult, *problems: Problem) -> CellResult:
    """The cell with these remarks; runs that it does not have yet are asked for as well."""
    runs = tuple(dict.fromkeys((*(problem.run for problem in problems), *result.cell.runs)))
    return replace(result, cell=replace(result.cell, runs=runs), problems=problems)


def table(
    values: Callable[[CellKey, str, int], float] | None = None,
    *,
    seeds: Sequence[int] = (1, 2, 3, 4, 5, 6),
    cells: Sequence[CellKey] = PUBLISHED_CELLS,
) -> list[CellResult]:
    """Cells with ``values(cell, metric, seed)``; the published values for every seed by default."""
    value = values or (lambda cell, metric, seed: known(cell)[metric])
    return [
        cell_result(cell, {m: [value(cell, m, s) for s in seeds] for m in DRAWN}, seeds)
        for cell in cells
    ]
