"""Figures of what whole runs found, case beside case: bars, boxes, distributions, points."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from tcpf_lab.base.errors import LabError, RequestError
from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.report.figure import bars as bar_figure
from tcpf_lab.report.plots.canvas import (
    INK,
    LABEL,
    Entry,
    head,
    legend,
    line_entries,
    line_entry,
    line_look,
    looks,
    marker_look,
    name_panel,
    panels,
)
from tcpf_lab.report.plots.kinds import Wanted
from tcpf_lab.report.plots.runs import (
    MOST_PANELS,
    DrawnRun,
    Group,
    Panel,
    grouped,
    panelled,
    runs_behind,
    under,
    under_panels,
)
from tcpf_lab.report.section import Cell, CellResult, Estimate
from tcpf_lab.report.style import (
    MARKS,
    METRICS,
    NO_BREAK_SPACE,
    CaseStyle,
    MetricStyle,
    is_dark,
)


class _Panels:
    """A figure with a panel per number of flows: axes, groups of runs, and their looks."""

    def __init__(
        self,
        runs: Sequence[DrawnRun],
        heights: tuple[float, float],
        *,
        share_x: bool = True,
        share_y: bool = False,
    ) -> None:
        """Make the axes, of one height if there is one panel, and else of the other."""
        self.runs = runs
        self.parts = panelled(runs, MOST_PANELS)
        self.groups = [group for part in self.parts for group in part.groups]
        self.styles = looks(self.groups)
        count = len(self.parts)
        each = heights[0] if count == 1 else heights[1]
        self.figure, self.axes = panels(count, each, share_x=share_x, share_y=share_y)

    def __iter__(self) -> Iterator[tuple[Axes, Panel]]:
        """Yield each panel's axes and what is drawn there; of several each gets its name."""
        for axes, part in zip(self.axes, self.parts, strict=True):
            yield axes, part
            if len(self.parts) > 1:
                name_panel(axes, part.label)

    def finished(self, title: str, mark: str, entries: Sequence[Entry]) -> Figure:
        """Write what the figure is, how many runs are behind a mark, and the legend."""
        lift = LABEL if len(self.parts) > 1 else 0
        head(self.axes[0], title, under_panels(self.runs, self.parts, mark), lift)
        legend(self.figure, entries)
        return self.figure


def bars(runs: Sequence[DrawnRun], wanted: Wanted) -> Figure:
    """Draw the mean of a metric with its 95 % confidence interval, and the published value.

    Parameters
    ----------
    runs : sequence of DrawnRun
        A group of bars per number of flows, a bar per case.
    wanted : Wanted
        ``metric``, timeouts by default.

    Raises
    ------
    RequestError
        If the runs are of several experiments.
    """
    metric = wanted.metric or METRICS["timeouts"]
    names = list(dict.fromkeys(run.experiment.name for run in runs))
    if len(names) > 1:
        raise RequestError(
            f"bars are of one experiment, these runs are of {len(names)}: {', '.join(names)}",
            hint="choose with --only config=NAME",
        )
    groups = grouped(runs)
    results = [_result(group, metric.name) for group in groups]
    return bar_figure(results, metric, under(runs, runs_behind(groups, "bar")), looks(groups))


def _result(group: Group, metric: str) -> CellResult:
    first, runs = group.first, group.runs
    values = tuple(run.metric(metric) for run in runs)
    cell = Cell(
        config=str(first.found.get("config")),
        case=group.label,
        flows=first.flows,
        runs=tuple(run.files.root.name for run in runs),
        published=first.experiment.config is not None and not group.variant,
    )
    mean, half = mean_ci(values)
    known = cell.known.get(metric)
    estimate = Estimate(values, mean, half, None if known is None else float(known))
    valid = sum(run.valid for run in runs)
    return CellResult(cell, len(runs), valid, len(runs), {metric: estimate}, ())


#: Characters of all names that fit into a row under the axes, and of a name into a line.
_ROW, _LINE = 60, 24
#: Quartiles of fewer values are hardly more than the values themselves.
_FEWEST_OF_A_BOX = 5
_BESIDE = 0.31  # of the distance between two boxes: where the dots are
_DOT = MARKS["run_dot"]


