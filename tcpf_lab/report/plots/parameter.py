"""What a parameter moves: a metric against it, a line with a confidence band per case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from tcpf_lab.errors import RequestError
from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.report.plots.canvas import Entry, head, legend
from tcpf_lab.report.plots.frame import line_entries, line_look, looks, marker_look, panels
from tcpf_lab.report.plots.kinds import Wanted
from tcpf_lab.report.plots.runs import DrawnRun, Group, grouped, runs_behind, under, varying
from tcpf_lab.report.plots.scale import Scale, scale_of
from tcpf_lab.report.style import METRICS, CaseStyle, lightness
from tcpf_lab.spec.suggest import unknown

#: The parameter that every experiment has besides those of its file.
FLOWS = "flows"
_PALE = 75  # bands of lighter colours are less transparent
_WORDS = {FLOWS: "number of flows"}


@dataclass(frozen=True, eq=False)
class _Line:
    """Groups that differ in the parameter only."""

    label: str
    groups: tuple[Group, ...]


def draw(runs: Sequence[DrawnRun], wanted: Wanted) -> Figure:
    """Draw means over the seeds and their 95 % confidence intervals (Student's t).

    Parameters
    ----------
    runs : sequence of DrawnRun
        A line per case, or per case and what else differs.
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
    scale = scale_of([_value(run, key) for run in runs])
    lines = _lines(runs, key)
    groups = [group for line in lines for group in line.groups]
    styles = _styles(lines)
    figure, (axes,) = panels(1, 2.9)
    for line in lines:
        _draw(axes, line, styles[line.label], metric.name, scale, key)
    scale.show(axes, _WORDS.get(key, key))
    axes.set_ylabel(metric.axis)
    if not wanted.free:
        axes.set_ylim(bottom=0)
    flows = sorted({run.flows for run in runs})
    told = [f"{flows[0]} flows"] if len(flows) == 1 else []
    head(
        axes,
        f"{metric.title} against {_WORDS.get(key, key)}",
        under(runs, *told, runs_behind(groups, "point")),
    )
    legend(figure, [*line_entries(styles, 5), *_band(groups)])
    return figure


def _parameter(runs: Sequence[DrawnRun], asked: str) -> str:
    """Give the key of the x axis: as asked, or the only one that differs."""
    found = _candidates(runs)
    if not asked:
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
    key = asked.removeprefix("cases.*.")
    if key in found:
        return key
    known = dict.fromkeys([FLOWS, *(name for run in runs for name in run.settings)])
    if key in known:
        values = sorted({str(_value(run, key)) for run in runs})
        said = f"has one value in all these runs, {values[0]}"
        others = f"what differs: {', '.join(found)}" if found else "nothing differs"
        raise RequestError(said, where=f"--x {asked}", hint=others)
    raise RequestError(unknown("unknown parameter", key, found or known), where=f"--x {asked}")


def _candidates(runs: Sequence[DrawnRun]) -> list[str]:
    """Parameters that differ between runs of one case."""
    found = [FLOWS] if len({run.flows for run in runs}) > 1 else []
    for case in dict.fromkeys(run.case for run in runs):
        found += varying([run.settings for run in runs if run.case == case])
    return list(dict.fromkeys(found))


def _value(run: DrawnRun, key: str) -> Any:
    return run.flows if key == FLOWS else run.settings.get(key)


def _lines(runs: Sequence[DrawnRun], key: str) -> list[_Line]:
    """Put groups into lines: those that agree in everything but the parameter."""
    drawn = [group for group in grouped(runs) if _value(group.first, key) is not None]
    found: dict[tuple[Any, ...], list[Group]] = {}
    for group in drawn:
        first = group.first
        rest = sorted((name, str(v)) for name, v in first.settings.items() if name != key)
        flows = 0 if key == FLOWS else first.flows
        found.setdefault((first.case, flows, *rest), []).append(group)
    return [
        _Line(_label(groups, list(found.values()), key), (*groups,)) for groups in found.values()
    ]


def _label(groups: Sequence[Group], lines: Sequence[Sequence[Group]], key: str) -> str:
    """Case, and what tells the line from others of the same case."""
    first = groups[0].first
    rivals = [other[0].first for other in lines if other[0].first.case == first.case]
    parts = [first.case]
    if key != FLOWS and len({rival.flows for rival in rivals}) > 1:
        parts.append(f"{first.flows} flows")
    others = [name for name in varying([rival.settings for rival in rivals]) if name != key]
    return ", ".join([*parts, *(f"{name}={first.settings.get(name, 'unset')}" for name in others)])


def _styles(lines: Sequence[_Line]) -> dict[str, CaseStyle]:
    return looks([Group(line.groups[0].runs, line.label.partition(", ")[2]) for line in lines])


def _draw(axes: Axes, line: _Line, style: CaseStyle, metric: str, scale: Scale, key: str) -> None:
    found: list[tuple[float, float, float]] = []
    for group in line.groups:
        mean, half = mean_ci([run.metric(metric) for run in group.runs])
        found.append((scale.place(_value(group.first, key)), mean, half or 0.0))
    x, mean, half = np.array(sorted(found)).T
    alpha = 0.5 if lightness(style.colour) > _PALE else 0.22
    low = np.where(mean >= 0, np.maximum(mean - half, 0), mean - half)
    axes.fill_between(x, low, mean + half, color=style.colour, alpha=alpha, linewidth=0, zorder=1)
    axes.plot(x, mean, zorder=3, **line_look(style))
    axes.plot(x, mean, zorder=4, **marker_look(style, 5.5))


def _band(groups: Sequence[Group]) -> list[Entry]:
    if all(len(group.runs) < 2 for group in groups):
        return []
    return [Entry("95 % confidence interval", Patch(facecolor="#c9c9c9", linewidth=0))]
