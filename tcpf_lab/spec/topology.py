"""Topologies: a few numbers in the file, a graph of nodes and links for the rest of the program.

To add one: a model with a ``graph`` method, and a key in `Topology`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ConfigDict, Field

from tcpf_lab.base.units import Duration, Rate, Size, format_rate
from tcpf_lab.spec.changing import Delay, LinkRate, Schedule, Trace, highest, value_at
from tcpf_lab.spec.graph import (
    ENDS,
    SLOWEST,
    AnyDelays,
    CrossTraffic,
    Delays,
    Graph,
    Impairment,
    Link,
    Node,
    delay_problem,
)
from tcpf_lab.spec.group import Hosts, receiver_of, sender_of
from tcpf_lab.spec.words import KeyPath, SpecModel

Duplex = Literal["full", "half"]
OFFLOADS = Literal["off", "hosts", "all"]
#: Default frames in a network card; those of the time had 2 to 16.
RING = 16
#: The same on the other links: as many as a card may have. In front of a plain queue the sizes of
#: both together matter alone, and what is captured at a host's card has the time at which it sends.
_ACCESS_RING = 4096
#: Rates of a shared wire, bit/s (10BASE-T and 100BASE-TX), and its largest IP packet.
_RATES, _MTU = (10_000_000, 100_000_000), 1500
#: Bytes of a frame with one, whatever its options.
_ACKNOWLEDGEMENT = 100


class Wires(SpecModel):
    """What a topology says of the wires of its links."""

    if TYPE_CHECKING:  # what every topology has, each in an order of its own
        access: Rate
        bottleneck: LinkRate
        mtu: Size
        host_queue: Size

    duplex: Duplex | None = None
    """`half`: both directions of the bottleneck share one wire of 10 or 100 Mbit (CSMA/CD, IEEE
    802.3); the queue under test feeds it without a shaper. Default: `full`."""
    access_duplex: Duplex | None = None
    """The same for every other link. Default: `full`."""
    offloads: OFFLOADS | None = None
    """Links with TSO, GSO and GRO on at both ends, which packets of several segments pass whole.
    `hosts`: those of senders and receivers; routers queue packets of at most `mtu`. `all`: every
    link; the queue under test holds packets of up to 64 kB. Default: `off`."""
    ring: int | None = Field(
        default=None,
        ge=1,
        le=4096,
        description="Transmit ring of the interfaces at a half-duplex bottleneck, in frames. "
        f"Default: {RING}.",
    )
    ack_queue: Size | None = None
    """Limit of the queue opposite the queue under test, on a half-duplex bottleneck. Default:
    `host_queue`."""

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield what could not work as a bottleneck, as an IPv4 link or as a shared wire."""
        yield from self._rate_problems()
        if not 576 <= self.mtu <= 9000:
            yield ("mtu",), f"must be from 576 B to 9000 B, not {self.mtu} B"
        if self.host_queue < 10 * self.mtu:
            sentence = f"must be at least {10 * self.mtu} B (ten packets of mtu)"
            yield ("host_queue",), f"{sentence}, not {self.host_queue} B"
        yield from self._wire_problems()

    def _rate_problems(self) -> Iterator[tuple[KeyPath, str]]:
        scheduled = self.bottleneck if isinstance(self.bottleneck, Schedule) else None
        rates = [rate for _, rate in scheduled.steps] if scheduled else [self._rate]
        slowest = min((rate for rate in rates if rate), default=0)
        if slowest < SLOWEST:
            outage = ", or 0 bit for an outage" if scheduled else ""
            sentence = f"must be at least 1 kbit{outage}, not {format_rate(slowest)}"
            yield ("bottleneck",), sentence
        if scheduled and not rates[-1] and max(rates):
            yield ("bottleneck",), "must not end in an outage: its packets never arrive"
        if max(rates) > self.access:
            bound = f"access ({format_rate(self.access)})"
            yield ("bottleneck",), f"must be at most {bound}, not {format_rate(max(rates))}"
        if not isinstance(self.bottleneck, int) and self.duplex == "half":
            yield ("bottleneck",), "cannot change on a half-duplex link: write one rate"

    @property
    def _rate(self) -> int:
        """Rate that the bottleneck begins with, or the mean of a trace; not 0."""
        if isinstance(self.bottleneck, Schedule):
            return next((rate for _, rate in self.bottleneck.steps if rate), 0)
        return self.bottleneck.mean if isinstance(self.bottleneck, Trace) else self.bottleneck

    def _wire_problems(self) -> Iterator[tuple[KeyPath, str]]:
        half = {"bottleneck": self._rate} if self.duplex == "half" else {}
        half |= self._others() if self.access_duplex == "half" else {}
        for key, rate in half.items():
            if rate not in _RATES:
                yield (
                    (key,),
                    f"must be 10 Mbit or 100 Mbit on a half-duplex link, not {format_rate(rate)}",
                )
        if half and self.mtu > _MTU:
            yield ("mtu",), f"must be at most {_MTU} B on a half-duplex link, not {self.mtu} B"
        if self.ring is not None and self.duplex != "half":
            yield ("ring",), "has no effect without duplex: half"
        if self.ack_queue is not None and self.ack_queue < _ACKNOWLEDGEMENT:
            sentence = f"must be at least {_ACKNOWLEDGEMENT} B (one ACK), not {self.ack_queue} B"
            yield ("ack_queue",), sentence
        elif self.ack_queue is not None and self.duplex != "half":
            yield ("ack_queue",), "has no effect without duplex: half"
        switched = self.offloads not in (None, "off")
        if switched and self.access_duplex == "half":
            yield ("offloads",), "must be off with access_duplex: half: its frames have at most mtu"
        elif self.offloads == "all" and self.duplex == "half":
            sentence = "must be hosts or off with duplex: half"
            yield ("offloads",), f"{sentence}: its frames have at most mtu"

    def _others(self) -> dict[str, int]:
        """Rates of the links but the bottleneck, by their keys."""
        return {"access": self.access}

    def _link(self, a: str, b: str, **other: Any) -> Link:
        """Give a link that is no bottleneck, and what is ``other`` than usual of it."""
        ring = _ACCESS_RING if self.access_duplex == "half" else 0
        link = Link(a, b, self.access, 0.0, 0.0, self.mtu, self.host_queue, ring=ring)
        return replace(link, **other)

    def _switched(self, graph: Graph, of: Sequence[Hosts] = ()) -> Graph:
        """Give the graph with offloads on where they are to be; groups may have their own."""
        hosts = self.offloads in ("hosts", "all")
        ends = {node.name: hosts for node in graph.nodes if node.role in (*ENDS, "probe")}
        ends |= {
            name: pair.offloads == "on"
            for pair in of
            if pair.offloads is not None
            for name in (sender_of(pair.name), receiver_of(pair.name))
        }
        every = self.offloads == "all"
        links = (
            replace(link, offloads=ends.get(link.a, ends.get(link.b, every)))
            for link in graph.links
        )
        return replace(graph, links=tuple(links))

    def _narrow(self, a: str, b: str, reverse: Impairment | None = None) -> Link:
        """Give a bottleneck."""
        return self._link(
            a,
            b,
            rate=self._rate,
            changing=None if isinstance(self.bottleneck, int) else self.bottleneck,
            bottleneck=True,
            queue=self.ack_queue or self.host_queue,
            ring=(self.ring or RING) if self.duplex == "half" else 0,
            impairment_ba=reverse,
        )


