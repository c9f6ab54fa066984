"""The sentences of TR2001-1, judged for one TCP; ``claims.toml`` has their words.

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
from tcpf_lab.report.claims.page import Numbers
from tcpf_lab.report.claims.papers import Measured, PaperClaim, Words, paired

PAPER = Words(Path(__file__).with_name("claims.toml"))
#: The paper's own TCP.
TCP: Tcp = "Reno"
#: From how many flows on there are many: "about 20".
LARGE = 20
#: Bounds of "short" and "long" time-scales, and of "small" and "large" bursts, ms.
SHORT, LONG, SMALL, BIG = 40.0, 100.0, 4.0, 40.0
#: Round trips of Figure 3 and numbers of flows of Figure 4.
RTTS_MS = (6.0, 8.0, 10.0, 12.0)
FLOWS = (8, 16, 32, 64, 128)
#: Shares of the link that the paper speaks of besides its 30 %.
SHARES = (0.05, 0.1, 0.2)
#: Round trips, and whether there is UDP traffic, of the four networks of the fairness figures.
_NETWORKS = tuple(product((RTT_MS, None), (False, True)))


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
    for number in (1, 2, 3):
        yield PAPER.claim(f"ef-sack-{number}", found[f"ef-conclusion-{number}"].checks)
    yield PAPER.judged("ef-sack-4", _improvement(study, "SACK"))


def _throughput(study: Study, tcp: Tcp) -> Iterator[PaperClaim]:
    yield from _one_flow(study, tcp)
    yield PAPER.judged("ef-conclusion-2", _round_trips(study, tcp))
    large = {n: s.hump(study, loss, together(tcp, n)) for n in FLOWS if n >= LARGE}
    yield PAPER.judged(
        "ef-conclusion-3",
        [s.value(found.top) for found in large.values()],
        **{f"at_{n}": found.top_at for n, found in large.items()},
    )
    few, many = (s.over_bursts(study, loss, together(tcp, n)) for n in (FLOWS[0], 64))
    yield PAPER.judged("ef-4a-falls", [s.difference(few, many)])
    sides = [s.over_bursts(study, timeouts, together(tcp, n)) for n in FLOWS]
    grown = (s.difference(more, fewer) for fewer, more in pairwise(sides))
    yield PAPER.judged("ef-4b-grows", grown)


def _one_flow(study: Study, tcp: Tcp) -> Iterator[PaperClaim]:
    like = alone(tcp)
    lost, expired = s.hump(study, loss, like), s.hump(study, timeouts, like)
    maximum = s.value(lost.top)
    yield PAPER.judged("ef-conclusion-1", [maximum, *_rise_and_fall(lost)], **lost.places)
    yield PAPER.judged("ef-2a-half", [maximum], **lost.places)
    yield PAPER.judged("ef-2b-hump", _rise_and_fall(expired), **expired.places)
    on_times = study.on_times(like)
    losses, expiries = (
        [s.side(study, quantity, replace(like, on_ms=on)) for on in on_times]
        for quantity in (loss, timeouts)
    )
    several = len(on_times) > 1
    yield PAPER.judged("ef-2-shape", [s.correlation(losses, expiries) if several else maximum])
    short = s.over_bursts(study, loss, like, lambda on: on <= SHORT)
    long = s.over_bursts(study, loss, like, lambda on: on >= LONG)
    yield PAPER.judged("ef-short-scales", [s.difference(short, long)])


def _rise_and_fall(found: s.Hump) -> list[Measured]:
    return [s.difference(found.top, end) for end in (found.first, found.last)]


def _round_trips(study: Study, tcp: Tcp) -> Iterator[Measured]:
    settings = [alone(tcp, rtt_ms=rtt) for rtt in RTTS_MS]
    common = set.intersection(*(set(study.on_times(like)) for like in settings))
    keep = common.__contains__ if common else None
    sides = [s.over_bursts(study, loss, like, keep) for like in settings]
    for shorter, longer in pairwise(sides):
        yield s.difference(shorter, longer)


def _fairness(study: Study, tcp: Tcp) -> Iterator[PaperClaim]:
    for words, rtt in (("equal", RTT_MS), ("unequal", None)):
        networks = (network(tcp, rtt, udp=udp, on_ms=None) for udp in (False, True))
        factors = (s.value(s.side(study, min_max, known)) for known in networks)
        yield PAPER.judged(f"ef-5-factor-{words}", factors)
    better = (*_improvement(study, tcp), *_small_bursts(study, tcp))
    yield PAPER.judged("ef-conclusion-4", better)
    closer = [s.difference(none, bursts) for bursts, none in _with_and_without(study, tcp, spread)]
    yield PAPER.judged("ef-6-spread", closer)
    nearer = [s.difference(bursts, none) for bursts, none in _with_and_without(study, tcp, near)]
    yield PAPER.judged("ef-6-near", nearer)
    yield from _over_flows(study, tcp)


def _improvement(study: Study, tcp: Tcp) -> Iterator[Measured]:
    """Yield M with EF traffic less M without, in each network."""
    for bursts, none in _with_and_without(study, tcp, min_max):
        yield s.difference(bursts, none)


def _with_and_without(study: Study, tcp: Tcp, quantity: Quantity) -> Iterator[list[s.Side]]:
    """Yield a quantity with EF traffic and without, in each network."""
    for rtt, udp in _NETWORKS:
        networks = (network(tcp, rtt, udp=udp, on_ms=on) for on in (ON_MS, None))
        yield [s.side(study, quantity, known) for known in networks]


def _small_bursts(study: Study, tcp: Tcp) -> Iterator[Measured]:
    for rtt, udp in _NETWORKS:
        like = network(tcp, rtt, udp=udp, on_ms=0.0)
        small = s.over_bursts(study, min_max, like, lambda on: on <= SMALL)
        big = s.over_bursts(study, min_max, like, lambda on: on >= BIG)
        yield s.difference(small, big)


def _over_flows(study: Study, tcp: Tcp) -> Iterator[PaperClaim]:
    """Yield the sentences on Figures 7 to 9: M, spread and near flows over the number of flows."""

    def ends(
        quantity: Quantity, rtt: float | None, udp: bool, on: float | None
    ) -> tuple[s.Side, s.Side]:
        """Give the quantity of the fewest and of the most flows."""
        few, many = (
            s.side(study, quantity, network(tcp, rtt, udp=udp, on_ms=on, flows=flows))
            for flows in (FLOWS[0], FLOWS[-1])
        )
        return few, many

    def fall(*where: Any) -> Measured:
        return s.difference(*ends(*where))

    def growth(*where: Any) -> Measured:
        return s.difference(*reversed(ends(*where)))

    def change(*where: Any) -> Measured:
        return s.measured(lambda few, many: many - few, *ends(*where))

    slower = []
    for udp in (False, True):
        sides = (*ends(min_max, RTT_MS, udp, None), *ends(min_max, RTT_MS, udp, ON_MS))
        slower += [fall(min_max, RTT_MS, udp, ON_MS), s.measured(_slower, *sides)]
    yield PAPER.judged("ef-7a-falls", [fall(min_max, RTT_MS, udp, None) for udp in (False, True)])
    yield PAPER.judged("ef-7a-slower", slower)
    every = product((None, ON_MS), (False, True))
    yield PAPER.judged("ef-7b-marginal", [change(min_max, None, udp, on) for on, udp in every])
    equal, unequal = (RTT_MS, True), (None, True)
    yield PAPER.judged("ef-8a", [growth(spread, *equal, None), fall(near, *equal, None)])
    yield PAPER.judged("ef-8b", [growth(spread, *equal, ON_MS), change(near, *equal, ON_MS)])
    yield PAPER.judged("ef-9a", [growth(near, *unequal, None)])
    yield PAPER.judged("ef-9b", [change(near, *unequal, ON_MS)])


def _slower(few: float, many: float, few_ef: float, many_ef: float) -> float:
    return (few - many) - (few_ef - many_ef)


def _shares(study: Study, tcp: Tcp) -> Iterator[PaperClaim]:
    """Yield the sentence on other shares: one flow loses, many do not, and M rises."""
    for name, like in (("loss", alone(tcp)), ("many", together(tcp, MANY))):
        tops = (s.hump(study, loss, _at(like, share)).top for share in SHARES)
        yield PAPER.judged(f"ef-shares-{name}", map(s.value, tops))
    none, bursts = (network(tcp, None, udp=False, on_ms=on) for on in (None, ON_MS))
    without = s.side(study, min_max, none)
    fairer = (s.difference(s.side(study, min_max, _at(bursts, share)), without) for share in SHARES)
    yield PAPER.judged("ef-shares-fairness", fairer)


def _at(known: Conditions, share: float) -> Conditions:
    assert known.share == SHARE  # of conditions with EF traffic
    return replace(known, share=share)


#: "Off by at least 10 %".
OFF = 0.1
#: Formula and observation of each reading, by its words; the first is the paper's.
READINGS = {
    "full formula, goodput": ("full", "goodput_packets_per_s"),
    "full formula, packets sent": ("full", "sent_packets_per_s"),
    "approximate formula, goodput": ("approximate", "goodput_packets_per_s"),
    "approximate formula, packets sent": ("approximate", "sent_packets_per_s"),
}
#: Source of a flow's RTT and timer.
CAPTURES = "runs with captures, which show a flow's RTT and timer"


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
    yield PAPER.judged("ef-10", [first])
    yield PAPER.judged("ef-10-readings", others)


def _off(study: Study, reading: str, tcp: Tcp) -> Measured:
    shares = errors_of(study, reading, tcp).below(OFF)
    absent = Measured((), (f"{CAPTURES}, of {tcp}",))
    return paired(lambda below: 1 - below, shares) if shares else absent
