"""The page on latency under load: what a ping and a call feel beside flows in both directions.

``latency.toml`` has its texts and the sentences of the papers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.metrics.definitions import jain_index, percentile
from tcpf_lab.metrics.probes import read_probes
from tcpf_lab.papers.figures import AgainstDelay, Lines, page_of_each
from tcpf_lab.report.claims.page import (
    Block,
    CellRuns,
    Claims,
    Drawing,
    Numbers,
    Page,
    PaperRun,
    Point,
    Table,
    Text,
    cells_of,
    ratio_of,
    scaled,
)
from tcpf_lab.report.claims.papers import Measured, PaperClaim, Words, paired
from tcpf_lab.report.contents.subject import Member

if TYPE_CHECKING:
    pass

_PAPER = Words(Path(__file__).with_name("latency.toml"))
_NEAR, _FAR, _DOWN = "near", "far", "down"
_PING, _CALL = "ping", "call"
_TAIL_DROP, _PIE, _CODEL, _FQ_CODEL, _CAKE = "TailDrop", "PIE", "CoDel", "FQ-CoDel", "CAKE"
_SINGLE = ("RED", _PIE, _CODEL)  # queues that manage all flows as one
_FAIR = (_FQ_CODEL, _CAKE)  # queues that serve each flow in turn
_MARKS = "queue.ecn"
_STARTUP_S = 5.0
_QUANTILES = np.linspace(0, 1, 41)


@dataclass(frozen=True, eq=False)
class Load:
    """A cell: a queue under one workload."""

    cell: CellRuns
    start_s: float

    @cached_property
    def marks(self) -> bool:
        """Whether the queue marks; CAKE always does."""
        return self.cell.case == _CAKE or dict(self.cell.cell.settings).get(_MARKS) == "true"

    @property
    def name(self) -> str:
        """The queue, and whether it marks."""
        return self.cell.case + ", ECN" * self.marks

    @property
    def block(self) -> tuple[tuple[str, str], ...]:
        """What cells of one workload share."""
        return tuple(pair for pair in self.cell.cell.settings if pair[0] != _MARKS)

    def group(self, name: str, key: str) -> Numbers:
        """Give a number of a group."""
        return self._entry("groups", "name", name, key)

    def queue(self, direction: str, key: str) -> Numbers:
        """Give a number of a direction's queue."""
        return self._entry("queues", "direction", direction, key)

    def probe(self, name: str, key: str) -> Numbers:
        """Give a number of a probe under load."""
        return self._entry("probes", "name", name, f"load.{key}")

    def _entry(self, section: str, label: str, name: str, key: str) -> Numbers:
        entries = self.cell.runs[0].found.get(section) or () if self.cell.runs else ()
        place = next((n for n, one in enumerate(entries) if one[label] == name), None)
        return Numbers({}) if place is None else self.cell.number(f"{section}.{place}.{key}")

    @cached_property
    def added(self) -> Numbers:
        """What load adds to the ping: its 95th percentile less the idle median, s."""
        return self._over_idle(self.probe(_PING, "p95_s"))

    def _over_idle(self, found: Numbers) -> Numbers:
        idle = self._entry("probes", "name", _PING, "idle.p50_s")
        return Numbers({seed: found[seed] - idle[seed] for seed in found if seed in idle})

    @cached_property
    def goodput(self) -> Numbers:
        """Goodput of all flows of both directions, bytes/s."""
        found = self.cell.number("metrics.goodput_bytes_per_s")
        return Numbers({seed: self.cell.flows * value for seed, value in found.items()})

    @cached_property
    def bias(self) -> Numbers:
        """Throughput of a near flow over that of a far one."""
        return self._each(_NEAR).per(self._each(_FAR))

    @cached_property
    def hosts(self) -> Numbers:
        """Throughput of the near flows' host over that of the far flows'."""
        near, far = (self.group(name, "throughput_bytes_per_s") for name in (_NEAR, _FAR))
        return near.per(far)

    def _each(self, name: str) -> Numbers:
        flows = self.group(name, "flows")
        found = self.group(name, "throughput_bytes_per_s")
        return Numbers({seed: value / flows[seed] for seed, value in found.items()})

    @cached_property
    def jain(self) -> Numbers:
        """Jain's index of the flows through the queue under test."""
        return self.cell.each(_jain)

    @cached_property
    def startup(self) -> Numbers:
        """What the flows' first seconds add to the ping: as `added`, s."""
        return self._over_idle(self.cell.each(lambda run: _startup(run, self.start_s)))

    @cached_property
    def utilisation(self) -> Numbers:
        """Utilisation, mean of both directions."""
        up, down = (self.queue(way, "utilisation") for way in ("up", "down"))
        return Numbers({seed: (up[seed] + down[seed]) / 2 for seed in up if seed in down})


