"""What pages share: blocks of each experiment, bars of cases in groups, lines over an axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.report.claims.page import Block, Drawing, Numbers, Page, Point, at_units
from tcpf_lab.report.contents.subject import Member
from tcpf_lab.report.style import CASES, FALLBACK, CaseStyle, case_styles, fill_and_outline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def page_of_each(
    name: str,
    title: str,
    members: Sequence[Member],
    blocks: Callable[[Member, str], Iterable[Block]],
) -> Page | None:
    """Give a page with the blocks of each experiment; None without any.

    ``blocks`` takes an experiment and what its tables and figures are called: as the page, or as
    the experiment where there are several.
    """
    found: list[Block] = []
    for member in members:
        own = name if len(members) == 1 else member.experiment.name.replace("_", "-")
        found += blocks(member, own)
    return Page(name, title, tuple(found)) if found else None


_INK = "#111111"
_GROUP_WIDTH, _WIDEST = 0.84, 0.28  # of the distance between two groups


@dataclass(frozen=True, eq=False)
class BarPanel:
    """One quantity: the y axis' words, groups from left to right, a number by case and group."""

    axis: str
    groups: tuple[str, ...]
    values: Mapping[tuple[str, str], Numbers]

    @property
    def points(self) -> tuple[Point, ...]:
        """What is drawn: x is the place of the group, counted from 0."""
        return tuple(
            Point(case, float(self.groups.index(group)), numbers.values_by_seed, self.axis)
            for (case, group), numbers in self.values.items()
            if numbers
        )


@dataclass(frozen=True)
class Bars:
    """A bar for each point: a panel above the other for each quantity, groups of cases in it.

    Parameters
    ----------
    title, subtitle : str
        What stands above.
    panels : tuple of (str, tuple of str)
        The y axis' words of each panel, which are its points' panel, and its groups from left to
        right; a point's x is the place of its group.
    cases : tuple of str
        The bars of a group, in order.
    then : str
        Stands for the break between two lines of a group's name in a point's text.
    """

    title: str
    subtitle: str
    panels: tuple[tuple[str, tuple[str, ...]], ...]
    cases: tuple[str, ...]
    then: str = ", "

    def place(self, point: Point) -> str:
        """Say of which group a bar is: ``for 2 bottlenecks``."""
        return f"for {dict(self.panels)[point.panel][round(point.x)]}".replace("\n", self.then)

    def draw(self, points: Sequence[Point]) -> Figure:
        """Draw the panels; within ``house_style``."""
        from matplotlib.patches import Patch

        from tcpf_lab.report.plots.canvas import Entry, head, legend, panels

        styles = case_styles(self.cases)
        figure, every = panels(len(self.panels), 2.6 if len(self.panels) == 1 else 1.9)
        for axes, (name, groups) in zip(every, self.panels, strict=True):
            _bar_panel(axes, groups, [point for point in points if point.panel == name], styles)
            axes.set_ylabel(name)
        head(every[0], self.title, self.subtitle)
        entries = [
            Entry(style.label, tuple(Patch(**look) for look in fill_and_outline(style)))
            for style in styles.values()
        ]
        legend(figure, entries)
        return figure


def bars(
    name: str,
    title: str,
    caption: str,
    parts: Sequence[BarPanel],
    heads: tuple[str, str],
    then: str = ", ",
) -> Drawing:
    """Give a figure of bars; ``heads`` stand above it, ``then`` is that of `Bars`."""
    points = tuple(point for part in parts for point in part.points)
    missing = () if points else ("no run",)
    cases = tuple(dict.fromkeys(case for part in parts for case, _ in part.values))
    frame = Bars(*heads, tuple((part.axis, part.groups) for part in parts), cases, then)
    return Drawing(name, title, caption, points, frame, missing)


