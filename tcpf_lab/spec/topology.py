"""Topologies: a few numbers in the file, a graph of nodes and links for the rest of the program.

To add one: a model with a ``graph`` method, and a key in `Topology`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import ConfigDict, Field

from tcpf_lab.spec.base import KeyPath, SpecModel
from tcpf_lab.spec.delays import AnyDelays, Delays
from tcpf_lab.spec.impairment import Impairment
from tcpf_lab.units import Duration, Rate, Size

Role = Literal["sender", "marker", "bottleneck", "router", "receiver"]

#: Bytes of IPv4 and TCP header without options.
HEADERS = 40


@dataclass(frozen=True)
class Node:
    """A machine.

    ``role``: sender and receiver are the ends of the flows; the node with the role marker stands in
    front of the bottleneck and sees both directions; the node with the role bottleneck owns the
    queue under test.
    """

    name: str
    role: Role


@dataclass(frozen=True)
class Link:
    """A link between two nodes, the same rate both ways.

    Parameters
    ----------
    a, b : str
        Names of the nodes; data flows from ``a`` to ``b``, acknowledgements back.
    rate : int
        bit/s.
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


@dataclass(frozen=True)
class Graph:
    """Nodes and links; link order is along the path from the senders to the receivers."""

    nodes: tuple[Node, ...]
    links: tuple[Link, ...]

    def having(self, role: Role) -> tuple[Node, ...]:
        """Give the nodes with a role, in order."""
        return tuple(node for node in self.nodes if node.role == role)

    @property
    def bottleneck(self) -> Link:
        """The link whose ``a`` end has the queue under test."""
        (link,) = (link for link in self.links if link.bottleneck)
        return link

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
        """Largest TCP payload without options, bytes."""
        return min(link.mtu for link in self.links) - HEADERS


class Chain(SpecModel):
    """S - R0 - R1 - R2 - D: one sender, one receiver, the bottleneck from R1 to R2.

    The delay is added once per round trip, on what D sends.
    """

    access: Rate = Field(description="Rate of the other links.")
    bottleneck: Rate = Field(description="Rate of the link R1 - R2, at most `access`.")
    delay: Duration = Field(
        description="Delay at the receiver's egress: the round-trip time of an idle path, without "
        "what `forward` and `reverse` add."
    )
    mtu: Size = Field(
        default=1000,
        description="Largest IP packet, 576 B to 9000 B; the MSS is 40 bytes less (52 with "
        "timestamps). `tc` weighs a packet with its 14-byte Ethernet header: at the default a full "
        "one counts 1014 bytes in rates, limits and thresholds, which it gets as they stand here.",
    )
    host_queue: Size = Field(
        default=1_000_000,
        description="What every queue except the one under test holds at least.",
    )
    forward: Impairment | None = Field(
        default=None, description="What happens to data behind the bottleneck; left out: nothing."
    )
    reverse: Impairment | None = Field(
        default=None, description="What happens to acknowledgements; left out: nothing."
    )

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield what could not work as a bottleneck or as an IPv4 link."""
        if self.bottleneck > self.access:
            yield ("bottleneck",), "must not be faster than access, or it is no bottleneck"
        if not 576 <= self.mtu <= 9000:
            yield ("mtu",), "must be from 576 B to 9000 B"
        if self.host_queue < 10 * self.mtu:
            yield ("host_queue",), "must hold at least ten packets of mtu"

    def graph(self) -> Graph:
        """Build the graph."""
        return self._build(("S",), {"D": self.delay}, self.access)

    def _build(self, senders: tuple[str, ...], receivers: dict[str, float], edge: int) -> Graph:
        """Build it from the senders, the receivers with their delays, and the hosts' rate."""
        routers = (Node("R0", "marker"), Node("R1", "bottleneck"), Node("R2", "router"))
        nodes = (
            *(Node(name, "sender") for name in senders),
            *routers,
            *(Node(name, "receiver") for name in receivers),
        )
        return Graph(
            nodes=nodes,
            links=(
                *(replace(self._access(name, "R0"), rate=edge) for name in senders),
                self._access("R0", "R1"),
                replace(
                    self._access("R1", "R2"),
                    rate=self.bottleneck,
                    bottleneck=True,
                    impairment_ba=self.reverse,
                ),
                *(
                    replace(
                        self._access("R2", name),
                        rate=edge,
                        delay_ba=delay,
                        impairment_ab=self.forward,
                    )
                    for name, delay in receivers.items()
                ),
            ),
        )

    def _access(self, a: str, b: str) -> Link:
        return Link(a, b, self.access, 0.0, 0.0, self.mtu, self.host_queue)


class Dumbbell(Chain):
    """The chain with several senders S0, S1, ... at R0 and as many receivers D0, D1, ... at R2.

    `delay` is each receiver's own. `forward` happens to the data of each receiver by itself,
    `reverse` to the acknowledgements of all together.
    """

    # In place of the chain's, which is one of these: the key keeps its place in what is written.
    delay: AnyDelays = Field(  # type: ignore[assignment]
        description="Delay at each receiver's egress: the round-trip time of an idle path, without "
        "what `forward` and `reverse` add. One for all pairs, a list with one for each, or "
        "`12 ms..26 ms`: spread evenly over the pairs, both ends included, to the microsecond."
    )
    pairs: int = Field(ge=1, le=100, description="Senders, and receivers.")
    edge: Rate | None = Field(
        default=None, description="Rate of the links of the hosts; left out: that of `access`."
    )

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield delays for other pairs, and edges that together are the bottleneck."""
        yield from super().problems()
        for sentence in self._delays.problems(self.pairs):
            yield ("delay",), sentence
        if self.edge is not None and self.edge * self.pairs < self.bottleneck:
            yield ("edge",), "times pairs must not be slower than bottleneck, or it is none"

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
    """Exactly one of the keys, which names the builder of the graph."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["chain"]}, {"required": ["dumbbell"]}]}
    )

    chain: Chain | None = Field(default=None, description="Five machines in a row.")
    dumbbell: Dumbbell | None = Field(default=None, description="The chain with more hosts.")

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield an error unless exactly one builder is named."""
        if (self.chain is None) == (self.dumbbell is None):
            yield (), f"needs exactly one of: {', '.join(type(self).model_fields)}"

    @property
    def builder(self) -> Chain:
        """The parameters of the topology that was asked for."""
        chosen = self.chain if self.chain is not None else self.dumbbell
        assert chosen is not None  # held by `problems`
        return chosen

    def graph(self) -> Graph:
        """Build nodes and links."""
        return self.builder.graph()
