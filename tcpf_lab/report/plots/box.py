"""How far the seeds scatter: a box over the runs of each case, and every run as a dot."""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke

from tcpf_lab.report.plots.canvas import INK, LABEL, Entry, head, legend, looks, name_panel, panels
from tcpf_lab.report.plots.kinds import Wanted
from tcpf_lab.report.plots.runs import DrawnRun, Panel, panelled, runs_behind, under
from tcpf_lab.report.style import METRICS, NO_BREAK_SPACE, CaseStyle, MetricStyle, is_dark

_MOST = 4
#: Characters of all names that fit into a row under the axes, and of a name into a line.
_ROW, _LINE = 60, 24
#: Quartiles of fewer values are hardly more than the values themselves.
_FEWEST = 5
_BESIDE = 0.31  # of the distance between two boxes: where the dots are
_DOT: dict[str, Any] = {
    "linestyle": "none",
    "marker": "o",
    "markersize": 3.6,
    "markeredgecolor": INK,
    "markeredgewidth": 0.8,
}


def draw(runs: Sequence[DrawnRun], wanted: Wanted) -> Figure:
    """Draw a metric of every run: median, quartiles, and whiskers to the smallest and largest.

    Parameters
    ----------
    runs : sequence of DrawnRun
        A panel per number of flows, in each a box per case; fewer than five runs are dots only.
    wanted : Wanted
        ``metric``, timeouts by default; ``scale``: whether the panels have one y axis from 0 on.
    """
    metric = wanted.metric or METRICS["timeouts"]
    parts = panelled(runs, _MOST)
    groups = [group for part in parts for group in part.groups]
    styles = looks(groups)
    figure, every = panels(len(parts), 2.5, share_y=not wanted.free)
    for axes, part in zip(every, parts, strict=True):
        _panel(axes, part, metric, styles)
        axes.set_ylabel(metric.axis)
        if len(parts) > 1:
            name_panel(axes, part.label)
    for axes in () if wanted.free else every:
        axes.set_ylim(bottom=0)
    _ticks(every, list(styles))
    words = (*([parts[0].label] if len(parts) == 1 else ()), runs_behind(groups, "case"))
    lift = LABEL if len(parts) > 1 else 0
    head(every[0], f"{metric.title} over the seeds", under(runs, *words), lift)
    legend(figure, _entries(any(len(group.runs) >= _FEWEST for group in groups)))
    return figure


def _panel(axes: Axes, part: Panel, metric: MetricStyle, styles: dict[str, CaseStyle]) -> None:
    for group in part.groups:
        x, style = list(styles).index(group.label), styles[group.label]
        values = np.array([run.metric(metric.name) for run in group.runs])
        if values.size >= _FEWEST:
            _box(axes, x, values, style)
        middle, spread = (x + _BESIDE, 0.16) if values.size >= _FEWEST else (x, 0.5)
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


def _entries(boxes: bool) -> list[Entry]:
    entries = [Entry("a run", Line2D([], [], **_DOT, markerfacecolor="white"))]
    if boxes:
        look: dict[str, Any] = {"facecolor": "#d9d9d9", "edgecolor": INK, "linewidth": 0.8}
        line = Line2D([], [], color=INK, linewidth=1.0)
        entries.append(Entry("quartiles with the median", Patch(**look)))
        entries.append(Entry("whiskers to the smallest and largest", line))
    return entries