def box(runs: Sequence[DrawnRun], wanted: Wanted) -> Figure:
    """Draw a metric of every run: median, quartiles, and whiskers to the smallest and largest.

    Parameters
    ----------
    runs : sequence of DrawnRun
        A panel per number of flows, in each a box per case; fewer than five runs are dots only.
    wanted : Wanted
        ``metric``, timeouts by default; ``scale``: whether the panels have one y axis from 0 on.
    """
    metric = wanted.metric or METRICS["timeouts"]
    chart = _Panels(runs, (2.5, 2.5), share_y=not wanted.free)
    for axes, part in chart:
        _draw_boxes(axes, part, metric, chart.styles)
        axes.set_ylabel(metric.axis)
    for axes in () if wanted.free else chart.axes:
        axes.set_ylim(bottom=0)
    _ticks(chart.axes, list(chart.styles))
    entries = _box_entries(any(len(group.runs) >= _FEWEST_OF_A_BOX for group in chart.groups))
    return chart.finished(f"{metric.title} over the seeds", "case", entries)


def _draw_boxes(axes: Axes, part: Panel, metric: MetricStyle, styles: dict[str, CaseStyle]) -> None:
    for group in part.groups:
        x, style = list(styles).index(group.label), styles[group.label]
        values = np.array([run.metric(metric.name) for run in group.runs])
        if values.size >= _FEWEST_OF_A_BOX:
            _box(axes, x, values, style)
        middle, spread = (x + _BESIDE, 0.16) if values.size >= _FEWEST_OF_A_BOX else (x, 0.5)
        across = middle + spread * ((np.arange(values.size) + 0.5) / values.size - 0.5)
        axes.plot(across, values, zorder=4, markerfacecolor=style.colour, **_DOT)


def _box(axes: Axes, x: int, values: Any, style: CaseStyle) -> None:
    halo = [withStroke(linewidth=3.2, foreground="white")] if is_dark(style.colour) else []
    low, first, middle, third, high = np.percentile(values, [0, 25, 50, 75, 100])
    axes.bxp(
        [{"whislo": low, "q1": first, "med": middle, "q3": third, "whishi": high}],
        positions=[x - 0.1],
        widths=0.5,
        showfliers=False,
        patch_artist=True,
        manage_ticks=False,
        boxprops={"facecolor": style.colour, "edgecolor": INK, "linewidth": 0.8},
        medianprops={"color": INK, "linewidth": 1.6, "path_effects": halo},
        whiskerprops={"color": INK, "linewidth": 1.0},
        capprops={"color": INK, "linewidth": 1.0},
    )


def _ticks(every: Sequence[Axes], labels: Sequence[str]) -> None:
    """Name the boxes: in a row if that fits, else aslant, long names upright in several lines."""
    longest = max(map(len, labels))
    angle = 0 if longest * len(labels) <= _ROW else 30 if longest <= _LINE else 90
    shown = ["\n".join(_lines(label)) for label in labels] if angle == 90 else list(labels)
    for axes in every:
        axes.set_xlim(-0.6, len(labels) - 0.4)
        axes.set_xticks(
            range(len(labels)),
            shown,
            rotation=angle,
            ha="right" if angle else "center",
            va="center" if angle == 90 else "top",
            rotation_mode="anchor",
        )


def _lines(label: str) -> list[str]:
    """Break a label; a setting's number and unit stay together."""
    whole = re.sub("=[^,]*", lambda setting: setting[0].replace(" ", NO_BREAK_SPACE), label)
    return wrap(whole, _LINE)


def _box_entries(boxes: bool) -> list[Entry]:
    entries = [line_entry("a run", {**_DOT, "markerfacecolor": "white"})]
    if boxes:
        look: dict[str, Any] = {"facecolor": "#d9d9d9", "edgecolor": INK, "linewidth": 0.8}
        line = {"color": INK, "linewidth": 1.0}
        entries.append(Entry("quartiles with the median", Patch(**look)))
        entries.append(line_entry("whiskers to the smallest and largest", line))
    return entries


_MARKS = 6  # on each line


def cdf(runs: Sequence[DrawnRun], wanted: Wanted) -> Figure:
    """Draw the empirical distribution of the flows' goodput, those of all seeds together.

    Parameters
    ----------
    runs : sequence of DrawnRun
        A panel per number of flows, in each a line per case.
    wanted : Wanted
        ``scale``: whether the panels have one x axis.
    """
    chart = _Panels(runs, (2.7, 2.0), share_x=not wanted.free)
    for axes, part in chart:
        _draw_shares(axes, part, chart.styles)
    chart.axes[-1].set_xlabel("Goodput of a flow (bytes/s)")
    entries = line_entries(chart.styles, 5)
    return chart.finished("Distribution of goodput over the flows", "line", entries)


