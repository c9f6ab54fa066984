"""After the traffic: wait until nothing is under way, then read every counter."""

from __future__ import annotations

from collections.abc import Iterator

from tcpf_lab.plan import marker
from tcpf_lab.plan.queues import bottlenecks, delay, rate
from tcpf_lab.plan.step import Command, Drained, LetPass, Phase, ReadFile, Step
from tcpf_lab.plan.topology import interfaces, on_wires
from tcpf_lab.plan.window_counters import of_wire
from tcpf_lab.spec.graph import FRAMING, Graph
from tcpf_lab.spec.queue import Queue
from tcpf_lab.spec.sweep import Run

#: What TCP sent again, and why, by a kernel that keeps a list of it (the project's does).
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
    for narrow in bottlenecks(graph):
        full = queue.limit * 8 / rate(graph, narrow)
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
        if node.role == "sender" or (node.role == "receiver" and _routed(run)):
            routes = ("ip", "-j", "route", "show")
            steps.append(Command(node.name, routes, f"stats/route-{node.name}.json"))
    steps += [
        Command(end.node, of_wire(end.device), f"stats/wire-{end.device}.json")
        for end in on_wires(graph)
    ]
    return Phase("counters", (*steps, *marker.counters(run)))


def _routed(run: Run) -> bool:
    """Tell whether the receivers' routes decide something that is to be read back."""
    return bool(run.experiment.tcp.quickack) or run.experiment.tcp.mss is not None
