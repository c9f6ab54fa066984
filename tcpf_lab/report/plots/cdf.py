"""How goodput is spread over the flows: its distribution, a line per case."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tcpf_lab.report.plots.canvas import (
    LABEL,
    head,
    legend,
    line_entries,
    line_look,
    looks,
    marker_look,
    name_panel,
    panels,
)
from tcpf_lab.report.plots.kinds import Wanted
from tcpf_lab.report.plots.runs import DrawnRun, Panel, panelled, runs_behind, under
from tcpf_lab.report.style import CaseStyle

_MOST = 4
_MARKS = 6  # on each line


def draw(runs: Sequence[DrawnRun], wanted: Wanted) -> Figure:
    """Draw the empirical distribution of the flows' goodput, those of all seeds together.

    Parameters
    ----------
    runs : sequence of DrawnRun
        A panel per number of flows, in each a line per case.
    wanted : Wanted
        ``scale``: whether the panels have one x axis.
    """
    parts = panelled(runs, _MOST)
    groups = [group for part in parts for group in part.groups]
    styles = looks(groups)
    figure, every = panels(len(parts), 2.7 if len(parts) == 1 else 2.0, share_x=not wanted.free)
    for axes, part in zip(every, parts, strict=True):
        _panel(axes, part, styles)
        if len(parts) > 1:
            name_panel(axes, part.label)
    every[-1].set_xlabel("Goodput of a flow (bytes/s)")
    words = (*([parts[0].label] if len(parts) == 1 else ()), runs_behind(groups, "line"))
    lift = LABEL if len(parts) > 1 else 0
    head(every[0], "Distribution of goodput over the flows", under(runs, *words), lift)
    legend(figure, line_entries(styles, 5))
    return figure


def _panel(axes: Axes, part: Panel, styles: dict[str, CaseStyle]) -> None:
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
