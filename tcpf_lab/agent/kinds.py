"""Kinds of virtual interfaces, whose modules the kernel lets go of while interfaces exist.

It counts no use of such a module by an interface, and to unload it deletes them all, whosesoever
they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tcpf_lab.agent import links, namespaces
from tcpf_lab.agent.errors import AgentError

_PROC = Path("/proc")
#: The kinds of interfaces that a module is for, where they are not called as it is.
_OF_MODULE = {
    "bonding": {"bond"},
    "8021q": {"vlan"},
    "ip_gre": {"gre", "gretap", "erspan"},
    "ip6_gre": {"ip6gre", "ip6gretap", "ip6erspan"},
    "ip6_tunnel": {"ip6tnl"},
    "ip_vti": {"vti"},
    "macvtap": {"macvtap", "macvlan"},
}
_SAME_NAME = {
    *("veth", "dummy", "ifb", "team", "bridge", "vcan", "vxcan", "nlmon", "vrf", "netkit"),
    *("macvlan", "ipvlan", "ipvtap", "vxlan", "geneve", "bareudp", "wireguard", "macsec"),
    *("ipip", "sit", "tun"),
}


def held(module: str) -> bool:
    """Say whether there is an interface, in any namespace, that goes with a module."""
    kinds = {module} if module in _SAME_NAME else _OF_MODULE.get(module)
    return kinds is not None and not kinds.isdisjoint(everywhere())


def everywhere() -> set[str]:
    """Give the kinds of all interfaces in all network namespaces that can be seen.

    These are that of this process, that of the first one, all that have a name, and those of all
    processes.
    """
    seen: set[int] = set()
    kinds: set[str] = set()
    for place in _places():
        number = namespaces.number(place)
        if number is not None and number not in seen:
            with suppress(AgentError, OSError):  # it has just ended
                kinds |= namespaces.inside(place, _here)
                seen.add(number)
    return kinds


def _places() -> Iterator[Path]:
    yield from (namespaces.OWN, namespaces.FIRST)
    if namespaces.NAMED.is_dir():
        with suppress(OSError):
            yield from filter(namespaces.is_one, list(namespaces.NAMED.iterdir()))
    for path in _PROC.iterdir():
        if path.name.isdigit():
            yield path / "ns" / "net"


def _here() -> set[str]:
    return {link.kind for link in links.every()}
