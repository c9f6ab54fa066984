"""What throughput costs in delay: a point per case, an ellipse for the scatter of its runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse
from numpy.typing import NDArray

from tcpf_lab.report.plots.canvas import (
    INK,
    LABEL,
    Entry,
    head,
    legend,
    looks,
    marker_look,
    name_panel,
    panels,
)
from tcpf_lab.report.plots.kinds import DELAYS, Wanted
from tcpf_lab.report.plots.runs import DrawnRun, Group, Panel, panelled, runs_behind, under
from tcpf_lab.report.style import CaseStyle

_MOST = 4
#: An axis spans at least this share of where it lies: what differs by a per cent stays close.
_LEAST = 0.1
#: Two runs have no ellipse.
_FEWEST = 3
_WORDS = {"mean": "Mean", "p95": "95th percentile of"}
_RUN: dict[str, Any] = {
    "linestyle": "none",
    "marker": ".",
    "markersize": 3.5,
    "markerfacecolor": INK,
    "markeredgecolor": "none",
}


def draw(runs: Sequence[DrawnRun], wanted: Wanted) -> Figure:
    """Draw the flows' goodput together against the queueing delay, less delay to the right.

    Parameters
    ----------
    runs : sequence of DrawnRun
        A panel per number of flows, in each a point per case: the mean of its runs. The ellipse is
        one standard deviation along both its axes, as the covariance of the runs has them.
    wanted : Wanted
        ``delay``, ``mean`` by default; ``scale``: whether the panels have the same axes.
    """
    delay = wanted.delay or "mean"
    parts = panelled(runs, _MOST)
    groups = [group for part in parts for group in part.groups]
    styles, alike = looks(groups), not wanted.free
    each = 2.9 if len(parts) == 1 else 2.2
    figure, every = panels(len(parts), each, share_x=alike, share_y=alike)
    for axes, part in zip(every, parts, strict=True):
        _panel(axes, part, DELAYS[delay], styles)
        axes.set_ylabel("Goodput of all flows (Mbit/s)")
        if len(parts) > 1:
            name_panel(axes, part.label)
    for axes in every[:1] if alike else every:
        axes.margins(0.08)
        _at_least(axes, _LEAST)
        axes.invert_xaxis()
    words = f"{_WORDS[delay]} queueing delay, one way (ms), reversed: less delay is to the right"
    every[-1].set_xlabel(words)
    told = (*([parts[0].label] if len(parts) == 1 else ()), runs_behind(groups, "point"))
    lift = LABEL if len(parts) > 1 else 0
    head(every[0], "Throughput against delay: better is up and right", under(runs, *told), lift)
    legend(figure, _entries(styles, groups))
    return figure


def _panel(axes: Axes, part: Panel, delay: str, styles: dict[str, CaseStyle]) -> None:
    for group in part.groups:
        points = _points(group, delay)
        x, y = np.mean(points, axis=1)
        style = styles[group.label]
        if points.shape[1] >= _FEWEST:
            axes.add_patch(_ellipse(points, style))
        if points.shape[1] > 1:
            axes.plot(*points, zorder=3, **_RUN)
        axes.plot(x, y, zorder=4, **marker_look(style, 8))
    axes.tick_params(axis="x", bottom=True)
    axes.grid(True, axis="both")


def _at_least(axes: Axes, share: float) -> None:
    """Widen axes that span less than a share of their largest number."""
    for limits, set_limits in ((axes.get_xlim(), axes.set_xlim), (axes.get_ylim(), axes.set_ylim)):
        low, high = limits
        more = share * high - (high - low)
        if more > 0:
            set_limits(max(0.0, low - more / 2), high + more / 2)


def _points(group: Group, delay: str) -> NDArray[np.float64]:
    """Delay in ms and goodput in Mbit/s of each run, shape (2, runs)."""
    runs = group.runs
    return np.array(
        [
            [1e3 * run.metric(delay) for run in runs],
            [8e-6 * sum(run.goodputs()) for run in runs],
        ]
    )


def _ellipse(points: NDArray[np.float64], style: CaseStyle) -> Ellipse:
    sizes, axes = np.linalg.eigh(np.cov(points))
    width, height = 2 * np.sqrt(np.maximum(sizes, 0))
    return Ellipse(
        tuple(np.mean(points, axis=1)),
        width,
        height,
        angle=float(np.degrees(np.arctan2(axes[1, 0], axes[0, 0]))),
        facecolor=(*_rgb(style.colour), 0.3),
        edgecolor=INK,
        linewidth=0.8,
        zorder=2,
    )


def _rgb(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return red, green, blue


def _entries(styles: dict[str, CaseStyle], groups: Sequence[Group]) -> list[Entry]:
    entries = [
        Entry(label, Line2D([], [], **marker_look(style, 7))) for label, style in styles.items()
    ]
    if any(len(group.runs) > 1 for group in groups):
        entries.append(Entry("a run", Line2D([], [], **_RUN)))
    if any(len(group.runs) >= _FEWEST for group in groups):
        ring = marker_look(CaseStyle("", "#d9d9d9", "", "o"), 9)
        entries.append(Entry("one standard deviation", Line2D([], [], **ring)))
    return entries
