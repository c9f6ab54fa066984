"""Figures 2 to 10 of TR2001-1: over the length of bursts, the flows, or their throughput."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tcpf_lab.papers.ef.claims import CAPTURES, OFF, PAPER, READINGS, RTTS_MS, errors_of
from tcpf_lab.papers.ef.study import (
    MANY,
    ON_MS,
    RTT_MS,
    TCPS,
    Conditions,
    Quantity,
    Study,
    Tcp,
    alone,
    constant,
    loss,
    loss_of_left,
    min_max,
    named,
    network,
    timeouts,
    together,
)
from tcpf_lab.papers.figures import Lines
from tcpf_lab.report.claims.page import Drawing, Point

BURSTS = "Mean length of EF bursts (ms)"
LOST = "Lost utilisation, U_CBR - U_EF"
EXPIRED = "Timeouts per flow and minute"
EVEN = "M = min / max throughput"


@dataclass(frozen=True)
class Place:
    """Where a setting is drawn."""

    series: str
    x: float
    known: Conditions
    panel: str = ""


def _drawing(
    number: str,
    title: str,
    under: str,
    points: tuple[Point, ...],
    missing: Iterable[str],
    caption: str,
    **axes: Any,
) -> Drawing:
    """Give a figure by its number in the paper; ``axes`` are those of its frame."""
    frame = Lines(
        title=title[0].upper() + title[1:],
        subtitle=f"Figure {number} of TR2001-1; {under}; {runs_behind(points)}",
        **axes,
    )
    return Drawing(
        name=name_of(number),
        title=f"Figure {number} of TR2001-1: {title}",
        caption=caption,
        points=points,
        frame=frame,
        missing=tuple(missing),
        axis=frame.y,
    )


@dataclass(frozen=True)
class Sketch:
    """A figure before it is drawn: its number in the paper, words, axes, and what is drawn.

    ``series`` are the lines that the paper has, which the experiments may not.
    """

    number: str
    title: str
    y: str
    x: str
    quantity: Quantity
    places: tuple[Place, ...]
    caption: str
    under: str
    series: tuple[str, ...] = ()
    bottom: float | None = 0.0

    def drawing(self, study: Study) -> Drawing:
        """Give the drawing of what was measured; what is missing is listed."""
        points = tuple(
            Point(place.series, place.x, found.values_by_seed, place.panel)
            for place in self.places
            if (found := self.quantity(study, place.known))
        )
        return _drawing(
            *(self.number, self.title, self.under, points, missing_of(study, self), self.caption),
            unit="ms" if self.x == BURSTS else "flows",
            x=self.x,
            y=self.y,
            ticks=tuple(sorted({place.x for place in self.places if not math.isnan(place.x)})),
            bottom=self.bottom,
        )


def name_of(number: str) -> str:
    """Give the file's name of a figure: ``2(a)`` is ``fig-ef-2a``, with words behind a dash."""
    plain = number.replace("(", "").replace(")", "").replace(", ", "-").lower()
    return f"fig-ef-{plain}"


def runs_behind(points: Sequence[Point]) -> str:
    """Say how many runs a point stands for, in one word: ``n=5``, ``n=3..5``."""
    counts = sorted({len(point.values) for point in points})
    return "n=" + "..".join(map(str, dict.fromkeys(counts[:1] + counts[-1:])))


def missing_of(study: Study, sketch: Sketch) -> Iterator[str]:
    """Name the missing parts of a figure."""
    absent = set(sketch.series) - {place.series for place in sketch.places}
    absent_points = [one for one in sketch.places if not sketch.quantity(study, one.known)]
    if not sketch.places:
        yield "not in the experiments"
    elif len(absent_points) == len(sketch.places):
        yield "no runs"
    elif absent_points:
        first = ", ".join(named(one.known) for one in absent_points[:2])
        yield f"{len(absent_points)} of {len(sketch.places)} points, such as {first}"
    if sketch.places and absent:
        yield f"the experiments have no {', '.join(one for one in sketch.series if one in absent)}"


