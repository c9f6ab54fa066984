"""The sentences of paper 001, judged for one TCP; ``claims.toml`` has their words.

Sections 3 and 6 are of what bursts of EF traffic cost TCP of its throughput, section 4 of what
they do to fairness among its flows, section 5 of the PFTK formula.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

from tcpf_lab.papers.ef import study as s
from tcpf_lab.papers.ef.study import (
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
    timeouts,
    together,
)
from tcpf_lab.report.claims.judge import Measured, PaperCheck, PaperClaim, Words, paired
from tcpf_lab.report.claims.page import Numbers

PAPER = Words(Path(__file__).with_name("claims.toml"))
#: The paper's own TCP.
TCP: Tcp = "Reno"
#: What we take the paper's words for: "severely"; "insignificant"; "large"; "marginal".
SEVERE, INSIGNIFICANT, LARGE, MARGINAL = 0.3, 0.05, 20, 0.1
#: What counts as a loss "as high as 50 %".
HALF = (0.4, 0.6)
#: How alike two curves are that are said to have one shape.
ALIKE = 0.8
#: Bounds of "short" and "long" time-scales, and of "small" and "large" bursts, ms.
SHORT, LONG, SMALL, BIG = 40.0, 100.0, 4.0, 40.0
#: Round trips of Figure 3 and numbers of flows of Figure 4.
RTTS_MS = (6.0, 8.0, 10.0, 12.0)
FLOWS = (8, 16, 32, 64, 128)
#: "As large as 5-10" with equal round trips, of which the smaller one is asked for, and "30".
FACTORS = {"equal": (RTT_MS, 5), "unequal": (None, 30)}
#: Shares of the link that the paper speaks of besides its 30 %.
SHARES = (0.05, 0.1, 0.2)
_NETWORKS = ((False, "TCP-only"), (True, "TCP+UDP"))
_ROUND_TRIPS = ((RTT_MS, "equal RTTs"), (None, "unequal RTTs"))


def claims_of(study: Study, tcp: Tcp) -> Iterator[PaperClaim]:
    """Yield every sentence, judged for one TCP."""
    yield from _throughput(study, tcp)
    yield from _fairness(study, tcp)
    yield from _prediction(study, tcp)
    yield from _shares(study, tcp)
    if tcp == TCP:
        yield from _with_sack(study)


def _with_sack(study: Study) -> Iterator[PaperClaim]:
    found = {claim.id: claim for claim in _throughput(study, "SACK")}
    yield PAPER.claim("ef-sack-1", found["ef-conclusion-1"].checks)
    yield PAPER.claim("ef-sack-2", found["ef-conclusion-2"].checks)
    yield PAPER.claim("ef-sack-3", found["ef-conclusion-3"].checks)
    yield PAPER.claim("ef-sack-4", _improvement(study, "SACK"))


def _throughput(study: Study, tcp: Tcp) -> Iterator[PaperClaim]:
    yield from _one_flow(study, tcp)
    yield PAPER.claim("ef-conclusion-2", _round_trips(study, tcp))
    yield PAPER.claim("ef-conclusion-3", _large_loss(study, tcp))
    few, many = (s.over_bursts(study, loss, together(tcp, n)) for n in (FLOWS[0], 64))
    yield PAPER.claim("ef-4a-falls", [s.difference("8 flows minus 64 flows", few, many)])
    sides = {n: s.over_bursts(study, timeouts, together(tcp, n)) for n in FLOWS}
    grown = (
        s.difference(f"{more} flows minus {fewer}", sides[more], sides[fewer])
        for fewer, more in pairwise(FLOWS)
    )
    yield PAPER.claim("ef-4b-grows", grown)


def _one_flow(study: Study, tcp: Tcp) -> Iterator[PaperClaim]:
    like = alone(tcp)
    lost, expired = s.hump(study, loss, like), s.hump(study, timeouts, like)
    greatest = f"greatest loss (at {lost.top_at})"
    severe = s.value(greatest, lost.top, low=SEVERE)
    yield PAPER.claim("ef-conclusion-1", [severe, *_rise_and_fall("loss", lost)])
    yield PAPER.claim("ef-2a-half", [s.value(greatest, lost.top, *HALF)])
    yield PAPER.claim("ef-2b-hump", _rise_and_fall("timeouts per minute", expired))
    on_times = study.on_times(like)
    losses, expiries = (
        [s.side(study, quantity, replace(like, on_ms=on)) for on in on_times]
        for quantity in (loss, timeouts)
    )
    shape = (
        s.correlation("correlation", losses, expiries, low=ALIKE)
        if len(on_times) > 1
        else s.check("correlation", float, (lost.top,), low=ALIKE)
    )
    yield PAPER.claim("ef-2-shape", [shape])
    short = s.over_bursts(study, loss, like, lambda on: on <= SHORT)
    long = s.over_bursts(study, loss, like, lambda on: on >= LONG)
    yield PAPER.claim("ef-short-scales", [s.difference("difference", short, long)])


def _rise_and_fall(word: str, found: s.Hump) -> Iterator[PaperCheck]:
    for end, at in ((found.first, found.first_at), (found.last, found.last_at)):
        yield s.difference(f"{word} at {found.top_at} minus at {at}", found.top, end)


def _round_trips(study: Study, tcp: Tcp) -> Iterator[PaperCheck]:
    settings = {rtt: alone(tcp, rtt_ms=rtt) for rtt in RTTS_MS}
    common = set.intersection(*(set(study.on_times(like)) for like in settings.values()))
    sides = {
        rtt: s.over_bursts(study, loss, like, common.__contains__ if common else None)
        for rtt, like in settings.items()
    }
    for low, high in pairwise(RTTS_MS):
        yield s.difference(f"{low:g} ms minus {high:g} ms", sides[low], sides[high])


def _large_loss(study: Study, tcp: Tcp) -> Iterator[PaperCheck]:
    """Yield the greatest loss over the lengths of bursts for each large number of flows."""
    for flows in (flows for flows in FLOWS if flows >= LARGE):
        found = s.hump(study, loss, together(tcp, flows))
        yield s.value(f"{flows} flows (at {found.top_at})", found.top, high=INSIGNIFICANT)


def _fairness(study: Study, tcp: Tcp) -> Iterator[PaperClaim]:
    for words, (rtt, least) in FACTORS.items():
        networks = {label: network(tcp, rtt, udp=udp, on_ms=None) for udp, label in _NETWORKS}
        factors = (
            s.value(f"M, {label}", s.side(study, min_max, known), high=1 / least)
            for label, known in networks.items()
        )
        yield PAPER.claim(f"ef-5-factor-{words}", factors)
    better = (*_improvement(study, tcp), *_small_bursts(study, tcp))
    yield PAPER.claim("ef-conclusion-4", better)
    closer = _compared(study, tcp, spread, "spread without EF minus with", -1)
    yield PAPER.claim("ef-6-spread", closer)
    yield PAPER.claim("ef-6-near", _compared(study, tcp, near, "share with EF minus without", 1))
    yield from _over_flows(study, tcp)


def _improvement(study: Study, tcp: Tcp) -> Iterator[PaperCheck]:
    """Yield M with EF traffic less M without, in each network."""
    yield from _compared(study, tcp, min_max, "M with EF minus without", 1)


def _small_bursts(study: Study, tcp: Tcp) -> Iterator[PaperCheck]:
    for (rtt, round_trips), (udp, label) in product(_ROUND_TRIPS, _NETWORKS):
        like = network(tcp, rtt, udp=udp, on_ms=0.0)
        small = s.over_bursts(study, min_max, like, lambda on: on <= SMALL)
        big = s.over_bursts(study, min_max, like, lambda on: on >= BIG)
        words = f"M, small minus large bursts, {label}+EF, {round_trips}"
        yield s.difference(words, small, big)


def _compared(
    study: Study, tcp: Tcp, quantity: Quantity, words: str, sign: int
) -> Iterator[PaperCheck]:
    """Yield a quantity with EF minus without, or without less with for sign -1, all networks."""
    for (rtt, round_trips), (udp, label) in product(_ROUND_TRIPS, _NETWORKS):
        sides = [
            s.side(study, quantity, network(tcp, rtt, udp=udp, on_ms=on)) for on in (ON_MS, None)
        ]
        more, less = sides[::sign]
        yield s.difference(f"{words}, {label}, {round_trips}", more, less)


@dataclass(frozen=True)
class _Ends:
    """A quantity of the fewest and of the most flows of a network."""

    few: s.Side
    many: s.Side

    def fall(self, label: str) -> PaperCheck:
        return s.difference(label, self.few, self.many)

    def growth(self, label: str) -> PaperCheck:
        return s.difference(label, self.many, self.few)

    def steady(self, label: str) -> PaperCheck:
        """Ask for a marginal change."""
        sides = (self.few, self.many)
        return s.check(f"{label}, change", lambda few, many: many - few, sides, -MARGINAL, MARGINAL)


def _over_flows(study: Study, tcp: Tcp) -> Iterator[PaperClaim]:
    """Yield the sentences on Figures 7 to 9: M, spread and near flows over the number of flows."""

    def ends(quantity: Quantity, rtt: float | None, udp: bool, on: float | None) -> _Ends:
        networks = (
            network(tcp, rtt, udp=udp, on_ms=on, flows=flows) for flows in (FLOWS[0], FLOWS[-1])
        )
        return _Ends(*(s.side(study, quantity, known) for known in networks))

    falls, slower = [], []
    for udp, label in _NETWORKS:
        words = f"M of {FLOWS[0]} minus of {FLOWS[-1]} flows, {label}"
        without, bursts = (ends(min_max, RTT_MS, udp, on) for on in (None, ON_MS))
        falls.append(without.fall(words))
        sides = (without.few, without.many, bursts.few, bursts.many)
        less = s.check(f"fall without EF minus with, {label}", _slower, sides, low=0, strict=True)
        slower += [bursts.fall(f"{words}+EF"), less]
    yield PAPER.claim("ef-7a-falls", falls)
    yield PAPER.claim("ef-7a-slower", slower)
    marginal = (
        ends(min_max, None, udp, on).steady(f"M, {label}{ef}")
        for (on, ef), (udp, label) in product(((None, ""), (ON_MS, "+EF")), _NETWORKS)
    )
    yield PAPER.claim("ef-7b-marginal", marginal)
    share = "share near the fair one"
    wide, wide_ef = (
        ends(spread, RTT_MS, True, on).growth("spread, growth") for on in (None, ON_MS)
    )
    yield PAPER.claim("ef-8a", [wide, ends(near, RTT_MS, True, None).fall(f"{share}, fall")])
    yield PAPER.claim("ef-8b", [wide_ef, ends(near, RTT_MS, True, ON_MS).steady(share)])
    yield PAPER.claim("ef-9a", [ends(near, None, True, None).growth(f"{share}, growth")])
    yield PAPER.claim("ef-9b", [ends(near, None, True, ON_MS).steady(share)])


def _slower(few: float, many: float, few_ef: float, many_ef: float) -> float:
    return (few - many) - (few_ef - many_ef)


def _shares(study: Study, tcp: Tcp) -> Iterator[PaperClaim]:
    """Yield the sentence on other shares: one flow loses, many do not, and M rises."""
    one, many, bursts = alone(tcp), together(tcp, MANY), network(tcp, None, udp=False, on_ms=ON_MS)
    none = s.side(study, min_max, network(tcp, None, udp=False, on_ms=None))
    lost, lost_many, fairer = [], [], []
    for share in SHARES:
        words = f"{100 * share:g} %"
        top = s.hump(study, loss, _at(one, share)).top
        lost.append(s.check(f"loss of 1 flow, {words}", float, (top,), low=0, strict=True))
        top = s.hump(study, loss, _at(many, share)).top
        lost_many.append(s.value(f"loss of {MANY} flows, {words}", top, high=INSIGNIFICANT))
        known = s.side(study, min_max, _at(bursts, share))
        fairer.append(s.difference(f"M with EF minus without, {words}", known, none))
    yield PAPER.claim("ef-shares-loss", lost)
    yield PAPER.claim("ef-shares-many", lost_many)
    yield PAPER.claim("ef-shares-fairness", fairer)


def _at(known: Conditions, share: float) -> Conditions:
    assert known.share == SHARE  # of conditions with EF traffic
    return replace(known, share=share)


#: "Off by at least 10 %", and the share of flows of which the paper says so.
OFF, MOST = 0.1, 0.8
#: Formula and observation of each reading, by its words; the first is the paper's.
READINGS = {
    "full formula, goodput": ("full", "goodput_packets_per_s"),
    "full formula, packets sent": ("full", "sent_packets_per_s"),
    "approximate formula, goodput": ("approximate", "goodput_packets_per_s"),
    "approximate formula, packets sent": ("approximate", "sent_packets_per_s"),
}
#: What tells a flow's RTT and timer.
CAPTURES = "runs with captures, which tell a flow's RTT and timer"


@dataclass(frozen=True)
class Errors:
    """Relative errors of a reading, |predicted - observed| / observed, by seed over all runs."""

    by_seed: Mapping[int, tuple[float, ...]]

    def below(self, bound: float) -> Numbers:
        """Give the share of flows with less than some error, by seed."""
        return Numbers(
            {seed: sum(e < bound for e in own) / len(own) for seed, own in self.by_seed.items()}
        )


def errors_of(study: Study, reading: str, tcp: Tcp | None = None) -> Errors:
    """Collect the errors of all flows that had a loss, of one TCP or of all."""
    formula, observed = READINGS[reading]
    found: dict[int, list[float]] = {}
    for setting in study.every:
        for run in setting.cell.runs if tcp in (None, setting.conditions.tcp) else ():
            for row in run.found.get("pftk") or ():
                error = _error(row, formula, observed)
                if error is not None:
                    found.setdefault(run.seed, []).append(error)
    return Errors({seed: tuple(own) for seed, own in found.items()})


def _error(row: Mapping[str, Any], formula: str, observed: str) -> float | None:
    predicted, seen = row.get(formula), row.get(observed)
    if predicted is None or not seen:
        return None
    return abs(float(predicted) - float(seen)) / float(seen)


def _prediction(study: Study, tcp: Tcp) -> Iterator[PaperClaim]:
    """Yield the sentence on the formula, by its first reading, and by any other."""
    first, *others = (_off(study, reading, tcp) for reading in READINGS)
    yield PAPER.claim("ef-10", [first])
    yield PAPER.claim("ef-10-readings", others)


def _off(study: Study, reading: str, tcp: Tcp) -> PaperCheck:
    shares = errors_of(study, reading, tcp).below(OFF)
    absent = Measured((), (f"{CAPTURES}, of {tcp}",))
    measured = paired(lambda below: 1 - below, shares) if shares else absent
    return PaperCheck(reading, measured, low=MOST)
