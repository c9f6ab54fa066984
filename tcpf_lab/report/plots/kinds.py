"""The kinds of figures: what each answers, which options it takes, and how one is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tcpf_lab.base.errors import RequestError
from tcpf_lab.report.plots.runs import DrawnCapture, DrawnRun
from tcpf_lab.report.style import METRICS, OTHER_METRICS, MetricStyle, house_style
from tcpf_lab.spec.words import unknown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: How the axes of several panels are scaled: alike and from 0, or each as its data asks.
SCALES = ("fixed", "free")
#: Which statistic of delay is drawn against throughput, and what a point is.
DELAYS = ("mean", "p50", "p95", "p99")
ENTRIES = ("case", "group")


#: What a figure is drawn of.
Subject = DrawnRun | DrawnCapture


@dataclass(frozen=True)
class Wanted:
    """Options besides the runs; None or empty is the default of a kind.

    Parameters
    ----------
    metric : MetricStyle
        What is drawn of each run.
    flow : tuple of int
        Which flows of a run, counted from 0.
    parameter : str
        Key of the experiment, or ``flows``: the x axis.
    delay : str
        One of ``DELAYS``.
    probe : str
        A probe, whose delay is drawn in place of that in the queue.
    by : str
        One of ``ENTRIES``.
    time_s : (float, float)
        From when to when, seconds after the run's epoch.
    scale : str
        One of ``SCALES``.
    """

    metric: MetricStyle | None = None
    flow: tuple[int, ...] = ()
    parameter: str = ""
    delay: str = ""
    probe: str = ""
    by: str = ""
    time_s: tuple[float, float] | None = None
    scale: str = ""

    @property
    def free(self) -> bool:
        """Whether each panel is scaled alone."""
        return self.scale == "free"


@dataclass(frozen=True)
class Kind:
    """A kind of figure.

    ``takes`` are the fields of `Wanted` that mean something to it, ``captures`` is how many
    captures it can be drawn from instead of runs.
    """

    name: str
    answers: str
    takes: tuple[str, ...] = ()
    captures: int = 0

    @property
    def module(self) -> str:
        """Where a function of its name draws it."""
        usual = "flow_figures" if self.captures == 1 else "cases"
        return f"{__package__}.{_MODULES.get(self.name, usual)}"


_OF_FLOW = ("flow", "time_s")
#: Modules of kinds that are neither of one flow nor of cases.
_MODULES = {
    "cwnd": "senders",
    "delay-cdf": "groups",
    "throughput-delay": "scatter",
    "groups": "groups",
    "parameter": "parameter",
    "queue": "over_time",
    "timeseries": "over_time",
}

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("bars", "Which case is better, with how many flows?", ("metric",)),
        Kind("box", "How much do seeds differ?", ("metric", "scale")),
        Kind("cdf", "How is goodput distributed over flows?", ("scale",)),
        Kind("cwnd", "What did the senders know, and how fast were they?", ("flow", "time_s")),
        Kind("delay-cdf", "How long do packets of each group, or of a probe, take?", ("probe",)),
        Kind("goodput", "How fast was one flow, and when did it time out?", _OF_FLOW, captures=1),
        Kind("groups", "What did each group of flows get?", ("time_s",)),
        Kind("histogram", "Which multiple of the fair share do flows get?", ("scale",)),
        Kind("inflight", "How much did one flow have outstanding?", _OF_FLOW, captures=1),
        Kind("parameter", "What does a parameter change?", ("metric", "parameter", "scale")),
        Kind("queue", "How long was the queue, packet by packet?", ("time_s",), captures=2),
        Kind("rtt", "How long were one flow's RTT and RTO?", _OF_FLOW, captures=1),
        Kind(
            "throughput-delay",
            "What does throughput cost in delay?",
            ("delay", "probe", "by", "scale"),
        ),
        Kind("time-sequence", "What happened to one flow?", _OF_FLOW, captures=1),
        Kind("timeseries", "When did it happen?", ("flow", "time_s", "scale")),
    )
}

#: The options of the command line, by the field that they set.
OPTIONS = {"parameter": "--x", "time_s": "--time"}


def metric_named(name: str) -> MetricStyle:
    """Give a metric by its name in ``metrics.json``.

    Raises
    ------
    RequestError
        If no figure is drawn of it.
    """
    known = {**METRICS, **OTHER_METRICS}
    if name not in known:
        raise RequestError(unknown(f"unknown metric '{name}'", name, known), where="--metric")
    return known[name]


def kind_named(name: str, wanted: Wanted) -> Kind:
    """Give a kind, having checked that it takes what is wanted.

    Raises
    ------
    RequestError
        If there is no such kind, or an option means nothing to it.
    """
    if name not in KINDS:
        raise RequestError(unknown(f"unknown kind of figure '{name}'", name, KINDS))
    for field in fields(Wanted):
        given = getattr(wanted, field.name)
        if given in (None, "", ()) or field.name in KINDS[name].takes:
            continue
        takers = [kind.name for kind in KINDS.values() if field.name in kind.takes]
        option = OPTIONS.get(field.name, f"--{field.name}")
        raise RequestError(
            f"means nothing to {name}", where=option, hint=f"it is for {', '.join(takers)}"
        )
    return KINDS[name]


def draw(
    kind: Kind, subjects: Sequence[Subject], wanted: Wanted, suffixes: Sequence[str]
) -> dict[str, bytes]:
    """Draw a figure.

    Parameters
    ----------
    kind : Kind
        A value of ``KINDS``.
    subjects : sequence of DrawnRun or DrawnCapture
        The runs, or the captures, at least one.
    wanted : Wanted
        Further options.
    suffixes : sequence of str
        Formats, of ``section.SUFFIXES``.

    Returns
    -------
    dict of str to bytes
        The file's content for every suffix; the same subjects give the same bytes.

    Raises
    ------
    LabError
        If there is nothing to draw, or more than can be read.
    """
    from tcpf_lab.report.plots.canvas import render  # here: loading matplotlib takes a second

    drawn: Callable[[Sequence[Subject], Wanted], Figure] = _drawing(kind)
    with house_style():
        return render(drawn(subjects, wanted), suffixes)


def _drawing(kind: Kind) -> Any:
    return getattr(import_module(kind.module), kind.name.replace("-", "_"))
