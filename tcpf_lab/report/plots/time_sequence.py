"""What happened to one flow: every segment of it over time, what was lost and why it came again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from tcpf_lab.report.plots.canvas import INK, Entry, head, legend, sheet
from tcpf_lab.report.plots.kinds import Subject, Wanted
from tcpf_lab.report.plots.one_flow import OneFlow, flow_of, frame
from tcpf_lab.report.plots.runs import counted
from tcpf_lab.report.style import EVENTS
from tcpf_lab.trace.analysis import KINDS, RETRANSMISSIONS, RTO

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


def draw(subjects: Sequence[Subject], wanted: Wanted) -> Figure:
    """Draw the segments of a flow, its acknowledgements, its losses and its retransmissions.

    Parameters
    ----------
    subjects : sequence of DrawnRun or DrawnCapture
        One run, whose captures were kept, or one capture.
    wanted : Wanted
        ``flow``: one; by default that with most timeouts. ``time_s``: from when to when, by default
        all of the capture, or from the start of the run to the end of its window.

    Raises
    ------
    LabError
        If there are several of them, no captures, or nothing happened.
    """
    flow = flow_of(subjects, wanted, "a time-sequence figure", answered=False)
    sent = _segments(flow)
    if not np.any(sent):
        raise flow.empty("sent nothing")
    figure = sheet(height=5.2)
    axes = figure.add_subplot()
    entries = _draw(axes, flow, sent)
    entries += frame(axes, flow)
    axes.margins(y=0.03)
    axes.set_ylabel("Place in the flow's payload (kB)")
    head(axes, f"Segments of {flow.name} over time", _told(flow, flow.seen.kind[sent]))
    legend(figure, entries)
    return figure


def _segments(flow: OneFlow) -> NDArray[np.bool_]:
    """Which packets are drawn: what the sender sent of data and SYNs, and its probes."""
    seen = flow.seen
    syn = (seen.start == 0) & (seen.end > 0)
    worth = (flow.payload > 0) | (seen.kind > 0) | syn
    return np.asarray(flow.inside & seen.forward & worth, np.bool_)


def _draw(axes: Axes, flow: OneFlow, sent: NDArray[np.bool_]) -> list[Entry]:
    """Draw everything; what the legend says of it, with counts."""
    seen = flow.seen
    time, first = flow.time_s[sent], (seen.start[sent] - 1) / 1e3
    last, kind = first + flow.payload[sent] / 1e3, seen.kind[sent]
    middle, new = (first + last) / 2, kind == 0
    back = flow.inside & ~seen.forward
    if np.any(back):
        axes.plot(flow.time_s[back], np.maximum(seen.una[back] - 1, 0) / 1e3, zorder=1, **_ACK)
    axes.vlines(time[new], first[new], last[new], colors=_SEGMENT, linewidths=1.6)
    axes.plot(time[new], middle[new], ",", color=_SEGMENT)  # a pixel at any scale
    stroke = Line2D([], [], color=_SEGMENT, linestyle="none", marker="|", markersize=9)
    entries = [Entry(f"sent for the first time: {np.sum(new)}", stroke)]
    if np.any(back):
        entries.append(Entry("acknowledged", Line2D([], [], **_ACK)))
    marks = [*_losses(flow), *_events(time, middle, kind)]
    share = _shrink(sum(at.size for _, _, at, _ in marks))
    for words, look, at, place in marks:
        axes.plot(at, place, zorder=3, **look | {"markersize": share * look["markersize"]})
        entries.append(Entry(f"{words}: {at.size}", Line2D([], [], **look)))
    return entries


_Mark = tuple[str, dict[str, Any], NDArray[np.float64], NDArray[np.float64]]


def _losses(flow: OneFlow) -> list[_Mark]:
    start, end = flow.bounds_s
    gone = (flow.lost_time_s >= start) & (flow.lost_time_s <= end)
    if not np.any(gone):
        return []
    return [("lost at the bottleneck", _LOST, flow.lost_time_s[gone], flow.lost[gone] / 1e3)]


def _events(
    time: NDArray[np.float64], place: NDArray[np.float64], kind: NDArray[np.uint8]
) -> list[_Mark]:
    """Give the marks of each kind of event that occurred."""
    marks = []
    for number, name in enumerate(KINDS):
        mine = kind == number
        if number and np.any(mine):
            words, look = EVENTS[name]
            marks.append((words, look, time[mine], place[mine]))
    return marks


def _shrink(marks: int) -> float:
    """How much smaller many marks are drawn than few."""
    return float(np.clip(np.sqrt(_ROOM / max(marks, 1)), 0.5, 1))


def _told(flow: OneFlow, kind: NDArray[np.uint8]) -> str:
    again = int(np.sum(np.isin(kind, RETRANSMISSIONS)))
    return flow.subtitle(
        f"n = {counted(kind.size, 'segment')}",
        f"{again} of them retransmissions",
        *([] if flow.one_way else [f"{int(np.sum(kind == RTO))} by timeouts"]),
    )
