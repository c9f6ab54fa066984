"""The parking lot: several bottlenecks in a row, each with cross traffic of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pydantic import Field

from tcpf_lab.spec.base import KeyPath
from tcpf_lab.spec.graph import CrossTraffic, Graph, Link, Node, link_problems
from tcpf_lab.spec.impairment import delay_problem
from tcpf_lab.spec.wire import Wires
from tcpf_lab.units import Duration, Rate, Size


class ParkingLot(Wires):
    """S - R0 - R1 = R2 = R3 = R4 - D with one to three bottlenecks, Rk to Rk+1.

    The flows of the matrix go from S to D and pass all of them; they have the first numbers. Over
    each bottleneck alone go `cross_flows` more, X1 - M1 - R1 = R2 - Y1, X2 - M2 - R2 = R3 - Y2 and
    so on. Every bottleneck has the case's queue, R0 and every Mk the case's marker.
    """

    bottlenecks: int = Field(ge=1, le=3, description="Links with the queue under test.")
    access: Rate = Field(description="Rate of the other links.")
    bottleneck: Rate = Field(description="Rate of each bottleneck, at most `access`.")
    delay: Duration = Field(
        description="Delay at D's egress: the round-trip time of an idle path from S to D."
    )
    mtu: Size = Field(default=1000, description="Largest IP packet, 576 B to 9000 B.")
    host_queue: Size = Field(
        default=1_000_000,
        description="What every queue except those under test holds at least.",
    )
    cross_flows: int = Field(ge=1, le=1000, description="Flows over each bottleneck alone.")
    cross_delay: Duration = Field(
        description="Delay at the egress of every Yk: the round-trip time of an idle path from Xk."
    )

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield what could not work as a bottleneck or as an IPv4 link."""
        yield from link_problems(self.access, self.bottleneck, self.mtu, self.host_queue)
        yield from self.wire_problems(self.bottleneck, {"access": self.access}, self.mtu)
        for key in ("delay", "cross_delay"):
            if sentence := delay_problem(getattr(self, key)):
                yield (key,), sentence

    def graph(self) -> Graph:
        """Build the graph."""
        numbers = range(1, self.bottlenecks + 1)
        last = f"R{self.bottlenecks + 1}"
        return Graph(
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
                self._link(last, "D", self.delay),
            ),
            cross=tuple(
                CrossTraffic(f"X{k}", f"Y{k}", f"M{k}", f"R{k}", self.cross_flows) for k in numbers
            ),
        )

    def _over(self, k: int) -> Iterator[Link]:
        """Give a bottleneck and the links of the traffic that passes it alone."""
        yield self._link(f"X{k}", f"M{k}")
        yield self._link(f"M{k}", f"R{k}")
        yield replace(
            self._link(f"R{k}", f"R{k + 1}"),
            rate=self.bottleneck,
            bottleneck=True,
            queue=self.ack_queue or self.host_queue,
            ring=self.bottleneck_ring,
        )
        yield self._link(f"R{k + 1}", f"Y{k}", self.cross_delay)

    def _link(self, a: str, b: str, delay_ba: float = 0.0) -> Link:
        ring = self.access_ring
        return Link(a, b, self.access, 0.0, delay_ba, self.mtu, self.host_queue, ring=ring)
