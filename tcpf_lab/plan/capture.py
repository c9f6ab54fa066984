"""Where packets are captured, and how: headers only, at three points of the path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tcpf_lab.plan.queues import bottleneck
from tcpf_lab.plan.step import Command, LetPass, Phase, Ready, Start, Step, Stop
from tcpf_lab.plan.topology import other_end, senders_at, toward
from tcpf_lab.spec.graph import Graph

#: Ethernet, IPv4 and the longest TCP header: all that SACK blocks may fill, no payload.
SNAPLEN = 14 + 20 + 60
#: tcpdump's packet ring keeps packets back for up to a second, and a stopped tcpdump loses them.
RING_TIMEOUT_S = 1.5


@dataclass(frozen=True)
class Point:
    """One capture: a file name and the interface and direction it is taken at."""

    name: str
    node: str
    device: str
    direction: str  #: ``in``, ``out`` or ``inout``
    mirrored: bool = False  #: copied before the device's queue, which the capture would be behind


def points(graph: Graph) -> dict[str, Point]:
    """Return the captures: where the flows begin, before and after the (first) bottleneck's queue.

    Cross traffic enters that by an interface of its own, which is captured besides.
    """
    queue = bottleneck(graph)
    router = graph.having("marker")[0].name
    sources = senders_at(graph, router)
    # Several senders share the first link after the node that joins them.
    source = sources[0] if len(sources) == 1 else router
    at_source = toward(graph, source, queue.peer)
    before = toward(graph, queue.node, source)
    # A shared wire is reached when its ring's turn comes: there the other end knows when.
    shared = graph.links[queue.subnet].ring > 0
    behind, way = (other_end(graph, queue), "in") if shared else (queue, "out")
    # It lets ACKs through in bursts. What a lone sender answers waits at a full-duplex link of its
    # own, and a capture behind that queue would show it after ACKs that came later.
    mirrored = shared and len(sources) == 1 and not graph.links[at_source.subnet].ring
    return {
        "sender": Point(source, source, at_source.device, "inout", mirrored),
        "ingress": Point(f"{queue.node}-in", before.node, before.device, "in"),
        **_cross(graph, queue.node),
        "egress": Point(f"{queue.node}-out", behind.node, behind.device, way),
    }


def _cross(graph: Graph, node: str) -> dict[str, Point]:
    for cross in graph.cross:
        if cross.bottleneck == node:
            entry = toward(graph, node, cross.sender)
            return {"cross_ingress": Point(f"{node}-in-cross", node, entry.device, "in")}
    return {}


def start(graph: Graph) -> Phase:
    """Start a tcpdump at every point and await that each is listening.

    ``stdbuf`` makes tcpdump write a quarter of a megabyte at a time instead of 4 kB.
    """
    steps: list[Step] = []
    for point in points(graph).values():
        device = point.device
        if point.mirrored:
            device = f"{point.device}-seen"
            steps += _mirror(point, device)
        log = f"log/tcpdump-{point.name}.log"
        tcpdump = (
            *("stdbuf", "-o", "256K", "tcpdump", "-i", device, "-Q", point.direction),
            *("-s", str(SNAPLEN), "--time-stamp-precision=nano", "-Z", "root", "-w", "-", "tcp"),
        )
        output = f"pcap/{point.name}.pcap"
        ready = Ready(log, "listening on")
        steps.append(Start(point.node, f"tcpdump-{point.name}", tcpdump, output, log, ready))
    return Phase("captures", tuple(steps))


def _mirror(point: Point, to: str) -> Iterator[Command]:
    """Copy what a device sends, before its queue, and what it receives to a device of their own."""
    copied = ("matchall", "action", "mirred", "egress", "mirror", "dev", to)
    yield Command(point.node, ("ip", "link", "add", to, "up", "type", "dummy"))
    yield Command(point.node, ("tc", "qdisc", "add", "dev", point.device, "clsact"))
    for way in ("ingress", "egress"):
        yield Command(point.node, ("tc", "filter", "add", "dev", point.device, way, *copied))


def stop(graph: Graph) -> Phase:
    """Stop the captures once nothing is under way any more."""
    names = tuple(f"tcpdump-{point.name}" for point in points(graph).values())
    ring = LetPass(RING_TIMEOUT_S, "the kernel hands an unfilled block to tcpdump after 1 s")
    return Phase("end of the captures", (ring, Stop(names)))
