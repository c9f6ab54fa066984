"""The curves of RR-4469, worked out by the model: Figures 1 and 6 to 13."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, NullFormatter
from numpy.typing import NDArray

from tcpf_lab.papers.rio.router import Scenario, Solution, paper_scenarios, solve
from tcpf_lab.report.plots.canvas import (
    INK,
    Entry,
    head,
    legend,
    line_entries,
    line_look,
    marker_look,
    name_panel,
    panels,
)
from tcpf_lab.report.style import ranked_styles

#: float64.
Array = NDArray[np.float64]
#: Names of the scenarios of Tables 1 to 3.
FULL, NONE, PART = paper_scenarios()
#: Round-trip times of the flows that Figures 6 and 7 add, seconds.
LONG_DELAYS = (0.4, 0.5, 0.6, 0.7, 0.8)
#: Rate that every flow has reserved, packets/s.
RESERVED = 40.0
#: Limits of the loss of IN packets; the first is that of Figure 10.
LIMITS = (0.006, 0.001, 0.003, 0.009, 0.012)
#: Probabilities of IN and of OUT that are combined.
IN_PROBABILITIES = (0.0, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0)
OUT_PROBABILITIES = tuple(float(p) for p in np.geomspace(1e-3, 1.0, 31))
#: Lower thresholds that are combined, packets, and the probabilities of OUT they are shown for.
IN_MINIMA = (0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
OUT_MINIMA = (0, 20, 40, 60, 80)
TWO_PROBABILITIES = (0.06, 0.5)


@dataclass(frozen=True, eq=False)
class Surface:
    """Loss of IN packets and mean queue; float64, a row per value of the first setting."""

    p_in: Array
    q: Array


def base() -> Scenario:
    """Give the fully overlapped case, which section 5 starts from."""
    return paper_scenarios()[FULL]


@cache
def solved(name: str, extra_rtt: float = 0.0, printed: bool = False) -> Solution:
    """Solve a scenario of Tables 1 to 3, by its name."""
    return solve(replace(paper_scenarios()[name], extra_rtt=extra_rtt), printed=printed)


@cache
def with_long_flows(out_probability: float) -> Solution:
    """Solve the case with five more flows of long round trips (Figures 6 and 7)."""
    delay = base().delay + LONG_DELAYS
    return solve(replace(base(), delay=delay, out_probability=out_probability))


@cache
def over_probabilities() -> Surface:
    """Solve for every pair of probabilities (Figures 8 and 10 to 12): rows of IN."""
    return _surface(
        [
            [replace(base(), in_probability=one, out_probability=two) for two in OUT_PROBABILITIES]
            for one in IN_PROBABILITIES
        ]
    )


@cache
def over_minima(out_probability: float) -> Surface:
    """Solve for every pair of lower thresholds (Figures 9 and 13): rows of OUT."""
    scenario = replace(base(), out_probability=out_probability)
    return _surface(
        [[replace(scenario, in_min=one, out_min=two) for one in IN_MINIMA] for two in OUT_MINIMA]
    )


def _surface(scenarios: list[list[Scenario]]) -> Surface:
    found = [[solve(one) for one in row] for row in scenarios]
    return Surface(
        np.array([[one.p_in for one in row] for row in found]),
        np.array([[one.q for one in row] for row in found]),
    )


def boundary(limit: float) -> tuple[Array, Array]:
    """Give the line on which the loss of IN packets is at a limit (Figures 10 and 11).

    Returns
    -------
    tuple of ndarray
        Probabilities of IN, and the minimum of OUT that meets the limit with each; only where
        there is one. Between the probabilities that were solved for it is interpolated.
    """
    rows = over_probabilities().p_in
    found = [
        (one, float(np.exp(np.interp(-limit, -row, np.log(OUT_PROBABILITIES)))))
        for one, row in zip(IN_PROBABILITIES, rows, strict=True)
        if row[-1] <= limit <= row[0]
    ]
    first, second = np.array(found, dtype=np.float64).reshape(-1, 2).T
    return first, second


_SETTING = "100 flows, 100 to 298 ms, 6000 packets/s; thresholds of 20 and 100 packets"
_LEVEL: dict[str, Any] = {"color": INK, "linewidth": 0.9, "zorder": 2}
_SHADE = "#dde6f2"


@dataclass(frozen=True, eq=False)
class Line:
    """A curve and its label."""

    label: str
    x: Array
    y: Array


@dataclass(frozen=True, eq=False)
class Panel:
    """Axes with their lines.

    ``level`` is a value of y that is marked, and its name; ``above`` shades what is over a line.
    """

    lines: tuple[Line, ...]
    x_label: str
    y_label: str
    name: str = ""
    log_x: bool = False
    markers: bool = False
    level: tuple[float, str] | None = None
    top: float | None = None
    above: bool = False


@dataclass(frozen=True)
class Curve:
    """A figure of the report: its number there, what it shows, and what its lines are."""

    number: int
    title: str
    subtitle: str
    panels: Callable[[], tuple[Panel, ...]]

    @property
    def name(self) -> str:
        """Its file, without suffix."""
        return f"fig-rio-model-{self.number}"

    def build(self) -> Figure:
        """Draw it, within ``house_style``."""
        return _drawn(self.panels(), f"Figure {self.number}: {self.title}", self.subtitle)


def _drawn(shown: Sequence[Panel], title: str, subtitle: str) -> Figure:
    figure, every = panels(len(shown), 2.9 if len(shown) == 1 else 2.1, share_x=False)
    styles = ranked_styles([line.label for panel in shown for line in panel.lines])
    for panel, axes in zip(shown, every, strict=True):
        for line in panel.lines:
            axes.plot(line.x, line.y, zorder=3, **line_look(styles[line.label]))
            if panel.markers:
                axes.plot(line.x, line.y, zorder=4, **marker_look(styles[line.label], 5.5))
        _finish(axes, panel)
    head(every[0], title, subtitle, 9 if shown[0].name else 0)
    entries = line_entries(styles, 5 if shown[0].markers else 0)
    if shown[0].level is not None:
        entries.append(Entry(shown[0].level[1], Line2D([], [], **_LEVEL)))
    if shown[0].above:
        entries.append(Entry("meets the limit", Patch(facecolor=_SHADE)))
    legend(figure, entries)
    return figure


def _finish(axes: Axes, panel: Panel) -> None:
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.set_ylim(bottom=0, top=panel.top)
    if panel.log_x:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    if panel.level is not None:
        axes.axhline(panel.level[0], **_LEVEL)
    if panel.above:
        first = panel.lines[0]
        axes.set_ylim(top=float(first.y.max()))
        axes.fill_between(first.x, first.y, float(first.y.max()), color=_SHADE, linewidth=0)
    if panel.name:
        name_panel(axes, panel.name)


def _drop_curves() -> tuple[Panel, ...]:
    words = {
        FULL: "fully overlapped (Table 1)",
        NONE: "non-overlapped (Table 2)",
        PART: "partially overlapped (Table 3)",
    }
    shown = []
    for name, scenario in paper_scenarios().items():
        length = np.arange(scenario.in_max + 1, dtype=np.float64)
        lines = (Line("IN", length, scenario.drop_in()), Line("OUT", length, scenario.drop_out()))
        label = "Drop probability"
        shown.append(Panel(lines, "Queue length (packets)", label, words[name], top=0.08))
    return tuple(shown)


def _long_flows() -> tuple[Panel, ...]:
    x = np.array(LONG_DELAYS) * 1e3
    lines = tuple(
        Line(f"out_probability {p:g}", x, with_long_flows(p).per_flow.throughput[-len(x) :])
        for p in (0.06, 1.0)
    )
    level = (RESERVED, "reserved rate")
    label = "Throughput of a flow (packets/s)"
    return (
        Panel(lines, "Round-trip time without queueing (ms)", label, markers=True, level=level),
    )


def _throughput_over_out() -> tuple[Panel, ...]:
    x = np.geomspace(0.01, 1.0, 25)
    delay = base().delay + LONG_DELAYS
    found = np.array([with_long_flows(float(p)).per_flow.throughput for p in x])
    chosen = (0, 50, 99, 100, 102, 104)
    lines = tuple(Line(f"{1e3 * delay[k]:.0f} ms", x, found[:, k]) for k in chosen)
    level = (RESERVED, "reserved rate")
    label = "Throughput of a flow (packets/s)"
    return (Panel(lines, "out_probability", label, log_x=True, level=level),)


def _over_out(values: Array, label: str) -> tuple[Panel, ...]:
    """Lines against OUT's probability, one for each of some probabilities of IN."""
    x, chosen = np.array(OUT_PROBABILITIES), (0.0, 0.01, 0.05, 0.1, 1.0)
    lines = tuple(
        Line(f"in_probability {p:g}", x, values[IN_PROBABILITIES.index(p)]) for p in chosen
    )
    return (Panel(lines, "out_probability", label, log_x=True),)