def throughput_figures(study: Study) -> Iterator[Drawing]:
    """Yield Figures 2 to 4; Figures 3 and 4 for each requested TCP."""
    where = f"1 flow, RTT {RTT_MS:g} ms, EF 30 %"
    single = tuple(_over_bursts(study, [(tcp, alone(tcp)) for tcp in TCPS]))
    seconds = _seconds(study, single)
    yield Sketch(
        *("2(a)", "loss of one flow by EF bursts", LOST, BURSTS, loss, single),
        *(PAPER.texts["loss"], f"{where}{seconds}"),
        bottom=None,
    ).drawing(study)
    if any(loss_of_left(study, place.known) for place in single):
        yield Sketch(
            *("2(a), left", "the same over what bursts left in each run", LOST, BURSTS),
            *(loss_of_left, single, PAPER.texts["left"], f"{where}{seconds}"),
            bottom=None,
        ).drawing(study)
    yield Sketch(
        *("2(b)", "timeouts of one flow", EXPIRED, BURSTS, timeouts, single),
        *("Timeouts in the measured time, per minute.", f"{where}{seconds}"),
    ).drawing(study)
    for tcp in TCPS:
        yield from _per_tcp(study, tcp)


def _per_tcp(study: Study, tcp: Tcp) -> Iterator[Drawing]:
    also = "" if tcp == TCPS[0] else f", {tcp}"
    lines = [(f"RTT {rtt:g} ms", alone(tcp, rtt_ms=rtt)) for rtt in RTTS_MS]
    trips = tuple(_over_bursts(study, lines))
    if trips or not also:
        yield Sketch(
            *(f"3{also}", "loss of one flow by its round trip", LOST, BURSTS, loss, trips),
            *(PAPER.texts["loss"], f"1 flow of {tcp}, EF 30 %{_seconds(study, trips)}"),
            series=tuple(series for series, _ in lines),
            bottom=None,
        ).drawing(study)
    flows = tuple(_over_flows(study, tcp))
    if flows or not also:
        under = f"{tcp}, RTT 12 to 26 ms, EF 30 %{_seconds(study, flows)}"
        yield Sketch(
            *(f"4(a){also}", "loss of all flows together", LOST, "TCP flows", loss, flows),
            *(PAPER.texts["loss"], under),
            bottom=None,
        ).drawing(study)
        yield Sketch(
            *(f"4(b){also}", "timeouts per flow", EXPIRED, "TCP flows", timeouts, flows),
            *("Timeouts in the measured time, per flow and minute.", under),
        ).drawing(study)


def fairness_figures(study: Study) -> Iterator[Drawing]:
    """Yield Figures 5 and 7 for each requested TCP."""
    for tcp in TCPS:
        also = "" if tcp == TCPS[0] else f", {tcp}"
        for letter, rtt, words in (("a", RTT_MS, "RTT 8 ms"), ("b", None, "RTT 12 to 26 ms")):
            bursts = tuple(_four_over_bursts(study, tcp, rtt))
            if bursts or not also:
                yield Sketch(
                    *(f"5({letter}){also}", f"fairness of {MANY} flows by EF bursts", EVEN, BURSTS),
                    *(min_max, bursts, "1 is fair; a network without EF traffic is a level."),
                    f"{tcp}, {words}, EF 30 %{_seconds(study, bursts)}",
                    series=tuple(series for series, _ in four(tcp, rtt)),
                ).drawing(study)
            counts = tuple(_four_over_flows(study, tcp, rtt))
            if counts or not also:
                yield Sketch(
                    *(f"7({letter}){also}", "fairness by the number of flows", EVEN, "TCP flows"),
                    *(min_max, counts, "1 is fair."),
                    f"{tcp}, {words}, EF 30 % in bursts of {ON_MS:g} ms{_seconds(study, counts)}",
                    series=tuple(series for series, _ in four(tcp, rtt)),
                ).drawing(study)


def _over_bursts(study: Study, lines: Iterable[tuple[str, Conditions]]) -> Iterator[Place]:
    for series, like in lines:
        for on in study.on_times(like):
            yield Place(series, on, replace(like, on_ms=on))


def _over_flows(study: Study, tcp: Tcp) -> Iterator[Place]:
    like = together(tcp, 1)
    wanted = {one for one in study.settings if replace(one, on_ms=0.0, flows=1) == like}
    for known in sorted(wanted, key=lambda one: (one.on_ms, one.flows)):
        yield Place(f"bursts of {known.on_ms:g} ms", known.flows, known)


def four(tcp: Tcp, rtt_ms: float | None, flows: int = MANY) -> Iterator[tuple[str, Conditions]]:
    """Yield the four networks of the fairness figures by their names, bursts of 1 ms."""
    for on, ef in ((None, ""), (ON_MS, "+EF")):
        for udp, label in ((False, "TCP-only"), (True, "TCP+UDP")):
            yield label + ef, network(tcp, rtt_ms, udp=udp, on_ms=on, flows=flows)


