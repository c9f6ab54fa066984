"""The figures of a calibration by their names, with the numbers behind them and their words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, isfinite, nan
from textwrap import shorten, wrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from tcpf_lab.calibration.record import Record, word
from tcpf_lab.report.claims.page import Drawing, Drawn, Point
from tcpf_lab.report.contents.model import count
from tcpf_lab.report.plots.canvas import INK, Entry, head, legend, sheet
from tcpf_lab.report.style import METRICS, OTHER_METRICS

_BLUE, _LIGHT, _KEPT, _ORANGE = "#1b4a95", "#b9cbe6", "#eeeeee", "#d2702f"
_COLUMNS, _PANEL = 3, 1.55  # panels in a row, and their height in inches
_TICKS = 36  # characters below a panel
_NAME, _LINE = 28, 0.13  # characters of a line above a panel, and the height of one more
_SHADES = LinearSegmentedColormap.from_list("shares", ["#ffffff", "#9db8dc", "#0b2f66"])
_LIMIT: dict[str, Any] = {"color": _ORANGE, "linewidth": 1.2, "linestyle": (0, (4.2, 1.3))}
_CURVE: dict[str, Any] = {"color": _BLUE, "linewidth": 1.4}
_LEVEL: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 5, "color": _BLUE}
_BEST: dict[str, Any] = {
    "linestyle": "none",
    "marker": "D",
    "markersize": 5.5,
    "markerfacecolor": "white",
    "markeredgecolor": INK,
}
_DOTTED: dict[str, Any] = {"color": INK, "linewidth": 1.0, "linestyle": (0, (1.1, 1.1))}
_DOTS: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 3.5, "color": "#7fa0d0"}
_RINGS: dict[str, Any] = {**_DOTS, "markerfacecolor": "white"}


def profiles_figure(
    profiles: Sequence[Mapping[str, Any]],
    limit: float,
    defaults: Sequence[float | None],
    subtitle: str,
    scale: tuple[float, float] | None = None,
) -> Figure:
    """Draw each unknown's profile in a panel of its own, all with one scale of the misfit.

    Parameters
    ----------
    profiles : sequence of mapping
        The profile of each unknown as plain data; ``texts``, if there is one, has the values as
        they are to be written.
    limit : float
        The threshold.
    defaults : sequence of float or None
        Place of each unknown's default in the unit interval; None where it has none.
    subtitle : str
        What was fitted to what, with how many points.
    scale : (float, float), optional
        Ends of the misfit's axis, if these profiles are some of many: ``scale_of`` all of them.
    """
    rows = ceil(len(profiles) / _COLUMNS)
    names = [_above(str(one["name"])) for one in profiles]
    more = max(name.count("\n") for name in names) + max(
        text.count("\n") for one in profiles for text in _ticks(one)
    )
    figure = sheet(height=1.6 + rows * (_PANEL + _LINE * more))
    grid = _grid(figure, rows, "What the published numbers pin down", subtitle)
    panels = list(grid.ravel())
    for axes, one, default in zip(panels, profiles, defaults, strict=False):
        _panel(axes, one, limit, default)
    for axes in panels[len(profiles) :]:
        axes.set_visible(False)
    panels[0].set_ylim(*(scale or scale_of(profiles, limit)))
    for row in grid:
        row[0].set_ylabel("Minimum misfit")
    legend(figure, _entries(any(one is not None for one in defaults)))
    return figure


def scale_of(profiles: Sequence[Mapping[str, Any]], limit: float) -> tuple[float, float]:
    """Give the ends of the misfit's axis: all profiles, but for what is far above the threshold."""
    low = min(min(one["possible"]) for one in profiles)
    high = max(limit, *(max(one["expected"]) for one in profiles))
    room = max(limit - low, limit - min(min(one["expected"]) for one in profiles), 1.0)
    return low - 0.15 * room, min(high + 0.2 * room, limit + 3 * room)


