"""Figures over the time of a run: goodput, queue and timeouts, or the queue packet by packet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from tcpf_lab.base.errors import LabError, RequestError, path_text
from tcpf_lab.metrics.definitions import largest_backlog, mean_backlog
from tcpf_lab.metrics.series import Series
from tcpf_lab.report.contents.model import count
from tcpf_lab.report.plots.canvas import (
    INK,
    Entry,
    head,
    legend,
    line_entries,
    line_entry,
    line_look,
    over_time,
    panels,
    run_looks,
    sheet,
)
from tcpf_lab.report.plots.kinds import Subject, Wanted
from tcpf_lab.report.plots.one_flow import run_record, unbroken
from tcpf_lab.report.plots.runs import DrawnCapture, DrawnRun, grouped, under
from tcpf_lab.report.section import read_series
from tcpf_lab.report.style import DISTINCT, MARKS, ranked_styles
from tcpf_lab.trace.passage import Backlog, Transit, backlog, cross

#: From so many flows on, not each has a line of its own, but most lie in a band.
_LINES = 7
_BAND = (10.0, 90.0)
_GREY = MARKS["grey"]
_MEAN = MARKS["mean"]


@dataclass(frozen=True, eq=False)
class _Part:
    """A run and what it did over time."""

    run: DrawnRun
    series: Series
    label: str


def timeseries(runs: Sequence[DrawnRun], wanted: Wanted) -> Figure:
    """Draw one run with all its flows, or several runs by their means.

    Parameters
    ----------
    runs : sequence of DrawnRun
        Of one run, a line per flow, or a band from the 10th to the 90th percentile of many flows
        and their mean; the queue's mean and maximum in each tenth of a second. Of several runs,
        the mean of the flows and the queue's mean in each second, a line per run.
    wanted : Wanted
        ``flow``: these flows instead of all; of several runs just one. ``time_s``: from when to
        when. ``scale``: whether the axes begin at 0.

    Raises
    ------
    LabError
        If a run has no ``series.npz``, or there are more runs or flows than can be distinguished.
    """
    if len(runs) > DISTINCT:
        raise RequestError(
            f"{len(runs)} runs; a figure distinguishes at most {DISTINCT}",
            hint="choose with --case, --flows or --seed",
        )
    parts = [_Part(s, read_series(s.files), label) for s, label in _labelled(runs)]
    for part in parts:
        _check_flows(part, wanted.flow, len(parts))
    figure, every = panels(3, 1.45)
    entries = _one(every, parts[0], wanted) if len(parts) == 1 else _several(every, parts, wanted)
    each = "" if len(parts) == 1 else ",\nmean of each second"
    whose = "a flow\n" if len(parts) == 1 or wanted.flow else "the\nflows, mean "
    every[0].set_ylabel(f"Goodput of {whose}(bytes/s)")
    every[1].set_ylabel("Backlog of the\nbottleneck (bytes)" + each)
    every[2].set_ylabel("Timeouts per second\n" + _whose(wanted.flow))
    entries += _frame(every, parts, wanted)
    head(every[0], "Goodput, queue and timeouts over time", _subtitle(parts, wanted))
    legend(figure, entries)
    return figure


def _labelled(runs: Sequence[DrawnRun]) -> list[tuple[DrawnRun, str]]:
    """Name each run by what differs: experiment, case, number of flows, seed, settings."""
    variants = {run.files: group.variant for group in grouped(runs) for run in group.runs}
    ways = [
        [run.experiment.name for run in runs],
        [run.case for run in runs],
        [f"{run.flows} flows" for run in runs],
        [f"seed {run.seed}" for run in runs],
        [variants[run.files] for run in runs],
    ]
    differing = [words for words in ways if len(set(words)) > 1]
    labels = [", ".join(filter(None, words)) for words in zip(*differing, strict=True)]
    return list(zip(runs, labels or [runs[0].case], strict=True))


def _check_flows(part: _Part, flow: tuple[int, ...], many: int) -> None:
    there = part.series.acked_bytes.shape[0]
    beyond = [number for number in flow if not 0 <= number < there]
    if beyond:
        raise RequestError(
            f"the run has flows 0 to {there - 1}, no flow {beyond[0]}",
            where=f"--flow {','.join(map(str, flow))}",
        )
    if len(flow) > (_LINES if many == 1 else 1):
        most = f"at most {_LINES} flows of one run" if many == 1 else "one flow of several runs"
        raise RequestError(f"a figure shows {most}", where="--flow")


def _whose(flow: tuple[int, ...]) -> str:
    return (
        f"of {'flow' if len(flow) == 1 else 'flows'} {', '.join(map(str, flow))}"
        if flow
        else ("of all flows")
    )


def _goodput(part: _Part, flow: tuple[int, ...]) -> NDArray[np.float64]:
    """Goodput of the chosen flows, or of all, in bytes/s: a row per flow."""
    rows = list(flow) or slice(None)
    return np.asarray(part.series.acked_bytes[rows] / part.series.flow_bin_s, np.float64)


def _timeouts(part: _Part, flow: tuple[int, ...]) -> NDArray[np.float64]:
    rows = list(flow) or slice(None)
    found = part.series.timeouts[rows].sum(axis=0) / part.series.flow_bin_s
    return np.asarray(found, np.float64)


def _one(every: Sequence[Axes], part: _Part, wanted: Wanted) -> list[Entry]:
    """Draw one run; what the legend says of it."""
    series, goodput = part.series, _goodput(part, wanted.flow)
    time = series.flow_time_s + series.flow_bin_s / 2
    seen, of_flows = _seen(time, wanted), ""
    entries = _lines(every[0], time[seen], goodput[:, seen], wanted.flow)
    if not entries:
        low, high = np.percentile(goodput[:, seen], _BAND, axis=0)
        every[0].fill_between(time[seen], low, high, **_GREY)
        every[0].plot(time[seen], goodput[:, seen].mean(axis=0), **_MEAN)
        entries.append(Entry("10th to 90th percentile of the flows", Patch(**_GREY)))
        of_flows = " of the flows, and"
    fine = series.queue_time_s + series.queue_bin_s / 2
    near = _seen(fine, wanted)
    every[1].fill_between(fine[near], 0, series.backlog_max_bytes[near], step="mid", **_GREY)
    every[1].plot(fine[near], series.backlog_mean_bytes[near], color=INK, linewidth=0.7)
    heights = _timeouts(part, wanted.flow)[seen]
    every[2].bar(time[seen], heights, 0.9 * series.flow_bin_s, color="#4d4d4d")
    return [
        *entries,
        line_entry(f"mean{of_flows} of the queue", _MEAN),
        Entry("maximum backlog in 0.1 s", Patch(**_GREY)),
    ]


def _seen(time: NDArray[np.float64], wanted: Wanted) -> NDArray[np.bool_]:
    """Which bins are drawn: those in the time that is requested, and one on either side."""
    start, end = wanted.time_s or (-np.inf, np.inf)
    apart = float(time[1] - time[0]) if time.size > 1 else 0.0
    return np.asarray((time > start - apart) & (time < end + apart), np.bool_)


def _lines(
    axes: Axes, time: NDArray[np.float64], goodput: NDArray[np.float64], flow: tuple[int, ...]
) -> list[Entry]:
    """Draw a line for each of a few flows; nothing if there are many."""
    if len(goodput) > _LINES:
        return []
    names = [f"flow {number}" for number in flow or range(len(goodput))]
    styles = ranked_styles(names)
    for name, values in zip(names, goodput, strict=True):
        axes.plot(time, values, **line_look(styles[name]))
    return line_entries(styles)


def _several(every: Sequence[Axes], parts: Sequence[_Part], wanted: Wanted) -> list[Entry]:
    """Draw several runs over each other; what the legend says of them."""
    styles = run_looks({part.label: part.run for part in parts})
    for part in parts:
        series, look = part.series, line_look(styles[part.label])
        time = series.flow_time_s + series.flow_bin_s / 2
        seen = _seen(time, wanted)
        bins = round(float(series.flow_bin_s / series.queue_bin_s))
        queue = series.backlog_mean_bytes.reshape(-1, bins).mean(axis=1)
        goodput = _goodput(part, wanted.flow).mean(axis=0)
        for axes, values in zip(every, (goodput, queue, _timeouts(part, wanted.flow)), strict=True):
            axes.plot(time[seen], values[seen], **look)
    return line_entries(styles)


def _frame(every: Sequence[Axes], parts: Sequence[_Part], wanted: Wanted) -> list[Entry]:
    """Set the bounds of the axes and shade what was not measured; its entry in the legend."""
    end = max(float(part.series.window_s[1]) for part in parts)
    start, stop = wanted.time_s or (0.0, end)
    if start >= end:
        raise RequestError(f"the run ends {end:g} s after its start", where=f"--time {start:g}..")
    warm = min(float(part.series.window_s[0]) for part in parts)
    entries = []
    for axes, label in zip(every, ("", "", "Time after the start of the run (s)"), strict=True):
        entries = over_time(axes, label, (start, min(stop, end)), warm)
        if not wanted.free:
            axes.set_ylim(bottom=0)
    every[2].yaxis.set_major_locator(MaxNLocator(5, integer=True))
    return entries


def _subtitle(parts: Sequence[_Part], wanted: Wanted) -> str:
    """Say what all runs have in common; the legend has what differs."""
    runs = [part.run for part in parts]
    whose = f"{_whose(wanted.flow)[3:]} of " if wanted.flow else ""
    ways = [
        {run.case for run in runs},
        {f"{whose}{run.flows}{'' if whose else ' flows'}" for run in runs},
        {f"seed {run.seed}" for run in runs},
    ]
    alike = [words.pop() for words in ways if len(words) == 1]
    return under(runs, *alike, "n = 1 run" if len(runs) == 1 else "n = 1 run per line")


_LENGTH = MARKS["queue"]
_DROPPED = MARKS["dropped"]
#: The limit is drawn if the queue came this near to it; else it would only press the line down.
_NEAR = 1.5
_LIMIT = MARKS["limit"]


@dataclass(frozen=True, eq=False)
class _Queue:
    """A queue: its packets, its length, and from which instant its times count."""

    transit: Transit
    line: Backlog
    epoch_ns: int
    bounds_ns: tuple[int, int]
    notes: tuple[str, ...]
    where: str
    warm_s: float = 0.0
    limit: int | None = None
    run: DrawnRun | None = None


def queue(subjects: Sequence[Subject], wanted: Wanted) -> Figure:
    """Draw the length of a queue over time, and what it dropped.

    Parameters
    ----------
    subjects : sequence of DrawnRun or DrawnCapture
        One run, whose captures are stored, or two captures: before the queue and after it.
    wanted : Wanted
        ``time_s``: from when to when.

    Raises
    ------
    LabError
        If they are not one run or two captures, or nothing went through the queue.
    """
    drawn = _queue_of(subjects)
    start, end = wanted.time_s or tuple((at - drawn.epoch_ns) / 1e9 for at in drawn.bounds_ns)
    came = (drawn.transit.arrival_ns - drawn.epoch_ns) / 1e9
    seen = (came >= start) & (came <= end)
    hint = "choose another --time"
    if end <= start:
        reason = "all packets have one time: a figure over time has nothing to show"
        raise LabError(reason, where=drawn.where, hint=hint)
    if not np.any(seen):
        reason = f"no packet came to the queue from {start:g} to {end:g} s"
        raise LabError(reason, where=drawn.where, hint=hint)
    figure = sheet(height=4.4)
    axes = figure.add_subplot()
    entries = _draw_queue(axes, drawn, (start, end), seen)
    axes.set_ylim(bottom=0)
    first = "the start of the run" if drawn.run else "the first packet before the queue"
    entries += over_time(axes, f"Time after {first} (s)", (start, end), drawn.warm_s)
    axes.set_ylabel("Length of the queue (kB)")
    head(axes, "Length of the queue over time", _queue_text(drawn, seen, (start, end)))
    legend(figure, entries)
    return figure


def _queue_of(subjects: Sequence[Subject]) -> _Queue:
    runs = [subject for subject in subjects if isinstance(subject, DrawnRun)]
    captures = [subject for subject in subjects if isinstance(subject, DrawnCapture)]
    if len(runs) == 1 and not captures:
        return _of_run(runs[0])
    if len(captures) == 2 and not runs:
        return _of_captures(*captures)
    found = f"{count(len(runs), 'run')} and {count(len(captures), 'capture')}"
    raise RequestError(
        f"a figure of a queue is of one run, or of two captures; these are {found}",
        hint="name the capture before the queue, then that after it: R1-in.pcap R1-out.pcap",
    )


def _of_run(run: DrawnRun) -> _Queue:
    record = run_record(run)
    limit = run.experiment.cases[run.case].queue
    return _Queue(
        transit=record.transit,
        line=backlog(record.transit),
        epoch_ns=record.epoch_ns,
        bounds_ns=(record.epoch_ns, record.window_ns[1]),
        notes=(run.case, f"{run.flows} flows", f"seed {run.seed}"),
        where=str(run.files.root),
        warm_s=(record.window_ns[0] - record.epoch_ns) / 1e9,
        limit=getattr(limit, "limit", None),
        run=run,
    )


_SIDES = "name the capture before the queue first; both must be by one clock"


def _of_captures(before: DrawnCapture, after: DrawnCapture) -> _Queue:
    transit = cross(before.read.packets, after.read.packets)
    if not np.any(~transit.lost):
        raise LabError(
            f"no packet of {before.path} is in {after.path}: they are not the two sides of a queue",
            where=str(after.path),
            hint=_SIDES,
        )
    if transit.unmatched > np.sum(~transit.lost):
        raise LabError(
            f"{transit.unmatched} packets leave before they enter",
            where=f"{before.path} {after.path}",
            hint=_SIDES,
        )
    came = transit.arrival_ns
    return _Queue(
        transit=transit,
        line=backlog(transit),
        epoch_ns=int(came.min()),
        bounds_ns=(int(came.min()), int(came.max())),
        notes=(f"{path_text(before.path.name)} to {path_text(after.path.name)}",),
        where=f"{before.path} {after.path}",
    )


def _draw_queue(
    axes: Axes, queue: _Queue, time_s: tuple[float, float], seen: NDArray[np.bool_]
) -> list[Entry]:
    line, lost = queue.line, seen & queue.transit.lost
    time = (line.time_ns - queue.epoch_ns) / 1e9
    first = max(int(np.searchsorted(time, time_s[0], "right")) - 1, 0)
    last = int(np.searchsorted(time, time_s[1], "right")) + 1
    axes.plot(time[first:last], line.size[first:last] / 1e3, zorder=2, **_LENGTH)
    entries = [line_entry("length", _LENGTH)]
    if np.any(lost):
        at = queue.transit.arrival_ns[lost]
        place = np.searchsorted(line.time_ns, at, side="right") - 1
        height = np.where(place >= 0, line.size[np.maximum(place, 0)], 0) / 1e3
        axes.plot((at - queue.epoch_ns) / 1e9, height, zorder=3, **_DROPPED)
        entries.append(line_entry(f"dropped: {np.sum(lost)}", _DROPPED))
    most = int(line.size[first:last].max(initial=0))
    if queue.limit is not None and queue.limit <= _NEAR * most:
        axes.axhline(queue.limit / 1e3, zorder=1, **_LIMIT)
        entries.append(line_entry("limit", _LIMIT))
    return entries


def _queue_text(queue: _Queue, seen: NDArray[np.bool_], time_s: tuple[float, float]) -> str:
    start, end = (queue.epoch_ns + round(1e9 * at) for at in time_s)
    lost = int(np.sum(seen & queue.transit.lost))
    most = largest_backlog(queue.line.time_ns, queue.line.size, start, end)
    mean = mean_backlog(queue.line.time_ns, queue.line.size, start, end)
    words = (
        *queue.notes,
        f"n = {count(int(np.sum(seen)), 'packet')}",
        f"{100 * lost / np.sum(seen):.2f} % of them dropped",
        f"at most {most / 1e3:.1f} kB",
        f"mean {mean / 1e3:.1f} kB",
    )
    return under([queue.run], *words) if queue.run else unbroken(*words)
