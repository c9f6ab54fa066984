"""What a parameter moves: a metric against it, a mark with a confidence interval per case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from tcpf_lab.base.errors import RequestError
from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.report.export.tidy import base_numbers
from tcpf_lab.report.plots.canvas import (
    INK,
    INTERVAL,
    Entry,
    head,
    legend,
    line_entries,
    line_entry,
    line_look,
    looks,
    marker_look,
    panels,
)
from tcpf_lab.report.plots.kinds import Wanted
from tcpf_lab.report.plots.runs import DrawnRun, Group, grouped, runs_behind, under, varying
from tcpf_lab.report.style import METRICS, CaseStyle, lightness
from tcpf_lab.spec.words import unknown

_CHARACTERS = 72  # that fit under the axis; values nearer than that asks are not all written
_RATIO = 20  # between largest and smallest, from which on a logarithmic axis reads better


@dataclass(frozen=True)
class Scale:
    """Places of a parameter's values on the x axis.

    ``places`` has the number of each value, ``words`` what is written there, from left to right;
    ``ordered`` is whether these are numbers, so that something lies between two of them.
    """

    places: dict[str, float]
    words: tuple[str, ...]
    logarithmic: bool
    ordered: bool = True

    def show(self, axes: Axes, name: str) -> None:
        """Write the values under the axis, and what they are."""
        if self.logarithmic:
            axes.set_xscale("log")
            axes.minorticks_off()
        labels = self.labels()
        axes.set_xticks([self.places[word] for word in labels], labels)
        if not self.ordered:
            axes.set_xlim(-0.5, len(self.words) - 0.5)
        axes.tick_params(axis="x", bottom=True)
        axes.set_xlabel(name)

    def labels(self) -> list[str]:
        """Give the values that are written: those that have room beside the one before."""
        at = [log10(self.places[w]) if self.logarithmic else self.places[w] for w in self.words]
        room = (at[-1] - at[0]) * (max(map(len, self.words)) + 2) / _CHARACTERS
        stored = [0]
        for index, place in enumerate(at):
            if place - at[stored[-1]] >= room > 0:
                stored.append(index)
        return [self.words[index] for index in stored]


def scale_of(key: str, values: Sequence[str]) -> Scale:
    """Give the axis of a parameter that takes these values, as an experiment's file has them."""
    words = list(dict.fromkeys(values))
    numbers = base_numbers(key, words)
    if numbers is None:  # words: in their own order, one apart
        places = {word: float(at) for at, word in enumerate(words)}
        return Scale(places, tuple(words), logarithmic=False, ordered=False)
    words.sort(key=lambda word: numbers[word])
    low, high = min(numbers.values()), max(numbers.values())
    return Scale(numbers, tuple(words), low > 0 and high / low >= _RATIO)


#: The parameter that every experiment has besides those of its file.
FLOWS = "flows"
_PALE = 75  # bands of lighter colours are less transparent
_WORDS = {FLOWS: "number of flows"}
_ASIDE = 0.6  # of the distance between two words: where the points of several cases are


@dataclass(frozen=True, eq=False)
class _Line:
    """Groups that differ in the parameter only.

    ``whole`` has all their runs, and the variant that tells the line from others of its case.
    """

    groups: tuple[Group, ...]
    whole: Group


def parameter(runs: Sequence[DrawnRun], wanted: Wanted) -> Figure:
    """Draw means over the seeds and their 95 % confidence intervals (Student's t).

    Parameters
    ----------
    runs : sequence of DrawnRun
        A line per case, or per case and what else differs; those that lack the parameter, as cases
        without an axis do, are not drawn.
    wanted : Wanted
        ``metric``, timeouts by default; ``parameter``, by default the only one that differs;
        ``scale``: whether the y axis begins at 0.

    Raises
    ------
    RequestError
        If it has one value only, or several differ and none is named.
    """
    metric = wanted.metric or METRICS["timeouts"]
    key = _parameter(runs, wanted.parameter)
    runs = [run for run in runs if _value(run, key)]
    scale = scale_of(key, [_value(run, key) for run in runs])
    lines = _lines(runs, key)
    groups = [group for line in lines for group in line.groups]
    styles = looks([line.whole for line in lines])
    figure, (axes,) = panels(1, 2.9)
    for place, line in enumerate(lines):
        values = _values_of(line, metric.name, scale, key)
        aside = 0.0 if scale.ordered else _ASIDE * (place - (len(lines) - 1) / 2) / len(lines)
        _draw(axes, values, aside, styles[line.whole.label], scale.ordered)
    scale.show(axes, _WORDS.get(key, key))
    axes.set_ylabel(metric.axis)
    if not wanted.free:
        axes.set_ylim(bottom=0)
    flows = sorted({run.flows for run in runs})
    fixed_flows = [f"{flows[0]} flows"] if len(flows) == 1 else []
    head(
        axes,
        f"{metric.title} against {_WORDS.get(key, key)}",
        under(runs, *fixed_flows, runs_behind(groups, "point")),
    )
    legend(figure, [*_entries(styles, scale.ordered), *_interval(groups, scale.ordered)])
    return figure


