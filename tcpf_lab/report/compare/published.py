"""Measured against published: cells, orders of the cases, gains in timeouts, every claim."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from tcpf_lab.report.claims.judge import ClaimResult
from tcpf_lab.report.compare.statistics import (
    CellKey,
    Interval,
    Ranking,
)
from tcpf_lab.report.section import STATES, CellResult, State

#: Added to both counts of timeouts: a few more or less of few are no factor.
ADDED = 3
#: Timeouts are near the published ones within this factor, or this many.
FACTOR, APART = 1.5, 5


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
    minimum tau over the blocks (numbers of flows); ``near`` counts the cells whose
    timeouts are within ``FACTOR`` or ``APART``. ``seeds`` is the smallest number of a cell.
    """

    config: str
    seeds: int
    errors: tuple[Measure, ...]
    taus: tuple[Measure, ...]
    near: Measure


@dataclass(frozen=True)
class CellComparison:
    """One metric of one cell: ``ratio`` is measured / published, ``ratio_ci`` its 95 % interval.

    ``n`` is the number of runs in the mean, ``ci95`` its half width as in ``table.csv``; ``note``
    says why a number is None.
    """

    config: str
    flows: int
    case: str
    metric: str
    n: int
    mean: float | None
    ci95: float | None
    published: float | None
    ratio: float | None
    ratio_ci: Interval | None
    note: str


@dataclass(frozen=True)
class TimeoutGain:
    """How many times the timeouts of ``case`` the case ``against`` has, in one block.

    ``measured`` is None where a cell is missing or both have no timeouts at all, and infinite where
    only ``case`` has none; ``note`` says which of them.
    """

    config: str
    flows: int
    metric: str
    case: str
    against: str
    published: float | None
    measured: float | None
    interval: Interval | None
    seeds: int
    missing: tuple[str, ...]
    note: str


@dataclass(frozen=True)
class LeftOut:
    """Runs that are not part of the means for the same reason, and the first of them."""

    state: State
    runs: int
    first: str


@dataclass(frozen=True)
class Conditions:
    """Under which conditions the runs of some configurations were made."""

    configs: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Comparison:
    """Everything that ``tcpf-lab compare`` says.

    ``agreement`` has a row per measured configuration, and one over all if there are several.
    ``blocks`` has one ranking for each measured block and metric, ``gains`` two per block,
    ``missing`` the published cells without a used run, ``problems`` a line per run with a remark,
    ``left_out`` how many runs are not used and why, ``notes`` what to keep in mind when reading.
    """

    seed: int
    resamples: int
    conditions: tuple[Conditions, ...]
    agreement: tuple[Agreement, ...]
    cells: tuple[CellComparison, ...]
    blocks: tuple[Ranking, ...]
    gains: tuple[TimeoutGain, ...]
    claims: tuple[ClaimResult, ...]
    missing: tuple[CellKey, ...]
    problems: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...]


def of_requested(comparison: Comparison) -> Comparison:
    """Drop gains, claims and missing cells that need a cell that was not requested.

    A claim stays if one of its checks needs requested cells only; a note counts the others.
    """
    requested = {CellKey(row.config, row.flows, row.case) for row in comparison.cells}
    names = set(map(str, requested))
    claims = tuple(
        replace(claim, findings=own)
        for claim in comparison.claims
        if (own := tuple(row for row in claim.findings if names.issuperset(row.ours.missing)))
    )
    others = len(comparison.claims) - len(claims)
    return replace(
        comparison,
        gains=tuple(row for row in comparison.gains if names.issuperset(row.missing)),
        claims=claims,
        missing=tuple(cell for cell in comparison.missing if cell in requested),
        notes=(
            *comparison.notes,
            *(f"claims that need cells that were not requested: {others}",) * bool(others),
        ),
    )


def left_out(results: Iterable[CellResult]) -> Iterator[LeftOut]:
    """Count the runs that are not used, by the reason."""
    first: dict[State, str] = {}
    runs: Counter[State] = Counter()
    for result in results:
        for problem in result.problems:
            if not problem.used:
                first.setdefault(problem.state, f"{result.cell.config}: {problem}")
                runs[problem.state] += 1
    for state in STATES:
        if runs[state]:
            yield LeftOut(state, runs[state], first[state])


def comparison_json(comparison: object) -> dict[str, Any]:
    """Give a comparison as JSON values: keys are the fields' names, infinite numbers are null.

    Parameters
    ----------
    comparison : dataclass
        A `Comparison`, or that of two testbeds.
    """
    plain: dict[str, Any] = _plain(comparison)
    return plain


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
