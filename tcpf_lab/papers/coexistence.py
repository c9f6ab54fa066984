"""The page on one flow beside loss-based flows, over buffers: BBR's share against Ware's model.

``coexistence.toml`` has its texts and the sentences of the papers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tcpf_lab.base.errors import LabError
from tcpf_lab.metrics.tcp_info import read_tcp_info
from tcpf_lab.papers.figures import Lines, page_of_each
from tcpf_lab.papers.groups import resolved_cells
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
    ratio_of,
    scaled,
)
from tcpf_lab.report.claims.papers import Measured, PaperClaim, Words, paired
from tcpf_lab.report.contents.subject import Member
from tcpf_lab.report.table import NOTHING
from tcpf_lab.spec.group import Group

_PAPER = Words(Path(__file__).with_name("coexistence.toml"))
#: The groups: one flow, and the loss-based flows beside it.
ONE, REST = "one", "rest"
_NAMES = {"bbr": "BBR", "cubic": "CUBIC", "reno": "Reno"}
_LOSS_BASED = ("cubic", "reno")
#: BBR leaves its ProbeRTT state after this, and enters it once in so long, s.
_PROBE_RTT, _PROBE_RTT_EVERY = 0.2, 10.0
#: Packets in flight of each BBR flow in ProbeRTT.
_LEAST = 4
#: Bytes of an Ethernet header.
_HEADER = 14
#: States of the kernel's loss recovery: Recovery and Loss.
_RECOVERY = 3
#: Buffers, in bandwidth-delay products, that are shallow and deep.
_SHALLOW, _DEEP = 1, 8


def predicted(buffer: float, packets: float, rtt: float, flows: int) -> tuple[float, float]:
    """Give the share of BBR flows beside loss-based flows, and their window, by Ware et al.

    The loss-based flows have ``p = 1/2 - 1/(2X) - 4N/q`` of the queue, and as much of the link; the
    rest of queue and link is the window of the BBR flows, packets. In ProbeRTT, once in 10 s, they
    send next to nothing until a full queue has drained, for 200 ms and for a round-trip time.

    Parameters
    ----------
    buffer : float
        The buffer, X, bandwidth-delay products.
    packets : float
        The same, q, packets.
    rtt : float
        Base round-trip time, s.
    flows : int
        Number of BBR flows, N.

    Examples
    --------
    >>> share, window = predicted(8, 264, 0.04, 1)
    >>> round(share, 3), round(window)
    (0.545, 172)
    """
    most = at_most(buffer, packets, flows)
    probing = (buffer * rtt + _PROBE_RTT + rtt) / _PROBE_RTT_EVERY
    return most * (1 - probing), most * (packets + packets / buffer)


def at_most(buffer: float, packets: float, flows: int) -> float:
    """Give the share ``1 - p`` of BBR flows beside loss-based flows while they do not probe.

    In an infinite buffer it is a half.
    """
    return 1 - max(0.0, 1 / 2 - 1 / (2 * buffer) - _LEAST * flows / packets)


@dataclass(frozen=True, eq=False)
class Pair:
    """A cell: what sends, beside what, over which buffer.

    ``rate`` is that of the bottleneck, bit/s; ``rtt`` the base round-trip time, s; ``limit`` the
    buffer and ``frame`` a packet in it, bytes.
    """

    cell: CellRuns
    groups: Mapping[str, Group]
    rate: float
    rtt: float
    limit: int
    frame: int

    @cached_property
    def buffer(self) -> float:
        """The buffer, bandwidth-delay products."""
        return self.limit / (self.rate * self.rtt / 8)

    @property
    def who(self) -> tuple[str, str, int]:
        """Congestion control of the one, that of the others, and their number."""
        one, rest = self.groups[ONE], self.groups[REST]
        return str(one.congestion), str(rest.congestion), rest.flows

    @property
    def flows(self) -> int:
        """Number of flows of the first group."""
        return self.groups[ONE].flows

    @property
    def label(self) -> str:
        """Say who sends beside whom."""
        one, rest, flows = self.who
        return f"{_NAMES.get(one, one)} beside {flows} {_NAMES.get(rest, rest)}"

    @cached_property
    def fair(self) -> float:
        """The share of the first group if all flows had the same."""
        return self.flows / (self.flows + self.groups[REST].flows)

    @cached_property
    def model(self) -> tuple[float, float]:
        """The share of the first group by the model of BBR, and its window, packets."""
        return predicted(self.buffer, self.limit / self.frame, self.rtt, self.flows)

    def number(self, group: str, key: str) -> Numbers:
        """Give a number of a group, for each seed."""
        place = list(self.groups).index(group)
        return self.cell.number(f"groups.{place}.{key}")

    @cached_property
    def share(self) -> Numbers:
        """The share of the first group."""
        return self.number(ONE, "share")

    @cached_property
    def error(self) -> Numbers:
        """Distance of the measured share from the model's, points."""
        return Numbers({seed: 100 * (one - self.model[0]) for seed, one in self.share.items()})

    @cached_property
    def sampled(self) -> dict[int, Sampled]:
        """What TCP_INFO shows of the first group, by seed."""
        found = {run.seed: _sampled(run, self.flows) for run in self.cell.runs}
        return {seed: one for seed, one in found.items() if one}

    @cached_property
    def in_flight(self) -> Numbers:
        """Packets in flight over the congestion window outside loss recovery: median over time."""
        return Numbers({seed: one.in_flight for seed, one in self.sampled.items()})