def _panel(axes: Axes, one: Mapping[str, Any], limit: float, default: float | None) -> None:
    units = np.array(one["units"])
    possible, expected, above = (np.array(one[key]) for key in ("possible", "expected", "above"))
    if isinstance(one["values"][0], str):
        for unit, _ in _kept(one):
            axes.axvspan(
                unit - 0.4 / len(units), unit + 0.4 / len(units), facecolor=_KEPT, zorder=0
            )
        axes.vlines(units, possible, above, color=_LIGHT, linewidth=5, zorder=1)
        axes.plot(units, expected, zorder=3, **_LEVEL)
        axes.set_xticks(units, _ticks(one), fontsize=max(5, 9 - len(units)))
    else:
        for low, high in _kept(one):
            axes.axvspan(low, high, facecolor=_KEPT, zorder=0)
        axes.fill_between(units, possible, above, color=_LIGHT, linewidth=0, zorder=1)
        axes.plot(units, expected, zorder=3, **_CURVE)
        ticks = [0, int(np.argmin(np.abs(units - 0.5))), len(units) - 1]
        texts = _texts(one)
        axes.set_xticks(units[ticks], [texts[tick] for tick in ticks], fontsize=7)
    axes.axhline(limit, zorder=2, **_LIMIT)
    best = int(np.argmin(expected))
    axes.plot(units[best], expected[best], zorder=4, **_BEST)
    if default is not None:
        axes.axvline(default, zorder=2, **_DOTTED)
    axes.set_xlim(-0.03, 1.03)
    axes.tick_params(axis="y", labelsize=7)
    name = _above(str(one["name"]))
    axes.set_title(f"{name}\n{one['verdict']}", fontsize=8, loc="left", pad=4)


def _ticks(one: Mapping[str, Any]) -> list[str]:
    """Break the names of levels into lines that stand beside each other; none of a range."""
    if not isinstance(one["values"][0], str):
        return [""]
    texts = _texts(one)
    width = max(5, round(_TICKS / len(texts)))
    return ["\n".join(wrap(text, width, max_lines=4, placeholder="…")) for text in texts]


def _above(name: str) -> str:
    """Break a name into two lines at most, of what a panel is wide."""
    lines = wrap(name, _NAME)
    if len(lines) < 2:
        return name
    return f"{lines[0]}\n{shorten(' '.join(lines[1:]), _NAME, placeholder='…')}"


def _kept(one: Mapping[str, Any]) -> list[tuple[float, float]]:
    """Give the places of what the profile says is not excluded: its ends, of a level twice it.

    Between two values of the profile the scale is taken to be linear: they are close to each other.
    """
    values, units = one["values"], one["units"]
    if isinstance(values[0], str):
        places = dict(zip(values, units, strict=True))
        return [(places[level], places[level]) for (level,) in one["pieces"]]
    return [
        (float(np.interp(low, values, units)), float(np.interp(high, values, units)))
        for low, high in one["pieces"]
    ]


def _texts(one: Mapping[str, Any]) -> list[str]:
    """Give the values as they are to be written."""
    values = one.get("texts") or one["values"]
    return [value if isinstance(value, str) else f"{value:.3g}" for value in values]


def _entries(with_default: bool) -> list[Entry]:
    curve = (Patch(facecolor=_LIGHT, linewidth=0), Line2D([], [], **_CURVE))
    entries = [
        Entry("expected misfit; band: as far as the emulator knows", curve),
        Entry("threshold", Line2D([], [], **_LIMIT)),
        Entry("not excluded", Patch(facecolor=_KEPT, edgecolor="#cccccc", linewidth=0.6)),
        Entry("least", Line2D([], [], **_BEST)),
    ]
    return [*entries, *([Entry("default", Line2D([], [], **_DOTTED))] if with_default else [])]


def _grid(figure: Figure, rows: int, title: str, subtitle: str) -> Any:
    """Give axes (rows, columns) with one misfit axis, under a head that all of them share."""
    halves = figure.add_gridspec(2, 1, height_ratios=[0.01, rows])
    axes = figure.add_subplot(halves[0])
    axes.set_axis_off()
    head(axes, title, subtitle)
    return halves[1].subgridspec(rows, _COLUMNS).subplots(squeeze=False, sharey=True)


