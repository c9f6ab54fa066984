"""How much one flow had outstanding, and how much the receiver would have taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tcpf_lab.report.plots.canvas import Entry, head, legend, sheet
from tcpf_lab.report.plots.kinds import Subject, Wanted
from tcpf_lab.report.plots.one_flow import OneFlow, flow_of, frame
from tcpf_lab.report.plots.runs import counted
from tcpf_lab.report.style import EVENTS
from tcpf_lab.trace.events import FAST, KINDS, RTO

_OUTSTANDING: dict[str, Any] = {
    "color": "#2f6db2",
    "linewidth": 1.1,
    "drawstyle": "steps-post",
}


def draw(subjects: Sequence[Subject], wanted: Wanted) -> Figure:
    """Draw the bytes in flight over time, and where recoveries and timeouts began.

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
    )
    head(axes, f"Bytes in flight of {flow.name}", told)
    legend(figure, entries)
    return figure


def _draw(axes: Axes, flow: OneFlow) -> list[Entry]:
    seen, inside = flow.seen, flow.inside
    axes.plot(flow.time_s[inside], seen.in_flight[inside] / 1e3, zorder=2, **_OUTSTANDING)
    entries = [Entry("sent, neither acknowledged nor SACKed", Line2D([], [], **_OUTSTANDING))]
    for kind in (FAST, RTO):
        began = inside & seen.forward & (seen.kind == kind)
        if np.any(began):
            words, look = EVENTS[KINDS[kind]]
            axes.plot(flow.time_s[began], seen.in_flight[began] / 1e3, zorder=3, **look)
            entries.append(Entry(f"{words}: {np.sum(began)}", Line2D([], [], **look)))
    return entries


def _mean(flow: OneFlow) -> float:
    """Mean over time: each value lasts until the next packet."""
    time, value = flow.time_s[flow.inside], flow.seen.in_flight[flow.inside]
    lasted = np.diff(time)
    whole = float(lasted.sum())
    return float(np.sum(value[:-1] * lasted) / whole) if whole > 0 else float(value.mean())