def _parameter(runs: Sequence[DrawnRun], requested: str) -> str:
    """Give the key of the x axis: as requested, or the only one that differs."""
    found = _candidates(runs)
    if not requested:
        if len(found) == 1:
            return found[0]
        if not found:
            raise RequestError(
                "nothing to draw against: these runs differ in case and seed only",
                hint="draw runs with several numbers of flows, or of a sweep, such as "
                "--set tcp.rto_min=200ms..600ms:200ms",
            )
        message = f"several parameters differ: {', '.join(found)}"
        raise RequestError(message, hint=f"choose one, as in --x {found[0]}")
    key = requested.removeprefix("cases.*.")
    if key in found:
        return key
    known = dict.fromkeys([FLOWS, *(name for run in runs for name in run.settings)])
    if key in known:
        values = _values(runs, key)
        message = f"has one value in all these runs, {values.pop()}"
        if values:
            message = "differs between cases only"
        others = f"what differs: {', '.join(found)}" if found else "nothing differs"
        raise RequestError(message, where=f"--x {requested}", hint=others)
    raise RequestError(unknown("unknown parameter", key, found or known), where=f"--x {requested}")


def _candidates(runs: Sequence[DrawnRun]) -> list[str]:
    """Parameters that differ between runs of one case."""
    found = [FLOWS] if len({run.flows for run in runs}) > 1 else []
    for case in dict.fromkeys(run.case for run in runs):
        own = [run for run in runs if run.case == case]
        differing = varying([run.settings for run in own])
        found += [key for key in differing if len(_values(own, key)) > 1]
    return list(dict.fromkeys(found))


def _values(runs: Sequence[DrawnRun], key: str) -> set[str]:
    """Values of a parameter; a run that lacks it has none."""
    return {value for run in runs if (value := _value(run, key))}


def _value(run: DrawnRun, key: str) -> str:
    return str(run.flows) if key == FLOWS else run.settings.get(key, "")


def _lines(runs: Sequence[DrawnRun], key: str) -> list[_Line]:
    """Put groups into lines: those that agree in everything but the parameter."""
    found: dict[tuple[Any, ...], list[Group]] = {}
    for group in grouped(runs):
        first = group.first
        rest = sorted(item for item in first.settings.items() if item[0] != key)
        flows = 0 if key == FLOWS else first.flows
        found.setdefault((first.case, flows, *rest), []).append(group)
    firsts = [groups[0].first for groups in found.values()]
    return [
        _Line(
            tuple(groups),
            Group(
                tuple(run for group in groups for run in group.runs),
                _variant(groups[0].first, firsts, key),
            ),
        )
        for groups in found.values()
    ]


def _variant(run: DrawnRun, others: Sequence[DrawnRun], key: str) -> str:
    """Say what tells a run's line from others of the same case."""
    rivals = [other for other in others if other.case == run.case]
    several = key != FLOWS and len({rival.flows for rival in rivals}) > 1
    names = [name for name in varying([rival.settings for rival in rivals]) if name != key]
    flows = [f"{run.flows} flows"] if several else []
    return ", ".join([*flows, *(f"{name}={run.settings.get(name, 'unset')}" for name in names)])


def _values_of(line: _Line, metric: str, scale: Scale, key: str) -> NDArray[np.float64]:
    """Places, means and half intervals, shape (3, points); a single run has no interval."""
    found: list[tuple[float, float, float]] = []
    for group in line.groups:
        mean, half = mean_ci([run.metric(metric) for run in group.runs])
        found.append(
            (scale.places[_value(group.first, key)], mean, np.nan if half is None else half)
        )
    return np.array(sorted(found)).T


def _draw(
    axes: Axes, values: NDArray[np.float64], aside: float, style: CaseStyle, ordered: bool
) -> None:
    """Draw a line with its band; points with error bars where nothing lies between two of them."""
    x, mean, half = values
    low = np.where(mean >= 0, np.maximum(mean - half, 0), mean - half)
    if ordered:
        alpha = 0.5 if lightness(style.colour) > _PALE else 0.22
        axes.fill_between(x, low, mean + half, color=style.colour, alpha=alpha, linewidth=0)
        axes.plot(x, mean, zorder=3, **line_look(style))
    else:
        axes.errorbar(x + aside, mean, [mean - low, half], fmt="none", zorder=3, **INTERVAL)
    axes.plot(x + aside, mean, zorder=4, **marker_look(style, 5.5))


def _entries(styles: dict[str, CaseStyle], ordered: bool) -> list[Entry]:
    if ordered:
        return line_entries(styles, 5)
    return [line_entry(label, marker_look(look, 5)) for label, look in styles.items()]


def _interval(groups: Sequence[Group], ordered: bool) -> list[Entry]:
    if all(len(group.runs) < 2 for group in groups):
        return []
    look: Artist = Patch(facecolor="#c9c9c9", linewidth=0) if ordered else Line2D([], [], color=INK)
    return [Entry("95 % confidence interval", look)]
