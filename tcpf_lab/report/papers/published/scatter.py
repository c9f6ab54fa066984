"""Measured against published: a point per cell in a panel per metric, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.reference.published import FLOWS
from tcpf_lab.report.collect import CellResult
from tcpf_lab.report.compare.agreement import ADDED, FACTOR
from tcpf_lab.report.papers.page import Point
from tcpf_lab.report.style import CASES, DRAWN, METRICS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tcpf_lab.report.plots.canvas import Entry

_MARKERS = {"A": "o", "B": "s", "C": "^", "D": "D"}
#: Size of a marker by the number of flows.
_SIZES = {100: 6.0, 50: 3.6}
#: Shapes and sizes are of every case.
_ANY = next(iter(CASES))
_INK = "#111111"


def points_of(results: Sequence[CellResult]) -> tuple[Point, ...]:
    """Give what is drawn: a panel per metric, a series per case, published values along x."""
    return tuple(point for metric in DRAWN for _, point in _points(results, metric))


def _points(results: Sequence[CellResult], metric: str) -> Iterator[tuple[CellResult, Point]]:
    """Yield the points of a panel with their cells; a logarithmic axis has no place for 0."""
    added = ADDED if metric == DRAWN[0] else 0
    for result in results:
        estimate = result.metrics[metric]
        mean, known = estimate.mean, estimate.published
        if mean is not None and known is not None and min(mean, known) + added > 0:
            values = tuple(value + added for value in estimate.values)
            yield result, Point(result.cell.case, known + added, values, METRICS[metric].word)


def scatter(results: Sequence[CellResult]) -> Figure:
    """Draw the points; within ``house_style``."""
    from tcpf_lab.report.plots.canvas import legend, sheet

    figure = sheet(height=7.2)
    for axes, metric in zip(figure.subplots(2, 2).flat, DRAWN, strict=True):
        own = list(_points(results, metric))
        _frame(axes, metric, own)
        for result, point in own:
            _draw(axes, result, point)
    legend(figure, list(_entries(results)))
    return figure


def _frame(axes: Axes, metric: str, points: Sequence[tuple[CellResult, Point]]) -> None:
    """Prepare a panel: equal axes around all points, the diagonal and the band."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    style = METRICS[metric]
    places = [x for _, point in points for x in (point.x, mean_ci(point.values)[0])] or [1.0]
    ends = min(places) / 1.25, max(places) * 1.25
    added = f" + {ADDED}" if metric == DRAWN[0] else ""
    axes.set_title(style.heading + added, fontweight="bold", fontsize=9)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, box_aspect=1)
    axes.set(xlabel="published", ylabel="measured")
    few = ends[1] / ends[0] > 30
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0,) if few else (1.0, 2.0, 5.0)))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="both", which="major", bottom=True, labelsize=8)
    axes.grid(True, axis="both")
    axes.fill_between(
        ends,
        [end / FACTOR for end in ends],
        [end * FACTOR for end in ends],
        color="#e4e4e4",
        linewidth=0,
        zorder=0,
    )
    axes.plot(ends, ends, color=_INK, linewidth=0.9, zorder=1)


def _draw(axes: Axes, result: CellResult, point: Point) -> None:
    mean, half = mean_ci(point.values)
    if half is not None:
        low = max(mean - half, axes.get_ylim()[0])
        axes.plot([point.x] * 2, [low, mean + half], color="#777777", linewidth=0.7, zorder=2)
    look = _look(result.cell.case, _MARKERS[result.cell.config], _SIZES[result.cell.flows])
    axes.plot([point.x], [mean], zorder=3, **look)


def _look(case: str, marker: str, size: float) -> dict[str, Any]:
    from tcpf_lab.report.plots.frame import marker_look

    return {**marker_look(replace(CASES[case], marker=marker), size), "markeredgewidth": 0.6}


def _entries(results: Sequence[CellResult]) -> Iterator[Entry]:
    """Yield the legend: colours, then shapes, then sizes, of what is there."""
    from matplotlib.lines import Line2D

    from tcpf_lab.report.plots.canvas import Entry

    cells = [result.cell for result in results if result.used]
    grey = {"markerfacecolor": "#ffffff"}
    for case in (case for case in CASES if any(cell.case == case for cell in cells)):
        yield Entry(case, Line2D([], [], **_look(case, "s", 7)))
    for config in (c for c in _MARKERS if any(cell.config == c for cell in cells)):
        look = _look(_ANY, _MARKERS[config], _SIZES[100])
        yield Entry(f"configuration {config}", Line2D([], [], **{**look, **grey}))
    for flows in (n for n in FLOWS if any(cell.flows == n for cell in cells)):
        look = _look(_ANY, "o", _SIZES[flows])
        yield Entry(f"{flows} flows", Line2D([], [], **{**look, **grey}))
