"""Sections 3 and 6 of paper 001: what bursts of EF traffic cost TCP of its throughput."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise

from tcpf_lab.papers.ef import study as c
from tcpf_lab.papers.ef.study import Conditions, Study, Tcp, alone, loss, timeouts, together
from tcpf_lab.report.claims.paper import PaperCheck, PaperClaim

#: What we take the paper's words for: "severely"; "insignificant"; "large".
SEVERE, INSIGNIFICANT, LARGE = 0.3, 0.05, 20
#: What counts as a loss "as high as 50 %".
HALF = (0.4, 0.6)
#: How alike two curves are that are said to have one shape.
ALIKE = 0.8
#: Bounds of "short" and "long" time-scales, ms.
SHORT, LONG = 40.0, 100.0
#: Round trips of Figure 3 and numbers of flows of Figure 4.
RTTS_MS = (6.0, 8.0, 10.0, 12.0)
FLOWS = (8, 16, 32, 64, 128)
_PEAK = (
    "The length of bursts with the greatest loss is taken from the same runs, which favours the "
    "claim a little."
)


def throughput_claims(study: Study, tcp: Tcp) -> Iterator[PaperClaim]:
    """Yield the sentences on throughput, judged for one TCP."""
    yield from _one_flow(study, tcp)
    yield from _round_trips(study, tcp)
    yield from _many_flows(study, tcp)


def _one_flow(study: Study, tcp: Tcp) -> Iterator[PaperClaim]:
    say = partial(PaperClaim, document="001")
    like = alone(tcp)
    lost, expired = c.hump(study, loss, like), c.hump(study, timeouts, like)
    yield say(
        id="ef-conclusion-1",
        section="3.1.1, Conclusion 1, Figure 2(a)",
        sentence="An isolated flow suffers severely from bursts; the loss first rises and then "
        "falls with their mean length.",
        statement=f"U_CBR - U_EF, where it is greatest, is at least {SEVERE:g}, and above that at "
        "the shortest and at the longest bursts.",
        checks=(
            c.value(f"greatest loss (at {lost.top_at})", lost.top, low=SEVERE),
            *_rise_and_fall("loss", lost),
        ),
        note=_PEAK,
    )
    yield say(
        id="ef-2a-half",
        section="3.1.1, Figure 2(a)",
        sentence="The loss is as high as 50 %.",
        statement=f"U_CBR - U_EF, where it is greatest, is from {HALF[0]:g} to {HALF[1]:g}.",
        checks=(c.value(f"greatest loss (at {lost.top_at})", lost.top, *HALF),),
        note=_PEAK,
    )
    yield say(
        id="ef-2b-hump",
        section="3.1.1, Figure 2(b)",
        sentence="The number of timeouts rises with the length of bursts and then falls.",
        statement="Timeouts per minute, where they are most, are more than at the shortest and at "
        "the longest bursts.",
        checks=tuple(_rise_and_fall("timeouts per minute", expired)),
        note=_PEAK,
    )
    yield from _shape_and_scale(study, like, lost)


def _shape_and_scale(study: Study, like: Conditions, lost: c.Hump) -> Iterator[PaperClaim]:
    say = partial(PaperClaim, document="001")
    on_times = study.on_times(like)
    losses, expiries = (
        [c.side(study, quantity, replace(like, on_ms=on)) for on in on_times]
        for quantity in (loss, timeouts)
    )
    yield say(
        id="ef-2-shape",
        section="3.1.1, Figures 2(a) and 2(b)",
        sentence="The loss is proportional to the number of timeouts: the curves have one shape.",
        statement=f"Over the lengths of bursts, loss and timeouts correlate by at least {ALIKE:g}.",
        checks=(
            c.correlation("correlation", losses, expiries, low=ALIKE)
            if len(on_times) > 1
            else c.check("correlation", float, (lost.top,), low=ALIKE),
        ),
    )
    short = c.over_bursts(study, loss, like, lambda on: on <= SHORT)
    long = c.over_bursts(study, loss, like, lambda on: on >= LONG)
    yield say(
        id="ef-short-scales",
        section="1 and 6",
        sentence="The loss is higher when the traffic is bursty at short time-scales.",
        statement=f"The mean loss at bursts of up to {SHORT:g} ms is above that from {LONG:g} ms.",
        checks=(c.difference("difference", short, long),),
    )


def _rise_and_fall(word: str, found: c.Hump) -> Iterator[PaperCheck]:
    for end, at in ((found.first, found.first_at), (found.last, found.last_at)):
        yield c.difference(f"{word} at {found.top_at} minus at {at}", found.top, end)


def _round_trips(study: Study, tcp: Tcp) -> Iterator[PaperClaim]:
    settings = [alone(tcp, rtt_ms=rtt) for rtt in RTTS_MS]
    common = set.intersection(*(set(study.on_times(like)) for like in settings))
    sides = {
        rtt: c.over_bursts(study, loss, like, common.__contains__ if common else None)
        for rtt, like in zip(RTTS_MS, settings, strict=True)
    }
    yield PaperClaim(
        id="ef-conclusion-2",
        document="001",
        section="3.1.2, Conclusion 2, Figure 3",
        sentence="The longer the round trip, the smaller the loss.",
        statement="The loss, averaged over the lengths of bursts that all have, falls from each "
        "round trip to the next longer one.",
        checks=tuple(
            c.difference(f"{low:g} ms minus {high:g} ms", sides[low], sides[high])
            for low, high in pairwise(RTTS_MS)
        ),
    )


def _many_flows(study: Study, tcp: Tcp) -> Iterator[PaperClaim]:
    say = partial(PaperClaim, document="001")
    yield say(
        id="ef-conclusion-3",
        section="3.2, Conclusion 3, Figure 4(a)",
        sentence="From about 20 flows on, bursts cost the aggregate an insignificant part of its "
        "throughput.",
        statement=f"With {', '.join(map(str, _large()))} flows the loss at the length of bursts "
        f"where it is greatest is at most {INSIGNIFICANT:g}.",
        checks=tuple(large_loss(study, tcp)),
    )
    few, many = (c.over_bursts(study, loss, together(tcp, n)) for n in (FLOWS[0], 64))
    yield say(
        id="ef-4a-falls",
        section="3.2, Figure 4(a)",
        sentence="The loss of the aggregate becomes smaller with the number of flows.",
        statement="The mean loss over the lengths of bursts with 8 flows is above that with 64.",
        checks=(c.difference("8 flows minus 64 flows", few, many),),
    )
    sides = {n: c.over_bursts(study, timeouts, together(tcp, n)) for n in FLOWS}
    yield say(
        id="ef-4b-grows",
        section="3.2, Figure 4(b)",
        sentence="The number of timeouts per flow grows with the number of flows.",
        statement="Timeouts per flow and minute, averaged over the lengths of bursts, grow from "
        "each number of flows to the next.",
        checks=tuple(
            c.difference(f"{more} flows minus {fewer}", sides[more], sides[fewer])
            for fewer, more in pairwise(FLOWS)
        ),
    )


def large_loss(study: Study, tcp: Tcp) -> Iterator[PaperCheck]:
    """Yield the greatest loss over the lengths of bursts for each large number of flows."""
    for flows in _large():
        found = c.hump(study, loss, together(tcp, flows))
        yield c.value(f"{flows} flows (at {found.top_at})", found.top, high=INSIGNIFICANT)


def _large() -> tuple[int, ...]:
    return tuple(flows for flows in FLOWS if flows >= LARGE)
