"""What happened to one flow: every segment of it over time, what was lost and why it came again."""

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

from tcpf_lab.errors import LabError, RequestError, TraceError
from tcpf_lab.metrics.record import Record, read_record
from tcpf_lab.report.plots.canvas import Entry, head, legend, sheet
from tcpf_lab.report.plots.frame import INK
from tcpf_lab.report.plots.kinds import Wanted
from tcpf_lab.report.plots.runs import DrawnRun, counted, under
from tcpf_lab.report.style import RETRANSMISSIONS, WARM_UP
from tcpf_lab.trace.packet import SYN
from tcpf_lab.trace.recovery import KIND_NAMES, RTO

_SEGMENT = "#5f5f5f"
_ROOM = 40  # marks of full size hide each other from here on
_ACK: dict[str, Any] = {"color": "#8fb8de", "linewidth": 1.2, "drawstyle": "steps-post"}
_LOST: dict[str, Any] = {
    "linestyle": "none",
    "marker": "x",
    "markersize": 7,
    "markeredgecolor": INK,
    "markeredgewidth": 1.3,
}


@dataclass(frozen=True, eq=False)
class _Course:
    """A flow: times in s after the epoch, places in the payload in bytes.

    ``time_s``, ``start``, ``end`` and ``kind`` have an entry per segment with payload or SYN,
    ``ack_time_s`` and ``acked`` one per acknowledgement, ``lost_time_s`` and ``lost`` one per
    segment that entered the bottleneck and never left it.
    """

    time_s: NDArray[np.float64]
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    kind: NDArray[np.uint8]
    ack_time_s: NDArray[np.float64]
    acked: NDArray[np.float64]
    lost_time_s: NDArray[np.float64]
    lost: NDArray[np.float64]

    def between(self, start: float, end: float) -> _Course:
        """Give what happened in a time."""
        sent, back, gone = (
            (time >= start) & (time <= end)
            for time in (self.time_s, self.ack_time_s, self.lost_time_s)
        )
        return _Course(
            *(self.time_s[sent], self.start[sent], self.end[sent], self.kind[sent]),
            *(self.ack_time_s[back], self.acked[back], self.lost_time_s[gone], self.lost[gone]),
        )


def draw(runs: Sequence[DrawnRun], wanted: Wanted) -> Figure:
    """Draw the segments of a flow, its acknowledgements, its losses and its retransmissions.

    Parameters
    ----------
    runs : sequence of DrawnRun
        One run, whose captures were kept.
    wanted : Wanted
        ``flow``: one; by default that with most timeouts in the window. ``time_s``: from when to
        when, by default from the start to the end of the window.

    Raises
    ------
    LabError
        If there are several runs, no captures, or nothing happened.
    """
    if len(runs) != 1:
        raise RequestError(
            f"a time-sequence figure is of one run, not of {len(runs)}",
            hint="choose with --case, --flows and --seed, or name the run's directory",
        )
    (run,) = runs
    record = _record(run)
    flow = _flow(run, wanted)
    start, end = _time(record, wanted)
    course = _course(record, flow).between(start, end)
    if not course.time_s.size:
        raise LabError(
            f"flow {flow} sent nothing from {start:g} to {end:g} s",
            where=str(run.files.root),
            hint="choose another --time or --flow",
        )
    return _figure(run, record, flow, course, (start, end))


def _record(run: DrawnRun) -> Record:
    """Read the run's captures, or say how to get some."""
    if not any(run.files.pcap.glob("*.pcap*")):
        raise TraceError(
            "the run's captures were not kept, and a time-sequence figure is made of them",
            where=str(run.files.root),
            hint="`tcpf-lab run ... --keep-pcaps` makes the run again with them",
        )
    return read_record(run.files)


def _flow(run: DrawnRun, wanted: Wanted) -> int:
    if len(wanted.flow) > 1:
        raise RequestError("a time-sequence figure is of one flow", where="--flow")
    flows = run.found["per_flow"]
    if not wanted.flow:
        return int(max(flows, key=lambda row: (row["timeouts"], row["retransmissions"]))["flow"])
    (flow,) = wanted.flow
    if not 0 <= flow < len(flows):
        message = f"the run has flows 0 to {len(flows) - 1}"
        raise RequestError(message, where=f"--flow {flow}")
    return flow


def _time(record: Record, wanted: Wanted) -> tuple[float, float]:
    return wanted.time_s or (0.0, (record.window_ns[1] - record.epoch_ns) / 1e9)


