"""Figures of groups of flows: what each got over time, and how long its packets waited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from tcpf_lab.base.errors import LabError, RequestError
from tcpf_lab.metrics.capacity import bits, changes
from tcpf_lab.metrics.groups import GroupSeries, read_groups
from tcpf_lab.metrics.probes import read_probes
from tcpf_lab.report.plots.canvas import (
    INK,
    Entry,
    head,
    legend,
    line_entries,
    line_entry,
    line_look,
    name_panel,
    over_time,
    panels,
)
from tcpf_lab.report.plots.kinds import Wanted
from tcpf_lab.report.plots.runs import DrawnRun, Group, grouped, runs_behind, under
from tcpf_lab.report.style import DISTINCT, SOLID, CaseStyle, Dash, contrasting_styles
from tcpf_lab.results.layout import RunFiles, read_json

#: Bins of the series that a point of throughput is the mean of: half a second.
_SMOOTH = 5
#: Lines of a case's groups, where its colour is the case's.
_DASHES: tuple[Dash, ...] = (
    SOLID,
    *((0, lengths) for lengths in ((4.2, 1.3), (1.1, 1.1), (4.2, 1.3, 1.1, 1.3))),
)
#: The line of what a link that changes can carry.
LINK = "link capacity"
#: Looks of lines that are of no group: that, and the queueing delay of each direction.
_OWN: dict[str, dict[str, Any]] = {
    LINK: {"color": "#b0b0b0", "linewidth": 1.4, "drawstyle": "steps-mid", "zorder": 1},
    "queue up": {"color": INK, "linewidth": 0.8},
    "queue down": {"color": "#8c8c8c", "linewidth": 0.8},
}
#: The panel of the queues, and those of probes by their kind; the others are of throughput.
DELAY_PANEL = "Queueing delay, mean of 0.1 s (ms)"
_PROBE_PANELS = {
    "icmp": "Round-trip time of probes (ms)",
    "udp": "One-way delay of probes (ms)",
    "request": "Completion time of probes (ms)",
}


#: Panels above each other before each gets lower.
_MOST_ROOMY = 4


class TimeLine(NamedTuple):
    """A line over time: its panel, what it is of, times in s after the epoch, and values."""

    panel: str
    label: str
    time: ArrayLike
    value: ArrayLike


def groups(runs: Sequence[DrawnRun], wanted: Wanted) -> Figure:
    """Draw throughput of each group and queueing delay over the time of one run.

    Parameters
    ----------
    runs : sequence of DrawnRun
        One run with groups.
    wanted : Wanted
        ``time_s``: from when to when.

    Raises
    ------
    LabError
        If it has no groups, or there are several runs.
    """
    if len(runs) != 1:
        raise RequestError(
            f"{len(runs)} runs; a figure of groups shows one",
            hint="choose with --case and --seed",
        )
    (run,) = runs
    _groups_of(run)
    warm, end = map(float, run.found["window_s"])
    subtitle = under(runs, run.case, f"seed {run.seed}", "n = 1 run")
    lines = tuple(lines_over_time(run.files, run.found))
    return draw_over_time(lines, subtitle, wanted.time_s or (0.0, end), warm)


def _groups_of(run: DrawnRun) -> list[dict[str, Any]]:
    """Give the groups of a run, as its metrics have them."""
    found: list[dict[str, Any]] | None = run.found.get("groups")
    if not found:
        raise LabError(
            "the run has no groups of flows",
            where=str(run.files.root),
            hint="`timeseries` draws all flows of a run",
        )
    return found


def lines_over_time(files: RunFiles, found: Mapping[str, Any]) -> Iterator[TimeLine]:
    """Yield throughput of each group in Mbit/s, delay of each queue and of each probe in ms.

    Parameters
    ----------
    files : RunFiles
        A run's directory.
    found : mapping
        Its ``metrics.json``.
    """
    series, first = read_groups(files), 0
    for group in found["groups"]:
        own = slice(first, first := first + int(group["flows"]))
        if group["flows"]:
            panel = f"Throughput {group['direction']} (Mbit/s)"
            yield TimeLine(panel, group["name"], *_throughput(series, own))
    yield from _capacity(files, found, _SMOOTH * float(series.bin_s))
    for queue, delay in zip(found["queues"], series.delay_mean_s, strict=True):
        yield TimeLine(DELAY_PANEL, f"queue {queue['direction']}", series.time_s, 1e3 * delay)
    probes = {probe["name"]: probe["kind"] for probe in found.get("probes") or ()}
    for name, (time, took) in (read_probes(files) if probes else {}).items():
        yield TimeLine(_PROBE_PANELS[probes[name]], name, time, 1e3 * took)


def _capacity(files: RunFiles, found: Mapping[str, Any], length: float) -> Iterator[TimeLine]:
    """Yield what a link that changes can carry, each direction, in bins of a length in s."""
    place = read_json(files.manifest)["expect"]["bottleneck"]
    if not changes(place):
        return
    edges = np.arange(0, float(found["window_s"][1]) + length / 2, length)
    carried = 1e-6 * np.diff(bits(place, edges)) / length
    for way in dict.fromkeys(group["direction"] for group in found["groups"] if group["flows"]):
        yield TimeLine(f"Throughput {way} (Mbit/s)", LINK, edges[:-1] + length / 2, carried)


def _throughput(
    series: GroupSeries, flows: slice
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give the throughput of some flows together in each half second: times, s, and Mbit/s."""
    acked = series.acked_bytes[flows].sum(axis=0, dtype=np.int64)
    whole = acked[: acked.size // _SMOOTH * _SMOOTH].reshape(-1, _SMOOTH).sum(axis=1)
    length = _SMOOTH * float(series.bin_s)
    time = (np.arange(whole.size) + 0.5) * length
    return np.asarray(time, np.float64), np.asarray(8e-6 * whole / length, np.float64)


def draw_over_time(
    lines: Sequence[TimeLine], subtitle: str, bounds_s: tuple[float, float], warm_s: float
) -> Figure:
    """Draw lines over time, a panel above the other; within ``house_style``."""
    names = list(dict.fromkeys(line.panel for line in lines))
    figure, every = panels(len(names), 1.5 if len(names) <= _MOST_ROOMY else 1.1)
    of_groups = dict.fromkeys(line.label for line in lines if line.label not in _OWN)
    styles = contrasting_styles(list(of_groups))
    looks = {label: line_look(style) for label, style in styles.items()} | _OWN
    entries: list[Entry] = []
    for axes, name in zip(every, names, strict=True):
        for line in lines:
            if line.panel == name:
                axes.plot(np.asarray(line.time), np.asarray(line.value), **looks[line.label])
        label = "Time after the start of the run (s)" if axes is every[-1] else ""
        entries = over_time(axes, label, bounds_s, warm_s)
        axes.set_ylim(bottom=0)
        words, _, unit = name.removesuffix(")").rpartition(" (")
        name_panel(axes, words)
        axes.set_ylabel(unit)
    queues = dict.fromkeys(line.label for line in lines if line.panel == DELAY_PANEL)
    if len(queues) > 1:
        entries = [line_entry(label, _OWN[label]) for label in queues] + entries
    if any(line.label == LINK for line in lines):
        entries = [line_entry(LINK, _OWN[LINK]), *entries]
    head(every[0], "Groups of flows over time", subtitle, lift=9)
    legend(figure, line_entries(styles) + entries)
    return figure


def delay_cdf(runs: Sequence[DrawnRun], wanted: Wanted) -> Figure:  # noqa: ARG001 - as all kinds
    """Draw the distribution of the queueing delay of each group's data packets.

    Parameters
    ----------
    runs : sequence of DrawnRun
        With groups; of seeds of one cell the quantiles are averaged.
    wanted : Wanted
        Nothing of it.

    Raises
    ------
    LabError
        If a run has no groups, no group has packets, or there are more lines than can be
        distinguished.
    """
    found = grouped(runs)
    lines = {
        (cell.label, name): values
        for cell in found
        for name, values in _mean_quantiles(cell).items()
    }
    if not lines:
        raise LabError(
            "no group has packets in the measured time",
            where=str(found[0].first.files.root),
            hint="`groups` draws the whole run",
        )
    if len(lines) > DISTINCT:
        raise RequestError(
            f"{len(lines)} lines; a figure distinguishes at most {DISTINCT}",
            hint="choose some of the cases with --case, or of the settings with --only",
        )
    return draw_cdf(lines, under(runs, runs_behind(found, "line")))


def _mean_quantiles(cell: Group) -> dict[str, NDArray[np.float64]]:
    """Give each flow group's quantiles in ms, means over seeds; of one without packets none."""
    names = [one["name"] for one in _groups_of(cell.first)]
    series = [read_groups(run.files).delay_quantiles_s for run in cell.runs]
    means = 1e3 * np.mean(np.stack(series).astype(np.float64), axis=0)
    found = zip(names, means, strict=True)
    return {name: values for name, values in found if not np.isnan(values).any()}


def draw_cdf(lines: Mapping[tuple[str, str], ArrayLike], subtitle: str) -> Figure:
    """Draw distributions; within ``house_style``.

    Parameters
    ----------
    lines : mapping of (str, str) to array_like
        Evenly spaced quantiles, from minimum to maximum, ms, by cell and group.
    subtitle : str
        What stands below the title.
    """
    figure, (axes,) = panels(1, 3.0)
    styles = _cdf_looks(list(lines))
    for (_, style), values in zip(styles.items(), lines.values(), strict=True):
        quantiles = np.asarray(values, np.float64)
        axes.plot(quantiles, np.linspace(0, 1, quantiles.size), **line_look(style))
    axes.set_ylim(0, 1.02)
    axes.set_xlim(left=0)
    axes.set_xlabel("Queueing delay of a data packet (ms)")
    axes.set_ylabel("Share of the packets")
    axes.tick_params(axis="x", bottom=True)
    head(axes, "Distribution of queueing delay", subtitle)
    legend(figure, line_entries(styles))
    return figure


def _cdf_looks(lines: Sequence[tuple[str, str]]) -> dict[str, CaseStyle]:
    """Give each line a look: of several cells the colour is the cell's, the dash the group's.

    With more groups than dashes each line has a look of its own.
    """
    cells, names = (list(dict.fromkeys(words)) for words in zip(*lines, strict=True))
    if len(cells) == 1 or len(names) == 1:
        return contrasting_styles(names if len(cells) == 1 else cells)
    if len(names) > len(_DASHES):
        return contrasting_styles([f"{cell}: {name}" for cell, name in lines])
    colours = contrasting_styles(cells)
    return {
        label: replace(colours[cell], label=label, dash=_DASHES[names.index(name)])
        for cell, name in lines
        for label in (f"{cell}: {name}",)
    }