def _delayed(delay: float | Schedule[float]) -> dict[str, Any]:
    """Give what is other of a link with a delay towards the sender."""
    scheduled = delay if isinstance(delay, Schedule) else None
    return {"delay_ba": value_at(delay, 0), "delays_ba": scheduled}


class ParkingLot(Wires):
    """S - R0 - R1 = R2 = R3 = R4 - D with one to three bottlenecks, Rk to Rk+1.

    The flows of the matrix go from S to D through every bottleneck and have the first numbers. Each
    bottleneck also carries `cross_flows` of its own: X1 - M1 - R1 = R2 - Y1, X2 - M2 - R2 = R3 - Y2
    and so on. Every bottleneck has the case's queue, R0 and every Mk the case's marker.
    """

    bottlenecks: int = Field(ge=1, le=3)
    """Number of links with the queue under test."""
    access: Rate
    """Rate of the other links."""
    bottleneck: Rate
    """Rate of each bottleneck, at most `access`."""
    delay: Duration
    """Delay at D's egress: the base round-trip time from S to D."""
    mtu: Size = 1000
    """Largest IP packet, 576 B to 9000 B."""
    host_queue: Size = 1_000_000
    """Minimum limit of every queue except those under test."""
    cross_flows: int = Field(ge=1, le=1000)
    """Flows of cross traffic over each bottleneck."""
    cross_delay: Duration
    """Delay at the egress of every Yk: the base round-trip time from Xk."""

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield what no link could be, and delays that no flow connects over."""
        yield from super().problems()
        for key in ("delay", "cross_delay"):
            if sentence := delay_problem(getattr(self, key)):
                yield (key,), sentence

    def graph(self) -> Graph:
        """Build the graph."""
        numbers = range(1, self.bottlenecks + 1)
        last = f"R{self.bottlenecks + 1}"
        graph = Graph(
            nodes=(
                *(Node(name, "sender") for name in ("S", *(f"X{k}" for k in numbers))),
                *(Node(name, "marker") for name in ("R0", *(f"M{k}" for k in numbers))),
                *(Node(f"R{k}", "bottleneck") for k in numbers),
                Node(last, "router"),
                *(Node(name, "receiver") for name in ("D", *(f"Y{k}" for k in numbers))),
            ),
            links=(
                self._link("S", "R0"),
                self._link("R0", "R1"),
                *(link for k in numbers for link in self._over(k)),
                self._link(last, "D", delay_ba=self.delay),
            ),
            cross=tuple(
                CrossTraffic(f"X{k}", f"Y{k}", f"M{k}", f"R{k}", self.cross_flows) for k in numbers
            ),
        )
        return self._switched(graph)

    def _over(self, k: int) -> Iterator[Link]:
        """Give a bottleneck and the links of the traffic that passes it alone."""
        yield self._link(f"X{k}", f"M{k}")
        yield self._link(f"M{k}", f"R{k}")
        yield self._narrow(f"R{k}", f"R{k + 1}")
        yield self._link(f"R{k + 1}", f"Y{k}", delay_ba=self.cross_delay)


class Chain(Wires):
    """S - R0 - R1 - R2 - D: one sender, one receiver, the bottleneck from R1 to R2."""

    access: Rate
    """Rate of the other links."""
    bottleneck: LinkRate
    """Rate of the link R1 - R2, at most `access`; a schedule of it, with `0 bit` for an outage; or
    `{trace: FILE}`, delivery opportunities in mahimahi's format."""
    delay: Delay
    """Delay at the receiver's egress: the base round-trip time, without `forward` and `reverse`; or
    a schedule of it."""
    mtu: Size = 1000
    """Largest IP packet, 576 B to 9000 B; the MSS is 40 bytes less (52 with timestamps), 60 with
    IPv6 (72). `tc` adds the 14-byte Ethernet header: a full packet of the default counts as 1014
    bytes in rates, limits and thresholds."""
    host_queue: Size = 1_000_000
    """Minimum limit of every queue except the one under test."""
    forward: Impairment | None = None
    """Impairment of data behind the bottleneck. Default: none."""
    reverse: Impairment | None = None
    """Impairment of acknowledgements. Default: none."""

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield what no link could be, and a delay that no flow connects over."""
        yield from super().problems()
        if self.ack_queue is not None and self.reverse is not None:
            yield ("ack_queue",), "cannot be combined with reverse; remove one of them"
        for key in ("forward", "reverse"):
            how = getattr(self, key)
            if self.offloads == "all" and how and (how.loss or how.duplicate or how.reorder):
                without = f"must be hosts or off with loss, duplicate or reorder of {key}"
                yield ("offloads",), f"{without}: they would act on 64 kB at once"
        delay = self.delay
        longest = max(delay.values) if isinstance(delay, Delays) else highest(delay)
        if sentence := delay_problem(longest):
            yield ("delay",), sentence

    def graph(self) -> Graph:
        """Build the graph."""
        return self._build(("S",), {"D": self.delay}, self.access)

    def grouped(self, hosts: Sequence[Hosts]) -> Graph:
        """Build the graph with hosts of groups and probes in place of S and D.

        Senders stand at R0 and receivers at R2; those of the direction ``down`` the other way
        round. With such a group R2 has a queue under test towards R1, and a router R3 stands
        between R2 and the hosts, where R0 stands on the other side.
        """
        both = any(pair.direction == "down" for pair in hosts if not pair.probes)
        far = "R3" if both else "R2"
        near_links, far_links = [], []
        for pair in hosts:
            sender, receiver = sender_of(pair.name), receiver_of(pair.name)
            # The receiver delays what it sends, so that senders are captured where they send.
            delayed = _delayed(self.delay if pair.rtt is None else pair.rtt)
            if pair.direction == "up":
                near_links.append(self._link(sender, "R0"))
                far_links.append(self._link(far, receiver, impairment_ab=self.forward, **delayed))
            else:
                near_links.append(self._link("R0", receiver, **delayed))
                far_links.append(self._link(far, sender, impairment_ab=self.forward))
        narrow = replace(self._narrow("R1", "R2", self.reverse), both=both)
        routers = (Node("R0", "marker"), Node("R1", "bottleneck"), Node("R2", "router"))
        graph = Graph(
            nodes=(
                *(Node(sender_of(p.name), "probe" if p.probes else "sender", p.ip) for p in hosts),
                *routers,
                *([Node("R3", "router")] if both else []),
                *(
                    Node(receiver_of(p.name), "probe" if p.probes else "receiver", p.ip)
                    for p in hosts
                ),
            ),
            links=(
                *near_links,
                self._link("R0", "R1"),
                narrow,
                *([self._link("R2", "R3")] if both else []),
                *far_links,
            ),
        )
        return self._switched(graph, hosts)

    def _build(
        self, senders: tuple[str, ...], receivers: Mapping[str, float | Schedule[float]], edge: int
    ) -> Graph:
        """Build it from the senders, the receivers with their delays, and the hosts' rate."""
        routers = (Node("R0", "marker"), Node("R1", "bottleneck"), Node("R2", "router"))
        nodes = (
            *(Node(name, "sender") for name in senders),
            *routers,
            *(Node(name, "receiver") for name in receivers),
        )
        graph = Graph(
            nodes=nodes,
            links=(
                *(self._link(name, "R0", rate=edge) for name in senders),
                self._link("R0", "R1"),
                self._narrow("R1", "R2", self.reverse),
                *(
                    self._link("R2", name, rate=edge, impairment_ab=self.forward, **_delayed(delay))
                    for name, delay in receivers.items()
                ),
            ),
        )
        return self._switched(graph)


