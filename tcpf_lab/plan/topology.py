"""From the graph of nodes and links to namespaces, interfaces, addresses and routes."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tcpf_lab.plan.step import AddLink, AddNode, Command, End, Phase, Step, Sysctl
from tcpf_lab.spec.graph import ENDS, Graph, Ip, Node, Role

#: Nodes that do not forward.
_HOSTS: tuple[Role, ...] = (*ENDS, "probe", "source")


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

    def address(self, ip: Ip = 4) -> str:
        """Give the address of a version of IP."""
        place = f"10.0.{self.subnet}." if ip == 4 else f"fd00:{self.subnet:x}::"
        return f"{place}{self.host}"

    @property
    def mac(self) -> str:
        """Locally administered MAC address."""
        return f"02:00:00:00:{self.subnet:02x}:{self.host:02x}"


def interfaces(graph: Graph) -> tuple[Interface, ...]:
    """All interfaces, two for each link, in the links' order."""
    return tuple(
        interface
        for index, link in enumerate(graph.links)
        for interface in (Interface(link.a, link.b, index, 1), Interface(link.b, link.a, index, 2))
    )


def owned(graph: Graph) -> dict[str, list[Interface]]:
    """Return each node's own interfaces, in the links' order."""
    found: dict[str, list[Interface]] = {node.name: [] for node in graph.nodes}
    for interface in interfaces(graph):
        found[interface.node].append(interface)
    return found


def paths(graph: Graph, node: str) -> dict[str, tuple[int, Interface]]:
    """Return, for every other node, its distance in hops and the interface the way begins with."""
    leaving = owned(graph)
    found: dict[str, tuple[int, Interface]] = {}
    queue = deque([node])
    while queue:
        here = queue.popleft()
        for interface in leaving[here]:
            if interface.peer in found or interface.peer == node:
                continue
            hops, first = found.get(here, (0, interface))
            found[interface.peer] = (hops + 1, first)
            queue.append(interface.peer)
    return found


def addresses(graph: Graph) -> dict[str, str]:
    """Return the address of each node that flows and probes reach it by."""
    own = owned(graph)
    return {node.name: own[node.name][0].address(node.ip) for node in graph.nodes}


def toward(graph: Graph, node: str, target: str) -> Interface:
    """Return the interface through which ``node`` reaches ``target`` on the shortest path."""
    return paths(graph, node)[target][1]


def senders_at(graph: Graph, router: str) -> tuple[str, ...]:
    """Return the senders that a router is the first one of."""
    beside = {end for link in graph.links if router in (link.a, link.b) for end in (link.a, link.b)}
    return tuple(node.name for node in graph.having("sender") if node.name in beside)


def other_end(graph: Graph, interface: Interface) -> Interface:
    """Return the interface at the other end of the same link."""
    link, host = graph.links[interface.subnet], 3 - interface.host
    names = (link.a, link.b) if host == 1 else (link.b, link.a)
    return Interface(*names, interface.subnet, host)


def build(graph: Graph, route_options: dict[str, tuple[str, ...]], seed: int) -> tuple[Phase, ...]:
    """Return the phases that make the network.

    Parameters
    ----------
    graph : Graph
        Nodes and links.
    route_options : dict
        Words appended to every route of a node, for example ``{"S": ("initcwnd", "2")}``.
    seed : int
        The run's, from which shared wires draw theirs.
    """
    return (
        Phase("nodes and links", (*_nodes(graph), *_links(graph, seed))),
        Phase("addresses and routes", (*_no_ipv6(graph), *_addresses(graph, route_options))),
    )


def _ip(node: str, *words: str) -> Command:
    return Command(node, ("ip", *words))


def _nodes(graph: Graph) -> Iterator[Step]:
    for node in graph.nodes:
        yield AddNode(node.name)


def _links(graph: Graph, seed: int) -> Iterator[Step]:
    ends = [End(end.node, end.device, end.mac) for end in interfaces(graph)]
    for link, near, far in zip(graph.links, ends[::2], ends[1::2], strict=True):
        drawn = random.Random(f"wire of {near.device}, seed {seed}").getrandbits(31)
        yield AddLink((near, far), link.mtu, link.rate, link.ring, drawn if link.ring else 0)


