"""The same cells on two testbeds: differences with their intervals, and the orders of the cases."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from tcpf_lab.base.errors import LabError
from tcpf_lab.report.compare.published import LeftOut, left_out
from tcpf_lab.report.compare.scoreboard import left_out_lines
from tcpf_lab.report.compare.statistics import CONFIDENCE, Interval, correlation
from tcpf_lab.report.contents.model import count, sentences
from tcpf_lab.report.section import CellResult, Estimate, Section
from tcpf_lab.report.style import DRAWN, METRICS
from tcpf_lab.report.table import (
    NOTHING,
    Column,
    Entry,
    Group,
    Row,
    Table,
    fixed,
    rows_of,
    table_of,
)

#: Whether two means differ beyond noise; ``open`` where there is no interval to tell by.
Verdict = Literal["agree", "differ", "open"]


@dataclass(frozen=True)
class Side:
    """One testbed's runs: its name, under which conditions they were made, and what they say."""

    testbed: str
    conditions: str
    sections: tuple[Section, ...]


@dataclass(frozen=True)
class Mean:
    """A metric's mean over ``n`` runs and the half width of its 95 % interval."""

    n: int
    mean: float
    ci95: float | None


@dataclass(frozen=True)
class Difference:
    """One metric of one cell on both testbeds.

    ``difference`` is the second mean minus the first, ``interval`` its 95 % interval (Welch),
    ``ratio`` the second over the first, None if that is 0.
    """

    metric: str
    first: Mean
    second: Mean
    difference: float
    interval: Interval | None
    ratio: float | None
    verdict: Verdict


@dataclass(frozen=True)
class CellDifference:
    """A cell; it differs if one of its metrics does, and is open if none does and one is open."""

    experiment: str
    config: str
    flows: int
    case: str
    verdict: Verdict
    metrics: tuple[Difference, ...]


@dataclass(frozen=True)
class OrderAgreement:
    """Kendall's tau-b of the cases' means on the two testbeds, in one block and metric."""

    experiment: str
    config: str
    flows: int
    metric: str
    cases: int
    tau: float | None


@dataclass(frozen=True)
class TwoTestbeds:
    """What ``tcpf-lab compare`` says of two testbeds.

    ``missing`` are cells without a usable run on one of them; ``left_out`` says of each testbed how
    many runs are not used and why.
    """

    testbeds: tuple[str, str]
    conditions: tuple[str, str]
    cells: tuple[CellDifference, ...]
    orders: tuple[OrderAgreement, ...]
    missing: tuple[str, ...]
    left_out: tuple[tuple[LeftOut, ...], tuple[LeftOut, ...]]
    notes: tuple[str, ...]


#: Experiment, configuration, flows, case.
_Key = tuple[str, str, int, str]


def compare_testbeds(first: Side, second: Side, run: Sequence[str] = ()) -> TwoTestbeds:
    """Hold the cells of one testbed to the same cells of another.

    Parameters
    ----------
    first, second : Side
        Runs of the same experiments; cells that either lacks are listed.
    run : sequence of str
        The command lines that make the runs of either.

    Returns
    -------
    TwoTestbeds
        Cells in the first one's order.

    Raises
    ------
    LabError
        If no cell has a used run on both.
    """
    ours, theirs = _results(first), _results(second)
    both = [key for key, result in ours.items() if result.used and _used(theirs, key)]
    if not both:
        raise LabError(
            f"no cell has a usable run on both {first.testbed} and {second.testbed}",
            hint=f"{' and '.join(f'`{line}`' for line in run)}, then compare again" if run else "",
        )
    cells = tuple(_cell(key, ours[key], theirs[key]) for key in both)
    return TwoTestbeds(
        testbeds=(first.testbed, second.testbed),
        conditions=(first.conditions, second.conditions),
        cells=cells,
        orders=tuple(_orders(cells)),
        missing=tuple(_missing(first, ours, second, theirs)),
        left_out=(tuple(left_out(ours.values())), tuple(left_out(theirs.values()))),
        notes=tuple(_notes(cells)),
    )


def _results(side: Side) -> dict[_Key, CellResult]:
    return {
        (
            section.source.files.experiment,
            result.cell.config,
            result.cell.flows,
            result.cell.label,
        ): result
        for section in side.sections
        for result in section.results
    }


