"""After the traffic: wait until nothing is under way, then read every counter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tcpf_lab.plan import queues
from tcpf_lab.plan.probes import ends_of_tcp
from tcpf_lab.plan.queues import bottleneck, bottlenecks, capacity, delay, opposite, rate
from tcpf_lab.plan.step import Command, Drained, LetPass, Phase, ReadFile, Ready, Start, Step, Stop
from tcpf_lab.plan.topology import Interface, interfaces, on_wires, other_end, senders_at, toward
from tcpf_lab.plan.traffic import at_window_ends, end_of
from tcpf_lab.spec.graph import FRAMING, HEADERS, Graph
from tcpf_lab.spec.queue import Queue
from tcpf_lab.spec.sweep import Run

#: Ethernet, IPv4 and the longest TCP header: all that SACK blocks may fill, no payload.
SNAPLEN = 14 + 20 + 60
#: tcpdump's packet ring keeps packets back for up to a second, and a stopped tcpdump loses them.
RING_TIMEOUT_S = 1.5


def snaplen(graph: Graph) -> int:
    """Return how many bytes of a packet captures hold: with IPv6 the longer header too."""
    return SNAPLEN + (HEADERS[6] - HEADERS[4] if graph.has_ipv6 else 0)


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

    Cross traffic enters that by an interface of its own, which is captured besides. With a queue
    under test the other way there are the same three for its data.
    """
    queue = bottleneck(graph)
    if (back := opposite(graph)) is not None:
        near, far = graph.having("marker")[0].name, graph.having("router")[-1].name
        down = _around(graph, far, back)
        return {
            **_around(graph, near, queue),
            **{f"{role}_down": point for role, point in down.items()},
        }
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


def _around(graph: Graph, joins: str, queue: Interface) -> dict[str, Point]:
    """Capture where a router joins the senders of one direction, and on both sides of its queue."""
    sent, before = toward(graph, joins, queue.node), toward(graph, queue.node, joins)
    return {
        "sender": Point(joins, joins, sent.device, "inout"),
        "ingress": Point(f"{queue.node}-in", queue.node, before.device, "in"),
        "egress": Point(f"{queue.node}-out", queue.node, queue.device, "out"),
    }


def _cross(graph: Graph, node: str) -> dict[str, Point]:
    for cross in graph.cross:
        if cross.bottleneck == node:
            entry = toward(graph, node, cross.sender)
            return {"cross_ingress": Point(f"{node}-in-cross", node, entry.device, "in")}
    return {}