def on_wires(graph: Graph) -> tuple[Interface, ...]:
    """Give the interfaces on half-duplex wires: the two ends of each, in the links' order."""
    return tuple(one for one in interfaces(graph) if graph.links[one.subnet].ring)


def _no_ipv6(graph: Graph) -> Iterator[Step]:
    """Keep IPv6 off while no interface is up yet: its discovery would be marked and queued too."""
    for node in graph.nodes:
        yield Sysctl(node.name, "net.ipv6.conf.all.disable_ipv6", "1")


def _versions(graph: Graph) -> list[tuple[Ip, ...]]:
    """Give the versions of IP on each link: those of its host, all between routers."""
    hosts = {node.name: node.ip for node in graph.nodes if node.role in _HOSTS}
    every = tuple(sorted({4, *hosts.values()}))
    own = ([hosts[end] for end in (link.a, link.b) if end in hosts] for link in graph.links)
    return [tuple(found) or every for found in own]


def _addresses(graph: Graph, route_options: dict[str, tuple[str, ...]]) -> Iterator[Step]:
    of_nodes = owned(graph)
    versions = _versions(graph)
    for node in graph.nodes:
        own = of_nodes[node.name]
        yield _ip(node.name, "link", "set", "lo", "up")
        for interface in own:
            yield from _bring_up(graph, interface, versions[interface.subnet])
        options = route_options.get(node.name, ())
        if _is_host_of_many(graph, node):
            gateway = other_end(graph, own[0]).address(node.ip)
            yield _ip(node.name, "route", "add", "default", "via", gateway, *options)
        else:
            yield from _routes(graph, node, versions, {i.subnet for i in own}, options)


def _is_host_of_many(graph: Graph, node: Node) -> bool:
    """Tell whether one route is enough: routes to each network would be hosts times networks."""
    hosts = graph.having("sender") + graph.having("probe")
    return node.role in (*ENDS, "probe") and len(hosts) > 1


def _bring_up(graph: Graph, interface: Interface, versions: tuple[Ip, ...]) -> Iterator[Step]:
    """Give addresses, and permanent neighbours so that no packet waits for ARP or discovery."""
    device, peer = interface.device, other_end(graph, interface)
    node = interface.node
    if 6 in versions:
        # Without a link-local address, neighbours to discover and groups to report to routers the
        # kernel sends nothing by itself. An interface that comes up must know.
        silent = ("addrgenmode", "none", "arp", "off", "multicast", "off")
        yield _ip(node, "link", "set", device, *silent)
        yield Sysctl(node, f"net.ipv6.conf.{device}.disable_ipv6", "0")
    for ip in versions:
        length, nodad = ("24", ()) if ip == 4 else ("64", ("nodad",))
        own = f"{interface.address(ip)}/{length}"
        yield _ip(node, "address", "add", own, "dev", device, *nodad)
    # TCP hands a device with all offloads off packets of several segments even so.
    single = () if graph.links[interface.subnet].offloads else ("gso_max_segs", "1")
    yield _ip(node, "link", "set", device, *single, "up")
    for ip in versions:
        neighbour = ("neighbour", "add", peer.address(ip), "lladdr", peer.mac)
        yield _ip(node, *neighbour, "dev", device, "nud", "permanent")


def _routes(
    graph: Graph,
    node: Node,
    versions: Sequence[tuple[Ip, ...]],
    own: set[int],
    options: tuple[str, ...],
) -> Iterator[Step]:
    """Give a route to every network that is not the node's own."""
    ways = paths(graph, node.name)
    for subnet, link in enumerate(graph.links):
        if subnet in own:
            continue
        _, first = min((ways[link.a], ways[link.b]), key=lambda way: way[0])
        for ip in versions[subnet]:
            if node.role in _HOSTS and ip != node.ip:
                continue
            gateway = other_end(graph, first).address(ip)
            network = ("10.0.{}.0/24" if ip == 4 else "fd00:{:x}::/64").format(subnet)
            yield _ip(node.name, "route", "add", network, "via", gateway, *options)
