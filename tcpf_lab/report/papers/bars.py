"""Bars of cases in groups, a panel per quantity: means over seeds with their intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tcpf_lab.report.papers.cell_runs import Numbers
from tcpf_lab.report.papers.page import Point
from tcpf_lab.report.style import CaseStyle, case_styles, is_dark

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INK = "#111111"
_GROUP_WIDTH, _WIDEST = 0.84, 0.28  # of the distance between two groups


@dataclass(frozen=True, eq=False)
class BarPanel:
    """One quantity: the y axis' words, groups from left to right, a number by case and group."""

    axis: str
    groups: tuple[str, ...]
    values: Mapping[tuple[str, str], Numbers]

    @property
    def cases(self) -> tuple[str, ...]:
        """The cases that have bars, in order."""
        return tuple(dict.fromkeys(case for case, _ in self.values))

    @property
    def points(self) -> tuple[Point, ...]:
        """What is drawn: x is the place of the group, counted from 0."""
        return tuple(
            Point(case, float(self.groups.index(group)), numbers.values_by_seed, self.axis)
            for (case, group), numbers in self.values.items()
            if numbers
        )


def groups_of(parts: Sequence[BarPanel], then: str = ", ") -> Callable[[Point], str]:
    """Give a function that says of which group a bar is: ``for 2 bottlenecks``.

    ``then`` stands in it for the break between two lines of a group's name.
    """
    groups = {part.axis: part.groups for part in parts}
    return lambda point: f"for {groups[point.panel][round(point.x)]}".replace("\n", then)


def draw_bars(parts: Sequence[BarPanel], title: str, subtitle: str) -> Figure:
    """Draw panels above each other, a bar per case in each group; within ``house_style``."""
    from matplotlib.patches import Patch

    from tcpf_lab.report.plots.canvas import Entry, head, legend
    from tcpf_lab.report.plots.frame import panels

    styles = case_styles([case for part in parts for case in part.cases])
    figure, every = panels(len(parts), 2.6 if len(parts) == 1 else 1.9)
    for axes, part in zip(every, parts, strict=True):
        _panel(axes, part, styles)
    head(every[0], title, subtitle)
    entries = [
        Entry(style.label, tuple(Patch(**look) for look in _looks(style)))
        for style in styles.values()
    ]
    legend(figure, entries)
    return figure


def _panel(axes: Axes, part: BarPanel, styles: Mapping[str, CaseStyle]) -> None:
    width = min(_GROUP_WIDTH / len(styles), _WIDEST)
    for place, (case, style) in enumerate(styles.items()):
        shift = (place - (len(styles) - 1) / 2) * width
        for at, group in enumerate(part.groups):
            mean, half = part.values.get((case, group), Numbers({})).mean_ci
            if mean is None:
                continue
            for look in _looks(style):
                axes.bar(at + shift, mean, 0.92 * width, zorder=2, **look)
            if half is not None:
                drawn = [[min(half, mean)], [half]]
                axes.errorbar(at + shift, mean, yerr=drawn, fmt="none", zorder=4, **_INTERVAL)
    axes.set_xticks(range(len(part.groups)), list(part.groups))
    axes.set_xlim(-0.5, len(part.groups) - 0.5)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(part.axis)


_INTERVAL: dict[str, Any] = {"ecolor": _INK, "elinewidth": 1.1, "capsize": 2.4, "capthick": 1.1}


def _looks(style: CaseStyle) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two looks drawn over each other: matplotlib ties a hatch's colour to the edge's."""
    light = "#ffffff" if is_dark(style.colour) else _INK
    fill = {"facecolor": style.colour, "hatch": style.hatch, "edgecolor": light, "linewidth": 0}
    return fill, {"facecolor": "none", "edgecolor": _INK, "linewidth": 0.7}
