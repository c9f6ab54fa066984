"""The length of a queue, packet by packet, from the captures on its two sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from tcpf_lab.base.errors import LabError, RequestError, path_text
from tcpf_lab.metrics.definitions import largest_backlog, mean_backlog
from tcpf_lab.report.plots.canvas import INK, Entry, head, legend, sheet
from tcpf_lab.report.plots.captures import DrawnCapture
from tcpf_lab.report.plots.kinds import Subject, Wanted
from tcpf_lab.report.plots.one_flow import run_record, unbroken
from tcpf_lab.report.plots.runs import DrawnRun, counted, under
from tcpf_lab.report.style import WARM_UP
from tcpf_lab.trace.passage import Backlog, Crossing, backlog, cross

_LENGTH: dict[str, Any] = {"color": "#2f6db2", "linewidth": 0.8, "drawstyle": "steps-post"}
_DROPPED: dict[str, Any] = {
    "linestyle": "none",
    "marker": "x",
    "markersize": 4,
    "markeredgecolor": "#d2702f",
    "markeredgewidth": 0.9,
}
#: The limit is drawn if the queue came this near to it; else it would only press the line down.
_NEAR = 1.5
_LIMIT: dict[str, Any] = {"color": INK, "linewidth": 1.0, "linestyle": (0, (4.2, 1.3))}


@dataclass(frozen=True, eq=False)
class _Queue:
    """A queue: its packets, its length, and from which instant its times count."""

    crossing: Crossing
    line: Backlog
    epoch_ns: int
    bounds_ns: tuple[int, int]
    told: tuple[str, ...]
    where: str
    warm_s: float = 0.0
    limit: int | None = None
    run: DrawnRun | None = None


def draw(subjects: Sequence[Subject], wanted: Wanted) -> Figure:
    """Draw the length of a queue over time, and what it dropped.

    Parameters
    ----------
    subjects : sequence of DrawnRun or DrawnCapture
        One run, whose captures were kept, or two captures: before the queue and after it.
    wanted : Wanted
        ``time_s``: from when to when.

    Raises
    ------
    LabError
        If they are not one run or two captures, or nothing went through the queue.
    """
    queue = _queue(subjects)
    start, end = wanted.time_s or tuple((at - queue.epoch_ns) / 1e9 for at in queue.bounds_ns)
    came = (queue.crossing.arrival_ns - queue.epoch_ns) / 1e9
    seen = (came >= start) & (came <= end)
    hint = "choose another --time"
    if end <= start:
        reason = "all packets have one time: a figure over time has nothing to show"
        raise LabError(reason, where=queue.where, hint=hint)
    if not np.any(seen):
        reason = f"no packet came to the queue from {start:g} to {end:g} s"
        raise LabError(reason, where=queue.where, hint=hint)
    figure = sheet(height=4.4)
    axes = figure.add_subplot()
    entries = _draw(axes, queue, (start, end), seen)
    axes.set_xlim(start, end)
    axes.set_ylim(bottom=0)
    axes.tick_params(axis="x", bottom=True)
    first = "the start of the run" if queue.run else "the first packet before the queue"
    axes.set_xlabel(f"Time after {first} (s)")
    axes.set_ylabel("Length of the queue (kB)")
    head(axes, "Length of the queue over time", _told(queue, seen, (start, end)))
    legend(figure, entries)
    return figure


def _queue(subjects: Sequence[Subject]) -> _Queue:
    runs = [subject for subject in subjects if isinstance(subject, DrawnRun)]
    captures = [subject for subject in subjects if isinstance(subject, DrawnCapture)]
    if len(runs) == 1 and not captures:
        return _of_run(runs[0])
    if len(captures) == 2 and not runs:
        return _of_captures(*captures)
    found = f"{counted(len(runs), 'run')} and {counted(len(captures), 'capture')}"
    raise RequestError(
        f"a figure of a queue is of one run, or of two captures; these are {found}",
        hint="name the capture before the queue, then that after it: R1-in.pcap R1-out.pcap",
    )


def _of_run(run: DrawnRun) -> _Queue:
    record = run_record(run)
    limit = run.experiment.cases[run.case].queue
    return _Queue(
        crossing=record.crossing,
        line=backlog(record.crossing),
        epoch_ns=record.epoch_ns,
        bounds_ns=(record.epoch_ns, record.window_ns[1]),
        told=(run.case, f"{run.flows} flows", f"seed {run.seed}"),
        where=str(run.files.root),
        warm_s=(record.window_ns[0] - record.epoch_ns) / 1e9,
        limit=getattr(limit, "limit", None),
        run=run,
    )


_SIDES = "name the capture before the queue first; both must be by one clock"


def _of_captures(before: DrawnCapture, after: DrawnCapture) -> _Queue:
    crossing = cross(before.read.packets, after.read.packets)
    if not np.any(~crossing.lost):
        raise LabError(
            f"no packet of {before.path} is in {after.path}: they are not the two sides of a queue",
            where=str(after.path),
            hint=_SIDES,
        )
    if crossing.unmatched > np.sum(~crossing.lost):
        raise LabError(
            f"{crossing.unmatched} packets leave before they enter",
            where=f"{before.path} {after.path}",
            hint=_SIDES,
        )
    came = crossing.arrival_ns
    return _Queue(
        crossing=crossing,
        line=backlog(crossing),
        epoch_ns=int(came.min()),
        bounds_ns=(int(came.min()), int(came.max())),
        told=(f"{path_text(before.path.name)} to {path_text(after.path.name)}",),
        where=f"{before.path} {after.path}",
    )


def _draw(
    axes: Axes, queue: _Queue, time_s: tuple[float, float], seen: NDArray[np.bool_]
) -> list[Entry]:
    line, lost = queue.line, seen & queue.crossing.lost
    time = (line.time_ns - queue.epoch_ns) / 1e9
    first = max(int(np.searchsorted(time, time_s[0], "right")) - 1, 0)
    last = int(np.searchsorted(time, time_s[1], "right")) + 1
    axes.plot(time[first:last], line.size[first:last] / 1e3, zorder=2, **_LENGTH)
    entries = [Entry("length", Line2D([], [], **_LENGTH))]
    if np.any(lost):
        at = queue.crossing.arrival_ns[lost]
        place = np.searchsorted(line.time_ns, at, side="right") - 1
        height = np.where(place >= 0, line.size[np.maximum(place, 0)], 0) / 1e3
        axes.plot((at - queue.epoch_ns) / 1e9, height, zorder=3, **_DROPPED)
        entries.append(Entry(f"dropped: {np.sum(lost)}", Line2D([], [], **_DROPPED)))
    most = int(line.size[first:last].max(initial=0))
    if queue.limit is not None and queue.limit <= _NEAR * most:
        axes.axhline(queue.limit / 1e3, zorder=1, **_LIMIT)
        entries.append(Entry("limit", Line2D([], [], **_LIMIT)))
    if time_s[0] < queue.warm_s:
        axes.axvspan(0, queue.warm_s, **WARM_UP)
        entries.append(Entry("warm-up, not measured", Patch(**WARM_UP)))
    return entries


def _told(queue: _Queue, seen: NDArray[np.bool_], time_s: tuple[float, float]) -> str:
    start, end = (queue.epoch_ns + round(1e9 * at) for at in time_s)
    lost = int(np.sum(seen & queue.crossing.lost))
    most = largest_backlog(queue.line.time_ns, queue.line.size, start, end)
    mean = mean_backlog(queue.line.time_ns, queue.line.size, start, end)
    words = (
        *queue.told,
        f"n = {counted(int(np.sum(seen)), 'packet')}",
        f"{100 * lost / np.sum(seen):.2f} % of them dropped",
        f"at most {most / 1e3:.1f} kB",
        f"mean {mean / 1e3:.1f} kB",
    )
    return under([queue.run], *words) if queue.run else unbroken(*words)
