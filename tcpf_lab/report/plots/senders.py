"""The figure of senders over time: congestion window, RTT and delivery rate from TCP_INFO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tcpf_lab.base.errors import RequestError
from tcpf_lab.metrics.tcp_info import Samples, read_tcp_info
from tcpf_lab.report.plots.canvas import (
    Entry,
    head,
    legend,
    line_entries,
    line_look,
    name_panel,
    over_time,
    panels,
)
from tcpf_lab.report.plots.kinds import Wanted
from tcpf_lab.report.plots.runs import DrawnRun, under
from tcpf_lab.report.style import DISTINCT, contrasting_styles

#: Panels: words, unit, column of the samples, factor.
_PANELS = (
    ("Congestion window", "segments", "cwnd", 1.0),
    ("Smoothed RTT", "ms", "rtt_us", 1e-3),
    ("Delivery rate", "Mbit/s", "delivery_rate", 8e-6),
)


def cwnd(runs: Sequence[DrawnRun], wanted: Wanted) -> Figure:
    """Draw congestion window, smoothed RTT and delivery rate of the flows of one run.

    Parameters
    ----------
    runs : sequence of DrawnRun
        One run whose ``traffic.tcp_info`` was set. Flows of a group have one look.
    wanted : Wanted
        ``flow``: these flows instead of all; ``time_s``: from when to when.

    Raises
    ------
    LabError
        If there are several runs, too many flows to distinguish, or no samples.
    """
    if len(runs) != 1:
        raise RequestError(
            f"{len(runs)} runs; a figure of senders shows one",
            hint="choose with --case, --flows and --seed",
        )
    (run,) = runs
    samples = read_tcp_info(run.files)
    labels = _labels(run, wanted.flow)
    figure, every = panels(len(_PANELS), 1.5)
    styles = contrasting_styles(list(labels.values()))
    for axes, (words, unit, column, factor) in zip(every, _PANELS, strict=True):
        for flow, label in labels.items():
            own = samples[samples["flow"] == flow]
            axes.plot(
                own["time_ns"] / 1e9, factor * own[column], **(line_look(styles[label]) | _THIN)
            )
        name_panel(axes, words)
        axes.set_ylabel(unit)
    entries = line_entries(styles) + _frame(every, run, samples, wanted)
    subtitle = under(runs, run.case, f"seed {run.seed}", "n = 1 run")
    head(every[0], "Senders over time (TCP_INFO)", subtitle, lift=9)
    legend(figure, entries)
    return figure


_THIN: dict[str, Any] = {"linewidth": 1.0}


def _labels(run: DrawnRun, wanted: tuple[int, ...]) -> Mapping[int, str]:
    """Name each flow that is drawn: after its group, or by its number."""
    count, first = run.flows, 0
    names: dict[int, str] = {}
    for group in run.found.get("groups") or ():
        names |= dict.fromkeys(range(first, first := first + int(group["flows"])), group["name"])
    beyond = [flow for flow in wanted if flow >= count]
    if beyond:
        message = f"the run has flows 0 to {count - 1}, no flow {beyond[0]}"
        raise RequestError(message, where=f"--flow {','.join(map(str, wanted))}")
    labels = {
        flow: f"flow {flow}" if wanted else names.get(flow, f"flow {flow}")
        for flow in wanted or range(count)
    }
    if len(set(labels.values())) > DISTINCT:
        raise RequestError(
            f"{count} flows; a figure distinguishes at most {DISTINCT}",
            hint="choose some with --flow 0,1,2",
        )
    return labels


def _frame(every: Sequence[Axes], run: DrawnRun, samples: Samples, wanted: Wanted) -> list[Entry]:
    warm, end = map(float, run.found["window_s"])
    bounds = wanted.time_s or (0.0, max(end, float(np.max(samples["time_ns"], initial=0)) / 1e9))
    entries: list[Entry] = []
    for axes in every:
        label = "Time after the start of the run (s)" if axes is every[-1] else ""
        entries = over_time(axes, label, bounds, warm)
        axes.set_ylim(bottom=0)
    return entries