def _used(results: Mapping[_Key, CellResult], key: _Key) -> int:
    return results[key].used if key in results else 0


def _cell(key: _Key, first: CellResult, second: CellResult) -> CellDifference:
    rows = tuple(
        _difference(name, first.metrics[name], second.metrics[name])
        for name in DRAWN
        if first.metrics[name].values and second.metrics[name].values
    )
    verdicts = {row.verdict for row in rows}
    overall: Verdict = (
        "differ" if "differ" in verdicts else "open" if "open" in verdicts else "agree"
    )
    return CellDifference(*key, overall, rows)


def _difference(metric: str, first: Estimate, second: Estimate) -> Difference:
    one, other = _mean(first), _mean(second)
    gap = other.mean - one.mean
    half = welch_half_width(first.values, second.values)
    return Difference(
        metric=metric,
        first=one,
        second=other,
        difference=gap,
        interval=None if half is None else (gap - half, gap + half),
        ratio=other.mean / one.mean if one.mean else None,
        verdict="open" if half is None else "agree" if abs(gap) <= half else "differ",
    )


def _mean(estimate: Estimate) -> Mean:
    return Mean(len(estimate.values), float(np.mean(estimate.values)), estimate.ci95)


def welch_half_width(first: Sequence[float], second: Sequence[float]) -> float | None:
    r"""Half width of the 95 % interval of a difference of two means whose spreads may differ.

    .. math:: h = t_{\nu,\,0.975} \sqrt{\frac{s_1^2}{n_1} + \frac{s_2^2}{n_2}}, \quad
       \nu = \frac{(s_1^2/n_1 + s_2^2/n_2)^2}
       {\frac{(s_1^2/n_1)^2}{n_1 - 1} + \frac{(s_2^2/n_2)^2}{n_2 - 1}}

    Parameters
    ----------
    first, second : sequence of float
        One value per run.

    Returns
    -------
    float or None
        None if either has fewer than two values; 0 if neither varies.

    References
    ----------
    B. L. Welch, Biometrika 34, 1947.

    Examples
    --------
    Variances 4 and 4 of three values each: 4 degrees of freedom, t = 2.776445.

    >>> round(welch_half_width([2.0, 4.0, 6.0], [12.0, 14.0, 16.0]), 5)
    4.53392
    """
    if min(len(first), len(second)) < 2:
        return None
    parts = [float(np.var(values, ddof=1)) / len(values) for values in (first, second)]
    total = sum(parts)
    if total == 0:
        return 0.0
    from scipy.special import stdtrit  # here, because the command line starts without scipy

    shares = [part / total for part in parts]  # squares of small variances would vanish
    sizes = (len(first), len(second))
    freedom = 1 / sum(share**2 / (n - 1) for share, n in zip(shares, sizes, strict=True))
    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * math.sqrt(total)


def _orders(cells: Sequence[CellDifference]) -> Iterator[OrderAgreement]:
    blocks: dict[tuple[str, str, int], list[CellDifference]] = {}
    for cell in cells:
        blocks.setdefault((cell.experiment, cell.config, cell.flows), []).append(cell)
    for block, own in blocks.items():
        for metric in DRAWN:
            rows = [row for cell in own for row in cell.metrics if row.metric == metric]
            means = [(row.first.mean, row.second.mean) for row in rows]
            taus = correlation(*np.array(means, float).reshape(-1, 2).T)
            yield OrderAgreement(*block, metric, len(own), None if taus is None else float(taus[0]))


def _missing(
    first: Side, ours: Mapping[_Key, CellResult], second: Side, theirs: Mapping[_Key, CellResult]
) -> Iterator[str]:
    for key in dict.fromkeys((*ours, *theirs)):
        lacking = [
            side.testbed
            for side, results in ((first, ours), (second, theirs))
            if not _used(results, key)
        ]
        if lacking:
            experiment, _, flows, case = key
            yield f"{experiment}, {flows} flows, {case}: no usable run on {' or '.join(lacking)}"