def influence_figure(
    shares: Sequence[Sequence[float]],
    unknowns: Sequence[str],
    metrics: Sequence[str],
    subtitle: str,
) -> Figure:
    """Draw a heat map of total-order indices, a row per unknown and a column per metric.

    Parameters
    ----------
    shares : array, shape (metrics, unknowns)
        The indices; NaN where a metric does not vary.
    unknowns, metrics : sequence of str
        Their names, in the same order; the most influential unknown comes to stand first.
    subtitle : str
        What they belong to.
    """
    table = np.array(shares, dtype=float).T
    order = np.argsort(-np.nan_to_num(table).max(axis=1), kind="stable")
    table = table[order]
    figure = sheet(height=1.6 + 0.27 * len(table))
    halves = figure.add_gridspec(2, 1, height_ratios=[0.01, len(table)])
    axes = figure.add_subplot(halves[1].subgridspec(1, 1)[0])
    shown = np.ma.masked_invalid(np.clip(table, 0, 1))
    axes.pcolormesh(shown, cmap=_SHADES, vmin=0, vmax=1, edgecolors="white", linewidth=1.5)
    for (row, column), share in np.ndenumerate(table):
        text = f"{max(share, 0.0):.2f}" if np.isfinite(share) else "-"
        colour = "white" if share > 0.55 else INK
        axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", color=colour, fontsize=8)
    axes.set_yticks(np.arange(len(table)) + 0.5, [unknowns[place] for place in order])
    looks = {**METRICS, **OTHER_METRICS}
    words = [looks[name].word if name in looks else name for name in metrics]
    axes.set_xticks(np.arange(len(metrics)) + 0.5, words)
    axes.tick_params(length=0)
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    above = figure.add_subplot(halves[0])  # as wide as the figure, whatever the names take
    above.set_axis_off()
    head(above, "Influence of each unknown on each metric", subtitle)
    return figure


@dataclass(frozen=True)
class Course:
    """The points of a search in its order, an entry for each.

    ``misfits`` are J, NaN where a point has none; ``whole`` says which have measured every cell,
    ``rounds`` are 0 for the design, then ascending. ``default`` is the place of the uncalibrated
    setting, None where it is none of them.
    """

    misfits: Sequence[float]
    whole: Sequence[bool]
    rounds: Sequence[int]
    default: int | None


def convergence_figure(course: Course, residuals: int, limit: float, subtitle: str) -> Figure:
    """Draw the misfit of every point in the order of the search, and the minimum so far.

    Parameters
    ----------
    course : Course
        The points.
    residuals : int
        Number of residuals: about the misfit of a setting that is right.
    limit : float
        The threshold of the profiles.
    subtitle : str
        What was fitted.
    """
    values, whole = np.array(course.misfits, dtype=float), np.array(course.whole, dtype=bool)
    places = np.arange(1, len(values) + 1)
    figure = sheet(height=3.8)
    axes = figure.add_subplot()
    for start in np.flatnonzero(np.diff(course.rounds)) + 1:
        axes.axvline(start + 0.5, color="#cccccc", linewidth=0.6, zorder=0)
    axes.plot(places, np.where(whole, values, np.nan), zorder=2, **_DOTS)
    axes.plot(places, np.where(whole, np.nan, values), zorder=2, **_RINGS)
    least = np.fmin.accumulate(np.where(whole, values, np.nan))
    axes.step(places, least, where="post", zorder=3, **_CURVE)
    if course.default is not None:
        axes.plot(places[course.default], values[course.default], zorder=4, **_BEST)
    axes.axhline(residuals, zorder=1, **_DOTTED)
    axes.axhline(limit, zorder=1, **_LIMIT)
    _scale(axes)
    axes.set_xlabel("Points, in the order of the search; a line begins a round")
    axes.set_ylabel("Misfit")
    head(axes, "Course of the search", subtitle)
    rings = not whole[np.isfinite(values)].all()
    legend(figure, list(_marks(rings, course.default is not None, residuals)))
    return figure


def _marks(rings: bool, default: bool, residuals: int) -> Iterator[Entry]:
    """Yield the entries of the legend: of what is drawn only."""
    marks = {
        "a point": _DOTS,
        **({"lacks cells": _RINGS} if rings else {}),
        "minimum so far": _CURVE,
        **({"default": _BEST} if default else {}),
        "threshold of the profiles": _LIMIT,
        f"number of residuals, {residuals}": _DOTTED,
    }
    for label, look in marks.items():
        yield Entry(label, Line2D([], [], **look))


