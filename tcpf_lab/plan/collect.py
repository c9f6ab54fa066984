"""After the traffic: wait until nothing is under way, then read every counter."""

from __future__ import annotations

from collections.abc import Iterator

from tcpf_lab.plan.queues import bottleneck, delay
from tcpf_lab.plan.step import Command, Drained, Phase, Step
from tcpf_lab.plan.topology import interfaces
from tcpf_lab.spec.topology import Graph

#: Queues hold seconds at most; a queue that takes longer than this to drain has stopped.
DRAIN_TIMEOUT_S = 30.0


def drain(graph: Graph) -> Phase:
    """Wait until every queue on the way there and back is empty."""
    return Phase("drain", tuple(_drain(graph)))


def _drain(graph: Graph) -> Iterator[Step]:
    queue = bottleneck(graph)
    yield Drained(queue.node, queue.device, DRAIN_TIMEOUT_S)
    for interface in interfaces(graph):
        if delay(graph, interface):
            yield Drained(interface.node, interface.device, DRAIN_TIMEOUT_S)


def counters(graph: Graph) -> Phase:
    """Read the counters of every queue and interface, and TCP's at both ends."""
    steps: list[Step] = []
    for node in graph.nodes:
        qdiscs = ("tc", "-s", "-d", "-j", "qdisc", "show")
        links = ("ip", "-s", "-j", "link", "show")
        steps.append(Command(node.name, qdiscs, f"stats/qdisc-{node.name}.json"))
        steps.append(Command(node.name, links, f"stats/link-{node.name}.json"))
        if node.role in ("sender", "receiver"):
            netstat = ("cat", "/proc/net/netstat")
            steps.append(Command(node.name, netstat, f"stats/netstat-{node.name}.txt"))
    return Phase("counters", tuple(steps))