def _notes(cells: Iterable[CellDifference]) -> list[str]:
    rows = [row for cell in cells for row in cell.metrics]
    decided = [row for row in rows if row.verdict != "open"]
    ratios = {name: [r.ratio for r in rows if r.metric == name and r.ratio] for name in DRAWN}
    return sentences(
        "testbeds_notes",
        decided=len(decided),
        differing=sum(row.verdict == "differ" for row in decided),
        open=len(rows) - len(decided),
        chance=1 - CONFIDENCE,
        ratios=[
            (METRICS[name].word, math.exp(sum(map(math.log, own)) / len(own)), len(own))
            for name, own in ratios.items()
            if own
        ],
    )


_COLOURS: dict[Verdict, str] = {"agree": "green", "differ": "red", "open": "dim"}


def side_by_side(comparison: TwoTestbeds) -> Iterator[RenderableType]:
    """Give what a terminal shows, part by part: conditions, cells, orders, and what is missing."""
    for name, text in zip(comparison.testbeds, comparison.conditions, strict=True):
        yield Text.assemble((f"{name}: ", "bold"), text)
    for _, block in groupby(comparison.cells, key=lambda cell: (cell.experiment, cell.flows)):
        yield block_table(comparison.testbeds, tuple(block))
    yield order_table(comparison.orders)
    for line in comparison.missing:
        yield Text(line, style="yellow")
    for name, rows in zip(comparison.testbeds, comparison.left_out, strict=True):
        yield from (Text.assemble((f"{name}: ", "yellow"), line) for line in left_out_lines(rows))
    for note in comparison.notes:
        yield Text(note)


def block_table(testbeds: tuple[str, str], cells: Sequence[CellDifference]) -> Table:
    """Give the cells of one experiment and number of flows, a row per metric.

    Both means, the difference, the ratio, and whether they agree.
    """
    first, second = testbeds
    numbers = (Column(name, "number") for name in (first, second, "difference"))
    return Table(
        name="cells",
        caption=f"{cells[0].experiment}, {cells[0].flows} flows: {first} and {second}",
        columns=(
            Column("case", fit="whole"),
            *numbers,
            Column("ratio", "number", fit="whole"),
            Column("verdict", fit="whole"),
        ),
        groups=tuple(Group("", rows_of(_cell_rows(cell))) for cell in cells),
        note="mean ± half width of its 95 % interval; "
        f"{second} minus {first} (Welch's interval); {second} / {first}",
        close=True,
    )


def _cell_rows(cell: CellDifference) -> Iterator[Row]:
    """Yield the row of a cell and those of its metrics."""
    runs = [count(side.n, "run") for row in cell.metrics[:1] for side in (row.first, row.second)]
    ours, theirs = (Entry(text, style="dim") for text in runs or ["", ""])
    verdict = Entry(cell.verdict, style=f"bold {_COLOURS[cell.verdict]}")
    yield Entry(cell.case, style="bold"), ours, theirs, Entry(""), Entry(""), verdict
    for row in cell.metrics:
        yield Entry(f"  {METRICS[row.metric].word}"), *_entries(row)


def _entries(row: Difference) -> Row:
    scale = max(abs(row.first.mean), abs(row.second.mean))
    half = None if row.interval is None else (row.interval[1] - row.interval[0]) / 2
    return (
        *(_entry(side.mean, side.ci95, side.mean) for side in (row.first, row.second)),
        _entry(row.difference, half, scale),
        Entry(NOTHING if row.ratio is None else f"{row.ratio:.3f}"),
        Entry(row.verdict, style=_COLOURS[row.verdict]),
    )


def _entry(value: float, half: float | None, scale: float) -> Entry:
    return Entry(_number(value, scale), half="" if half is None else _number(half, scale))


def _number(value: float, scale: float) -> str:
    """Write a number with the decimals that one of the size of ``scale`` needs."""
    size = abs(scale)
    return fixed(value, 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3)


def order_table(orders: Sequence[OrderAgreement]) -> Table:
    """Give Kendall's tau-b of each block, a column per metric."""
    rows = []
    for (name, flows), block in groupby(orders, key=lambda row: (row.experiment, row.flows)):
        own = list(block)
        taus = (NOTHING if row.tau is None else fixed(row.tau, 2) for row in own)
        rows.append((f"{name}, {flows} flows, {own[0].cases} cases", *taus))
    metrics = (Column(METRICS[metric].word, "number", fit="whole") for metric in DRAWN)
    title = "Order of the cases: Kendall's tau-b, one testbed against the other"
    return table_of("orders", title, (Column("block", fit="folded"), *metrics), rows)
