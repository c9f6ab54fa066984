"""The comparison of two testbeds for a human, in 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tcpf_lab.report.compare.scoreboard import left_out_lines
from tcpf_lab.report.compare.testbeds import (
    CellDifference,
    Difference,
    Mean,
    OrderAgreement,
    TwoTestbeds,
    Verdict,
)
from tcpf_lab.report.numerals import fixed
from tcpf_lab.report.style import DRAWN, METRICS
from tcpf_lab.report.table import NOTHING, fitted, plain_table

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
    table = plain_table(
        f"{cells[0].experiment}, {cells[0].flows} flows: {first} and {second}",
        f"mean ± half width of its 95 % interval; {second} minus {first} (Welch's interval); "
        f"{second} / {first}",
    )
    table.add_column("case", no_wrap=True)
    for name in (first, second, "difference"):
        table.add_column(Text(name), justify="right")
    table.add_column("ratio", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for cell in cells:
        runs = (
            f"{side.n} run{'s' * (side.n > 1)}"
            for row in cell.metrics[:1]
            for side in (row.first, row.second)
        )
        ours, theirs = (Text(text, style="dim") for text in [*runs] or ["", ""])
        verdict = Text(cell.verdict, style=f"bold {_COLOURS[cell.verdict]}")
        table.add_row(Text(cell.case, style="bold"), ours, theirs, "", "", verdict)
        for row in cell.metrics:
            table.add_row(f"  {METRICS[row.metric].word}", *_entries(row))
        table.add_section()
    return fitted(table)


def _entries(row: Difference) -> tuple[Text, ...]:
    scale = max(abs(row.first.mean), abs(row.second.mean))
    gap = _number(row.difference, scale)
    if row.interval is not None:
        gap += f" ± {_number((row.interval[1] - row.interval[0]) / 2, scale)}"
    return (
        Text(_mean(row.first)),
        Text(_mean(row.second)),
        Text(gap),
        Text(NOTHING if row.ratio is None else f"{row.ratio:.3f}"),
        Text(row.verdict, style=_COLOURS[row.verdict]),
    )


def _mean(mean: Mean) -> str:
    ours = _number(mean.mean, mean.mean)
    return ours if mean.ci95 is None else f"{ours} ± {_number(mean.ci95, mean.mean)}"


def _number(value: float, scale: float) -> str:
    """Write a number with the decimals that one of the size of ``scale`` needs."""
    size = abs(scale)
    return fixed(value, 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3)


def order_table(orders: Sequence[OrderAgreement]) -> Table:
    """Give Kendall's tau-b of each block, a column per metric."""
    table = plain_table("Order of the cases: Kendall's tau-b, one testbed against the other", "")
    table.add_column("block", overflow="fold")
    for metric in DRAWN:
        table.add_column(METRICS[metric].word, justify="right", no_wrap=True)
    for (name, flows), rows in groupby(orders, key=lambda row: (row.experiment, row.flows)):
        own = list(rows)
        taus = (NOTHING if row.tau is None else fixed(row.tau, 2) for row in own)
        table.add_row(Text(f"{name}, {flows} flows, {own[0].cases} cases"), *taus)
    return table