def _course(record: Record, flow: int) -> _Course:
    """Gather what the captures say of a flow."""
    row = int(record.row[flow])
    own, back = record.flows.split(row) if row >= 0 else (np.empty(0, np.int64),) * 2
    packets, entered = record.captures["sender"].packets, record.captures["ingress"].packets
    own = own[(packets["payload"][own] > 0) | (packets["flags"][own] & SYN > 0)]
    base = int(packets["seq"][own[0]]) if own.size else 0
    syn = bool(own.size and packets["flags"][own[0]] & SYN)
    start = _unwrapped(packets["seq"][own], base) - syn
    mine = _of(entered, record, row) & (entered["payload"] > 0)
    gone = np.flatnonzero(record.crossing.lost & mine)

    def seconds(time_ns: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray((time_ns - record.epoch_ns) / 1e9, np.float64)

    return _Course(
        time_s=seconds(packets["time_ns"][own]),
        start=start,
        end=start + packets["payload"][own],
        kind=record.recovery.kind[own],
        ack_time_s=seconds(packets["time_ns"][back]),
        acked=record.recovery.acked[back].astype(np.float64),
        lost_time_s=seconds(entered["time_ns"][gone]),
        lost=_unwrapped(entered["seq"][gone], base) - syn + entered["payload"][gone] / 2,
    )


def _of(packets: Any, record: Record, row: int) -> NDArray[np.bool_]:
    """Which packets of a capture are the flow's own."""
    if row < 0:
        return np.zeros(packets.size, np.bool_)
    flows = record.flows
    ends = (("src", flows.src), ("dst", flows.dst), ("sport", flows.sport), ("dport", flows.dport))
    mine = [packets[name] == value[row] for name, value in ends]
    return np.asarray(np.logical_and.reduce(mine), np.bool_)


def _unwrapped(numbers: NDArray[np.uint32], base: int) -> NDArray[np.float64]:
    """Count sequence numbers on from `base` beyond 32 bits; neighbours are near each other."""
    following = np.concatenate([[base], numbers]).astype(np.int64)
    near = np.mod(np.diff(following) + 2**31, 2**32) - 2**31
    return np.asarray(np.cumsum(near), np.float64)


def _figure(
    run: DrawnRun, record: Record, flow: int, course: _Course, time_s: tuple[float, float]
) -> Figure:
    figure = sheet(height=5.2)
    axes = figure.add_subplot()
    warm = (record.window_ns[0] - record.epoch_ns) / 1e9
    entries = _draw(axes, course)
    if time_s[0] < warm:
        axes.axvspan(0, warm, **WARM_UP)
        entries.append(Entry("warm-up, not measured", Patch(**WARM_UP)))
    axes.set_xlim(*time_s)
    axes.margins(y=0.03)
    axes.set_xlabel("Time after the start of the run (s)")
    axes.set_ylabel("Place in the flow's payload (kB)")
    axes.tick_params(axis="x", bottom=True)
    head(axes, f"Segments of flow {flow} over time", _told(run, course, wanted_flow=flow))
    legend(figure, entries)
    return figure


def _draw(axes: Axes, course: _Course) -> list[Entry]:
    """Draw everything; what the legend says of it, with counts."""
    first, last = course.start / 1e3, course.end / 1e3
    middle, new = (first + last) / 2, course.kind == 0
    axes.plot(course.ack_time_s, course.acked / 1e3, zorder=1, **_ACK)
    axes.vlines(course.time_s[new], first[new], last[new], colors=_SEGMENT, linewidths=1.6)
    axes.plot(course.time_s[new], middle[new], ",", color=_SEGMENT)  # a pixel at any scale
    stroke = Line2D([], [], color=_SEGMENT, linestyle="none", marker="|", markersize=9)
    entries = [
        Entry(f"sent for the first time: {np.sum(new)}", stroke),
        Entry("acknowledged", Line2D([], [], **_ACK)),
    ]
    marks = [(f"lost at the bottleneck: {course.lost.size}", _LOST, course.lost_time_s)]
    places = [course.lost / 1e3]
    for kind, name in KIND_NAMES.items():
        mine = course.kind == kind
        words, look = RETRANSMISSIONS[name]
        marks.append((f"{words}: {np.sum(mine)}", look, course.time_s[mine]))
        places.append(middle[mine])
    share = _shrink(sum(time.size for _, _, time in marks))
    for (words, look, time), place in zip(marks, places, strict=True):
        if time.size:
            axes.plot(time, place, zorder=3, **look | {"markersize": share * look["markersize"]})
            entries.append(Entry(words, Line2D([], [], **look)))
    return entries


def _shrink(marks: int) -> float:
    """How much smaller many marks are drawn than few."""
    return float(np.clip(np.sqrt(_ROOM / max(marks, 1)), 0.5, 1))


def _told(run: DrawnRun, course: _Course, wanted_flow: int) -> str:
    again = int(np.sum(course.kind > 0))
    return under(
        [run],
        run.case,
        f"flow {wanted_flow} of {run.flows}",
        f"seed {run.seed}",
        f"n = {counted(course.kind.size, 'segment')}",
        f"{again} of them retransmissions",
        f"{int(np.sum(course.kind == RTO))} by timeouts",
    )
