"""Throughput against delay: each case or group, and how far its runs are apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse, Patch, Polygon
from matplotlib.transforms import Affine2D
from numpy.typing import NDArray

from tcpf_lab.base.errors import LabError, RequestError
from tcpf_lab.report.plots.canvas import (
    INK,
    LABEL,
    Entry,
    delay_axis,
    head,
    legend,
    line_entry,
    looks,
    marker_look,
    name_panel,
    pair_looks,
    panels,
)
from tcpf_lab.report.plots.kinds import Wanted
from tcpf_lab.report.plots.runs import (
    MOST_PANELS,
    DrawnRun,
    Group,
    flow_groups,
    grouped,
    panelled,
    probe_named,
    under_panels,
)
from tcpf_lab.report.style import MARKS, PROBE_WORDS, CaseStyle

#: Delay in ms and throughput in Mbit/s of the runs of one entry, shape (2, runs).
Points = NDArray[np.float64]
#: An axis spans at least this share of where it lies: what differs by a per cent stays close.
_LEAST = 0.1
#: Two runs have no ellipse.
_FEWEST_OF_AN_ELLIPSE = 3
_HEIGHTS = (2.9, 2.2)
_REVERSED = "(ms), reversed: less delay is to the right"
_WORDS = {"mean": "Mean", "p50": "Median", "p95": "95th percentile of", "p99": "99th percentile of"}
_OF_QUEUE = "queueing delay, one way"
_RUN = MARKS["run_point"]
_ANGLES = np.linspace(0, 2 * np.pi, 100)
_RING = np.column_stack([np.cos(_ANGLES), np.sin(_ANGLES)])


@dataclass(frozen=True)
class Words:
    """What stands around the points."""

    subtitle: str
    title: str = "Throughput against delay: better is up and right"
    x: str = f"{_WORDS['p95']} {_OF_QUEUE} {_REVERSED}"
    y: str = "Goodput of all flows (Mbit/s)"


def throughput_delay(runs: Sequence[DrawnRun], wanted: Wanted) -> Figure:
    """Draw throughput against delay, less delay to the right.

    Parameters
    ----------
    runs : sequence of DrawnRun
        A panel per number of flows, in each a point per case: the mean of its runs. The ellipse is
        one standard deviation along both its axes, as the covariance of the runs has them.
    wanted : Wanted
        ``delay``, ``mean`` by default; ``probe``: of what this probe measured under load, in place
        of the queue; ``by``: a point per case or per group of flows; ``scale``: whether the panels
        have the same axes.

    Raises
    ------
    LabError
        If a run lacks the numbers, or there are more points than can be distinguished.
    """
    delay, by_group = wanted.delay or "mean", wanted.by == "group"
    parts = panelled(runs, MOST_PANELS)
    found = {
        part.label: {
            (cell.label, name): points
            for cell in part.groups
            for name, points in _entries(cell, delay, wanted.probe, by_group=by_group)
        }
        for part in parts
    }
    lines = list(dict.fromkeys(pair for own in found.values() for pair in own))
    if not lines:
        raise LabError("no group has packets in the measured time", where=str(runs[0].files.root))
    cells = looks(grouped(runs))
    styles = pair_looks(lines, cells) if by_group else {pair: cells[pair[0]] for pair in lines}
    what = _OF_QUEUE
    if wanted.probe:
        what = f"{PROBE_WORDS[probe_named(runs[0], wanted.probe)['kind']]} of {wanted.probe}"
    words = Words(
        under_panels(runs, parts, "point"),
        x=f"{_WORDS[delay]} {what} {_REVERSED}",
        y="Throughput of a group (Mbit/s)" if by_group else Words.y,
    )
    labelled = {
        label: {styles[pair].label: points for pair, points in own.items()}
        for label, own in found.items()
    }
    by_label = {style.label: style for style in styles.values()}
    return draw_scatter(labelled, by_label, words, alike=not wanted.free)


def _entries(
    cell: Group, delay: str, probe: str, *, by_group: bool
) -> Iterator[tuple[str, Points]]:
    """Yield the points of a cell, or of each of its groups of flows that has packets."""
    if not by_group:
        rates = [8e-6 * sum(run.goodputs()) for run in cell.runs]
        yield "", np.array([[1e3 * _delay(run, delay, probe) for run in cell.runs], rates])
        return
    for place, group in enumerate(flow_groups(cell.first)):
        found = [
            (1e3 * stay, 8e-6 * rate)
            for run in cell.runs
            if (rate := run.found["groups"][place]["throughput_bytes_per_s"]) is not None
            and (stay := _of_group(run, place, delay, probe)) is not None
        ]
        if found:
            yield group["name"], np.array(found).T


def _of_group(run: DrawnRun, place: int, delay: str, probe: str) -> float | None:
    found: float | None = run.found["groups"][place]["queueing_delay_s"][delay]
    return _delay(run, delay, probe) if probe else found


def _delay(run: DrawnRun, delay: str, probe: str) -> float:
    """Give a statistic of the delay of a run, s: of all packets in the queue, or of a probe."""
    if probe:
        found = probe_named(run, probe)["load"][f"{delay}_s"]
    elif "queues" in run.found:
        found = run.found["queues"][0]["queueing_delay_s"][delay]
    elif delay in ("mean", "p95"):
        return run.metric(f"queueing_delay_{delay}_s")
    else:
        raise RequestError(
            f"runs without groups have mean and p95, not {delay}", where=f"--delay {delay}"
        )
    if found is None:
        raise LabError("has no delay: nothing arrived", where=str(run.files.metrics))
    return float(found)


def draw_scatter(
    found: Mapping[str, Mapping[str, Points]],
    styles: Mapping[str, CaseStyle],
    words: Words,
    *,
    alike: bool = True,
) -> Figure:
    """Draw points by panel and label; within ``house_style``.

    ``alike`` says whether the panels have the same axes.
    """
    several = len(found) > 1
    figure, every = panels(len(found), _HEIGHTS[several], share_x=alike, share_y=alike)
    together = [points for own in found.values() for points in own.values()]
    for axes, (name, own) in zip(every, found.items(), strict=True):
        x = np.concatenate([points[0] for points in (together if alike else own.values())])
        logarithmic = delay_axis(axes, x, x)
        for label, points in own.items():
            _draw(axes, points, styles[label], logarithmic=logarithmic)
        axes.set_ylabel(words.y)
        axes.tick_params(axis="x", bottom=True)
        axes.grid(True, axis="both")
        if several:
            name_panel(axes, name)
    for axes in every[:1] if alike else every:
        axes.margins(0.08)
        _at_least(axes, _LEAST)
        axes.invert_xaxis()
    every[-1].set_xlabel(words.x)
    head(every[0], words.title, words.subtitle, LABEL if several else 0)
    legend(figure, _legend(styles, [points.shape[1] for points in together]))
    return figure


def _draw(axes: Axes, points: Points, style: CaseStyle, *, logarithmic: bool) -> None:
    if points.shape[1] >= _FEWEST_OF_AN_ELLIPSE:
        axes.add_patch(_ellipse(points, style, logarithmic=logarithmic))
    if points.shape[1] > 1:
        axes.plot(*points, zorder=3, **_RUN)
    x, y = np.mean(points, axis=1)
    axes.plot(x, y, zorder=4, **marker_look(style, 8))


def _at_least(axes: Axes, share: float) -> None:
    """Widen axes that span less than a share of their largest number."""
    for limits, set_limits in ((axes.get_xlim(), axes.set_xlim), (axes.get_ylim(), axes.set_ylim)):
        low, high = limits
        more = share * high - (high - low)
        if more > 0:
            set_limits(max(0.0, low - more / 2), high + more / 2)


def _ellipse(points: Points, style: CaseStyle, *, logarithmic: bool) -> Patch:
    """Give the ellipse of the runs; on a logarithmic axis that of the logarithms."""
    look: dict[str, Any] = {
        "facecolor": to_rgba(style.colour, 0.3),
        "edgecolor": INK,
        "linewidth": 0.8,
        "zorder": 2,
    }
    placed = np.array([np.log(points[0]), points[1]]) if logarithmic else points
    sizes, axes = np.linalg.eigh(np.cov(placed))
    width, height = 2 * np.sqrt(np.maximum(sizes, 0))
    angle = float(np.degrees(np.arctan2(axes[1, 0], axes[0, 0])))
    middle = np.mean(placed, axis=1)
    if not logarithmic:
        return Ellipse(tuple(middle), width, height, angle=angle, **look)
    x, y = (
        Affine2D()
        .scale(width / 2, height / 2)
        .rotate_deg(angle)
        .translate(*middle)
        .transform(_RING)
        .T
    )
    return Polygon(np.column_stack([np.exp(x), y]), **look)


def _legend(styles: Mapping[str, CaseStyle], runs: Sequence[int]) -> list[Entry]:
    entries = [line_entry(label, marker_look(style, 7)) for label, style in styles.items()]
    if any(count > 1 for count in runs):
        entries.append(line_entry("a run", _RUN))
    if any(count >= _FEWEST_OF_AN_ELLIPSE for count in runs):
        ring = marker_look(CaseStyle("", "#d9d9d9", "", "o"), 9)
        entries.append(line_entry("one standard deviation", ring))
    return entries
