"""Section 4 of paper 001: what bursts of EF traffic do to fairness among TCP flows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from tcpf_lab.papers.ef import study as c
from tcpf_lab.papers.ef.study import (
    CLOSE,
    MANY,
    ON_MS,
    RTT_MS,
    SHARE,
    Conditions,
    Quantity,
    Study,
    Tcp,
    alone,
    loss,
    min_max,
    near,
    network,
    spread,
    together,
)
from tcpf_lab.papers.ef.throughput import INSIGNIFICANT
from tcpf_lab.report.claims.paper import PaperCheck, PaperClaim

#: Factors of throughput: "as large as 5-10" with equal round trips, of which the smaller one is
#: asked for, and "as large as 30".
EQUAL_FACTOR, UNEQUAL_FACTOR = 5, 30
#: "Marginal", "does not change appreciably": of M, and of a share of flows.
MARGINAL = 0.1
#: Bounds of "small" and "large" bursts, ms, and both ends of the numbers of flows.
SMALL, BIG = 4.0, 40.0
FEWEST, MOST = 8, 128
_ROUND_TRIPS = ((RTT_MS, "equal RTTs"), (None, "unequal RTTs"))
_NETWORKS = ((False, "TCP-only"), (True, "TCP+UDP"))
_SEEDS = "The paper averages over choices of round trips, here they are fixed and seeds differ."


def fairness_claims(study: Study, tcp: Tcp) -> Iterator[PaperClaim]:
    """Yield the sentences on fairness, judged for one TCP."""
    yield from _factors(study, tcp)
    yield from _bursts(study, tcp)
    yield from _distribution(study, tcp)
    yield from _numbers(study, tcp)
    yield from _equal_over_flows(study, tcp)
    yield from _unequal_over_flows(study, tcp)


def _factors(study: Study, tcp: Tcp) -> Iterator[PaperClaim]:
    for rtt, words, least, name in (
        (RTT_MS, "equal", EQUAL_FACTOR, "5-10"),
        (None, "unequal", UNEQUAL_FACTOR, "30"),
    ):
        yield PaperClaim(
            id=f"ef-5-factor-{words}",
            document="001",
            section=f"4.1, Figure 5({'a' if words == 'equal' else 'b'})",
            sentence=f"Without EF traffic, throughputs of flows with {words} round trips differ by "
            f"a factor as large as {name}.",
            statement=f"Largest over smallest throughput of {MANY} flows is at least {least}, so M "
            f"is at most 1/{least}, in TCP-only or in TCP+UDP.",
            checks=tuple(
                c.value(
                    f"M, {label}",
                    c.side(study, min_max, network(tcp, rtt, udp=udp, on_ms=None)),
                    high=1 / least,
                )
                for udp, label in _NETWORKS
            ),
            every=False,
            note="Judged on M, because its inverse is infinite where a flow got nothing.",
        )


def _bursts(study: Study, tcp: Tcp) -> Iterator[PaperClaim]:
    yield PaperClaim(
        id="ef-conclusion-4",
        document="001",
        section="4.1, Conclusion 4, Figure 5",
        sentence="EF traffic improves fairness, the more the smaller its bursts.",
        statement=f"With EF traffic in bursts of {ON_MS:g} ms M is above M without, and M averaged "
        f"over bursts of up to {SMALL:g} ms is above M from {BIG:g} ms on.",
        checks=(*improvement(study, tcp), *_small_bursts(study, tcp)),
        note="M = min / max as the paper defines it, 1 is fair; factors in its text are 1 / M. "
        + _SEEDS,
    )


def improvement(study: Study, tcp: Tcp) -> Iterator[PaperCheck]:
    """Yield M with EF traffic less M without, in each network."""
    yield from _compared(study, tcp, min_max, "M with EF minus without", 1)


def _small_bursts(study: Study, tcp: Tcp) -> Iterator[PaperCheck]:
    for rtt, round_trips in _ROUND_TRIPS:
        for udp, label in _NETWORKS:
            like = network(tcp, rtt, udp=udp, on_ms=0.0)
            small = c.over_bursts(study, min_max, like, lambda on: on <= SMALL)
            big = c.over_bursts(study, min_max, like, lambda on: on >= BIG)
            yield c.difference(
                f"M, small minus large bursts, {label}+EF, {round_trips}", small, big
            )


def _compared(
    study: Study, tcp: Tcp, quantity: Quantity, words: str, sign: int
) -> Iterator[PaperCheck]:
    """Yield a quantity with EF minus without, or without less with for sign -1, all networks."""
    for rtt, round_trips in _ROUND_TRIPS:
        for udp, label in _NETWORKS:
            bursts, none = (
                c.side(study, quantity, network(tcp, rtt, udp=udp, on_ms=on))
                for on in (ON_MS, None)
            )
            more, less = (bursts, none) if sign > 0 else (none, bursts)
            yield c.difference(f"{words}, {label}, {round_trips}", more, less)


def _distribution(study: Study, tcp: Tcp) -> Iterator[PaperClaim]:
    say = partial(PaperClaim, document="001", section="4.1, Figure 6")
    yield say(
        id="ef-6-spread",
        sentence="EF traffic reduces the largest difference between the throughputs of flows.",
        statement=f"Largest less smallest normalised throughput of {MANY} flows is smaller with EF "
        f"traffic in bursts of {ON_MS:g} ms than without.",
        checks=tuple(_compared(study, tcp, spread, "spread without EF minus with", -1)),
    )
    yield say(
        id="ef-6-near",
        sentence="EF traffic increases the share of flows close to their fair share.",
        statement=f"The share of {MANY} flows within {CLOSE} of their fair share is larger with "
        f"EF traffic in bursts of {ON_MS:g} ms than without.",
        checks=tuple(_compared(study, tcp, near, "share with EF minus without", 1)),
        note="Throughput counts frames, as the capacity that it is divided by does.",
    )


def _numbers(study: Study, tcp: Tcp) -> Iterator[PaperClaim]:
    """Figure 7: M over the number of flows."""
    say = partial(PaperClaim, document="001")
    yield say(
        id="ef-7a-falls",
        section="4.2, Figure 7(a)",
        sentence="With equal round trips and no EF traffic, fairness falls with the number of "
        "flows.",
        statement=f"M with {FEWEST} flows is above M with {MOST}.",
        checks=tuple(_fall(study, tcp, RTT_MS, udp, label, None) for udp, label in _NETWORKS),
    )
    yield say(
        id="ef-7a-slower",
        section="4.2, Figure 7(a)",
        sentence="With EF traffic fairness falls with the number of flows as well, but less.",
        statement=f"M with {FEWEST} flows is above M with {MOST}, and by less than without EF "
        "traffic.",
        checks=tuple(
            one
            for udp, label in _NETWORKS
            for one in (
                _fall(study, tcp, RTT_MS, udp, f"{label}+EF", ON_MS),
                _less_fall(study, tcp, udp, label),
            )
        ),
    )
    yield say(
        id="ef-7b-marginal",
        section="4.2, Figure 7(b)",
        sentence="With unequal round trips the number of flows has a marginal effect.",
        statement=f"M with {FEWEST} flows differs from M with {MOST} by at most {MARGINAL:g}.",
        checks=tuple(
            _change(study, tcp, min_max, None, udp, label, on)
            for on, ef in ((None, ""), (ON_MS, "+EF"))
            for udp, label in ((False, f"M, TCP-only{ef}"), (True, f"M, TCP+UDP{ef}"))
        ),
    )


def _ends(
    study: Study, quantity: Quantity, tcp: Tcp, rtt: float | None, udp: bool, on: float | None
) -> tuple[c.Side, c.Side]:
    """Give a quantity of the fewest and of the most flows."""
    few, many = (
        c.side(study, quantity, network(tcp, rtt, udp=udp, on_ms=on, flows=flows))
        for flows in (FEWEST, MOST)
    )
    return few, many


def _fall(
    study: Study, tcp: Tcp, rtt: float | None, udp: bool, label: str, on: float | None
) -> PaperCheck:
    few, many = _ends(study, min_max, tcp, rtt, udp, on)
    return c.difference(f"M of {FEWEST} minus of {MOST} flows, {label}", few, many)


def _less_fall(study: Study, tcp: Tcp, udp: bool, label: str) -> PaperCheck:
    without = _ends(study, min_max, tcp, RTT_MS, udp, None)
    bursts = _ends(study, min_max, tcp, RTT_MS, udp, ON_MS)

    def slower(few: float, many: float, few_ef: float, many_ef: float) -> float:
        return (few - many) - (few_ef - many_ef)

    words = f"fall without EF minus with, {label}"
    return c.check(words, slower, (*without, *bursts), low=0, strict=True)


def _change(
    study: Study,
    tcp: Tcp,
    quantity: Quantity,
    rtt: float | None,
    udp: bool,
    label: str,
    on: float | None,
) -> PaperCheck:
    few, many = _ends(study, quantity, tcp, rtt, udp, on)

    def change(less: float, more: float) -> float:
        return more - less

    return c.check(f"{label}, change", change, (few, many), low=-MARGINAL, high=MARGINAL)


def _equal_over_flows(study: Study, tcp: Tcp) -> Iterator[PaperClaim]:
    say = partial(PaperClaim, document="001")
    wide, wide_ef = (_ends(study, spread, tcp, RTT_MS, True, on) for on in (None, ON_MS))
    close = _ends(study, near, tcp, RTT_MS, True, None)
    yield say(
        id="ef-8a",
        section="4.2, Figure 8(a)",
        sentence="With equal round trips, in TCP+UDP, more flows differ more, and fewer of them "
        "are close to their fair share.",
        statement=f"From {FEWEST} to {MOST} flows the spread of normalised throughput grows, and "
        f"the share of flows within {CLOSE} of their fair share falls.",
        checks=(
            c.difference("spread, growth", wide[1], wide[0]),
            c.difference("share near the fair one, fall", close[0], close[1]),
        ),
    )
    yield say(
        id="ef-8b",
        section="4.2, Figure 8(b)",
        sentence="The same with EF traffic: flows differ more, but the share of flows close to "
        "their fair share does not change appreciably.",
        statement=f"From {FEWEST} to {MOST} flows the spread grows, and the share within "
        f"{CLOSE} of the fair one changes by at most {MARGINAL:g}.",
        checks=(
            c.difference("spread, growth", wide_ef[1], wide_ef[0]),
            _change(study, tcp, near, RTT_MS, True, "share near the fair one", ON_MS),
        ),
    )


def _unequal_over_flows(study: Study, tcp: Tcp) -> Iterator[PaperClaim]:
    say = partial(PaperClaim, document="001")
    few, many = _ends(study, near, tcp, None, True, None)
    yield say(
        id="ef-9a",
        section="4.2, Figure 9(a)",
        sentence="With unequal round trips, in TCP+UDP, more flows are close to their fair share "
        "when there are more.",
        statement=f"From {FEWEST} to {MOST} flows the share of flows within {CLOSE} of their "
        "fair share grows.",
        checks=(c.difference("share near the fair one, growth", many, few),),
    )
    yield say(
        id="ef-9b",
        section="4.2, Figure 9(b)",
        sentence="The same with EF traffic: fairness changes marginally.",
        statement=f"From {FEWEST} to {MOST} flows the share within {CLOSE} of the fair one "
        f"changes by at most {MARGINAL:g}.",
        checks=(_change(study, tcp, near, None, True, "share near the fair one", ON_MS),),
    )


SHARES = (0.05, 0.1, 0.2)


def share_claims(study: Study, tcp: Tcp) -> Iterator[PaperClaim]:
    """Yield the sentence on other shares: one flow loses, many do not, and M rises."""
    for name, statement, check in (
        ("loss", "the greatest loss of one flow is above 0", _of_one),
        ("many", f"the greatest loss of {MANY} flows is at most {INSIGNIFICANT:g}", _of_many),
        ("fairness", f"M of {MANY} flows with unequal round trips is above M without", _fairness),
    ):
        yield PaperClaim(
            id=f"ef-shares-{name}",
            document="001",
            section="2.2",
            sentence="What is said of EF traffic at 30 % of the link holds at 5, 10 and 20 % too.",
            statement=f"At each of these shares {statement}.",
            checks=tuple(check(study, tcp, share) for share in SHARES),
        )


def _at(known: Conditions, share: float) -> Conditions:
    assert known.share == SHARE  # of conditions with EF traffic
    return replace(known, share=share)


def _of_one(study: Study, tcp: Tcp, share: float) -> PaperCheck:
    top = c.hump(study, loss, _at(alone(tcp), share)).top
    return c.check(f"loss of 1 flow, {_percent(share)}", float, (top,), low=0, strict=True)


def _of_many(study: Study, tcp: Tcp, share: float) -> PaperCheck:
    top = c.hump(study, loss, _at(together(tcp, MANY), share)).top
    return c.value(f"loss of {MANY} flows, {_percent(share)}", top, high=INSIGNIFICANT)


def _fairness(study: Study, tcp: Tcp, share: float) -> PaperCheck:
    none, bursts = (
        c.side(study, min_max, known)
        for known in (
            network(tcp, None, udp=False, on_ms=None),
            _at(network(tcp, None, udp=False, on_ms=ON_MS), share),
        )
    )
    return c.difference(f"M with EF minus without, {_percent(share)}", bursts, none)


def _percent(share: float) -> str:
    return f"{100 * share:g} %"