def _four_over_bursts(study: Study, tcp: Tcp, rtt_ms: float | None) -> Iterator[Place]:
    for series, like in four(tcp, rtt_ms):
        if like.ef == "none":
            if like in study.settings:
                yield Place(series, math.nan, like)
        else:
            yield from _over_bursts(study, [(series, like)])


def _four_over_flows(study: Study, tcp: Tcp, rtt_ms: float | None) -> Iterator[Place]:
    for series, like in four(tcp, rtt_ms):
        for flows in study.flows(like):
            yield Place(series, flows, replace(like, flows=flows))


def _seconds(study: Study, places: Sequence[Place]) -> str:
    """Say how long the runs of a figure took."""
    known = {one for place in places for one in (place.known, constant(place.known))}
    found = sorted({study.settings[one].seconds for one in known if one in study.settings})
    return f", {' or '.join(f'{one:g}' for one in found)} s" if found else ""


#: Width of a class, of which one has the fair share in its middle.
WIDTH = 0.1
#: A line: its panel, its name, and of which conditions it is.
Line = tuple[str, str, Conditions]


def histogram_figures(study: Study) -> Iterator[Drawing]:
    """Yield Figures 6, 8 and 9 for each requested TCP."""
    for tcp in TCPS:
        also = "" if tcp == TCPS[0] else f", {tcp}"
        for letter, rtt, words in (("a", RTT_MS, "RTT 8 ms"), ("b", None, "RTT 12 to 26 ms")):
            lines = [
                (label.removesuffix("+EF"), "with EF" if known.ef != "none" else "no EF", known)
                for label, known in four(tcp, rtt)
            ]
            title = f"spread over {MANY} flows, with and without EF"
            under = f"{tcp}, {words}, EF 30 % in bursts of {ON_MS:g} ms"
            yield from _histogram(study, f"6({letter}){also}", title, under, lines)
        for figure, rtt, words in (("8", RTT_MS, "RTT 8 ms"), ("9", None, "RTT 12 to 26 ms")):
            for letter, on, ef in (("a", None, ""), ("b", ON_MS, "+EF")):
                title = f"spread over the flows, TCP+UDP{ef}"
                under = f"{tcp}, {words}" + (f", bursts of {on:g} ms" if on else "")
                lines = list(_by_flows(study, network(tcp, rtt, udp=True, on_ms=on)))
                yield from _histogram(study, f"{figure}({letter}){also}", title, under, lines)


def _by_flows(study: Study, like: Conditions) -> Iterator[Line]:
    for flows in study.flows(like):
        yield "", f"{flows} flows", replace(like, flows=flows)


def _histogram(
    study: Study, number: str, title: str, under: str, lines: Sequence[Line]
) -> Iterator[Drawing]:
    """Yield a figure; of a TCP that is not the paper's only if it was requested."""
    requested = [line for line in lines if line[2] in study.settings]
    if not requested and ", " in number:
        return
    points = tuple(point for line in requested for point in _points(study, line))
    absent_points = [named(known) for _, _, known in requested if study.at(known) is None]
    yield _drawing(
        *(number, title, under, points),
        absent_points if requested else ["not in the experiments"],
        PAPER.texts["histogram"],
        unit="of the fair share",
        x="Throughput of a flow / fair share",
        y="Share of flows",
        mark=1.0,
        steps="mid",
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


_ERRORS = tuple(np.round(np.arange(0.0, 1.0001, 0.02), 9))


def prediction_figure(study: Study) -> Drawing:
    """Give Figure 10: the distribution of the error over flows, for each reading."""
    points = tuple(_error_points(study))
    return _drawing(
        *("10", "error of the PFTK formula", "every flow of runs with captures", points),
        () if points else (CAPTURES,),
        "Formula held against the goodput and against the packets that a flow sent, as the "
        "report does not state which. Dashed: 10 %.",
        before="at an error of",
        x="Relative error, |predicted - observed| / observed",
        y="Share of flows with at most that error",
        top=1.02,
        mark=OFF,
        steps="post",
    )


def _error_points(study: Study) -> Iterator[Point]:
    for reading in READINGS:
        errors = errors_of(study, reading)
        for place in _ERRORS:
            # At the place itself, as a distribution counts.
            shares = errors.below(float(np.nextafter(place, 2)))
            if shares:
                yield Point(reading, float(place), shares.values_by_seed)
