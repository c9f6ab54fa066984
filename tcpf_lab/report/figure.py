"""The bar charts of the thesis: one metric, grouped by number of flows, a bar per case.

Drawn through matplotlib's objects, without pyplot: nothing global, no display. The bytes of a file
depend on nothing but its numbers (no dates inside).
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from textwrap import wrap
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.path import Path
from matplotlib.patheffects import withStroke

from tcpf_lab.errors import LabError
from tcpf_lab.report.collect import CellResult, Estimate
from tcpf_lab.report.style import METRICS, CaseStyle, MetricStyle, case_styles, house_style, is_dark

#: File formats of every figure.
SUFFIXES: tuple[str, ...] = ("png", "pdf")

_METADATA: Mapping[str, dict[str, Any]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": "tcpf-lab"},
}
_INK = "#111111"
_HALO = withStroke(linewidth=2.6, foreground="white")
_INTERVAL: dict[str, Any] = {"ecolor": _INK, "elinewidth": 1.1, "capsize": 2.6, "capthick": 1.1}
#: An error bar as a legend shows it: a stroke with two caps.
_INTERVAL_MARK: dict[str, Any] = {
    "linestyle": "none",
    "marker": Path([(-1, -3), (1, -3), (0, -3), (0, 3), (-1, 3), (1, 3)], [1, 2, 1, 2, 1, 2]),
    "markersize": 11,
    "markeredgecolor": _INK,
    "markeredgewidth": 1.1,
}
_PUBLISHED: dict[str, Any] = {
    "linestyle": "none",
    "marker": "D",
    "markersize": 5,
    "markerfacecolor": "white",
    "markeredgecolor": _INK,
    "markeredgewidth": 1.0,
    "clip_on": False,
}
_SUBTITLE_CHARACTERS = 80
_GROUP_WIDTH = 0.84  # of the distance between two groups of bars


def bar_chart(
    results: Sequence[CellResult], metric: str, title: str, conditions: str
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

    Returns
    -------
    dict of str to bytes
        The file's content for every suffix of ``SUFFIXES``.

    Raises
    ------
    LabError
        If no cell has a value to draw.
    """
    if all(result.metrics[metric].mean is None for result in results):
        raise LabError(
            f"nothing to draw for {metric}: none of {len(results)} cells has a usable run",
            where=title,
            hint="see the runs left out in table.md, or `tcpf-lab status`",
        )
    with house_style():
        figure = _draw(results, METRICS[metric], f"{title}: {runs_used(results)}{conditions}")
        return {suffix: _render(figure, suffix) for suffix in SUFFIXES}


def runs_used(results: Sequence[CellResult]) -> str:
    """Say how many runs are behind the bars, as the start of a sentence on their conditions.

    Examples: ``10 runs of``, ``7 to 10 of 10 runs, each of``.
    """
    used = {result.used for result in results}
    asked = {result.n for result in results}
    if used == asked and len(used) == 1:
        return f"{_span(used)} {'run' if used == {1} else 'runs'} of "
    return f"{_span(used)} of {_span(asked)} runs, each of "


def _span(numbers: set[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


def _draw(results: Sequence[CellResult], metric: MetricStyle, subtitle: str) -> Figure:
    figure = Figure(figsize=(6.4, 4.4), layout=ConstrainedLayoutEngine(w_pad=0.09, h_pad=0.06))
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    flows = sorted({result.cell.flows for result in results})
    styles = case_styles([result.cell.case for result in results])
    width = _GROUP_WIDTH / len(styles)
    for place, (case, style) in enumerate(styles.items()):
        shift = (place - (len(styles) - 1) / 2) * width
        for result in (result for result in results if result.cell.case == case):
            bar = _Bar(axes, flows.index(result.cell.flows) + shift, width)
            bar.draw(result.metrics[metric.name], style)
    axes.set_xticks(range(len(flows)), [f"{count} flows" for count in flows])
    axes.set_xlim(-0.5, len(flows) - 0.5)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(metric.axis)
    _head(axes, metric.title, subtitle)
    _legend(figure, list(styles.values()), [result.metrics[metric.name] for result in results])
    return figure


def _head(axes: Axes, title: str, subtitle: str) -> None:
    """Put both above the middle of the axes; a long subtitle is broken, never cut."""
    lines = wrap(subtitle, _SUBTITLE_CHARACTERS)
    axes.set_title(title, fontweight="bold", pad=12 + 12 * len(lines))
    axes.annotate(
        "\n".join(lines),
        (0.5, 1),
        (0, 9),
        xycoords="axes fraction",
        textcoords="offset points",
        ha="center",
    )


@dataclass(frozen=True)
class _Bar:
    """Room for one bar: its middle and width on the x axis (groups of bars are 1 apart)."""

    axes: Axes
    x: float
    width: float

    def draw(self, estimate: Estimate, style: CaseStyle) -> None:
        if estimate.mean is None:
            self._say_no_run()
        else:
            for look in _fill_and_outline(style):
                self.axes.bar(self.x, estimate.mean, 0.92 * self.width, zorder=2, **look)
        if estimate.mean is not None and estimate.ci95 is not None:
            self._draw_interval(estimate.mean, estimate.ci95)
        if estimate.published is not None:
            # Beside the error bar, which would hide it where both agree.
            x = self.x + 0.24 * self.width
            self.axes.plot([x], [estimate.published], zorder=5, **_PUBLISHED)

    def _draw_interval(self, mean: float, half: float) -> None:
        x = self.x - 0.1 * self.width
        drawn = self.axes.errorbar(
            x, mean, yerr=[[min(half, mean)], [half]], fmt="none", zorder=4, **_INTERVAL
        )
        for artist in (*drawn.lines[1], *drawn.lines[2]):
            artist.set_path_effects([_HALO])  # keeps it visible on a dark bar

    def _say_no_run(self) -> None:
        self.axes.annotate(
            "no run",
            (self.x, 0),
            (0, 4),
            textcoords="offset points",
            rotation=90,
            ha="center",
            va="bottom",
            fontsize=7.5,
            color="#555555",
        )


def _fill_and_outline(style: CaseStyle) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two looks drawn over each other: matplotlib ties a hatch's colour to the edge's."""
    light = "#ffffff" if is_dark(style.colour) else _INK
    fill = {"facecolor": style.colour, "hatch": style.hatch, "edgecolor": light, "linewidth": 0}
    return fill, {"facecolor": "none", "edgecolor": _INK, "linewidth": 0.7}


def _legend(figure: Figure, styles: Sequence[CaseStyle], drawn: Sequence[Estimate]) -> None:
    """Put a legend under the axes, where it can cover no bar."""
    handles: list[Any] = [
        tuple(Patch(**look) for look in _fill_and_outline(style)) for style in styles
    ]
    labels = [style.label for style in styles]
    if any(estimate.ci95 is not None for estimate in drawn):
        handles.append(Line2D([], [], **_INTERVAL_MARK))
        labels.append("95 % confidence interval")
    if any(estimate.published is not None for estimate in drawn):
        handles.append(Line2D([], [], **_PUBLISHED))
        labels.append("published")
    rows = ceil(len(labels) / 3)
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=ceil(len(labels) / rows),
        handler_map={tuple: HandlerTuple(ndivide=1)},
        handlelength=2.2,
        handleheight=1.1,
    )


def _render(figure: Figure, suffix: str) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format=suffix, metadata=_METADATA[suffix])
    return content.getvalue()
