"""Figures of one flow: its segments, its goodput, its bytes in flight, its round trips."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator
from numpy.typing import NDArray

from tcpf_lab.report.captures import milliseconds
from tcpf_lab.report.contents.model import count
from tcpf_lab.report.plots.canvas import Entry, head, legend, line_entry, over_time, sheet
from tcpf_lab.report.plots.kinds import Subject, Wanted
from tcpf_lab.report.plots.one_flow import OneFlow, Times, flow_of
from tcpf_lab.report.style import EVENTS, MARKS
from tcpf_lab.trace.analysis import FAST, KINDS, RETRANSMISSIONS, RTO, SYN_RTO


class _Chart:
    """A figure of one flow over time, and the legend that grows with what is drawn."""

    def __init__(self, flow: OneFlow, height: float) -> None:
        self.flow = flow
        self.figure = sheet(height=height)
        self.axes = self.figure.add_subplot()
        self.entries: list[Entry] = []

    def line(self, label: str, drawn: NDArray[np.bool_], values: Times, **look: Any) -> None:
        """Draw what some of the packets have, in the order of time."""
        zorder = look.pop("zorder")
        self.axes.plot(self.flow.time_s[drawn], values[drawn], zorder=zorder, **look)
        self.entries.append(line_entry(label, look))

    def events(self, kind: int, heights: Times, zorder: float = 3, **more: Any) -> None:
        """Mark the packets that were sent for a reason, if there are any."""
        flow = self.flow
        sent = flow.inside & flow.seen.forward & (flow.seen.kind == kind)
        if np.any(sent):
            words, look = EVENTS[KINDS[kind]]
            self.axes.plot(flow.time_s[sent], heights[sent], zorder=zorder, **more, **look)
            self.entries.append(line_entry(f"{words}: {np.sum(sent)}", look))

    def finished(self, title: str, label: str, *notes: str, from_zero: bool = True) -> Figure:
        """Set the bounds, and write what the figure is, and its notes."""
        flow, axes = self.flow, self.axes
        self.entries += over_time(axes, flow.axis, flow.bounds_s, flow.warm_s)
        if from_zero:
            axes.set_ylim(bottom=0)
        axes.set_ylabel(label)
        head(axes, title, flow.subtitle(*notes))
        legend(self.figure, self.entries)
        return self.figure


_SEGMENT = "#5f5f5f"
_ROOM = 40  # marks of full size hide each other from here on
_ACK = MARKS["acknowledgements"]
_LOST = MARKS["lost"]


def time_sequence(subjects: Sequence[Subject], wanted: Wanted) -> Figure:
    """Draw the segments of a flow, its acknowledgements, its losses and its retransmissions.

    Parameters
    ----------
    subjects : sequence of DrawnRun or DrawnCapture
        One run, whose captures are stored, or one capture.
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
    chart, kind = _Chart(flow, 5.2), flow.seen.kind[sent]
    _draw_segments(chart, sent)
    chart.axes.margins(y=0.03)
    again = int(np.sum(np.isin(kind, RETRANSMISSIONS)))
    return chart.finished(
        f"Segments of {flow.name} over time",
        "Place in the flow's payload (kB)",
        f"n = {count(kind.size, 'segment')}",
        f"{again} of them retransmissions",
        *([] if flow.one_way else [f"{int(np.sum(kind == RTO))} by timeouts"]),
        from_zero=False,
    )


def _segments(flow: OneFlow) -> NDArray[np.bool_]:
    """Which packets are drawn: what the sender sent of data and SYNs, and its probes."""
    seen = flow.seen
    syn = (seen.start == 0) & (seen.end > 0)
    worth = (flow.payload > 0) | (seen.kind > 0) | syn
    return np.asarray(flow.inside & seen.forward & worth, np.bool_)


def _draw_segments(chart: _Chart, sent: NDArray[np.bool_]) -> None:
    """Draw everything; the legend counts it."""
    flow, seen, axes = chart.flow, chart.flow.seen, chart.axes
    time, first = flow.time_s[sent], (seen.start[sent] - 1) / 1e3
    last, kind = first + flow.payload[sent] / 1e3, seen.kind[sent]
    middle, new = (first + last) / 2, kind == 0
    axes.vlines(time[new], first[new], last[new], colors=_SEGMENT, linewidths=1.6)
    axes.plot(time[new], middle[new], ",", color=_SEGMENT)  # a pixel at any scale
    stroke = {"color": _SEGMENT, "linestyle": "none", "marker": "|", "markersize": 9}
    chart.entries.append(line_entry(f"sent for the first time: {np.sum(new)}", stroke))
    back = flow.inside & ~seen.forward
    if np.any(back):
        chart.line("acknowledged", back, np.maximum(seen.una - 1, 0) / 1e3, zorder=1, **_ACK)
    marks = list(_marks(flow, time, middle, kind))
    shrink = np.sqrt(_ROOM / max(sum(at.size for _, _, at, _ in marks), 1))
    share = float(np.clip(shrink, 0.5, 1))
    for words, look, at, place in marks:
        axes.plot(at, place, zorder=3, **look | {"markersize": share * look["markersize"]})
        chart.entries.append(line_entry(f"{words}: {at.size}", look))