def _scale(axes: Axes) -> None:
    """Give misfits equal ratios, with plain numbers."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_locator(NullLocator())


#: Panels that have room on a page.
_PANELS = 12


def drawings(record: Record) -> tuple[Drawing, ...]:
    """Give every figure: profiles of the unknowns, influence, the way of the search."""
    return (*profiles(record), influence(record), convergence(record))


def subtitle(record: Record) -> str:
    """Say what was fitted to what, with how many points."""
    points = count(len(record.data["points"]), "point")
    return f"Fitted to {record.labels(record.data['fit'])}, {points}"


def profiles(record: Record) -> Iterator[Drawing]:
    """Yield the profiles, so many to a figure as have room on a page."""
    limit = record.data["threshold"]["limit"]
    found = list(zip(record.data["profiles"], record.data["unknowns"], strict=True))
    parts = ceil(len(found) / _PANELS)
    size = ceil(len(found) / parts)
    for number in range(parts):
        own = found[number * size : (number + 1) * size]
        name = "profiles" if parts == 1 else f"profiles-{number + 1}"
        of = f" ({number + 1} of {parts})" if parts > 1 else ""
        yield Drawing(
            name,
            f"Profiles of the unknowns{of}",
            "Along each unknown the minimum misfit with all others free, as the emulator expects "
            "it, and how low it may be. Grey is what is not excluded: where the lower edge of the "
            "band is below the threshold.",
            tuple(point for one, _ in own for point in _along(one)),
            Drawn(
                partial(
                    profiles_figure,
                    [one for one, _ in own],
                    limit,
                    [unknown.get("default_at") for _, unknown in own],
                    subtitle(record),
                    scale_of(record.data["profiles"], limit),
                ),
                _places([one for one, _ in own]),
            ),
            axis="Minimum misfit",
        )


def _along(one: Mapping[str, Any]) -> Iterator[Point]:
    for series in ("expected", "possible"):
        for unit, value in zip(one["units"], one[series], strict=True):
            yield Point(series, unit, (value,), one["name"])


def _places(found: Sequence[Mapping[str, Any]]) -> Any:
    known = {
        (one["name"], unit): str(text)
        for one in found
        for unit, text in zip(one["units"], one.get("texts") or one["values"], strict=True)
    }
    return lambda point: f"at {known[point.panel, point.x]}"


def influence(record: Record) -> Drawing:
    """Give the heat map of influence."""
    shares: Mapping[str, Mapping[str, float | None]] = record.data["influence"]
    data = f"Total-order indices over the ranges, cells of {record.labels(record.data['fit'])}"
    return Drawing(
        "influence",
        "Influence of each unknown on each metric",
        "Total-order Sobol' indices of the emulator: the share of a metric's variance over the "
        "ranges that would be left if all other unknowns were known. They do not depend on the "
        "published numbers.",
        tuple(
            Point(unknown, 0.0, (share,), word(metric))
            for metric, row in shares.items()
            for unknown, share in row.items()
            if share is not None
        ),
        Drawn(
            lambda: influence_figure(
                [
                    [_number(shares[m][unknown]) for unknown in record.unknowns]
                    for m in record.metrics
                ],
                record.unknowns,
                record.metrics,
                data,
            ),
            lambda _: "of the variance",
        ),
        axis="Total-order index",
    )


def convergence(record: Record) -> Drawing:
    """Give the misfit of every point in the order of the search.

    The minimum is that of points with every cell measured; other misfits are estimates.
    """
    points, threshold = record.searched, record.data["threshold"]
    ids = [one["id"] for one in points]
    default = record.default["id"]
    course = Course(
        [_number(one["misfit"]) for one in points],
        [record.whole(one) for one in points],
        [one["round"] for one in points],
        ids.index(default) if default in ids else None,
    )
    found = enumerate(zip(course.misfits, course.whole, strict=True), 1)
    numbered = [(at, value, there) for at, (value, there) in found if isfinite(value)]
    whole = [(at, value) for at, value, there in numbered if there]
    guessed = [(at, value) for at, value, there in numbered if not there]
    least = [(at, min(v for _, v in whole[: k + 1])) for k, (at, _) in enumerate(whole)]
    rings = " Rings are points of which cells have no usable run." if guessed else ""
    return Drawing(
        "convergence",
        "Course of the search",
        "The misfit of every point; round 0 is the design. A correct setting has a misfit "
        "near the number of residuals. The threshold is that of the profiles, which is about what "
        f"the emulator expects: a single point above or below it decides nothing.{rings}",
        tuple(
            Point(series, at, (value,))
            for series, values in (
                ("misfit of a point", whole),
                ("of a point that lacks cells", guessed),
                ("minimum so far", least),
            )
            for at, value in values
        ),
        Drawn(
            partial(
                convergence_figure,
                course,
                threshold["residuals"],
                threshold["limit"],
                subtitle(record),
            ),
            lambda point: f"at point {point.x:.0f}",
        ),
        axis="Misfit",
    )


def _number(value: float | None) -> float:
    return nan if value is None else float(value)


#: The figures that the page has, by what it calls them.
FIGURES: Mapping[str, Callable[[Record], Iterable[Drawing]]] = {
    "profiles": profiles,
    "influence": lambda record: (influence(record),),
    "convergence": lambda record: (convergence(record),),
}
