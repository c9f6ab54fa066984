"""Whether the conclusions of paper 001 hold where EF traffic takes less than 30 % of the link."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tcpf_lab.report.papers.claim import PaperCheck, PaperClaim
from tcpf_lab.report.papers.ef import checks as c
from tcpf_lab.report.papers.ef.conditions import Conditions, Tcp
from tcpf_lab.report.papers.ef.study import (
    MANY,
    ON_MS,
    SHARE,
    Study,
    alone,
    loss,
    min_max,
    network,
    together,
)
from tcpf_lab.report.papers.ef.throughput_claims import INSIGNIFICANT

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