def _marks(
    flow: OneFlow, time: Times, place: Times, kind: NDArray[np.uint8]
) -> Iterator[tuple[str, dict[str, Any], Times, Times]]:
    """Yield the marks of losses, and of each kind of event that occurred."""
    start, end = flow.bounds_s
    gone = (flow.lost_time_s >= start) & (flow.lost_time_s <= end)
    if np.any(gone):
        yield "lost at the bottleneck", _LOST, flow.lost_time_s[gone], flow.lost[gone] / 1e3
    for number, name in enumerate(KINDS):
        mine = kind == number
        if number and np.any(mine):
            yield *EVENTS[name], time[mine], place[mine]


_ACKED = MARKS["acknowledged"]
_SENT = MARKS["sent"]
#: Intervals that a figure has at most.
_INTERVALS = 80
#: Round trips that an interval lasts at least: within one, a window leaves at once.
_ROUNDS = 2


def goodput(subjects: Sequence[Subject], wanted: Wanted) -> Figure:
    """Draw the goodput of a flow over time, what it sent, and its timeouts.

    Parameters
    ----------
    subjects, wanted
        As for `time_sequence`.

    Raises
    ------
    LabError
        If there are several of them, no captures, or nothing was acknowledged.
    """
    flow = flow_of(subjects, wanted, "a figure of goodput")
    start, end = flow.bounds_s
    if end <= start:
        raise flow.empty("has packets of one instant only")
    width = interval(end - start, least=_ROUNDS * _round_trip(flow))
    edges = np.append(np.arange(start, end - width / 1e6, width), end)
    acked, sent = _acked(flow, edges), _sent(flow, edges)
    if not np.any(acked):
        raise flow.empty("had no payload acknowledged")
    chart, lasted = _Chart(flow, 4.4), np.diff(edges)
    chart.axes.stairs(acked / lasted / 1e3, edges, fill=True, zorder=1, **_ACKED)
    chart.axes.stairs(sent / lasted / 1e3, edges, zorder=2, **_SENT)
    seen = "seen" if flow.seen.away_ns else "sent"  # behind the sender, losses are not seen
    chart.entries = [
        Entry("acknowledged: goodput", Patch(**_ACKED)),
        line_entry(f"{seen}, retransmissions included", _SENT),
    ]
    chart.events(RTO, np.zeros(flow.time_s.size), clip_on=False)
    return chart.finished(
        f"Goodput of {flow.name} over time",
        "Payload (kB/s)",
        f"intervals of {width:g} s",
        f"goodput {acked.sum() / (end - start) / 1e3:.2f} kB/s on average",
        f"{sent.sum() / acked.sum():.3f} times as much {seen}",
    )


def interval(seconds: float, least: float = 0.0) -> float:
    """Give the round interval of at least so many seconds that cuts a time into few enough.

    Examples
    --------
    >>> interval(60.0), interval(7.0), interval(7.0, least=0.4)
    (1.0, 0.1, 0.5)
    """
    least = max(seconds / _INTERVALS, least)
    power = 10.0 ** np.floor(np.log10(least))
    steps = [step * power for step in (1, 2, 5, 10)]
    return float(next(step for step in steps if step >= least * (1 - 1e-9)))


def _round_trip(flow: OneFlow) -> float:
    """Median of the round-trip times, seconds; 0 without any."""
    samples = flow.seen.rtt_ns[flow.seen.rtt_ns >= 0]
    return float(np.median(samples)) / 1e9 if samples.size else 0.0


def _acked(flow: OneFlow, edges: Times) -> Times:
    """Payload newly acknowledged in each interval, bytes; the last one has both its ends."""
    back = ~flow.seen.forward
    time, una = flow.time_s[back], np.maximum(flow.seen.una[back] - 1, 0)
    place = np.searchsorted(time, edges, side="left")
    place[-1] = np.searchsorted(time, edges[-1], side="right")
    return np.asarray(np.diff(np.concatenate([[0], una])[place]), np.float64)


def _sent(flow: OneFlow, edges: Times) -> Times:
    """Payload sent in each interval, bytes, retransmissions included."""
    own = flow.seen.forward
    size = flow.payload[own].astype(np.float64)
    return np.asarray(np.histogram(flow.time_s[own], edges, weights=size)[0], np.float64)