class Dumbbell(Chain):
    """The chain with several senders S0, S1, ... at R0 and as many receivers D0, D1, ... at R2.

    `forward` applies to the data of each receiver separately, `reverse` to all acknowledgements
    together.
    """

    # In place of the chain's, which is one of these: the key keeps its place in what is written.
    delay: AnyDelays  # type: ignore[assignment]
    """Delay at each receiver's egress: its base round-trip time, without `forward` and `reverse`.
    One for all pairs, a list with one for each, or a range `12 ms..26 ms`: spread evenly over the
    pairs, both ends included, to the microsecond."""
    pairs: int = Field(ge=1, le=100)
    """Number of senders, and of receivers."""
    edge: Rate | None = None
    """Rate of the hosts' links. Default: `access`."""

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield delays for other pairs, and edges that together are the bottleneck."""
        yield from super().problems()
        for sentence in self._delays.problems(self.pairs):
            yield ("delay",), sentence
        if self.edge is not None and self.edge < SLOWEST:
            yield ("edge",), f"must be at least 1 kbit, not {format_rate(self.edge)}"
        elif self.edge is not None and self.edge * self.pairs < self._rate:
            bound = f"bottleneck ({format_rate(self._rate)})"
            together = format_rate(self.edge * self.pairs)
            yield ("edge",), f"edge times pairs must be at least {bound}, not {together}"

    def _others(self) -> dict[str, int]:
        return super()._others() | ({} if self.edge is None else {"edge": self.edge})

    @property
    def _delays(self) -> Delays:
        assert isinstance(self.delay, Delays)  # held by the field, which the chain has as a number
        return self.delay

    def graph(self) -> Graph:
        """Build the graph."""
        receivers = enumerate(self._delays.of(self.pairs))
        return self._build(
            tuple(f"S{i}" for i in range(self.pairs)),
            {f"D{i}": delay for i, delay in receivers},
            self.access if self.edge is None else self.edge,
        )


class Topology(SpecModel):
    """Exactly one of the keys."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": [key]} for key in ("chain", "dumbbell", "parking_lot")]
        }
    )

    chain: Chain | None = None
    """Five machines in a row. Default: none."""
    dumbbell: Dumbbell | None = None
    """The chain with several senders and receivers. Default: none."""
    parking_lot: ParkingLot | None = None
    """One to three bottlenecks in a row, with cross traffic. Default: none."""

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield an error unless exactly one builder is named."""
        if len(self._named) != 1:
            yield (), f"needs exactly one of: {', '.join(type(self).model_fields)}"

    @property
    def _named(self) -> tuple[Chain | ParkingLot, ...]:
        every = (self.chain, self.dumbbell, self.parking_lot)
        return tuple(one for one in every if one is not None)

    @property
    def named(self) -> str:
        """The key of the chosen topology."""
        return next(key for key in type(self).model_fields if getattr(self, key) is not None)

    @property
    def builder(self) -> Chain | ParkingLot:
        """The parameters of the chosen topology."""
        (chosen,) = self._named  # held by `problems`
        return chosen

    def graph(self) -> Graph:
        """Build nodes and links."""
        return self.builder.graph()
