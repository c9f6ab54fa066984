"""The page on two sides of an experiment, A and B: paired differences, verdicts, first packets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.report.claims.page import Block, Drawing, Page, Point, Table, Text
from tcpf_lab.report.compare.paired import (
    ALL,
    Against,
    difference_row,
    difference_table,
    heading,
    remarks,
    verdict_line,
)
from tcpf_lab.report.compare.parting import event_table, parting_table
from tcpf_lab.report.compare.statistics import CONFIDENCE
from tcpf_lab.report.table import Table as AnyTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW, _AROUND = 0.21, 0.5  # inches: of a cell, and around those of a panel
_TICKS = 5  # of a panel beside long names
_SEED, _MEAN = "#6f6f6f", "#111111"


@dataclass(frozen=True)
class Paired:
    """B minus A: a panel for each metric, a row for each cell with a dot for each seed.

    Parameters
    ----------
    title : str
        What stands above.
    sides : tuple of str
        What A is, and B.
    cells : tuple of str
        The rows, from top to bottom; a point's x is the place of its own.
    panels : tuple of str
        The metrics, which are their points' panels.
    threshold : float, optional
        A difference to draw a line at.
    confidence : float, optional
        That of the intervals.
    """

    title: str
    sides: tuple[str, ...]
    cells: tuple[str, ...]
    panels: tuple[str, ...]
    threshold: float = 0.0
    confidence: float = CONFIDENCE

    def place(self, point: Point) -> str:
        """Say of which cell a point is."""
        return f"in {self.cells[round(point.x)]}"

    def draw(self, points: Sequence[Point]) -> Figure:
        """Draw the panels; within ``house_style``."""
        from matplotlib.lines import Line2D

        from tcpf_lab.report.plots.canvas import Entry, head, legend, panels

        figure, every = panels(
            len(self.panels), _AROUND + _ROW * len(self.cells), share_x=False, share_y=True
        )
        for axes, name in zip(every, self.panels, strict=True):
            self._panel(axes, [point for point in points if point.panel == name])
            axes.set_xlabel(name)
        head(every[0], self.title, "B minus A, seed by seed")
        legend(
            figure,
            [
                Entry("a seed", Line2D([], [], **_DOT)),
                Entry(
                    f"mean and {100 * self.confidence:.4g} % interval", Line2D([], [], **_MIDDLE)
                ),
                *(Entry("threshold", Line2D([], [], **_LIMIT)),) * bool(self.threshold),
                *(Entry(side, Line2D([], [], linestyle="none")) for side in self.sides),
            ],
        )
        return figure

    def _panel(self, axes: Axes, points: Sequence[Point]) -> None:
        for point in points:
            at = [point.x] * len(point.values)
            axes.plot(point.values, at, zorder=2, clip_on=False, **_DOT)
            mean, half = mean_ci(point.values, self.confidence)
            axes.errorbar(mean, point.x, xerr=half, zorder=3, **_MIDDLE, **_INTERVAL)
        axes.axvline(0, color=_MEAN, linewidth=0.8, zorder=1)
        if self.threshold:
            axes.axvline(self.threshold, zorder=1, **_LIMIT)
        axes.set_yticks(range(len(self.cells)), list(self.cells))
        axes.set_ylim(len(self.cells) - 0.5, -0.5)
        low, high = axes.get_xlim()
        if low == high or not any(any(point.values) for point in points):
            axes.set_xlim(-1, 1)
        axes.locator_params(axis="x", nbins=_TICKS)
        axes.tick_params(axis="x", bottom=True)
        axes.grid(visible=False, axis="y")


_DOT: dict[str, Any] = {
    "linestyle": "none",
    "marker": "o",
    "markersize": 3.6,
    "markerfacecolor": "none",
    "markeredgecolor": _SEED,
    "markeredgewidth": 0.8,
}
_MIDDLE: dict[str, Any] = {
    "linestyle": "none",
    "marker": "D",
    "markersize": 4.2,
    "color": _MEAN,
}
_LIMIT: dict[str, Any] = {"color": _SEED, "linewidth": 1.0, "linestyle": "--"}
_INTERVAL: dict[str, Any] = {"ecolor": _MEAN, "elinewidth": 1.2, "capsize": 2.6}


def page_of_sides(title: str, found: Against) -> Page:
    """Give the page on a comparison of two sides."""
    return Page("sides", f"A against B: {title}", tuple(_blocks(found)))


def _blocks(found: Against) -> Iterator[Block]:
    sides = zip("AB", found.sides, found.conditions, strict=True)
    yield Text(" ".join(f"{name}: {side}; {text}." for name, side, text in sides))
    yield _figure(found)
    verdicts = "; ".join(map(verdict_line, found.metrics))
    yield Text(f"{verdicts}.", f"Verdict: {found.verdict}")  # a text before a table is the answer
    yield _summary(found)
    yield _stored(difference_table(found), first="metric")
    lines = list(remarks(found))
    if lines:
        yield Text(". ".join(lines) + ".", "Not compared")
    if found.partings:
        yield _stored(parting_table(found.partings))
    for number, parting in enumerate(one for one in found.partings if one.events):
        yield _stored(event_table(parting), name=f"events-{number + 1}")


def _summary(found: Against) -> Table:
    """Give a row for each metric: over all cells, or of the only one."""
    rows = []
    for metric in found.metrics:
        own = {one.cell: one for one in found.differences if one.metric == metric.metric}
        mean = own.get(ALL) or next(iter(own.values()))
        _, *numbers, _ = difference_row(mean, seeds=False)
        texts = [one if isinstance(one, str) else one.in_line for one in numbers]
        count = f"{len(metric.differing)} of {len(own.keys() - {ALL})}"
        rows.append((heading(metric.metric), *texts[:3], count, metric.verdict))
    headings = ("metric", "A", "B", "B minus A", "cells that differ", "verdict")
    return Table("metrics", headings, rows, "Each metric, over all cells.", 1)


#: Cells that a figure has room for; of more, those with the smallest p values are drawn.
_MOST_CELLS = 24


def _figure(found: Against) -> Drawing:
    every = dict.fromkeys(one.cell for one in found.differences)
    smallest = {cell: min(_ranks(cell, found)) for cell in every}
    drawn = set(sorted(every, key=lambda cell: smallest[cell])[:_MOST_CELLS])
    cells = tuple(cell for cell in every if cell in drawn)
    points = tuple(
        Point(one.cell, float(cells.index(one.cell)), one.differences, heading(one.metric))
        for one in found.differences
        if one.cell in drawn
    )
    seeds = max(len(one.seeds) for one in found.differences)
    caption = f"A dot for each seed (up to {seeds}), the mean and its 95 % interval (Student's t)."
    if len(cells) < len(every):
        caption += f" Drawn: {len(cells)} of {len(every)} cells, those with the smallest p values."
    frame = Paired(
        "Paired differences",
        tuple(f"{name}: {side}" for name, side in zip("AB", found.sides, strict=True)),
        cells,
        tuple(dict.fromkeys(point.panel for point in points)),
    )
    return Drawing("fig-sides", frame.title, caption, points, frame)


def _ranks(cell: str, found: Against) -> Iterator[float]:
    """Yield what cells are ranked by: their p values, the mean over all before any."""
    for one in found.differences:
        if one.cell == cell:
            yield -1 if cell == ALL else 1 if one.p is None else one.p


def _stored(table: AnyTable, first: str = "", name: str = "") -> Table:
    """Give a table as pages have them: a group's heading is a column of its own."""
    headings = (*((first,) if first else ()), *table.headings)
    rows: list[tuple[str, ...]] = []
    for group in table.groups:
        for row in group.rows:
            texts = (*((group.heading,) if first else ()), *(entry.in_line for entry in row))
            above = rows[-1] if rows and not texts[0] else texts  # a terminal omits what repeats
            rows.append(tuple(text or other for text, other in zip(texts, above, strict=True)))
    numbers = [place for place, column in enumerate(table.columns) if column.kind != "text"]
    left = min([*numbers, len(table.columns)]) + bool(first)
    return Table(name or table.name, headings, rows, f"{table.caption}. {table.note}".strip(), left)
