"""What is read back from the testbed: proof that it was as asked, and its own counters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tcpf_lab.plan.queues import bottleneck, delay
from tcpf_lab.plan.step import Command, Drained, Phase, ReadSysctls, Step
from tcpf_lab.plan.topology import interfaces
from tcpf_lab.spec.topology import Graph

#: Queues hold seconds at most; a queue that takes longer than this to drain has stopped.
DRAIN_TIMEOUT_S = 30.0


def settings(graph: Graph, sysctls: Mapping[str, Mapping[str, str]]) -> Phase:
    """Read back offloads and TCP parameters before traffic starts."""
    steps: list[Step] = []
    for node in graph.nodes:
        for interface in interfaces(graph):
            if interface.node == node.name:
                device = interface.device
                command = ("ethtool", "-k", device)
                steps.append(Command(node.name, command, f"stats/offload-{device}.txt"))
        if keys := tuple(sysctls.get(node.name, ())):
            steps.append(ReadSysctls(node.name, keys, f"stats/sysctl-{node.name}.txt"))
    return Phase("settings in force", tuple(steps))


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