class Sampled(NamedTuple):
    """Packets in flight over the window outside loss recovery, the window, packets (medians).

    ``recovery`` is the share of the time in loss recovery, in which TCP_INFO counts lost packets as
    in flight.
    """

    in_flight: float
    window: float
    recovery: float


def _sampled(run: PaperRun, flows: int) -> Sampled | None:
    try:
        samples = read_tcp_info(run.files)
    except LabError:
        return None
    start, end = (1e9 * at for at in run.found["window_s"])
    inside = (samples["time_ns"] >= start) & (samples["time_ns"] < end)
    own = samples[inside & (samples["flow"] < flows) & (samples["cwnd"] > 0)]
    if not own.size:
        return None
    recovers = own["ca_state"] >= _RECOVERY
    others = own[~recovers] if not recovers.all() else own
    in_flight = float(np.median(others["unacked"] / others["cwnd"]))
    return Sampled(in_flight, float(np.median(own["cwnd"])) * flows, float(np.mean(recovers)))


def coexistence(members: Sequence[Member], command: str) -> Page | None:
    """Give the page; None where no experiment has a run."""
    return page_of_each(
        "coexistence", "One flow beside loss-based flows", members, partial(_blocks, command)
    )


def pairs_of(member: Member) -> list[Pair]:
    """Give the cells of an experiment with the groups of the page, by who sends and the buffer."""
    found = []
    for cell, experiment in resolved_cells(member):
        chain, groups = experiment.topology.chain, experiment.traffic.groups or {}
        limit = experiment.cases[cell.case].queue.limit
        if chain and limit and {ONE, REST} <= set(groups):
            rate, rtt = chain.bottleneck, chain.delay
            if isinstance(rate, int) and isinstance(rtt, float):  # no schedule of either
                found.append(Pair(cell, groups, rate, rtt, limit, chain.mtu + _HEADER))
    return sorted(found, key=lambda pair: (*pair.who, pair.buffer))


def _blocks(command: str, member: Member, name: str) -> Iterator[Block]:
    pairs = pairs_of(member)
    if not pairs:
        return
    yield Text(_PAPER.texts["setting"], member.experiment.title)
    yield Claims(tuple(claims_of(pairs)), command)
    yield Text(_PAPER.texts["numbers"], "Shares")
    yield _share_figure(pairs, name)
    yield _table(pairs, name)
    yield Text(_PAPER.texts["window"], "Why the model is off")
    yield _window_figure(pairs, name)
    yield _window_table([pair for pair in pairs if _has_bbr(pair)], name)


def _table(pairs: Sequence[Pair], name: str) -> Table:
    rows = [
        (
            *(_at(pair), pair.share.printed(1, 100)),
            *_against_model(pair),
            pair.number(ONE, "loss_percent").printed(2),
            pair.number(ONE, "queueing_delay_s.p50").printed(0, 1e3),
        )
        for pair in pairs
    ]
    headings = (
        *("flows and buffer", "share (%)", "model (%)", "error (points)"),
        *("loss (%)", "delay, p50 (ms)"),
    )
    return Table(
        "shares" if name == "coexistence" else f"{name}-shares",
        headings,
        rows,
        "Share, loss and queueing delay of the first flow: means over seeds and half widths of "
        "95 % intervals; error: measured less model.",
    )


def _against_model(pair: Pair) -> tuple[str, str]:
    if not _has_bbr(pair):
        return NOTHING, NOTHING
    return f"{100 * pair.model[0]:.1f}", pair.error.printed(1)


def _window_table(pairs: Sequence[Pair], name: str) -> Table:
    rows = []
    for pair in pairs:
        window, recovery = (
            Numbers({seed: one[place] for seed, one in pair.sampled.items()}) for place in (1, 2)
        )
        printed = window.printed(0), f"{pair.model[1]:.0f}", recovery.printed(1, 100)
        rows.append((_at(pair), pair.in_flight.printed(2), *printed))
    columns = ("in flight / cwnd", "cwnd (packets)", "model (packets)", "in recovery (%)")
    return Table(
        "window" if name == "coexistence" else f"{name}-window",
        ("flows and buffer", *columns),
        rows,
        "BBR's window, from TCP_INFO: medians over time (packets in flight: outside loss recovery) "
        "and share of the time in loss recovery; model: the window it predicts.",
    )


def _has_bbr(pair: Pair) -> bool:
    return pair.who[0] == "bbr"


