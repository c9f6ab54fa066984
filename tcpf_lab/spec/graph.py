"""What an experiment's topology comes down to: machines, links, and what links do to packets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema

from tcpf_lab.base.units import (
    DURATION,
    Duration,
    Probability,
    UnitError,
    format_duration,
    parse_duration,
)
from tcpf_lab.spec.changing import Delay, Schedule, Share, Trace, changes_of, highest, value_at
from tcpf_lab.spec.words import KeyPath, RefusedError, SpecModel, tc_time

#: Packets lost in a row on average, at most: more is no loss but an outage.
_LONGEST_BURST = 1000.0
#: A SYN is given up after two minutes, and netem's times are 32-bit numbers of 64 ns.
_LONGEST_DELAY = 100.0
#: netem cuts what is more than 2^31 - 1 ns to that.
_LARGEST_JITTER = 2.0


#: Words of `netem` that keep packets in order: with a rate each leaves behind the one before, and
#: at this rate it takes a nanosecond more.
IN_ORDER = ("rate", "8tbit")


def delay_problem(seconds: float) -> str | None:
    """Return why no flow connects over a link with this delay; None if one does."""
    if seconds <= _LONGEST_DELAY:
        return None
    return f"must be at most {_LONGEST_DELAY:g} s, not {format_duration(seconds)}"


class Impairment(SpecModel):
    """Loss, duplication, reordering and jitter in one direction (Linux `netem`), applied by R2.

    `forward` applies to data after the bottleneck, `reverse` to acknowledgements before R1. Its
    losses do not count as loss at the bottleneck.
    """

    loss: Share = 0.0
    """Fraction of the packets that is lost, or a schedule of it."""
    loss_burst: float = Field(default=1.0, ge=1, le=_LONGEST_BURST)
    """Mean number of consecutive losses. 1: independent losses. More: Gilbert model, whose bad
    state loses every packet and lasts this many packets."""
    duplicate: Probability = 0.0
    """Fraction of the packets that is duplicated."""
    reorder: Probability = 0.0
    """Fraction of the packets that is sent without `delay`, ahead of delayed ones."""
    delay: Delay = 0.0
    """Delay of the other packets, or a schedule of it; it adds to the round-trip time."""
    jitter: Duration = 0.0
    """Each delay is uniform from `delay` - `jitter` to `delay` + `jitter`, which reorders packets
    that follow each other more closely, unless `in_order`."""
    in_order: bool = False
    """No packet leaves before an earlier one, whatever its delay: jitter, and a delay that becomes
    shorter, reorder none."""

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield what netem would ignore, clip, or make an interrupted path of."""
        loss, delay = highest(self.loss), highest(self.delay)
        if not (loss or self.duplicate or self.reorder or delay):
            yield (), "has no effect: set loss, duplicate, reorder or delay, or remove it"
        if self.in_order and not self.jitter and not isinstance(self.delay, Schedule):
            yield ("in_order",), "has no effect without jitter, or a delay that changes"
        if self.in_order and self.reorder:
            yield ("in_order",), "cannot be combined with reorder; remove one of them"
        if self.loss_burst > 1 and not loss:
            yield ("loss_burst",), "has no effect without loss: set loss too, or remove loss_burst"
        found = (one for time in (0.0, *self.changes) for one in self.at(time)._wrong())
        yield from dict.fromkeys(found)

    def _wrong(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield what is wrong of values that do not change."""
        loss, own_delay = value_at(self.loss, 0), value_at(self.delay, 0)
        shares = {"loss": loss, "duplicate": self.duplicate, "reorder": self.reorder}
        for name, share in shares.items():
            if share >= 1:
                yield (name,), f"must be less than 1, not {share:g}"
        if self.loss_burst > 1 and loss < 1 and self._to_bad > 1:
            needed = loss / (1 - loss)
            sentence = f"must be at least {needed:.3g} with loss {loss:g}"
            yield ("loss_burst",), f"{sentence}, not {self.loss_burst:g}"
        if too_long := delay_problem(own_delay):
            yield ("delay",), too_long
        if self.reorder and not own_delay:
            yield ("reorder",), "has no effect without delay: reordered packets skip the delay"
        jitter = format_duration(self.jitter)
        if self.jitter > own_delay:
            delay = format_duration(own_delay)
            yield ("jitter",), f"must be at most delay ({delay}), not {jitter}"
        if self.jitter > _LARGEST_JITTER:
            yield ("jitter",), f"must be at most {_LARGEST_JITTER:g} s, not {jitter}"

    @property
    def changes(self) -> tuple[float, ...]:
        """Instants at which it changes, seconds."""
        return changes_of(self.loss, self.delay)

    def at(self, time: float) -> Impairment:
        """Give what it is at an instant."""
        values = {"loss": value_at(self.loss, time), "delay": value_at(self.delay, time)}
        return self.model_copy(update=values)

    @property
    def longest(self) -> float:
        """The longest time that a packet is held back, seconds."""
        return highest(self.delay) + self.jitter

    @property
    def _to_bad(self) -> float:
        """Probability of entering the bad state that gives `loss` if it is left with 1/burst."""
        loss = value_at(self.loss, 0)
        return loss / (1 - loss) / self.loss_burst

    def tc(self) -> tuple[str, ...]:
        """Give the words that follow ``netem limit N``, at the beginning."""
        loss, delay = value_at(self.loss, 0), value_at(self.delay, 0)
        words: list[str] = []
        if delay:
            words += ["delay", tc_time(delay), *([tc_time(self.jitter)] if self.jitter else [])]
        if loss and self.loss_burst > 1:
            words += ["loss", "gemodel", _percent(self._to_bad), _percent(1 / self.loss_burst)]
        elif loss:
            words += ["loss", "random", _percent(loss)]
        for name in ("duplicate", "reorder"):
            share = getattr(self, name)
            words += [name, _percent(share)] if share else []
        return (*words, *(IN_ORDER if self.in_order else ()))

    def shown(self) -> dict[str, dict[str, float]]:
        """Give the options that ``tc -j qdisc show`` must show, of values that do not change."""
        loss, delay = value_at(self.loss, 0), value_at(self.delay, 0)
        found: dict[str, dict[str, float]] = {}
        if delay:
            found["delay"] = {"delay": delay, "jitter": self.jitter}
        if loss and self.loss_burst > 1:
            found["loss-gemodel"] = {"p": self._to_bad, "r": 1 / self.loss_burst}
        elif loss:
            found["loss-random"] = {"loss": loss}
        shares = {name: getattr(self, name) for name in ("duplicate", "reorder")}
        return found | {name: {name: share} for name, share in shares.items() if share}


def _percent(share: float) -> str:
    """Write a share for ``tc``, which takes a bare number for a percentage."""
    return f"{100 * share:.7f}".rstrip("0").rstrip(".") + "%"


Role = Literal["sender", "marker", "bottleneck", "router", "receiver", "source", "probe"]

#: Roles of the two ends of flows.
ENDS: tuple[Role, ...] = ("sender", "receiver")
#: Versions of IP.
Ip = Literal[4, 6]
#: Bytes of IP and TCP header without options.
HEADERS: dict[Ip, int] = {4: 40, 6: 60}
#: Smallest `mtu` of IPv6, bytes (RFC 8200).
SMALLEST_IPV6_MTU = 1280
#: Bytes of the largest packet of several segments, about.
LARGEST = 65536
#: Bytes of an Ethernet header, which ``tc`` counts.
ETHERNET_HEADER = 14
#: Bytes of a frame's time on a wire besides its IP packet: preamble, header, checksum and gap.
FRAMING = 38


@dataclass(frozen=True)
class Node:
    """A machine.

    ``role``: sender and receiver are the ends of the flows; the node with the role marker stands in
    front of the bottleneck and sees both directions; the node with the role bottleneck owns the
    queue under test.  A source sends background packets, which no other node receives.
    Either end of a probe is one.  ``ip`` is what an end speaks; nodes between forward both.
    """

    name: str
    role: Role
    ip: Ip = 4


@dataclass(frozen=True)
class Link:
    """A link between two nodes, the same rate both ways.

    Parameters
    ----------
    a, b : str
        Names of the nodes; data flows from ``a`` to ``b``, acknowledgements back.
    rate : int
        bit/s; of one that changes, what its queue is configured for.
    delay_ab, delay_ba : float
        Delay added at the egress of ``a`` towards ``b`` and of ``b`` towards ``a``, seconds.
    mtu : int
        Largest IP packet, bytes.
    queue : int
        Bytes that the queue at either end must hold at least, so that it never drops.
    bottleneck : bool
        Whether the queue at ``a`` towards ``b`` is the one under test, in place of ``queue``.
    impairment_ab, impairment_ba : Impairment, optional
        What else happens at the egress of ``a`` towards ``b`` and of ``b`` towards ``a``.
    ring : int
        Frames that either end holds between its queue and a wire that both share (half duplex);
        0: full duplex.
    both : bool
        Whether the queue at ``b`` towards ``a`` is under test too.
    changing : Schedule or Trace, optional
        The rate over time, both ways, if it changes.
    delays_ba : Schedule, optional
        ``delay_ba`` over time, if it changes.
    offloads : bool
        Whether TSO, GSO and GRO are on at both ends: packets of several segments pass it whole.
    """

    a: str
    b: str
    rate: int
    delay_ab: float
    delay_ba: float
    mtu: int
    queue: int
    bottleneck: bool = False
    impairment_ab: Impairment | None = None
    impairment_ba: Impairment | None = None
    ring: int = 0
    both: bool = False
    changing: Schedule[int] | Trace | None = None
    delays_ba: Schedule[float] | None = None
    offloads: bool = False


@dataclass(frozen=True)
class CrossTraffic:
    """Flows that pass one of several bottlenecks only.

    Parameters
    ----------
    sender, receiver, marker : str
        The nodes they begin and end at, and the one that marks them.
    bottleneck : str
        The node whose queue they pass.
    flows : int
        How many.
    """

    sender: str
    receiver: str
    marker: str
    bottleneck: str
    flows: int


@dataclass(frozen=True)
class Graph:
    """Nodes and links; link order is along the path from the senders to the receivers.

    ``cross`` is the traffic beside that of the matrix, in the order of the bottlenecks.
    """

    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    cross: tuple[CrossTraffic, ...] = ()

    def having(self, role: Role) -> tuple[Node, ...]:
        """Give the nodes with a role, in order."""
        return tuple(node for node in self.nodes if node.role == role)

    @property
    def bottlenecks(self) -> tuple[Link, ...]:
        """The links whose ``a`` end has a queue under test, along the path."""
        return tuple(link for link in self.links if link.bottleneck)

    @property
    def bottleneck(self) -> Link:
        """The first of them, where only one matters."""
        return self.bottlenecks[0]

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Sender and receiver of the matrix's flows, in order."""
        beside = {name for one in self.cross for name in (one.sender, one.receiver)}
        ends = (
            [node.name for node in self.having(role) if node.name not in beside] for role in ENDS
        )
        return tuple(zip(*ends, strict=True))

    def path(self, start: str, end: str) -> tuple[Link, ...]:
        """Give the links from one node to another, of which a graph has one sequence only."""
        leaving: dict[str, list[tuple[str, Link]]] = {node.name: [] for node in self.nodes}
        for link in self.links:
            leaving[link.a].append((link.b, link))
            leaving[link.b].append((link.a, link))
        ways: dict[str, tuple[Link, ...]] = {start: ()}
        waiting = [start]
        while end not in ways:
            here = waiting.pop()
            for node, link in leaving[here]:
                if node not in ways:
                    ways[node] = (*ways[here], link)
                    waiting.append(node)
        return ways[end]

    @property
    def rates(self) -> dict[tuple[str, str], int]:
        """Rate of the link between two nodes, bit/s."""
        return {(link.a, link.b): link.rate for link in self.links}

    @property
    def mss(self) -> int:
        """Largest TCP payload without options of every flow, bytes."""
        sources = {node.name for node in self.having("source")}
        mtu = min(link.mtu for link in self.links if link.a not in sources)
        return mtu - max(HEADERS[node.ip] for node in self.nodes)

    @property
    def has_ipv6(self) -> bool:
        """Whether any node speaks IPv6."""
        return any(node.ip == 6 for node in self.nodes)

    def speaking(self, ip: Ip) -> Graph:
        """Give the graph with flows of this version of IP."""
        nodes = (replace(one, ip=ip) if one.role in ENDS else one for one in self.nodes)
        return replace(self, nodes=tuple(nodes))


#: The slowest link, bit/s: below, a packet takes longer than the 32 bits of tc's bucket hold.
SLOWEST = 1000


_RANGE = re.compile(r"(.+?)\.\.(.+)", flags=re.DOTALL)
_FORMS = "write one duration, a list with one per pair, or FIRST..LAST, such as 12 ms..26 ms"


@dataclass(frozen=True)
class Delays:
    """What a file says of the delays; `of` gives them.

    Parameters
    ----------
    values : tuple of float
        Seconds: one for all, one for each pair, or the first and the last.
    even : bool
        Whether the two values are the ends of a range.
    """

    values: tuple[float, ...]
    even: bool = False

    def of(self, pairs: int) -> tuple[float, ...]:
        """Give the delay of each pair, in seconds, to the microsecond, which is netem's grain."""
        if self.even:
            first, last = self.values
            step = (last - first) / (pairs - 1)
            return tuple(round(first + k * step, 6) for k in range(pairs))
        return self.values * pairs if len(self.values) == 1 else self.values

    def problems(self, pairs: int) -> Iterator[str]:
        """Yield why these cannot be the delays of so many pairs."""
        if self.even and pairs == 1:
            yield "is a range, but there is only one pair; write one duration"
        elif not self.even and len(self.values) not in (1, pairs):
            yield f"lists {len(self.values)} delays for {pairs} pairs; {_FORMS}"


def parse_delays(value: Any) -> Delays:
    """Read delays.

    Raises
    ------
    UnitError
        If it is none of the three forms, or a range does not go upwards.
    RefusedError
        If items of a list are no durations.

    Examples
    --------
    >>> parse_delays("12 ms..26 ms").of(8)[:3]
    (0.012, 0.014, 0.016)
    """
    if isinstance(value, Delays):
        return value
    if isinstance(value, list | tuple):
        return _listed(value)
    ends = _RANGE.fullmatch(value.strip()) if isinstance(value, str) else None
    if ends is None:
        return Delays((parse_duration(value),))
    if ".." in ends[2] or ":" in ends[2]:
        raise UnitError(f"{value!r} is not a range of delays; {_FORMS}")
    first, last = (parse_duration(end.strip()) for end in ends.groups())
    if not first < last:
        raise UnitError(f"{value!r} runs downwards; write the shorter delay first")
    return Delays((first, last), even=True)


def _listed(values: list[Any] | tuple[Any, ...]) -> Delays:
    if not values:
        raise UnitError(f"the list is empty; {_FORMS}")
    read, wrong = [], []
    for index, item in enumerate(values):
        try:
            read.append(parse_duration(item))
        except UnitError as error:
            wrong.append(((index,), error.message))
    if wrong:
        raise RefusedError(tuple(wrong))
    return Delays(tuple(read))


def format_delays(delays: Delays) -> str | list[str]:
    """Write delays as a file has them; `parse_delays` gives back the same.

    Examples
    --------
    >>> format_delays(parse_delays("0.012 s..26 ms"))
    '12 ms..26 ms'
    """
    written = [format_duration(value) for value in delays.values]
    if delays.even:
        return "..".join(written)
    return written if len(written) > 1 else written[0]


_RANGE_PATTERN = DURATION.pattern.removesuffix("$") + r"\.\." + DURATION.pattern.removeprefix("^")

#: One duration, a list, or a range, as `Delays`.
AnyDelays = Annotated[
    Delays,
    PlainValidator(parse_delays),
    PlainSerializer(format_delays),
    WithJsonSchema(
        {
            "anyOf": [
                DURATION.json_schema,
                {"type": "string", "pattern": _RANGE_PATTERN, "examples": ["12 ms..26 ms"]},
                {"type": "array", "items": DURATION.json_schema, "minItems": 1},
            ]
        }
    ),
]