_OUTSTANDING = MARKS["outstanding"]
_WINDOW = MARKS["window"]
#: The window is drawn if the flow came this near to it; else it would only press the line down.
_NEAR = 2.0


def inflight(subjects: Sequence[Subject], wanted: Wanted) -> Figure:
    """Draw the bytes in flight over time, the receiver's window, and where recoveries began.

    Parameters
    ----------
    subjects, wanted
        As for `time_sequence`.

    Raises
    ------
    LabError
        If there are several of them, no captures, or nothing was outstanding.
    """
    flow = flow_of(subjects, wanted, "a figure of bytes in flight")
    seen, inside = flow.seen, flow.inside
    outstanding = seen.in_flight[inside]
    if not np.any(outstanding > 0):
        raise flow.empty("had no data outstanding")
    chart, known = _Chart(flow, 4.4), inside & (seen.window >= 0)
    label, line = "sent, neither acknowledged nor SACKed", seen.in_flight / 1e3
    chart.line(label, inside, line, zorder=2, **_OUTSTANDING)
    windows = seen.window[known]
    if windows.size and windows.min() <= _NEAR * outstanding.max():
        chart.line("receiver's window", known, seen.window / 1e3, zorder=1, **_WINDOW)
    for kind in (FAST, RTO):
        chart.events(kind, line)
    return chart.finished(
        f"Bytes in flight of {flow.name}",
        "In flight (kB)",
        f"n = {count(outstanding.size, 'packet')}",
        f"at most {outstanding.max() / 1e3:.1f} kB",
        f"mean over time {_mean(flow) / 1e3:.1f} kB",
        _window_text(flow, windows),
    )


def _window_text(flow: OneFlow, windows: NDArray[np.int64]) -> str:
    """Say which windows the receiver offered in the time that is drawn."""
    if flow.seen.scale < 0:
        return "receiver's window unknown (its scale is in the SYNs)"
    if not windows.size:
        return "receiver's window unknown"
    low, high = windows.min() / 1e3, windows.max() / 1e3
    return f"receiver's window {low:.1f}{f' to {high:.1f}' if high > low else ''} kB"


def _mean(flow: OneFlow) -> float:
    """Mean over time: each value lasts until the next packet."""
    time, value = flow.time_s[flow.inside], flow.seen.in_flight[flow.inside]
    lasted = np.diff(time)
    whole = float(lasted.sum())
    return float(np.sum(value[:-1] * lasted) / whole) if whole > 0 else float(value.mean())


_SAMPLE = MARKS["sample"]
_SMOOTHED = MARKS["smoothed"]
_TIMER = MARKS["timer"]
#: The timer backed off is so much longer than the round trips that it needs a logarithmic axis.
_RATIO = 12


def rtt(subjects: Sequence[Subject], wanted: Wanted) -> Figure:
    """Draw round-trip times over time, the smoothed one, and the timer that the model has.

    Parameters
    ----------
    subjects, wanted
        As for `time_sequence`.

    Raises
    ------
    LabError
        If there are several of them, no captures, or no round trip was measured.
    """
    flow = flow_of(subjects, wanted, "a figure of round-trip times")
    seen, inside = flow.seen, flow.inside
    measured = inside & (seen.rtt_ns >= 0)
    if not np.any(measured):
        raise flow.empty(
            "has no RTT sample",
            "the capture must have both directions; or choose another --time or --flow",
        )
    chart, timer = _Chart(flow, 4.8), seen.rto_ns / 1e6
    chart.line("sample", measured, seen.rtt_ns / 1e6, zorder=1, **_SAMPLE)
    smoothed = inside & (seen.srtt_ns > 0)
    chart.line("smoothed (SRTT)", smoothed, seen.srtt_ns / 1e6, zorder=3, **_SMOOTHED)
    armed = inside & (seen.rto_ns > 0)
    chart.line("timer by the model (RTO)", armed, timer, zorder=2, **_TIMER)
    expired = np.concatenate([timer[:1], timer[:-1]])
    for kind in (RTO, SYN_RTO):
        chart.events(kind, expired, zorder=4)
    _scale(chart.axes, flow)
    least, mean = (1e-9 * float(f(seen.rtt_ns[measured])) for f in (np.min, np.mean))
    return chart.finished(
        f"Round-trip time and timer of {flow.name}",
        "Time (ms)",
        f"n = {count(int(np.sum(measured)), 'sample')}",
        f"minimum {milliseconds(least)} ms",
        f"mean {milliseconds(mean)} ms",
        from_zero=False,
    )


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