def _jain(run: PaperRun) -> float | None:
    rows, shares = iter(run.found.get("per_flow") or ()), []
    for group in run.found.get("groups") or ():
        own = list(islice(rows, group["flows"]))
        if group["direction"] == "up":
            shares += [row["goodput_bytes_per_s"] for row in own]
    return jain_index(shares) if any(shares) else None


def _startup(run: PaperRun, start_s: float) -> float | None:
    took = _pings(run, start_s, start_s + _STARTUP_S)
    return percentile(took, 95.0) if took.size else None


def _pings(run: PaperRun, start_s: float, end_s: float) -> NDArray[np.float64]:
    """Give the round-trip times of the pings of a span of time, s; none of a run without."""
    if not run.files.probes.exists():
        return np.empty(0)
    time, took = read_probes(run.files)[_PING]
    return np.asarray(took[(time >= start_s) & (time < end_s) & ~np.isnan(took)], np.float64)


def latency(members: Sequence[Member], command: str) -> Page | None:
    """Give the page; None where no experiment has the groups and the probes."""
    return page_of_each("latency", "Latency under load", members, partial(_blocks, command))


def _blocks(command: str, member: Member, name: str) -> Iterator[Block]:
    groups, probes = member.experiment.traffic.groups or {}, member.experiment.traffic.probes or {}
    if not ({_NEAR, _FAR, _DOWN} <= set(groups) and {_PING, _CALL} <= set(probes)):
        return
    start = min(group.start for group in groups.values())
    loads = [Load(cell, start) for cell in cells_of(member.section)]
    blocks: dict[tuple[tuple[str, str], ...], list[Load]] = {}
    for load in loads:
        blocks.setdefault(load.block, []).append(load)
    labelled = {_label(block): own for block, own in blocks.items()}
    yield Text(_PAPER.texts["setting"], member.experiment.title)
    yield Claims(tuple(claims_of(labelled)), command)
    yield from _figures(labelled, name)
    yield Text(_PAPER.texts["numbers"], "Delay, throughput, loss and fairness")
    for number, (label, own) in enumerate(labelled.items(), 1):
        yield _table(own, label, str(number) if name == "latency" else f"{name}-{number}")


def _label(block: tuple[tuple[str, str], ...]) -> str:
    words = {"topology.chain.delay": "base RTT {}", "traffic.groups.near.flows": "{} + 2 flows up"}
    return ", ".join(words.get(key, f"{key} = {{}}").format(text) for key, text in block)


def _columns(load: Load) -> Iterator[tuple[str, Numbers, int, float]]:
    yield "ping + (ms)", load.added, 1, 1e3
    yield "startup + (ms)", load.startup, 0, 1e3
    yield "call, p50 (ms)", load.probe(_CALL, "p50_s"), 1, 1e3
    yield "call, p99 (ms)", load.probe(_CALL, "p99_s"), 1, 1e3
    yield "utilisation", load.utilisation, 3, 1
    yield "goodput (Mbit/s)", load.goodput, 2, 8e-6
    yield "loss (%)", load.queue("up", "loss_percent"), 2, 1
    yield "CE packets", load.queue("up", "ce_packets"), 0, 1
    yield "Jain's index", load.jain, 3, 1
    yield "near / far", load.bias, 2, 1


def _table(loads: Sequence[Load], label: str, name: str) -> Table:
    rows = [
        (load.name, *(numbers.printed(d, s) for _, numbers, d, s in _columns(load)))
        for load in loads
    ]
    return Table(
        name,
        ("queue", *(heading for heading, *_ in _columns(loads[0]))),
        tuple(rows),
        f"{label[:1].upper()}{label[1:]}: means over seeds and half widths of 95 % intervals.",
    )


def _figures(blocks: Mapping[str, Sequence[Load]], name: str) -> Iterator[Drawing]:
    """Yield both figures for each two workloads."""
    labels = list(blocks)
    for draw in (_scatter, _distribution):
        for number, at in enumerate(range(0, len(labels), 2), 1):
            yield draw({label: blocks[label] for label in labels[at : at + 2]}, f"{name}-{number}")


