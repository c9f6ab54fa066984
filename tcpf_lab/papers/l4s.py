"""The page on a scalable sender beside a classic one in DualPI2: statements of RFCs 9331 and 9332.

``l4s.toml`` has its texts and the sentences of the RFCs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tcpf_lab.papers.figures import Lines, page_of_each
from tcpf_lab.papers.groups import resolved_cells
from tcpf_lab.report.claims.page import (
    Block,
    CellRuns,
    Claims,
    Drawing,
    Numbers,
    Page,
    Point,
    Table,
    Text,
    scaled,
)
from tcpf_lab.report.claims.papers import Measured, PaperClaim, Words
from tcpf_lab.report.contents.subject import Member
from tcpf_lab.spec.graph import ETHERNET_HEADER
from tcpf_lab.spec.queue import Dualpi2

_RFC = Words(Path(__file__).with_name("l4s.toml"))
#: The groups.
SCALABLE, CLASSIC = "scalable", "classic"
_COUNTERS = "queue.kernel"


@dataclass(frozen=True, eq=False)
class Link:
    """A cell: a queue at a rate, bit/s, a base round-trip time, s, and an MTU, bytes."""

    cell: CellRuns
    queue: Dualpi2
    rate: int
    rtt: float
    mtu: int

    @property
    def label(self) -> str:
        """Say which queue, rate and RTT."""
        return f"{self.cell.case}, {self.rate / 1e6:g} Mbit/s, {self.rtt * 1e3:g} ms"

    def number(self, group: str, key: str) -> Numbers:
        """Give a number of a group, for each seed."""
        return self.cell.number(f"groups.{group}.{key}")

    def delay(self, group: str, key: str) -> Numbers:
        """Give a queueing delay of a group, ms."""
        found = self.number(group, f"queueing_delay_s.{key}")
        return Numbers({seed: 1e3 * value for seed, value in found.items()})

    @property
    def packet_ms(self) -> float:
        """Time that a longest packet takes to leave, ms."""
        return 8e3 * (self.mtu + ETHERNET_HEADER) / self.rate

    @property
    def rates(self) -> Numbers:
        """Throughput of a scalable flow over that of a classic one."""
        each = {name: self._per_flow(name) for name in (SCALABLE, CLASSIC)}
        return each[SCALABLE].per(each[CLASSIC])

    @property
    def shares(self) -> tuple[float, ...]:
        """Share of the scalable flows, %, by seed."""
        return tuple(100 * one for one in self.number(SCALABLE, "share").values_by_seed)

    @property
    def windows(self) -> Numbers:
        """Window of a scalable flow over that of a classic one: throughput times mean RTT."""
        waits = (self.delay(name, "mean") for name in (SCALABLE, CLASSIC))
        rtts = (Numbers({s: self.rtt + 1e-3 * one for s, one in wait.items()}) for wait in waits)
        scalable, classic = rtts
        factor = scalable.per(classic)
        rates = self.rates
        return Numbers({seed: rates[seed] * factor[seed] for seed in rates if seed in factor})

    @property
    def in_l(self) -> Numbers:
        """Packets of the L queue among all, %."""
        found = {which: self.cell.number(f"{_COUNTERS}.pkts-in-{which}") for which in "lc"}
        total = {seed: value + found["c"].get(seed, 0) for seed, value in found["l"].items()}
        return Numbers({s: 100 * v for s, v in found["l"].per(total).items()})

    @property
    def steps(self) -> Numbers:
        """Marks that the step threshold made among all, %."""
        counted = (self.cell.number(f"{_COUNTERS}.{name}") for name in ("step-mark", "ecn-mark"))
        steps, marks = counted
        return Numbers({seed: 100 * value for seed, value in steps.per(marks).items()})

    def _per_flow(self, group: str) -> Numbers:
        return self.number(group, "throughput_bytes_per_s").per(self.number(group, "flows"))


def l4s(members: Sequence[Member], command: str) -> Page | None:
    """Give the page; None where no experiment has a run."""
    return page_of_each(
        "l4s", "A scalable sender beside a classic one", members, partial(_blocks, command)
    )


def links_of(member: Member) -> list[Link]:
    """Give the cells of an experiment with the groups of the page, by case, rate and RTT."""
    found = []
    for cell, experiment in resolved_cells(member):
        chain, groups = experiment.topology.chain, experiment.traffic.groups or {}
        queue = experiment.cases[cell.case].queue
        if chain and isinstance(queue, Dualpi2) and {SCALABLE, CLASSIC} <= set(groups):
            rate, rtt = chain.bottleneck, chain.delay
            if isinstance(rate, int) and isinstance(rtt, float):  # no schedule of either
                found.append(Link(cell, queue, rate, rtt, chain.mtu))
    cases = list(member.experiment.cases)
    return sorted(found, key=lambda one: (cases.index(one.cell.case), one.rate, one.rtt))


def _blocks(command: str, member: Member, name: str) -> Iterator[Block]:
    links = links_of(member)
    if not links:
        return
    yield Text(_RFC.texts["setting"], member.experiment.title)
    yield Claims(tuple(claims_of(links)), command)
    yield Text(_RFC.texts["numbers"], "Rates, delays and marks")
    yield _figure(links, name)
    yield _table(links, name)


def _table(links: Sequence[Link], name: str) -> Table:
    rows = [
        (
            *(one.label, one.rates.printed(2), one.windows.printed(2)),
            *(one.delay(SCALABLE, at).printed(2) for at in ("p50", "p99")),
            *(one.delay(CLASSIC, at).printed(1) for at in ("p50", "p99")),
            one.number(SCALABLE, "ce_packets").printed(0),
            one.steps.printed(0),
            one.number(CLASSIC, "loss_percent").printed(2),
            one.cell.number("queues.0.utilisation").printed(3),
        )
        for one in links
    ]
    headings = (
        *("queue, rate and RTT", "rates", "windows", "scalable, p50 (ms)", "p99 (ms)"),
        *("classic, p50 (ms)", "p99 (ms)", "CE packets", "by step (%)", "classic loss (%)"),
        "utilisation",
    )
    return Table(
        "links" if name == "l4s" else f"{name}-links",
        headings,
        rows,
        "Scalable over classic, queueing delay of each, marks, and packets that the classic flow "
        "lost: means over seeds and half widths of 95 % intervals.",
    )


def _figure(links: Sequence[Link], name: str) -> Drawing:
    points = [
        Point(one.cell.case, 1e3 * one.rtt, one.shares, f"{one.rate / 1e6:g} Mbit/s")
        for one in links
        if one.shares
    ]
    heads = "Share of the scalable flow", "Means over seeds, 95 % intervals"
    ticks = tuple(sorted({point.x for point in points}))
    frame = Lines(*heads, "Base RTT (ms)", "Share (%)", ticks, top=100, unit="ms")
    missing = () if points else ("no run",)
    caption = "50 % is an equal rate."
    return Drawing(
        f"fig-{name}-share", heads[0], caption, tuple(points), frame, missing, axis="Share (%)"
    )


def claims_of(links: Sequence[Link]) -> Iterator[PaperClaim]:
    """Yield the sentences of the RFCs, judged by the cells."""
    dual = [one for one in links if one.queue.ecn_mask == "any_ect"]
    single = [one for one in links if one.queue.ecn_mask != "any_ect"]
    fast = [one for one in dual if one.packet_ms <= 1]
    slow = [one for one in dual if one.packet_ms > 1]
    checks: Mapping[str, Iterable[tuple[Link, Measured]]] = {
        "dualq-rates": ((one, scaled(one.rates)) for one in dual),
        "dualq-windows": ((one, scaled(one.windows)) for one in dual),
        "dualq-delay": ((one, scaled(one.delay(SCALABLE, "mean"))) for one in fast),
        "dualq-slow": (
            (one, scaled(one.delay(SCALABLE, "mean"), 1 / one.packet_ms)) for one in slow
        ),
        "dualq-tail": ((one, scaled(one.delay(SCALABLE, "p99"))) for one in dual),
        "dualq-classic": ((one, scaled(one.delay(CLASSIC, "mean"))) for one in dual),
        "dualq-loss": ((one, scaled(one.number(SCALABLE, "loss_percent"))) for one in dual),
        "dualq-full": ((one, scaled(one.cell.number("queues.0.utilisation"))) for one in dual),
        "l4s-id": ((one, scaled(one.in_l)) for one in single),
        "l4s-single": ((one, scaled(one.rates)) for one in single),
    }
    for name, numbers in checks.items():
        if found := [(one.label, number) for one, number in numbers]:
            yield _RFC.each(name, found)
