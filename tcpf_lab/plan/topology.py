"""From the graph of nodes and links to namespaces, interfaces, addresses and routes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from tcpf_lab.plan.step import AddLink, AddNode, Command, End, Phase, Step, Sysctl
from tcpf_lab.spec.topology import Graph


@dataclass(frozen=True)
class Interface:
    """One end of a link."""

    node: str
    peer: str
    subnet: int  #: index of the link
    host: int  #: 1 or 2

    @property
    def device(self) -> str:
        """Name of the interface: its node, then the node it leads to."""
        return f"{self.node}-{self.peer}"

    @property
    def address(self) -> str:
        """IPv4 address."""
        return f"10.0.{self.subnet}.{self.host}"

    @property
    def mac(self) -> str:
        """Locally administered MAC address."""
        return f"02:00:00:00:{self.subnet:02x}:{self.host:02x}"


def interfaces(graph: Graph) -> tuple[Interface, ...]:
    """All interfaces, two for each link, in the links' order."""
    return tuple(
        interface
        for index, link in enumerate(graph.links)
        for interface in (
            Interface(link.a, link.b, index, 1),
            Interface(link.b, link.a, index, 2),
        )
    )


def paths(graph: Graph, node: str) -> dict[str, tuple[int, Interface]]:
    """Return, for every other node, its distance in hops and the interface the way begins with."""
    found: dict[str, tuple[int, Interface]] = {}
    queue = deque([node])
    while queue:
        here = queue.popleft()
        for interface in interfaces(graph):
            if interface.node != here or interface.peer in found or interface.peer == node:
                continue
            hops, first = found.get(here, (0, interface))
            found[interface.peer] = (hops + 1, first)
            queue.append(interface.peer)
    return found


def toward(graph: Graph, node: str, target: str) -> Interface:
    """Return the interface through which ``node`` reaches ``target`` on the shortest path."""
    return paths(graph, node)[target][1]


def other_end(graph: Graph, interface: Interface) -> Interface:
    """Return the interface at the other end of the same link."""
    return next(
        i for i in interfaces(graph) if i.subnet == interface.subnet and i.host != interface.host
    )


def build(graph: Graph, route_options: dict[str, tuple[str, ...]]) -> tuple[Phase, ...]:
    """Return the phases that make the network.

    Parameters
    ----------
    graph : Graph
        Nodes and links.
    route_options : dict
        Words appended to every route of a node, for example ``{"S": ("initcwnd", "2")}``.
    """
    return (
        Phase("nodes and links", (*_nodes(graph), *_links(graph))),
        Phase("addresses and routes", (*_no_ipv6(graph), *_addresses(graph, route_options))),
    )


def _ip(node: str, *words: str) -> Command:
    return Command(node, ("ip", *words))


def _nodes(graph: Graph) -> Iterator[Step]:
    for node in graph.nodes:
        yield AddNode(node.name)


def _links(graph: Graph) -> Iterator[Step]:
    for index, link in enumerate(graph.links):
        near, far = (
            End(end.node, end.device, end.mac)
            for end in interfaces(graph)[2 * index : 2 * index + 2]
        )
        yield AddLink((near, far), link.mtu, link.rate)


def _no_ipv6(graph: Graph) -> Iterator[Step]:
    """Keep IPv6 off while no interface is up yet: its discovery would be marked and queued too."""
    for node in graph.nodes:
        yield Sysctl(node.name, "net.ipv6.conf.all.disable_ipv6", "1")


def _addresses(graph: Graph, route_options: dict[str, tuple[str, ...]]) -> Iterator[Step]:
    for node in graph.nodes:
        own = [i for i in interfaces(graph) if i.node == node.name]
        yield _ip(node.name, "link", "set", "lo", "up")
        for interface in own:
            yield from _bring_up(graph, interface)
        for subnet in range(len(graph.links)):
            if subnet not in {i.subnet for i in own}:
                yield _route(graph, node.name, subnet, route_options.get(node.name, ()))


def _bring_up(graph: Graph, interface: Interface) -> Iterator[Step]:
    """Give an address, and a permanent neighbour so that no packet waits for ARP."""
    device, peer = interface.device, other_end(graph, interface)
    node = interface.node
    yield _ip(node, "address", "add", f"{interface.address}/24", "dev", device)
    # TCP hands a device with all offloads off packets of several segments even so.
    yield _ip(node, "link", "set", device, "gso_max_segs", "1", "up")
    neighbour = ("neighbour", "add", peer.address, "lladdr", peer.mac)
    yield _ip(node, *neighbour, "dev", device, "nud", "permanent")


def _route(graph: Graph, node: str, subnet: int, options: tuple[str, ...]) -> Step:
    link, ways = graph.links[subnet], paths(graph, node)
    _, first = min((ways[link.a], ways[link.b]), key=lambda way: way[0])
    gateway = other_end(graph, first).address
    return _ip(node, "route", "add", f"10.0.{subnet}.0/24", "via", gateway, *options)
