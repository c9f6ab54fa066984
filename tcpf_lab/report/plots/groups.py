"""Figures of groups of flows: what each got over time, and how long its packets waited."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from tcpf_lab.base.errors import LabError, RequestError
from tcpf_lab.metrics.capacity import bits, changes
from tcpf_lab.metrics.groups import GroupSeries, read_groups
from tcpf_lab.metrics.probes import load_span, read_probes
from tcpf_lab.report.plots.canvas import (
    INK,
    LABEL,
    Entry,
    delay_axis,
    head,
    legend,
    line_entries,
    line_entry,
    line_look,
    looks,
    name_panel,
    over_time,
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
    runs_behind,
    under,
)
from tcpf_lab.report.style import PROBE_WORDS, CaseStyle, contrasting_styles
from tcpf_lab.results.layout import RunFiles, read_json

#: Bins of the series that a point of throughput is the mean of: half a second.
_SMOOTH = 5
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
_PROBE_PANEL = "{} of {} (ms)"


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
    flow_groups(run)
    warm, end = map(float, run.found["window_s"])
    subtitle = under(runs, run.case, f"seed {run.seed}", "n = 1 run")
    lines = tuple(lines_over_time(run.files, run.found))
    return draw_over_time(lines, subtitle, wanted.time_s or (0.0, end), warm)


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
    kinds = Counter(probes.values())
    for name, (time, took) in (read_probes(files) if probes else {}).items():
        words = PROBE_WORDS[kind := probes[name]].capitalize()
        panel = _PROBE_PANEL.format(words, name if kinds[kind] == 1 else "probes")
        yield TimeLine(panel, name, time, 1e3 * took)


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
    # A probe that is alone in a panel is named there.
    alone = {line.label for line in lines if line.panel.endswith(f" of {line.label} (ms)")}
    of_groups = dict.fromkeys(line.label for line in lines if line.label not in {*_OWN, *alone})
    styles = contrasting_styles(list(of_groups))
    looks = {label: line_look(style) for label, style in styles.items()} | _OWN
    looks |= dict.fromkeys(alone, _OWN["queue up"])
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


#: Quantiles of probes, a hundredth apart.
_SHARES = np.linspace(0, 1, 101)


def delay_cdf(runs: Sequence[DrawnRun], wanted: Wanted) -> Figure:
    """Draw the distribution of the queueing delay of each group's data packets.

    Parameters
    ----------
    runs : sequence of DrawnRun
        With groups; a panel per number of flows. Of seeds of one cell the quantiles are averaged.
    wanted : Wanted
        ``probe``: draw what this probe measured under load, a line per cell.

    Raises
    ------
    LabError
        If a run has no groups or no such probe, nothing arrived, or there are more lines than can
        be distinguished.
    """
    parts = panelled(runs, MOST_PANELS)
    found = {
        part.label: {
            (cell.label, name): values
            for cell in part.groups
            for name, values in _mean_quantiles(cell, wanted.probe).items()
        }
        for part in parts
    }
    if not any(found.values()):
        raise LabError(
            f"no {'packet of the probe' if wanted.probe else 'group'} "
            f"{'arrives' if wanted.probe else 'has packets'} in the measured time",
            where=str(runs[0].files.root),
            hint="`groups` draws the whole run",
        )
    cells = looks(grouped(runs))
    words = [next(iter(cells))] if len(cells) == 1 else []
    if len(parts) == 1:
        words.append(parts[0].label)
    subtitle = under(runs, *words, runs_behind([g for p in parts for g in p.groups], "line"))
    what = "queueing delay of a data packet"
    if wanted.probe:
        what = f"{PROBE_WORDS[probe_named(runs[0], wanted.probe)['kind']]} of {wanted.probe}"
    return draw_cdf(found, cells, subtitle, what)


def _mean_quantiles(cell: Group, probe: str) -> dict[str, NDArray[np.float64]]:
    """Give quantiles in ms, means over seeds, of each group with packets, or of a probe."""
    if probe:
        took = [_took(run, probe) for run in cell.runs]
        own = [1e3 * np.quantile(one, _SHARES, method="inverted_cdf") for one in took if one.size]
        return {probe: np.asarray(np.mean(own, axis=0), np.float64)} if own else {}
    names = [one["name"] for one in flow_groups(cell.first)]
    series = [read_groups(run.files).delay_quantiles_s for run in cell.runs]
    means = np.mean([1e3 * one.astype(np.float64) for one in series], axis=0)
    found = zip(names, means, strict=True)
    return {name: values for name, values in found if not np.isnan(values).any()}


def _took(run: DrawnRun, name: str) -> NDArray[np.float64]:
    """Give what a probe measured under load, s."""
    start, end = load_span(probe_named(run, name)["kind"], tuple(run.found["window_s"]))
    time, took = read_probes(run.files)[name]
    return took[(time >= start) & (time < end) & ~np.isnan(took)]


def draw_cdf(
    found: Mapping[str, Mapping[tuple[str, str], ArrayLike]],
    cells: Mapping[str, CaseStyle],
    subtitle: str,
    what: str = "queueing delay of a data packet",
) -> Figure:
    """Draw distributions; within ``house_style``.

    Parameters
    ----------
    found : mapping
        By panel evenly spaced quantiles, from minimum to maximum, ms, by cell and group.
    cells : mapping of str to CaseStyle
        Looks of the cells.
    subtitle : str
        What stands below the title.
    what : str
        What is distributed.
    """
    figure, every = panels(len(found), 3.0 if len(found) == 1 else 2.0)
    styles = pair_looks(list(dict.fromkeys(pair for own in found.values() for pair in own)), cells)
    for axes, (name, lines) in zip(every, found.items(), strict=True):
        for pair, values in lines.items():
            quantiles = np.asarray(values, np.float64)
            axes.plot(quantiles, np.linspace(0, 1, quantiles.size), **line_look(styles[pair]))
        axes.set_ylim(0, 1.02)
        middle = [np.median(np.asarray(values, np.float64)) for values in lines.values()]
        if not delay_axis(axes, [np.min(values) for values in lines.values()], middle):
            axes.set_xlim(left=0)
        axes.set_ylabel("Share")
        axes.tick_params(axis="x", bottom=True)
        if len(found) > 1:
            name_panel(axes, name)
    every[-1].set_xlabel(f"{what[0].upper()}{what[1:]} (ms)")
    title = f"Distribution of {what.partition(' of ')[0]}"
    head(every[0], title, subtitle, LABEL if len(found) > 1 else 0)
    legend(figure, line_entries({style.label: style for style in styles.values()}))
    return figure
