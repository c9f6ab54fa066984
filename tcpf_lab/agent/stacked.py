"""What is built upon an interface, and would be lost if it were moved."""

from __future__ import annotations

import json
import struct

from tcpf_lab.agent import commands, links
from tcpf_lab.agent.errors import AgentError
from tcpf_lab.agent.links import Link
from tcpf_lab.agent.netlink import attributes

_BELOW, _BELOW_NAMESPACE = 5, 37
_LOOPBACK = 0x8
_KIND = 1


def refuse(link: Link) -> None:
    """Refuse an interface that cannot be moved and given back as it was.

    Raises
    ------
    AgentError
        Saying what speaks against it.
    """
    name = link.name
    if link.flags & _LOOPBACK:
        raise AgentError(f"interface {name} is the loopback interface")
    every = {other.index: other for other in links.every()}
    if links.MASTER in link.attributes:
        master = every.get(_number(link.attributes[links.MASTER]))
        raise AgentError(f"interface {name} is part of {master.name if master else 'another one'}")
    above = [other.name for other in every.values() if _is_above(other, link)]
    if above:
        raise AgentError(f"interface {name} carries {', '.join(above)}, which would be lost")
    if link.has_program:
        raise AgentError(f"interface {name} has an XDP program, which would be lost")
    queues = configured_queues(name)
    if queues:
        raise AgentError(
            f"interface {name} has a queue of its own ({', '.join(queues)}), which would be lost: "
            f"`tc qdisc delete dev {name} root`"
        )


def configured_queues(device: str) -> list[str]:
    """List the queues of a device that somebody has configured: the kernel's own have no handle."""
    said = commands.checked(["tc", "-j", "qdisc", "show", "dev", device]).output
    queues = [queue for queue in json.loads(said or "[]") if queue]
    return [queue["kind"] for queue in queues if queue.get("handle", "0:") != "0:"]


def _is_above(other: Link, link: Link) -> bool:
    if other.index == link.index:
        return False
    if _number(other.attributes.get(links.MASTER, b"")) == link.index:
        return True
    below = _number(other.attributes.get(_BELOW, b""))
    here = _BELOW_NAMESPACE not in other.attributes
    return below == link.index and here and _kind(other) != "veth"


def _kind(link: Link) -> str:
    info = attributes(link.attributes.get(links.LINKINFO, b""))
    return info.get(_KIND, b"").rstrip(b"\0").decode()


def _number(value: bytes) -> int:
    return int(struct.unpack("=I", value)[0]) if len(value) == 4 else 0
