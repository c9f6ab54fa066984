"""Kernel parameters and offloads: set, and read back as proof that they are in force."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tcpf_lab.plan.step import OffloadsOff, Phase, ReadSysctls, Step, Sysctl
from tcpf_lab.plan.topology import Interface, owned
from tcpf_lab.plan.traffic import users
from tcpf_lab.plan.traffic.flows import count
from tcpf_lab.spec.graph import Graph, Node
from tcpf_lab.spec.sweep import Run

#: Segmentation and coalescing would turn "packets" into 64 kB objects and make every number wrong.
OFFLOADS_OFF = (
    "tcp-segmentation-offload",
    "generic-segmentation-offload",
    "generic-receive-offload",
)
FORWARDING = ("marker", "bottleneck", "router")
PAGE = 4096


def kernel(run: Run) -> Phase:
    """Set what belongs to a whole kernel, before any namespace of it exists.

    Unsent data of every flow counts towards ``tcp_mem``; under its pressure the kernel would shrink
    windows and prune queues, which no machine of the papers did.
    """
    buffer = run.experiment.traffic.socket_buffer
    pages = 8 * count(run) * buffer // PAGE + 65536
    return Phase(
        "the kernel",
        (
            Sysctl(None, "net.core.wmem_max", str(2 * buffer)),
            Sysctl(None, "net.core.rmem_max", str(2 * buffer)),
            Sysctl(None, "net.ipv4.tcp_mem", f"{pages} {pages} {pages}"),
            *users.of_the_kernel(run),
        ),
    )


def of_ends(run: Run, graph: Graph) -> dict[str, dict[str, str]]:
    """Give every sender's and receiver's sysctls: those of its TCP, and those that users need."""
    tcp = run.experiment.tcp.sysctls()
    return {
        node.name: tcp | users.sysctls(run, node.role)
        for node in graph.nodes
        if node.role in ("sender", "receiver")
    }


def nodes(graph: Graph, sysctls: Mapping[str, Mapping[str, str]]) -> Phase:
    """Set forwarding, TCP parameters and offloads of every node, and read them back."""
    own = owned(graph)
    steps = [step for node in graph.nodes for step in _node(node, own[node.name], sysctls)]
    return Phase("settings, and what is in force", tuple(steps))


def _node(
    node: Node, own: Iterable[Interface], sysctls: Mapping[str, Mapping[str, str]]
) -> Iterator[Step]:
    if node.role in FORWARDING:
        yield Sysctl(node.name, "net.ipv4.ip_forward", "1")
    wanted = sysctls.get(node.name, {})
    for key, value in wanted.items():
        yield Sysctl(node.name, key, value)
    if wanted:
        yield ReadSysctls(node.name, tuple(wanted), f"stats/sysctl-{node.name}.txt")
    for interface in own:
        output = f"stats/offload-{interface.device}.txt"
        yield OffloadsOff(node.name, interface.device, OFFLOADS_OFF, output)
