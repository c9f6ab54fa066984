"""Which share of a fair share the flows get: histograms of normalised throughput."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from tcpf_lab.base.errors import LabError
from tcpf_lab.report.plots.canvas import INK, LABEL, head, looks, name_panel, panels
from tcpf_lab.report.plots.kinds import Wanted
from tcpf_lab.report.plots.runs import DrawnRun, Group, panelled, runs_behind, under
from tcpf_lab.report.style import CaseStyle

#: Most rows, and most classes of width `_WIDTHS`, the narrowest that do with so many.
_MOST, _CLASSES = 10, 60
_WIDTHS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


def draw(runs: Sequence[DrawnRun], wanted: Wanted) -> Figure:
    """Draw how often a flow's goodput is what part of the mean of its run.

    Parameters
    ----------
    runs : sequence of DrawnRun
        A row per case and number of flows; the flows of all seeds together, each held against the
        mean of its own run.
    wanted : Wanted
        ``scale``: whether the rows have one y axis.
    """
    parts = panelled(runs, _MOST)
    groups = [group for part in parts for group in part.groups]
    if len(groups) > _MOST:
        raise LabError(
            f"{len(groups)} histograms do not fit above each other, {_MOST} at most",
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
    words = (*([parts[0].label] if len(parts) == 1 else ()), runs_behind(groups, "row"))
    head(every[0], "Normalised throughput of the flows", under(runs, *words), LABEL)
    return figure


def _shares(group: Group) -> NDArray[np.float64]:
    parts = [np.array(run.goodputs()) for run in group.runs]
    for run, own in zip(group.runs, parts, strict=True):
        if not np.any(own):
            raise LabError(
                "no flow got anything, so there is no fair share",
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