def _bar_panel(
    axes: Axes, groups: Sequence[str], points: Sequence[Point], styles: Mapping[str, CaseStyle]
) -> None:
    width = min(_GROUP_WIDTH / len(styles), _WIDEST)
    shifts = {case: (n - (len(styles) - 1) / 2) * width for n, case in enumerate(styles)}
    for point in sorted(points, key=lambda point: (shifts[point.series], point.x)):
        at = round(point.x) + shifts[point.series]
        mean, half = mean_ci(point.values)
        for look in fill_and_outline(styles[point.series]):
            axes.bar(at, mean, 0.92 * width, zorder=2, **look)
        if half is not None:
            drawn = [[min(half, mean)], [half]]
            axes.errorbar(at, mean, yerr=drawn, fmt="none", zorder=4, **_INTERVAL)
    axes.set_xticks(range(len(groups)), list(groups))
    axes.set_xlim(-0.5, len(groups) - 0.5)
    axes.set_ylim(bottom=0)


_INTERVAL: dict[str, Any] = {"ecolor": _INK, "elinewidth": 1.1, "capsize": 2.4, "capthick": 1.1}


_EACH = {1: 3.2, 2: 2.1}  # inches of one of so many panels
_SIZE = 5
#: The order in which looks are taken, so that those of few lines are far apart.
_LOOKS = (
    *(CASES[name] for name in ("TCPF+FRIO", "TB+RIO", "TCPF(O)+RIO", "NoMark+TailDrop")),
    *FALLBACK,
    *(CASES[name] for name in ("TCPF+RIO", "NoMark+FRED", "NoMark+RED")),
)


def looks_of(series: Iterable[str]) -> dict[str, CaseStyle]:
    """Give each series a look by its place."""
    names = dict.fromkeys(series)
    return {name: replace(look, label=name) for name, look in zip(names, cycle(_LOOKS))}


@dataclass(frozen=True)
class Lines:
    """A line for each series, a panel for each of the points': what stands around them.

    Parameters
    ----------
    title, subtitle : str
        What is drawn; of which runs.
    x, y : str
        Names of the axes.
    ticks : tuple of float
        Written under a logarithmic x axis; without them it is linear.
    top : float or None
        Upper end of the y axis.
    bottom : float or None
        Its lower end; None for 0, or lower if there is something below it.
    mark : float or None
        A vertical line: the fair share, or a bound of the text.
    steps : str
        Draw steps without intervals: ``mid`` for histograms, ``post`` for distributions.
    unit, before : str
        What stands behind x and before it in a point's text: ``at 4 ms``.
    """

    title: str
    subtitle: str
    x: str
    y: str
    ticks: tuple[float, ...] = ()
    top: float | None = None
    bottom: float | None = 0.0
    mark: float | None = None
    steps: Literal["", "mid", "post"] = ""
    unit: str = ""
    before: str = "at"

    def place(self, point: Point) -> str:
        """Say where a point is."""
        return at_units(point, self.unit, before=self.before)

    def draw(self, points: Sequence[Point]) -> Figure:
        """Draw the lines.

        A point whose ``x`` is not a number has no place on the axis: its series is a level, drawn
        over the whole width.
        """
        from tcpf_lab.report.plots.canvas import (
            LABEL,
            head,
            legend,
            line_entries,
            name_panel,
            panels,
        )

        names = list(dict.fromkeys(point.panel for point in points))
        figure, every = panels(len(names), _EACH.get(len(names), 1.7), share_y=True)
        styles = looks_of(point.series for point in points)
        for axes, name in zip(every, names, strict=True):
            _panel(axes, [point for point in points if point.panel == name], styles, self)
            if len(names) > 1:
                name_panel(axes, name)
            axes.set_ylabel(self.y)
        _limits(every[0], self)
        every[-1].set_xlabel(self.x)
        head(every[0], self.title, self.subtitle, LABEL if len(names) > 1 else 0)
        legend(figure, line_entries(styles, 0 if self.steps else _SIZE))
        return figure


