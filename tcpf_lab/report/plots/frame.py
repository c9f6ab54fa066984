"""Axes of several panels above each other, and how groups of runs look in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from textwrap import wrap
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from tcpf_lab.errors import RequestError
from tcpf_lab.report.plots.canvas import Entry, sheet
from tcpf_lab.report.plots.runs import DrawnRun, Group
from tcpf_lab.report.style import (
    DISTINCT,
    CaseStyle,
    case_styles,
    lightness,
    ranked_styles,
)

INK = "#111111"
#: What is lighter than this is lost on white paper without an outline.
_PALE = 52
_AROUND = 2.2  # inches that head, ticks and legend take
#: Room that the label of the first panel takes under a figure's head, points.
LABEL = 9
#: Size of labels; characters that fit into a line of that size, and of the smallest.
_LABEL_SIZE, _LABEL_FITS, _LABEL_LINE = 8.5, 68, 110


def panels(
    count: int, each: float, *, share_x: bool = True, share_y: bool = False
) -> tuple[Figure, list[Axes]]:
    """Give a figure with `count` axes above each other, each so many inches high.

    Returns
    -------
    tuple of (Figure, list of Axes)
        From top to bottom.
    """
    figure = sheet(height=_AROUND + count * each)
    made = figure.subplots(count, 1, squeeze=False, sharex=share_x, sharey=share_y)
    return figure, [axes for (axes,) in made]


def name_panel(axes: Axes, label: str) -> None:
    """Write a panel's label above its left corner, small if it is long."""
    lines = wrap(label, _LABEL_LINE)
    longest = max(map(len, lines))
    axes.annotate(
        "\n".join(lines),
        (0, 1),
        (1, 3),
        xycoords="axes fraction",
        textcoords="offset points",
        fontweight="bold",
        fontsize=_LABEL_SIZE * min(1.0, _LABEL_FITS / longest),
    )


def looks(groups: Sequence[Group]) -> dict[str, CaseStyle]:
    """Give every label of the groups its look: the case's own, if no case has several.

    Raises
    ------
    RequestError
        If there are more than there are looks.
    """
    labels = list(dict.fromkeys(group.label for group in groups))
    if len(labels) > DISTINCT:
        raise RequestError(
            f"{len(labels)} lines cannot be told apart, {DISTINCT} at most",
            hint="choose some of the cases with --case, or of the settings with --only",
        )
    cases = {group.first.case for group in groups}
    if len(cases) < len(labels):
        return ranked_styles(labels)
    return case_styles(labels, {case for group in groups for case in group.first.cases})


def run_looks(runs: Mapping[str, DrawnRun]) -> dict[str, CaseStyle]:
    """Give the look of runs by their labels: the case's, if no two are of one case."""
    cases = {run.case for run in runs.values()}
    if len(cases) < len(runs):
        return ranked_styles(list(runs))
    styles = case_styles(list(cases), {case for run in runs.values() for case in run.cases})
    return {label: replace(styles[run.case], label=label) for label, run in runs.items()}


def line_look(style: CaseStyle) -> dict[str, Any]:
    """Give the properties of a line; what would be pale gets a dark outline."""
    look: dict[str, Any] = {
        "color": style.colour,
        "linestyle": style.dash,
        "linewidth": 1.6,
        "dash_capstyle": "butt",
        "solid_joinstyle": "round",
    }
    if lightness(style.colour) > _PALE:
        look["path_effects"] = [withStroke(linewidth=2.6, foreground=INK)]
    return look


def marker_look(style: CaseStyle, size: float) -> dict[str, Any]:
    """Give the properties of markers without a line."""
    return {
        "linestyle": "none",
        "marker": style.marker,
        "markersize": size,
        "markerfacecolor": style.colour,
        "markeredgecolor": INK,
        "markeredgewidth": 0.8,
    }


def line_entries(styles: dict[str, CaseStyle], marker: float = 0) -> list[Entry]:
    """Give the legend of lines, with their markers of that size if they have any."""
    entries = []
    for label, style in styles.items():
        line = Line2D([], [], **line_look(style))
        point = Line2D([], [], **marker_look(style, marker))
        entries.append(Entry(label, (line, point) if marker else line))
    return entries
