"""Figures of groups of flows: what each got over time, and how long its packets waited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from tcpf_lab.base.errors import LabError, RequestError
from tcpf_lab.metrics.groups import GroupSeries, read_groups
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

#: Bins of the series that a point of throughput is the mean of: half a second.
_SMOOTH = 5
#: Lines of a case's groups, where its colour is the case's.
_DASHES: tuple[Dash, ...] = (
    SOLID,
    *((0, lengths) for lengths in ((4.2, 1.3), (1.1, 1.1), (4.2, 1.3, 1.1, 1.3))),
)
#: Lines of the queueing delay of each direction.
_QUEUES: dict[str, dict[str, Any]] = {
    "up": {"color": INK, "linewidth": 0.8},
    "down": {"color": "#8c8c8c", "linewidth": 0.8},
}


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
    found, series = _groups_of(run), read_groups(run.files)
    ways = list(dict.fromkeys(group["direction"] for group in found))
    figure, every = panels(len(ways) + 1, 1.5)
    names = [group["name"] for group in found]
    styles = contrasting_styles(names)
    for axes, way in zip(every, ways, strict=False):
        _draw_throughput(axes, [g for g in found if g["direction"] == way], series, styles)
        name_panel(axes, f"Throughput {way}")
    queues = []
    for queue, delay in zip(run.found["queues"], series.delay_mean_s, strict=True):
        look = _QUEUES[queue["direction"]]
        every[-1].plot(series.time_s, 1e3 * delay, **look)
        queues.append(line_entry(f"queue {queue['direction']}", look))
    name_panel(every[-1], "Queueing delay, mean of 0.1 s")
    every[-1].set_ylabel("ms")
    entries = [*line_entries(styles), *(queues if len(queues) > 1 else [])]
    entries += _frame(every, series, wanted)
    subtitle = under(runs, run.case, f"seed {run.seed}", "n = 1 run")
    head(every[0], "Groups of flows over time", subtitle, lift=9)
    legend(figure, entries)
    return figure


def _groups_of(run: DrawnRun) -> list[dict[str, Any]]:
    """Give the groups of a run that have flows, as its metrics have them."""
    first, found = 0, []
    for group in run.found.get("groups") or ():
        if group["flows"]:
            found.append({**group, "first": first})
        first += int(group["flows"])
    if not found:
        raise LabError(
            "the run has no groups of flows",
            where=str(run.files.root),
            hint="`timeseries` draws all flows of a run",
        )
    return found


def _draw_throughput(
    axes: Axes,
    found: Sequence[dict[str, Any]],
    series: GroupSeries,
    styles: Mapping[str, CaseStyle],
) -> None:
    for group in found:
        own = slice(group["first"], group["first"] + group["flows"])
        time, rate = throughput(series, own)
        axes.plot(time, rate, **line_look(styles[group["name"]]))
    axes.set_ylabel("Mbit/s")


def throughput(
    series: GroupSeries, flows: slice
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give the throughput of some flows together in each half second: times, s, and Mbit/s."""
    acked = series.acked_bytes[flows].sum(axis=0, dtype=np.int64)
    whole = acked[: acked.size // _SMOOTH * _SMOOTH].reshape(-1, _SMOOTH).sum(axis=1)
    length = _SMOOTH * float(series.bin_s)
    time = (np.arange(whole.size) + 0.5) * length
    return np.asarray(time, np.float64), np.asarray(8e-6 * whole / length, np.float64)


def _frame(every: Sequence[Axes], series: GroupSeries, wanted: Wanted) -> list[Entry]:
    warm, end = map(float, series.window_s)
    bounds = wanted.time_s or (0.0, end)
    entries: list[Entry] = []
    for axes in every:
        label = "Time after the start of the run (s)" if axes is every[-1] else ""
        entries = over_time(axes, label, bounds, warm)
        axes.set_ylim(bottom=0)
    return entries


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
        If a run has no groups, or there are more lines than can be distinguished.
    """
    found = grouped(runs)
    lines, styles = {}, {}
    cells = contrasting_styles([group.label for group in found])
    for group in found:
        own = _quantiles(group)
        looks = contrasting_styles(list(own)) if len(found) == 1 else {}
        for place, (name, values) in enumerate(own.items()):
            label = f"{group.label}: {name}" if len(found) > 1 else name
            dashed = replace(cells[group.label], label=label, dash=_DASHES[place % len(_DASHES)])
            lines[label], styles[label] = values, looks.get(name, dashed)
    if len(lines) > DISTINCT:
        raise RequestError(
            f"{len(lines)} lines; a figure distinguishes at most {DISTINCT}",
            hint="choose some of the cases with --case, or of the settings with --only",
        )
    figure, (axes,) = panels(1, 3.0)
    for label, values in lines.items():
        share = np.linspace(0, 1, values.size)
        axes.plot(1e3 * values, share, **line_look(styles[label]))
    axes.set_ylim(0, 1.02)
    axes.set_xlim(left=0)
    axes.set_xlabel("Queueing delay of a data packet (ms)")
    axes.set_ylabel("Share of the packets")
    axes.tick_params(axis="x", bottom=True)
    head(axes, "Distribution of queueing delay", under(runs, runs_behind(found, "line")))
    legend(figure, line_entries(styles))
    return figure


def _quantiles(group: Group) -> dict[str, NDArray[np.float64]]:
    """Give each flow group's quantiles, means over seeds; of a group without packets none."""
    names = [one["name"] for one in group.first.found.get("groups") or _groups_of(group.first)]
    series = [read_groups(run.files).delay_quantiles_s for run in group.runs]
    means = np.mean(np.stack(series).astype(np.float64), axis=0)
    found = zip(names, means, strict=True)
    return {name: values for name, values in found if not np.isnan(values).any()}