def _draw_shares(axes: Axes, part: Panel, styles: dict[str, CaseStyle]) -> None:
    for place, group in enumerate(part.groups):
        values = np.sort([value for run in group.runs for value in run.goodputs()])
        x = np.concatenate([values[:1], values])
        y = np.arange(x.size) / values.size
        style, apart = styles[group.label], max(1, x.size // _MARKS)
        axes.plot(x, y, drawstyle="steps-post", **line_look(style))
        places = slice(1 + place * apart // len(part.groups), None, apart)
        axes.plot(x[places], y[places], **marker_look(style, 5))
    axes.set_ylim(0, 1.02)
    axes.set_ylabel("Share of flows")
    axes.tick_params(axis="x", bottom=True)


#: Most rows, and most classes of width `_WIDTHS`, the narrowest that do with so many.
_MOST_ROWS, _CLASSES = 10, 60
_WIDTHS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


def histogram(runs: Sequence[DrawnRun], wanted: Wanted) -> Figure:
    """Draw how often a flow's goodput is what part of the mean of its run.

    Parameters
    ----------
    runs : sequence of DrawnRun
        A row per case and number of flows; the flows of all seeds together, each held against the
        mean of its own run.
    wanted : Wanted
        ``scale``: whether the rows have one y axis.
    """
    parts = panelled(runs, _MOST_ROWS)
    groups = [group for part in parts for group in part.groups]
    if len(groups) > _MOST_ROWS:
        raise LabError(
            f"{len(groups)} histograms do not fit above each other, {_MOST_ROWS} at most",
            hint="choose with --case or --flows",
        )
    styles, shares = looks(groups), [_shares(group) for group in groups]
    edges = _edges(np.concatenate(shares))
    figure, every = panels(len(groups), max(0.85, 2.4 / len(groups)), share_y=not wanted.free)
    labels = [
        group.label if len(parts) == 1 else f"{group.label}, {part.label}"
        for part in parts
        for group in part.groups
    ]
    for axes, group, values, label in zip(every, groups, shares, labels, strict=True):
        _row(axes, values, edges, styles[group.label])
        name_panel(axes, f"{label}: {_numbers(values, group)}")
    for axes in every:
        axes.set_ylim(bottom=0)
    every[-1].set_xlabel("Goodput of a flow / mean of its run")
    every[len(every) // 2].set_ylabel("Share of flows")
    head(every[0], "Normalised throughput of the flows", under_panels(runs, parts, "row"), LABEL)
    return figure


def _shares(group: Group) -> NDArray[np.float64]:
    parts = [np.array(run.goodputs()) for run in group.runs]
    for run, own in zip(group.runs, parts, strict=True):
        if not np.any(own):
            raise LabError(
                "no flow has goodput: there is no fair share",
                where=str(run.files.root),
                hint="leave it out with --seed or --case",
            )
    return np.concatenate([own / np.mean(own) for own in parts])


def _edges(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bounds of the classes, one of them in the middle of the fair share, 1."""
    low, high = min(float(np.min(values)), 1.0), max(float(np.max(values)), 1.0)
    fitting = [width for width in _WIDTHS if (high - low) / width <= _CLASSES]
    width = fitting[0] if fitting else (high - low) / _CLASSES
    below, above = np.ceil((1 - low) / width) + 1, np.ceil((high - 1) / width) + 1
    return np.asarray(1 + width * (np.arange(-below, above + 1) - 0.5), np.float64)


def _row(
    axes: Axes, values: NDArray[np.float64], edges: NDArray[np.float64], style: CaseStyle
) -> None:
    shares = np.histogram(values, edges)[0] / values.size
    axes.stairs(shares, edges, fill=True, facecolor=style.colour, edgecolor=INK, linewidth=0.7)
    axes.axvline(1.0, color="white", linewidth=2.2)  # keeps the other visible on what is dark
    axes.axvline(1.0, color=INK, linewidth=1.0, linestyle=(0, (3, 2)))
    axes.tick_params(axis="x", bottom=True)


def _numbers(values: NDArray[np.float64], group: Group) -> str:
    cov = np.mean([run.metric("goodput_cov") for run in group.runs])
    return f"{values.size} flows, CoV {cov:.3f}"