def _over_in_min(quantity: Callable[[Surface], Array], label: str) -> tuple[Panel, ...]:
    """Lines against IN's lower threshold, one for each of OUT's; a panel per probability."""
    shown = []
    for p in TWO_PROBABILITIES:
        values = quantity(over_minima(p))
        lines = tuple(
            Line(f"out_min {least}", np.array(IN_MINIMA, dtype=np.float64), row)
            for least, row in zip(OUT_MINIMA, values, strict=True)
        )
        shown.append(Panel(lines, "in_min (packets)", label, f"out_probability {p:g}"))
    return tuple(shown)


def _feasible(limits: Sequence[float], *, above: bool = False) -> tuple[Panel, ...]:
    lines = tuple(
        Line(f"loss of IN at most {100 * limit:g} %", *boundary(limit)) for limit in limits
    )
    label = "Minimum out_probability that meets the limit"
    return (Panel(lines, "in_probability", label, above=above),)


_QUEUE, _LOSS = "Mean queue (packets)", "Loss of IN packets (%)"
#: Every curve; Figures 2 to 4 and 14 are drawings, 5 is a queue over time and comes from a run.
CURVES: tuple[Curve, ...] = (
    Curve(
        1,
        "drop probabilities of RIO",
        "every packet is dropped from the maximum on; the axis ends at 0.08",
        _drop_curves,
    ),
    Curve(
        6, "throughput of flows with long round trips", f"{_SETTING}; five more flows", _long_flows
    ),
    Curve(
        7,
        "throughput over the drop probability of OUT",
        f"{_SETTING}; five more flows",
        _throughput_over_out,
    ),
    Curve(
        8,
        "mean queue over both drop probabilities",
        _SETTING,
        lambda: _over_out(over_probabilities().q, _QUEUE),
    ),
    Curve(
        9,
        "mean queue over both lower thresholds",
        _SETTING,
        lambda: _over_in_min(lambda surface: surface.q, _QUEUE),
    ),
    Curve(
        10,
        "settings that keep the loss of IN at 0.6 %",
        _SETTING,
        lambda: _feasible(LIMITS[:1], above=True),
    ),
    Curve(
        11,
        "settings that keep other limits",
        f"{_SETTING}; above each line",
        lambda: _feasible(sorted(LIMITS)),
    ),
    Curve(
        12,
        "loss of IN over both drop probabilities",
        _SETTING,
        lambda: _over_out(100 * over_probabilities().p_in, _LOSS),
    ),
    Curve(
        13,
        "loss of IN over both lower thresholds",
        _SETTING,
        lambda: _over_in_min(lambda surface: 100 * surface.p_in, _LOSS),
    ),
)