def _scatter(blocks: Mapping[str, Sequence[Load]], name: str) -> Drawing:
    points = tuple(
        Point(load.name, 1e3 * added, (8e-6 * load.goodput[seed],), label)
        for label, loads in blocks.items()
        for load in loads
        for seed, added in load.added.items()
    )
    only = blocks if len(blocks) == 1 else ()
    title, axis = "Goodput against what load adds to the ping", "Goodput (Mbit/s)"
    frame = AgainstDelay(
        ", ".join(("Runs, their means and one standard deviation", *only)),
        title=title,
        x="95th percentile of the ping under load less the idle median (ms), reversed",
    )
    caption = "Goodput of all flows of both directions. The delay axis is reversed."
    missing = () if points else ("no run",)
    return Drawing(f"fig-{name}-scatter", title, caption, points, frame, missing, axis=axis)


def _distribution(blocks: Mapping[str, Sequence[Load]], name: str) -> Drawing:
    points = tuple(
        Point(load.name, value, (float(share),), label)
        for label, loads in blocks.items()
        for load in loads
        if (values := _ping(load))
        for value, share in zip(values, _QUANTILES, strict=True)
    )
    title = "Round-trip time of the ping under load"
    frame = Lines(
        *(title, "Distributions; quantiles are means over seeds", "Round-trip time (ms)", "Share"),
        ticks=(20, 50, 100, 200, 500),
        top=1.02,
        steps="post",
        unit="ms",
    )
    caption = "Share of the pings that take no longer."
    missing = () if points else ("no run",)
    return Drawing(f"fig-{name}-ping", title, caption, points, frame, missing, axis="Share")


def _ping(load: Load) -> list[float]:
    """Give the quantiles of the ping's round-trip time under load, ms, means over seeds."""
    found = [_pings(run, *run.found["window_s"]) for run in load.cell.runs]
    quantiles = [1e3 * np.quantile(took, _QUANTILES) for took in found if took.size]
    return list(map(float, np.mean(quantiles, axis=0))) if quantiles else []


def claims_of(blocks: Mapping[str, Sequence[Load]]) -> Iterator[PaperClaim]:
    """Yield the sentences of the papers, judged by the cells."""
    found: dict[str, list[tuple[str, Measured]]] = {}
    for label, loads in blocks.items():
        for name, what, number in _checks(loads):
            found.setdefault(name, []).append((f"{what}; {label}", number))
    for name, numbers in found.items():
        yield _PAPER.each(name, numbers)


def _checks(loads: Sequence[Load]) -> Iterator[tuple[str, str, Measured]]:
    """Yield of one workload: the sentence, the queue, and the number."""
    by_name = {load.name: load for load in loads}
    tail = by_name.get(_TAIL_DROP)
    single = [load for load in loads if load.cell.case in _SINGLE]
    for load in loads:
        if load in single:
            yield from _of_single(load, tail)
        if load.cell.case in _FAIR:
            yield from _of_fair(load, single, tail)
        if load.cell.case == _PIE:
            mean = load.queue("up", "queueing_delay_s.mean")
            yield "pie-target", load.name, scaled(mean, 1e3)
            yield "pie-utilisation", load.name, scaled(load.utilisation)
    for load in loads:
        without = by_name.get(load.cell.case)
        if load.marks and without:
            lost = partial(Load.queue, direction="up", key="loss_percent")
            yield "ecn-loss", load.name, _over(load, without, lost)


def _of_single(load: Load, tail: Load | None) -> Iterator[tuple[str, str, Measured]]:
    if load.marks:
        return
    if tail:
        yield "good-steady", load.name, _over(load, tail, lambda one: one.added)
        yield "good-unfair", load.name, _over(load, tail, lambda one: one.bias)
    yield "good-startup", load.name, paired(lambda a, b: a / b, load.startup, load.added)


def _of_fair(
    load: Load, single: Sequence[Load], tail: Load | None
) -> Iterator[tuple[str, str, Measured]]:
    if load.cell.case == _CAKE:
        yield "cake-hosts", load.name, scaled(load.hosts)
        return
    yield "fq-sparse", load.name, scaled(load.probe(_CALL, "p99_s"), 1e3)
    if load.marks:
        return
    yield "good-fair", load.name, scaled(load.bias)
    for other in single:
        if not other.marks:
            added = _over(load, other, lambda one: one.added)
            yield "good-balance", f"{load.name} over {other.name}", added
    if tail:
        yield "good-goodput", load.name, _over(load, tail, lambda one: one.goodput)
        yield "fq-utilisation", load.name, _over(load, tail, lambda one: one.utilisation)


def _over(load: Load, other: Load, of: Callable[[Load], Numbers]) -> Measured:
    return ratio_of({one.name: of(one) for one in (load, other)})
