"""Whether the conclusions of paper 001 hold where EF traffic takes less than 30 % of the link."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tcpf_lab.report.papers.claim import PaperCheck, PaperClaim
from tcpf_lab.report.papers.ef import checks as c
from tcpf_lab.report.papers.ef.conditions import Conditions, Tcp
from tcpf_lab.report.papers.ef.study import (
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
    yield PaperClaim(
        id="ef-shares",
        document="001",
        section="2.2",
        sentence="What is said of EF traffic at 30 % of the link holds at 5, 10 and 20 % as well.",
        statement="At each share the greatest loss of one flow is above 0, that of 64 flows at "
        f"most {INSIGNIFICANT:g}, and M of 64 flows with unequal round trips above that without "
        "EF traffic.",
        checks=tuple(check for share in SHARES for check in _checks(study, tcp, share)),
    )


def _checks(study: Study, tcp: Tcp, share: float) -> Iterator[PaperCheck]:
    def at(known: Conditions) -> Conditions:
        assert known.share == SHARE  # of conditions with EF traffic
        return replace(known, share=share)

    single = c.hump(study, loss, at(alone(tcp)))
    yield c.check(f"loss of 1 flow, {100 * share:g} %", float, (single.top,), low=0, strict=True)
    many = c.hump(study, loss, at(together(tcp, 64)))
    yield c.value(f"loss of 64 flows, {100 * share:g} %", many.top, high=INSIGNIFICANT)
    none, bursts = (
        c.side(study, min_max, known)
        for known in (
            network(tcp, None, udp=False, on_ms=None),
            at(network(tcp, None, udp=False, on_ms=ON_MS)),
        )
    )
    yield c.difference(f"M with EF minus without, {100 * share:g} %", bursts, none)
