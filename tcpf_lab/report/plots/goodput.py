"""How fast one flow was: payload acknowledged and payload sent, interval by interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from tcpf_lab.report.plots.canvas import INK, Entry, head, legend, sheet
from tcpf_lab.report.plots.kinds import Subject, Wanted
from tcpf_lab.report.plots.one_flow import OneFlow, Times, flow_of, frame
from tcpf_lab.report.style import EVENTS
from tcpf_lab.trace.analysis import KINDS, RTO

_ACKED: dict[str, Any] = {"facecolor": "#8fb8de", "edgecolor": "#2f6db2", "linewidth": 0.8}
_SENT: dict[str, Any] = {"color": INK, "linewidth": 1.0}
#: Intervals that a figure has at most.
_INTERVALS = 80
#: Round trips that an interval lasts at least: within one, a window leaves at once.
_ROUNDS = 2
_STEPS = (1, 2, 5)


def draw(subjects: Sequence[Subject], wanted: Wanted) -> Figure:
    """Draw the goodput of a flow over time, what it sent, and its timeouts.

    Parameters
    ----------
    subjects : sequence of DrawnRun or DrawnCapture
        One run, whose captures were kept, or one capture.
    wanted : Wanted
        As for `tcpf_lab.report.plots.time_sequence.draw`.

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
    figure = sheet(height=4.4)
    axes = figure.add_subplot()
    lasted = np.diff(edges)
    entries = _draw(axes, flow, edges, acked / lasted, sent / lasted)
    entries += frame(axes, flow)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("Payload (kB/s)")
    told = flow.subtitle(
        f"intervals of {width:g} s",
        f"goodput {acked.sum() / (end - start) / 1e3:.2f} kB/s on average",
        f"{sent.sum() / acked.sum():.3f} times as much {_sent_here(flow)}",
    )
    head(axes, f"Goodput of {flow.name} over time", told)
    legend(figure, entries)
    return figure


def interval(seconds: float, least: float = 0.0) -> float:
    """Give the round interval of at least so many seconds that cuts a time into few enough.

    Examples
    --------
    >>> interval(60.0), interval(7.0), interval(7.0, least=0.4)
    (1.0, 0.1, 0.5)
    """
    least = max(seconds / _INTERVALS, least)
    power = 10.0 ** np.floor(np.log10(least))
    steps = [step * power for step in (*_STEPS, 10)]
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


def _sent_here(flow: OneFlow) -> str:
    """Give the word for what the capture has of the sender: behind it, losses are not seen."""
    return "seen" if flow.seen.away_ns else "sent"


def _draw(
    axes: Axes, flow: OneFlow, edges: Times, acked: Times, sent: NDArray[np.float64]
) -> list[Entry]:
    axes.stairs(acked / 1e3, edges, fill=True, zorder=1, **_ACKED)
    axes.stairs(sent / 1e3, edges, zorder=2, **_SENT)
    entries = [
        Entry("acknowledged: goodput", Patch(**_ACKED)),
        Entry(f"{_sent_here(flow)}, retransmissions included", Line2D([], [], **_SENT)),
    ]
    fired = flow.inside & flow.seen.forward & (flow.seen.kind == RTO)
    if np.any(fired):
        words, look = EVENTS[KINDS[RTO]]
        axes.plot(flow.time_s[fired], np.zeros(int(np.sum(fired))), zorder=3, clip_on=False, **look)
        entries.append(Entry(f"{words}: {np.sum(fired)}", Line2D([], [], **look)))
    return entries
