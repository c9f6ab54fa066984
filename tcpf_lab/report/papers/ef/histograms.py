"""Figures 6, 8 and 9 of paper 001: how throughput is spread over the flows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from tcpf_lab.report.papers.ef.conditions import Conditions
from tcpf_lab.report.papers.ef.figures import four, name_of, runs_behind
from tcpf_lab.report.papers.ef.study import MANY, ON_MS, RTT_MS, TCPS, Study, network, told
from tcpf_lab.report.papers.lines import Frame, draw
from tcpf_lab.report.papers.page import Drawing, Point, in_units

#: Width of a class, of which one has the fair share in its middle.
WIDTH = 0.1
_CAPTION = (
    "Each flow's throughput over its fair share of what EF and UDP traffic leave, frames on both "
    "sides; classes of 0.1; dashed: the fair share. Means over the seeds."
)
#: A line: its panel, its name, and of which conditions it is.
Line = tuple[str, str, Conditions]


def histogram_figures(study: Study) -> Iterator[Drawing]:
    """Yield Figures 6, 8 and 9 for each TCP that was asked for."""
    for tcp in TCPS:
        also = "" if tcp == TCPS[0] else f", {tcp}"
        for letter, rtt, words in (("a", RTT_MS, "RTT 8 ms"), ("b", None, "RTT 12 to 26 ms")):
            lines = [
                (label.removesuffix("+EF"), "with EF" if known.ef != "none" else "no EF", known)
                for label, known in four(tcp, rtt)
            ]
            title = f"spread over {MANY} flows, with and without EF"
            under = f"{tcp}, {words}, EF 30 % in bursts of {ON_MS:g} ms"
            yield from _drawing(study, f"6({letter}){also}", title, under, lines)
        for figure, rtt, words in (("8", RTT_MS, "RTT 8 ms"), ("9", None, "RTT 12 to 26 ms")):
            for letter, on, ef in (("a", None, ""), ("b", ON_MS, "+EF")):
                title = f"spread over the flows, TCP+UDP{ef}"
                under = f"{tcp}, {words}" + (f", bursts of {on:g} ms" if on else "")
                lines = list(_by_flows(study, network(tcp, rtt, udp=True, on_ms=on)))
                yield from _drawing(study, f"{figure}({letter}){also}", title, under, lines)


def _by_flows(study: Study, like: Conditions) -> Iterator[Line]:
    for flows in study.flows(like):
        yield "", f"{flows} flows", replace(like, flows=flows)


def _drawing(
    study: Study, number: str, title: str, under: str, lines: Sequence[Line]
) -> Iterator[Drawing]:
    """Yield a figure; of a TCP that is not the paper's only if something of it was asked for."""
    asked = [line for line in lines if line[2] in study.settings]
    if not asked and ", " in number:
        return
    points = tuple(point for line in asked for point in _points(study, line))
    lacking = [told(known) for _, _, known in asked if study.at(known) is None]
    missing = lacking if asked else ["nothing of it is in the experiments"]
    frame = Frame(
        title=title[0].upper() + title[1:],
        subtitle=f"Figure {number} of paper 001; {under}; {runs_behind(points)}",
        x="Throughput of a flow / fair share",
        y="Share of flows",
        mark=1.0,
        steps="mid",
    )
    yield Drawing(
        name=name_of(number),
        title=f"Figure {number} of paper 001: {title}",
        caption=_CAPTION,
        points=points,
        build=partial(draw, points, frame),
        missing=tuple(missing),
        axis=frame.y,
        place=in_units("of the fair share"),
    )


def _points(study: Study, line: Line) -> Iterator[Point]:
    panel, series, known = line
    found = study.at(known)
    runs = found.normalised() if found else {}
    if not runs:
        return
    most = max(max(flows) for flows in runs.values())
    count = max(2, math.ceil(most / WIDTH + 0.5))
    edges = WIDTH * (np.arange(count + 2) - 0.5)  # one class around 0, one around 1, and so on
    shares = [np.histogram(runs[seed], edges)[0] / len(runs[seed]) for seed in sorted(runs)]
    for place in range(count + 1):
        values = tuple(float(share[place]) for share in shares)
        yield Point(series, round(WIDTH * place, 9), values, panel)
