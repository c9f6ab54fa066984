"""The round trip of one flow: its samples, what the sender made of them, and its timer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator

from tcpf_lab.report.captures import milliseconds
from tcpf_lab.report.plots.canvas import INK, Entry, head, legend, sheet
from tcpf_lab.report.plots.kinds import Subject, Wanted
from tcpf_lab.report.plots.one_flow import OneFlow, flow_of, frame
from tcpf_lab.report.plots.runs import counted
from tcpf_lab.report.style import EVENTS
from tcpf_lab.trace.analysis import KINDS, RTO, SYN_RTO

_SAMPLE: dict[str, Any] = {
    "linestyle": "none",
    "marker": "o",
    "markersize": 2.6,
    "markerfacecolor": "#8fb8de",
    "markeredgecolor": "#2f6db2",
    "markeredgewidth": 0.5,
}
_SMOOTHED: dict[str, Any] = {"color": INK, "linewidth": 1.3, "drawstyle": "steps-post"}
_TIMER: dict[str, Any] = {"color": "#d2702f", "linewidth": 1.2, "drawstyle": "steps-post"}
#: The timer backed off is so much longer than the round trips that it needs a logarithmic axis.
_RATIO = 12


def draw(subjects: Sequence[Subject], wanted: Wanted) -> Figure:
    """Draw round-trip times over time, the smoothed one, and the timer that the model has.

    Parameters
    ----------
    subjects : sequence of DrawnRun or DrawnCapture
        One run, whose captures were kept, or one capture.
    wanted : Wanted
        As for `tcpf_lab.report.plots.time_sequence.draw`.

    Raises
    ------
    LabError
        If there are several of them, no captures, or no round trip was measured.
    """
    flow = flow_of(subjects, wanted, "a figure of round-trip times")
    measured = flow.inside & (flow.seen.rtt_ns >= 0)
    if not np.any(measured):
        raise flow.empty(
            "has no segment whose acknowledgement tells a round-trip time",
            "the capture must have both directions; or choose another --time or --flow",
        )
    figure = sheet(height=4.8)
    axes = figure.add_subplot()
    entries = _draw(axes, flow)
    entries += frame(axes, flow)
    axes.set_ylabel("Time (ms)")
    least, mean = (1e-9 * float(f(flow.seen.rtt_ns[measured])) for f in (np.min, np.mean))
    told = flow.subtitle(
        f"n = {counted(int(np.sum(measured)), 'sample')}",
        f"least {milliseconds(least)} ms",
        f"mean {milliseconds(mean)} ms",
    )
    head(axes, f"Round-trip time and timer of {flow.name}", told)
    legend(figure, entries)
    return figure


def _draw(axes: Axes, flow: OneFlow) -> list[Entry]:
    seen, inside = flow.seen, flow.inside
    measured = inside & (seen.rtt_ns >= 0)
    known = inside & (seen.srtt_ns > 0)
    armed = inside & (seen.rto_ns > 0)
    axes.plot(flow.time_s[armed], seen.rto_ns[armed] / 1e6, zorder=2, **_TIMER)
    axes.plot(flow.time_s[known], seen.srtt_ns[known] / 1e6, zorder=3, **_SMOOTHED)
    axes.plot(flow.time_s[measured], seen.rtt_ns[measured] / 1e6, zorder=1, **_SAMPLE)
    entries = [
        Entry("sample", Line2D([], [], **_SAMPLE)),
        Entry("smoothed (SRTT)", Line2D([], [], **_SMOOTHED)),
        Entry("timer by the model (RTO)", Line2D([], [], **_TIMER)),
    ]
    for kind in (RTO, SYN_RTO):
        fired = inside & seen.forward & (seen.kind == kind)
        if np.any(fired):
            words, look = EVENTS[KINDS[kind]]
            place = seen.rto_ns[np.maximum(np.flatnonzero(fired) - 1, 0)] / 1e6  # what expired
            axes.plot(flow.time_s[fired], place, zorder=4, **look)
            entries.append(Entry(f"{words}: {np.sum(fired)}", Line2D([], [], **look)))
    _scale(axes, flow)
    return entries


def _scale(axes: Axes, flow: OneFlow) -> None:
    """Begin at 0, or go by powers of ten where the timer dwarfs what it waits for."""
    samples = flow.seen.rtt_ns[flow.inside & (flow.seen.rtt_ns > 0)]
    timers = flow.seen.rto_ns[flow.inside]
    if samples.size and timers.max(initial=0) > _RATIO * np.median(samples):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    else:
        axes.set_ylim(bottom=0)