def _panel(
    axes: Axes, points: Sequence[Point], styles: Mapping[str, CaseStyle], frame: Lines
) -> None:
    for series in dict.fromkeys(point.series for point in points):
        own = [point for point in points if point.series == series]
        if math.isnan(own[0].x):
            _level(axes, own[0], styles[series])
        else:
            _line(axes, sorted(own, key=lambda point: point.x), styles[series], frame)
    if frame.ticks:
        _logarithmic(axes, frame.ticks)
    if frame.mark is not None:
        axes.axvline(frame.mark, color="#111111", linewidth=1.0, linestyle=(0, (3, 2)), zorder=1)
    if frame.bottom is None:
        axes.axhline(0, color="#111111", linewidth=0.8, zorder=1)
    axes.tick_params(axis="x", bottom=True)


def _limits(axes: Axes, frame: Lines) -> None:
    """Limit the axis that all panels share, once all of them are drawn."""
    low, high = axes.get_ylim()
    bottom = min(0.0, low) if frame.bottom is None else frame.bottom
    # Room above what is drawn, which values that are nearly alike leave next to none of.
    axes.set_ylim(bottom, high + 0.04 * (high - bottom) if frame.top is None else frame.top)


def _line(axes: Axes, points: Sequence[Point], style: CaseStyle, frame: Lines) -> None:
    from tcpf_lab.report.plots.canvas import line_look, marker_look

    x = [point.x for point in points]
    found = [mean_ci(point.values) for point in points]
    y = [mean for mean, _ in found]
    if frame.steps:
        axes.plot(x, y, drawstyle=f"steps-{frame.steps}", zorder=3, **line_look(style))
        return
    axes.plot(x, y, zorder=3, **line_look(style))
    axes.plot(x, y, zorder=4, **marker_look(style, _SIZE))
    for at, (mean, half) in zip(x, found, strict=True):
        if half is not None:
            axes.errorbar(
                at, mean, yerr=half, fmt="none", ecolor="#111111", elinewidth=0.9, capsize=2.4
            )


def _level(axes: Axes, point: Point, style: CaseStyle) -> None:
    from tcpf_lab.report.plots.canvas import line_look

    mean, half = mean_ci(point.values)
    axes.axhline(mean, zorder=2, **line_look(style))
    if half is not None:
        axes.axhspan(mean - half, mean + half, color=style.colour, alpha=0.15, linewidth=0)


def _logarithmic(axes: Axes, ticks: Sequence[float]) -> None:
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.set_xticks(list(ticks), [f"{tick:g}" for tick in ticks])


@dataclass(frozen=True)
class AgainstDelay:
    """Throughput in Mbit/s against delay in ms: a point per series and run.

    Parameters
    ----------
    subtitle : str
        The line under the title.
    cases : tuple of str
        All cases that the experiment has, for the looks of series; without them a series has a
        look by its place.
    title, x : str
        Empty for those of `plot throughput-delay --delay p95`.
    """

    subtitle: str
    cases: tuple[str, ...] = ()
    title: str = ""
    x: str = ""

    def place(self, point: Point) -> str:
        """Say where a point is."""
        return at_units(point, "ms")

    def draw(self, points: Sequence[Point]) -> Figure:
        """Draw the points of each series, their mean and its spread; within ``house_style``."""
        from tcpf_lab.report.plots.scatter import Words, draw_scatter

        found: dict[str, dict[str, list[tuple[float, float]]]] = {}
        for point in points:
            own = found.setdefault(point.panel, {})
            own.setdefault(point.series, []).append((point.x, point.values[0]))
        series = list(dict.fromkeys(point.series for point in points))
        given = {"title": self.title, "x": self.x}
        return draw_scatter(
            {
                panel: {name: np.array(values).T for name, values in own.items()}
                for panel, own in found.items()
            },
            case_styles(series, self.cases) if self.cases else looks_of(series),
            Words(self.subtitle, **{name: words for name, words in given.items() if words}),
        )
