"""The bar charts of the thesis: one metric, grouped by number of flows, a bar per case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.path import Path
from matplotlib.patheffects import withStroke

from tcpf_lab.base.errors import LabError
from tcpf_lab.report.contents.model import mark_id
from tcpf_lab.report.plots.canvas import INTERVAL, Entry, head, legend, render, sheet
from tcpf_lab.report.section import SUFFIXES, CellResult, Estimate
from tcpf_lab.report.style import (
    MARKS,
    METRICS,
    CaseStyle,
    MetricStyle,
    case_styles,
    fill_and_outline,
    house_style,
)

_INK = "#111111"
_HALO = withStroke(linewidth=2.6, foreground="white")
#: An error bar as a legend shows it: a stroke with two caps.
_INTERVAL_MARK: dict[str, Any] = {
    "linestyle": "none",
    "marker": Path([(-1, -3), (1, -3), (0, -3), (0, 3), (-1, 3), (1, 3)], [1, 2, 1, 2, 1, 2]),
    "markersize": 11,
    "markeredgecolor": _INK,
    "markeredgewidth": 1.1,
}
_PUBLISHED = MARKS["published"]
_GROUP_WIDTH = 0.84  # of the distance between two groups of bars
_WIDEST = 0.28  # of a bar, where there are few


def bar_chart(
    results: Sequence[CellResult],
    metric: str,
    title: str,
    conditions: str,
    suffixes: Sequence[str] = SUFFIXES,
    looks: Mapping[str, CaseStyle] | None = None,
) -> dict[str, bytes]:
    """Draw one metric of every cell as the thesis does (its Figures 4.c.1 to 4.c.4).

    Parameters
    ----------
    results : sequence of CellResult
        Cells of one configuration; cases keep their order, numbers of flows ascend.
    metric : str
        A name of ``style.METRICS``.
    title, conditions : str
        ``Configuration A`` and the conditions of every run, ``60 s, 10 Mbit/s, 200 ms``.
    suffixes : sequence of str
        Formats, of ``SUFFIXES``.
    looks : mapping of str to CaseStyle, optional
        Those of the cases, where there are more than are drawn.

    Returns
    -------
    dict of str to bytes
        The file's content for every suffix. In SVG, the bar of the k-th of `results` has the id
        ``mark-k``.

    Raises
    ------
    LabError
        If no cell has a value to draw.
    """
    if all(result.metrics[metric].mean is None for result in results):
        raise LabError(
            f"nothing to draw for {metric}: none of {len(results)} cells has a usable run",
            where=title,
            hint="see the runs left out in table.md, or `status` with the same words",
        )
    with house_style():
        subtitle = f"{title}: {runs_used(results)}{conditions}"
        figure = bars(results, METRICS[metric], subtitle, looks)
        return render(figure, suffixes)


def runs_used(results: Sequence[CellResult]) -> str:
    """Say how many runs are behind the bars, as the start of a sentence on their conditions.

    Examples: ``10 runs of``, ``7 to 10 of 10 runs, each of``.
    """
    used = {result.used for result in results}
    requested = {result.n for result in results}
    if used == requested and len(used) == 1:
        return f"{_span(used)} {'run' if used == {1} else 'runs'} of "
    return f"{_span(used)} of {_span(requested)} runs, each of "


def _span(numbers: set[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


def bars(
    results: Sequence[CellResult],
    metric: MetricStyle,
    subtitle: str,
    looks: Mapping[str, CaseStyle] | None = None,
) -> Figure:
    """Draw one metric of every cell; `bar_chart` says how, this is within `house_style`.

    ``looks`` are those of the cases, where they are not to have their own.
    """
    figure = sheet()
    axes = figure.add_subplot()
    flows = sorted({result.cell.flows for result in results})
    styles = looks or case_styles([result.cell.case for result in results])
    width = min(_GROUP_WIDTH / len(styles), _WIDEST)
    bars = []
    for place, (case, style) in enumerate(styles.items()):
        shift = (place - (len(styles) - 1) / 2) * width
        for index, result in enumerate(results):
            if result.cell.case == case:
                x = flows.index(result.cell.flows) + shift
                bars.append(_Bar(axes, x, width, mark_id(index)))
                bars[-1].draw(result.metrics[metric.name], style)
    axes.autoscale_view()  # rectangles alone do not ask for it
    for bar in sorted(bars, key=lambda bar: bar.x):  # a page's arrow keys go from left to right
        bar.name_place()
    axes.set_xticks(range(len(flows)), [f"{count} flows" for count in flows])
    axes.set_xlim(-0.5, len(flows) - 0.5)
    axes.set_ylim(0, None if axes.dataLim.ymax > 0 else 1)
    axes.set_ylabel(metric.axis)
    head(axes, metric.title, subtitle)
    _legend(figure, list(styles.values()), [result.metrics[metric.name] for result in results])
    return figure


@dataclass(frozen=True)
class _Bar:
    """Room for one bar: its middle and width on the x axis (groups of bars are 1 apart).

    ``name`` is the room's id in an SVG file, for what a page has to say of it.
    """

    axes: Axes
    x: float
    width: float
    name: str

    def draw(self, estimate: Estimate, style: CaseStyle) -> None:
        if not estimate.mean:
            self._say("no run" if estimate.mean is None else "0")
        else:
            for look in fill_and_outline(style):
                self._rectangle(0.92, estimate.mean, zorder=2, **look)
        if estimate.mean is not None and estimate.ci95 is not None:
            # Beside a published value, which would be hidden where both agree.
            aside = 0.0 if estimate.published is None else 0.3 * self.width
            self._draw_interval(self.x - aside, estimate.mean, estimate.ci95)
        if estimate.published is not None:
            self.axes.plot([self.x], [estimate.published], zorder=5, **_PUBLISHED)

    def name_place(self) -> None:
        """Give the whole height its id, invisibly: low bars, and none, are hard to point at."""
        unseen: dict[str, Any] = {"facecolor": "none", "edgecolor": "none", "zorder": 6}
        whole = self.axes.get_xaxis_transform()
        self._rectangle(1.0, 1.0, gid=self.name, transform=whole, **unseen)

    def _rectangle(self, share: float, height: float, **look: Any) -> None:
        """Draw some of the room's width; `Axes.bar` does the same in ten times the time."""
        wide = share * self.width
        self.axes.add_patch(Rectangle((self.x - wide / 2, 0), wide, height, **look))

    def _draw_interval(self, x: float, mean: float, half: float) -> None:
        drawn = self.axes.errorbar(
            x, mean, yerr=[[min(half, mean)], [half]], fmt="none", zorder=4, **INTERVAL
        )
        for artist in (*drawn.lines[1], *drawn.lines[2]):
            artist.set_path_effects([_HALO])  # keeps it visible on a dark bar

    def _say(self, words: str) -> None:
        """Write what has no height where the bar would stand."""
        self.axes.annotate(
            words,
            (self.x, 0),
            (0, 4),
            textcoords="offset points",
            rotation=90 if len(words) > 1 else 0,
            ha="center",
            va="bottom",
            fontsize=7.5,
            color="#555555",
        )


def _legend(figure: Figure, styles: Sequence[CaseStyle], drawn: Sequence[Estimate]) -> None:
    entries = [
        Entry(style.label, tuple(Patch(**look) for look in fill_and_outline(style)))
        for style in styles
    ]
    if any(estimate.ci95 is not None for estimate in drawn):
        entries.append(Entry("95 % confidence interval", Line2D([], [], **_INTERVAL_MARK)))
    if any(estimate.published is not None for estimate in drawn):
        entries.append(Entry("published", Line2D([], [], **_PUBLISHED)))
    legend(figure, entries)