def start(graph: Graph, *, every_packet: bool = False) -> Phase:
    """Start a tcpdump at every point and await that each is listening.

    ``stdbuf`` makes tcpdump write a quarter of a megabyte at a time instead of 4 kB; ``-n`` spares
    it the names of all services, which no capture has. TCP is captured alone, unless
    ``every_packet`` is wanted.
    """
    steps: list[Step] = []
    every = "ip or ip6" if graph.has_ipv6 else "ip"
    for point in points(graph).values():
        device = point.device
        if point.mirrored:
            device = f"{point.device}-seen"
            steps += _mirror(point, device)
        log = f"log/tcpdump-{point.name}.log"
        tcpdump = (
            *("stdbuf", "-o", "256K", "tcpdump", "-n", "-i", device, "-Q", point.direction),
            *("-s", str(snaplen(graph)), "--time-stamp-precision=nano", "-Z", "root", "-w", "-"),
            every if every_packet else "tcp",
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


def needed(run: Run) -> bool:
    """Tell whether the run's numbers cannot do without the counters of the window."""
    return not run.experiment.traffic.captured or bool(run.case.background)


def start_window_counters(run: Run, graph: Graph, queues: Iterable[Interface]) -> Phase:
    """Start the programs that read queues and wires, at either end of the window.

    Queues of the interfaces given, and every shared wire of the graph.
    """
    return Phase("counters of the window", _readings(run, graph, queues))


def end(run: Run, graph: Graph, queues: Iterable[Interface]) -> Phase:
    """Wait until all of them have read."""
    return end_of("end of the counters of the window", run, _readings(run, graph, queues))


def of_wire(device: str) -> tuple[str, ...]:
    """Give the command that shows what a station of a shared wire has counted."""
    return ("ip", "-s", "-d", "-j", "link", "show", "dev", device)


def _readings(run: Run, graph: Graph, queues: Iterable[Interface]) -> tuple[Start, ...]:
    tc: tuple[str, ...] = ("tc", "-s", "-d", "-j", "qdisc", "show", "dev")
    reading = [("qdisc", queue.node, queue.node, (*tc, queue.device)) for queue in queues]
    reading += [("wire", end.node, end.device, of_wire(end.device)) for end in on_wires(graph)[::2]]
    return at_window_ends(run, reading)


#: Retransmissions with their causes, by a kernel with a retransmission log (this project's).
RETRANSMISSIONS = "/proc/net/tcp_retransmissions"
#: Frames with acknowledgements between them take so many times as long as alone; and the backoffs
#: of one frame are half a second in all, about.
_CONTENDED, _BACKOFFS_S = 3, 0.5
#: The least time that queues are given to drain; those of slow or long links get more.
DRAIN_TIMEOUT_S = 30.0


def drain(graph: Graph, queue: Queue) -> Phase:
    """Wait until every queue on the way there and back is empty."""
    return Phase("drain", tuple(_drain(graph, queue)))


def _drain(graph: Graph, queue: Queue) -> Iterator[Step]:
    back = opposite(graph)
    for narrow in (*bottlenecks(graph), *([back] if back else [])):
        full = capacity(graph, narrow, queue) * 8 / rate(graph, narrow)
        yield Drained(narrow.node, narrow.device, _timeout(full))
    for interface in interfaces(graph):
        if seconds := delay(graph, interface):
            yield Drained(interface.node, interface.device, _timeout(seconds))
    rings = [8 * link.ring * (link.mtu + FRAMING) / link.rate for link in graph.links if link.ring]
    if rings:
        seconds = round(_BACKOFFS_S + _CONTENDED * max(rings), 3)
        yield LetPass(seconds, "rings send what they hold when queues are empty")


def _timeout(seconds: float) -> float:
    """Twice what draining takes at most: a queue that is not empty by then has stopped."""
    return max(DRAIN_TIMEOUT_S, 2 * seconds)


def counters(run: Run, graph: Graph) -> Phase:
    """Read the counters of every queue, interface and marker, and TCP's at both ends."""
    steps: list[Step] = []
    for node in graph.nodes:
        qdiscs = ("tc", "-s", "-d", "-j", "qdisc", "show")
        steps.append(Command(node.name, qdiscs, f"stats/qdisc-{node.name}.json"))
        steps.append(ReadFile(node.name, "/proc/net/dev", f"stats/dev-{node.name}.txt"))
        if node.role in ("sender", "receiver"):
            output = f"stats/netstat-{node.name}.txt"
            steps.append(ReadFile(node.name, "/proc/net/netstat", output))
        if node.role == "sender":
            output = f"stats/retransmissions-{node.name}.bin"
            steps.append(ReadFile(node.name, RETRANSMISSIONS, output, optional=True))
        routed = node.role == "sender" or (node.role == "receiver" and _routed(run))
        if routed or node.name in ends_of_tcp(run):
            routes = ("ip", *(("-6",) if node.ip == 6 else ()), "-j", "route", "show")
            steps.append(Command(node.name, routes, f"stats/route-{node.name}.json"))
    steps += [
        Command(end.node, of_wire(end.device), f"stats/wire-{end.device}.json")
        for end in on_wires(graph)
    ]
    return Phase("counters", (*steps, *queues.counters(run)))


def _routed(run: Run) -> bool:
    """Tell whether the receivers' routes decide something that is to be read back."""
    return bool(run.experiment.tcp.quickack) or run.experiment.tcp.mss is not None