def _panel(pair: Pair) -> str:
    return f"Beside {pair.who[2]} flow{'s' * (pair.who[2] > 1)}"


def _series(pair: Pair) -> str:
    return pair.label.replace(f" {pair.who[2]} ", " ")


def _share_figure(pairs: Sequence[Pair], name: str) -> Drawing:
    points = []
    for pair in pairs:
        if pair.share:
            values = tuple(100 * value for value in pair.share.values_by_seed)
            points.append(Point(_series(pair), pair.buffer, values, _panel(pair)))
            if pair.who[:2] == ("bbr", "cubic"):
                model = 100 * pair.model[0]
                points.append(Point("Model of BBR", pair.buffer, (model,), _panel(pair)))
    levels = {_panel(pair): 100 * pair.fair for pair in pairs if pair.share}
    points += [Point("Fair", np.nan, (fair,), panel) for panel, fair in levels.items()]
    return _lines(
        f"fig-{name}-share",
        ("Share of the first flow over the buffer", "Means over seeds, 95 % intervals"),
        "BBR, or CUBIC as the control, beside loss-based flows; the model is that of Ware et al.",
        points,
        "Share (%)",
    )


def _window_figure(pairs: Sequence[Pair], name: str) -> Drawing:
    return _lines(
        f"fig-{name}-window",
        ("Packets in flight over the congestion window", "Medians over time, means over seeds"),
        "At 1 the window limits what a flow has in flight, below it pacing does. Samples in loss "
        "recovery are left out.",
        [
            Point(_series(pair), pair.buffer, pair.in_flight.values_by_seed, _panel(pair))
            for pair in pairs
            if pair.in_flight
        ],
        "In flight / cwnd",
    )


def _lines(
    name: str,
    heads: tuple[str, str],
    caption: str,
    points: Sequence[Point],
    axis: str,
) -> Drawing:
    ticks = tuple(sorted({point.x for point in points if not np.isnan(point.x)}))
    frame = Lines(*heads, "Buffer (bandwidth-delay products)", axis, ticks, unit="BDP")
    missing = () if points else ("no run",)
    return Drawing(name, heads[0], caption, tuple(points), frame, missing, axis=axis)


def claims_of(pairs: Sequence[Pair]) -> Iterator[PaperClaim]:
    """Yield the sentences of the papers, judged by the cells."""
    bbr = [pair for pair in pairs if _has_bbr(pair)]
    several = [pair for pair in bbr if pair.who[2] > 1]
    alone = [pair for pair in bbr if pair.who == ("bbr", "cubic", 1)]
    shallow = [pair for pair in alone if pair.buffer <= _SHALLOW]
    control = {pair.buffer: pair for pair in pairs if pair.who == ("cubic", "cubic", 1)}
    checks: dict[str, Iterable[tuple[str, Measured]]] = {
        **{f"ware-{rest}": _errors([p for p in bbr if p.who[1] == rest]) for rest in _LOSS_BASED},
        "ware-number": (
            (_at(p), _over(p, other, "share")) for p in several if (other := _single(p, bbr))
        ),
        "ware-unfair": ((_at(p), scaled(p.share, 1 / p.fair)) for p in several),
        "ware-half": (
            (_at(p), scaled(p.share, 1 / at_most(p.buffer, p.limit / p.frame, p.flows)))
            for p in bbr
            if p.buffer >= _DEEP and p.who[1] == "cubic"
        ),
        "ware-window": ((_at(p), scaled(p.in_flight)) for p in bbr if p.who[1] == "cubic"),
        "cao-shallow": ((_at(p), scaled(p.share)) for p in shallow),
        "cao-loss": (
            (_at(p), _over(p, control[p.buffer], "loss_percent"))
            for p in shallow
            if p.buffer in control
        ),
        "cao-deep": ((_at(p), scaled(p.share)) for p in alone if p.buffer >= _DEEP),
    }
    for name, numbers in checks.items():
        if found := list(numbers):
            yield _PAPER.each(name, found)


def _at(pair: Pair) -> str:
    return f"{pair.label}, {pair.buffer:g} BDP"


def _over(pair: Pair, other: Pair, key: str) -> Measured:
    return ratio_of({_at(one): one.number(ONE, key) for one in (pair, other)})


def _single(pair: Pair, others: Sequence[Pair]) -> Pair | None:
    """Give the pair of the same flows and buffer with one flow beside."""
    wanted = (*pair.who[:2], 1)
    return next((p for p in others if p.who == wanted and p.buffer == pair.buffer), None)


def _errors(pairs: Sequence[Pair]) -> Iterator[tuple[str, Measured]]:
    """Yield the median over buffers of the model's error, for each number of flows beside."""
    for label in dict.fromkeys(pair.label for pair in pairs):
        errors = [pair.error for pair in pairs if pair.label == label]
        yield label, paired(lambda *each: float(np.median(np.abs(each))), *errors)
