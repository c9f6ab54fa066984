"""How much one flow had outstanding, and how much the receiver would have taken."""

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
from tcpf_lab.trace.analysis import FAST, KINDS, RTO

_OUTSTANDING: dict[str, Any] = {
    "color": "#2f6db2",
    "linewidth": 1.1,
    "drawstyle": "steps-post",
}
_WINDOW: dict[str, Any] = {
    "color": INK,
    "linewidth": 1.0,
    "linestyle": (0, (4.2, 1.3)),
    "drawstyle": "steps-post",
}
#: The window is drawn if the flow came this near to it; else it would only press the line down.
_NEAR = 2.0


def draw(subjects: Sequence[Subject], wanted: Wanted) -> Figure:
    """Draw the bytes in flight over time, the receiver's window, and where recoveries began.

    Parameters
    ----------
    subjects : sequence of DrawnRun or DrawnCapture
        One run, whose captures were kept, or one capture.
    wanted : Wanted
        As for `tcpf_lab.report.plots.time_sequence.draw`.

    Raises
    ------
    LabError
        If there are several of them, no captures, or nothing was outstanding.
    """
    flow = flow_of(subjects, wanted, "a figure of bytes in flight")
    outstanding = flow.seen.in_flight[flow.inside]
    if not np.any(outstanding > 0):
        raise flow.empty("had no data outstanding")
    figure = sheet(height=4.4)
    axes = figure.add_subplot()
    entries = _draw(axes, flow)
    entries += frame(axes, flow)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("In flight (kB)")
    told = flow.subtitle(
        f"n = {counted(outstanding.size, 'packet')}",
        f"at most {outstanding.max() / 1e3:.1f} kB",
        f"mean over time {_mean(flow) / 1e3:.1f} kB",
        _window_told(flow),
    )
    head(axes, f"Bytes in flight of {flow.name}", told)
    legend(figure, entries)
    return figure


def _draw(axes: Axes, flow: OneFlow) -> list[Entry]:
    seen, inside = flow.seen, flow.inside
    axes.plot(flow.time_s[inside], seen.in_flight[inside] / 1e3, zorder=2, **_OUTSTANDING)
    entries = [Entry("sent, neither acknowledged nor SACKed", Line2D([], [], **_OUTSTANDING))]
    window = _window(flow)
    if window.size and window.min() <= _NEAR * seen.in_flight[inside].max():
        known = inside & (seen.window >= 0)
        axes.plot(flow.time_s[known], seen.window[known] / 1e3, zorder=1, **_WINDOW)
        entries.append(Entry("receiver's window", Line2D([], [], **_WINDOW)))
    for kind in (FAST, RTO):
        began = inside & seen.forward & (seen.kind == kind)
        if np.any(began):
            words, look = EVENTS[KINDS[kind]]
            axes.plot(flow.time_s[began], seen.in_flight[began] / 1e3, zorder=3, **look)
            entries.append(Entry(f"{words}: {np.sum(began)}", Line2D([], [], **look)))
    return entries


def _window(flow: OneFlow) -> NDArray[np.int64]:
    """Windows that the receiver offered in the time that is drawn, bytes; none if unknown."""
    window = flow.seen.window[flow.inside]
    return window[window >= 0]


def _window_told(flow: OneFlow) -> str:
    window = _window(flow)
    if flow.seen.scale < 0:
        return "receiver's window unknown (its scale is in the SYNs)"
    if not window.size:
        return "receiver's window unknown"
    low, high = window.min() / 1e3, window.max() / 1e3
    return f"receiver's window {low:.1f}{f' to {high:.1f}' if high > low else ''} kB"


def _mean(flow: OneFlow) -> float:
    """Mean over time: each value lasts until the next packet."""
    time, value = flow.time_s[flow.inside], flow.seen.in_flight[flow.inside]
    lasted = np.diff(time)
    whole = float(lasted.sum())
    return float(np.sum(value[:-1] * lasted) / whole) if whole > 0 else float(value.mean())
