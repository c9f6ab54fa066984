"""Just enough of rtnetlink to read, move and restore what the kernel knows of an interface.

Messages are kept as the kernel gives them, so that what is read can be given back unchanged,
whatever attributes this or a later kernel has.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from tcpf_lab.testbed.ssh.agent import system
from tcpf_lab.testbed.ssh.agent.errors import AgentError

RTM_NEWLINK, RTM_GETLINK, RTM_SETLINK = 16, 18, 19
RTM_NEWADDR, RTM_GETADDR = 20, 22
RTM_NEWROUTE, RTM_GETROUTE = 24, 26
RTM_NEWNEIGH, RTM_GETNEIGH = 28, 30

REQUEST, ACK = 0x1, 0x4
REPLACE, EXCLUSIVE, CREATE, APPEND = 0x100, 0x200, 0x400, 0x800
DUMP = 0x300

_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("=IHHII")
_SOL_NETLINK, _CAP_ACK, _EXT_ACK = 270, 10, 11
_MESSAGE_OF_ERROR = 1
_ACK_TLVS = 0x200
_NESTED = 0x3FFF  #: takes flags off an attribute's type


class Netlink:
    """A route netlink socket in the network namespace of the thread that makes it."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._socket.bind((0, 0))
        self._sequence = 0
        for option in (_CAP_ACK, _EXT_ACK):
            try:
                self._socket.setsockopt(_SOL_NETLINK, option, 1)
            except OSError:  # kernels before 4.12 explain nothing
                continue

    def __enter__(self) -> Netlink:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def change(self, kind: int, payload: bytes, flags: int = 0) -> None:
        """Ask for a change and await that it is made.

        Raises
        ------
        OSError
            With the kernel's number and, if it gives one, its explanation.
        """
        for _ in self._talk(kind, payload, REQUEST | ACK | flags):
            pass

    def dump(self, kind: int, payload: bytes) -> list[bytes]:
        """Return all messages of one kind, without their headers.

        Raises
        ------
        OSError
            If the kernel refuses.
        """
        for _ in range(5):
            try:
                return list(self._talk(kind, payload, REQUEST | DUMP))
            except InterruptedError:  # the table changed meanwhile
                continue
        return list(self._talk(kind, payload, REQUEST | DUMP))

    def _talk(self, kind: int, payload: bytes, flags: int) -> Iterator[bytes]:
        self._sequence += 1
        header = _HEADER.pack(_HEADER.size + len(payload), kind, flags, self._sequence, 0)
        self._socket.send(header + payload)
        interrupted = False
        while True:
            for number, said, body in self._receive():
                interrupted = interrupted or bool(said & 0x10)
                if number == _ERROR:
                    _judge(body, said)
                    return
                if number == _DONE:
                    if interrupted:
                        raise InterruptedError(errno.EINTR, "the table changed meanwhile")
                    return
                yield body

    def _receive(self) -> Iterator[tuple[int, int, bytes]]:
        data = self._socket.recv(1 << 18)
        while len(data) >= _HEADER.size:
            length, number, flags, sequence, _ = _HEADER.unpack_from(data)
            if sequence == self._sequence:
                yield number, flags, data[_HEADER.size : length]
            data = data[(length + 3) & ~3 :]


def attribute(kind: int, value: bytes) -> bytes:
    """Encode one attribute."""
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def attributes(data: bytes) -> dict[int, bytes]:
    """Decode a sequence of attributes, by type."""
    found = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            break
        found[kind & _NESTED] = data[4:length]
        data = data[(length + 3) & ~3 :]
    return found


def _judge(body: bytes, flags: int) -> None:
    (status,) = struct.unpack_from("=i", body)
    if status == 0:
        return
    said = b""
    if flags & _ACK_TLVS:
        said = attributes(body[4 + _HEADER.size :]).get(_MESSAGE_OF_ERROR, b"").rstrip(b"\0")
    text = os.strerror(-status)
    raise OSError(-status, f"{text} ({said.decode(errors='replace')})" if said else text)


UP = 0x1
#: Flags an administrator sets: NOARP, PROMISC, ALLMULTI, MULTICAST.
SETTABLE = 0x80 | 0x100 | 0x200 | 0x1000

ADDRESS, BROADCAST, NAME, MTU, QDISC, MASTER, LINKINFO = 1, 2, 3, 4, 6, 10, 18
NET_NS_FD, XDP, NEW_IFINDEX = 28, 43, 49
#: Within LINKINFO.
_KIND = 1
#: What is restored, in this order: txqlen, group, gso_max_segs, gso_max_size, gro_max_size, and
#: both once more for IPv4, which follow the general ones.
RESTORED = (ADDRESS, BROADCAST, MTU, 13, 27, 40, 41, 58, 63, 64)

_LINK_HEADER = struct.Struct("=BxHiII")


@dataclass(frozen=True)
class Link:
    """One interface."""

    index: int
    flags: int
    attributes: dict[int, bytes]

    @property
    def name(self) -> str:
        """Its name."""
        return self.attributes[NAME].rstrip(b"\0").decode()

    @property
    def kind(self) -> str:
        """What kind of virtual interface it is, empty for others."""
        info = attributes(self.attributes.get(LINKINFO, b""))
        return info.get(_KIND, b"").rstrip(b"\0").decode()

    @property
    def settings(self) -> dict[str, Any]:
        """What is restored, such that it can be written as JSON."""
        kept = {str(kind): self.attributes[kind].hex() for kind in RESTORED if self._has(kind)}
        queued = self.attributes.get(QDISC, b"").rstrip(b"\0") != b"noop"
        return {"flags": self.flags & (UP | SETTABLE), "attributes": kept, "queued": queued}

    def _has(self, kind: int) -> bool:
        return kind in self.attributes

    @property
    def has_program(self) -> bool:
        """Whether a BPF program (XDP) is attached."""
        attached = attributes(self.attributes.get(XDP, b"")).get(2, b"\0")
        return attached[0] != 0


def every_link() -> list[Link]:
    """List all interfaces."""
    with Netlink() as netlink:
        return [_link(body) for body in netlink.dump(RTM_GETLINK, _LINK_HEADER.pack(0, 0, 0, 0, 0))]


def find(name: str) -> Link | None:
    """Find an interface by name."""
    return next((link for link in every_link() if link.name == name), None)


def change(index: int, *values: tuple[int, bytes], flags: int = 0, mask: int = 0) -> None:
    """Change an interface in one go.

    Parameters
    ----------
    index : int
        The interface.
    *values : tuple of int and bytes
        Attributes to set.
    flags, mask : int
        New values of the flags that ``mask`` names.

    Raises
    ------
    OSError
        If the kernel refuses.
    """
    header = _LINK_HEADER.pack(socket.AF_UNSPEC, 0, index, flags, mask)
    with Netlink() as netlink:
        payload = header + b"".join(attribute(kind, value) for kind, value in values)
        netlink.change(RTM_SETLINK, payload, REQUEST)


def set_up(index: int, up: bool) -> None:
    """Switch an interface on or off."""
    change(index, flags=UP if up else 0, mask=UP)


def move(link: Link, namespace: int, name: str, index: int | None = None) -> None:
    """Move an interface to another namespace and rename it, in one go.

    The kernel takes the new name at once where the old one is in use there, so two interfaces never
    meet under one name, and nobody there sees it under a name that it will not keep.

    Parameters
    ----------
    link : Link
        Where it is now.
    namespace : int
        Descriptor of the other namespace.
    name : str
        Its name there.
    index : int, optional
        The index it is to have there; kernels before 5.13 choose by themselves.

    Raises
    ------
    OSError
        If the kernel refuses.
    """
    set_up(link.index, False)
    values = [(NET_NS_FD, struct.pack("=i", namespace)), (NAME, name.encode() + b"\0")]
    if index is not None:
        values.append((NEW_IFINDEX, struct.pack("=i", index)))
    change(link.index, *values)


def mac(text: str) -> bytes:
    """Decode a written address."""
    return bytes.fromhex(text.replace(":", ""))


def _link(body: bytes) -> Link:
    _, _, index, flags, _ = _LINK_HEADER.unpack_from(body)
    return Link(index, flags, attributes(body[_LINK_HEADER.size :]))


FAMILIES = (socket.AF_INET, socket.AF_INET6)
#: How long a route may take until it is accepted, s: an IPv6 address is checked for duplicates
#: first, which begins when the link is there.
PATIENCE_S = 15.0

_ADDRESS = struct.Struct("=BBBBi")
_ROUTE = struct.Struct("=BBBBBBBBI")
_NEIGHBOUR = struct.Struct("=BxxxiHBB")
_HOP = struct.Struct("=HBBi")
_OIF, _MULTIPATH, _CACHE, _NEXTHOP_ID = 4, 9, 12, 30
_ADDRESS_CACHE = 6
_ADDRESS_TEMPORARY = 0x01
_BY_KERNEL = {1, 2, 9}  #: redirect, kernel, router advertisement
_CLONED = 0x200
_KEPT_ROUTE_FLAGS = 0x2 | 0x4  #: pervasive, onlink; the others say what is so, not what is wanted
_PERMANENT = 0x80
_FOREVER = 0xFFFFFFFF


def record(index: int) -> dict[str, Any]:
    """Describe all that belongs to interface ``index``, such that it can be written as JSON."""
    with Netlink() as netlink:
        return {
            "boottime": time.clock_gettime(time.CLOCK_BOOTTIME),
            "addresses": [body.hex() for body in _addresses(netlink, index)],
            "routes": [body.hex() for body in _routes(netlink, index)],
            "neighbours": [body.hex() for body in _neighbours(netlink, index)],
        }


def by_nexthop(index: int) -> bool:
    """Say whether a route through the interface refers to a nexthop object, which is not kept."""
    with Netlink() as netlink:
        routes = _routes(netlink, index)
        return any(_NEXTHOP_ID in attributes(body[_ROUTE.size :]) for body in routes)


def restore(recorded: dict[str, Any], old: int, new: int, up: bool) -> list[str]:
    """Give an interface back what it had; say what could not be.

    Parameters
    ----------
    recorded : dict
        From `record`.
    old, new : int
        Its index then and now.
    up : bool
        Whether it is up: one that is down has no routes.
    """
    passed = time.clock_gettime(time.CLOCK_BOOTTIME) - recorded["boottime"]
    every = {kind: [bytes.fromhex(b) for b in recorded[kind]] for kind in _WHAT}
    with Netlink() as netlink:
        addresses = [_aged(body, new, passed) for body in every["addresses"]]
        problems = _give(netlink, RTM_NEWADDR, CREATE | EXCLUSIVE, addresses)
        neighbours = [_of_neighbour(body, new) for body in every["neighbours"]]
        problems += _give(netlink, RTM_NEWNEIGH, CREATE | REPLACE, neighbours)
        if up:
            routes = [_of_route(body, old, new) for body in every["routes"]]
            problems += _give(netlink, RTM_NEWROUTE, CREATE | APPEND, routes)
    return problems


_WHAT = ("addresses", "neighbours", "routes")


def _give(netlink: Netlink, kind: int, flags: int, bodies: Sequence[bytes | None]) -> list[str]:
    """Add all of them, again and again: a route may need another one first."""
    until = time.monotonic() + PATIENCE_S
    left = [body for body in bodies if body is not None]
    while left:
        refused, problems = [], []
        for body in left:
            try:
                netlink.change(kind, body, flags)
            except OSError as error:
                if error.errno != errno.EEXIST:
                    refused.append(body)
                    problems.append(f"{_NAMES[kind]} {_said(kind, body)}: {error.strerror}")
        if len(refused) == len(left):
            if time.monotonic() > until:
                return problems
            time.sleep(0.1)
        left = refused
    return []


_NAMES = {RTM_NEWADDR: "address", RTM_NEWROUTE: "route", RTM_NEWNEIGH: "neighbour"}


def _said(kind: int, body: bytes) -> str:
    """Name what a message is about: the destination of a route, or an address."""
    size = {RTM_NEWADDR: _ADDRESS, RTM_NEWROUTE: _ROUTE, RTM_NEWNEIGH: _NEIGHBOUR}[kind].size
    value = attributes(body[size:]).get(1, b"")
    try:
        return socket.inet_ntop(body[0], value)
    except ValueError:
        return "default"


def _each(netlink: Netlink, kind: int, header: Callable[[int], bytes]) -> Iterator[bytes]:
    for family in FAMILIES:
        for body in netlink.dump(kind, header(family)):
            if body[0] == family:  # a kernel without IPv6 answers for all families
                yield body


def _addresses(netlink: Netlink, index: int) -> list[bytes]:
    def wanted(body: bytes) -> bool:
        family, _, flags, _, of = _ADDRESS.unpack_from(body)
        return of == index and not (family == socket.AF_INET6 and flags & _ADDRESS_TEMPORARY)

    every = _each(netlink, RTM_GETADDR, lambda family: _ADDRESS.pack(family, 0, 0, 0, 0))
    found = [body for body in every if wanted(body)]
    # A new IPv4 address is put behind the others, a new IPv6 address before them.
    newest_first = [body for body in found if body[0] == socket.AF_INET6]
    return [body for body in found if body[0] == socket.AF_INET] + newest_first[::-1]


def _routes(netlink: Netlink, index: int) -> list[bytes]:
    def wanted(body: bytes) -> bool:
        protocol, flags = body[5], _ROUTE.unpack_from(body)[-1]
        return protocol not in _BY_KERNEL and not flags & _CLONED and index in _through(body)

    every = _each(netlink, RTM_GETROUTE, lambda f: _ROUTE.pack(f, 0, 0, 0, 0, 0, 0, 0, 0))
    return [body for body in every if wanted(body)]


def _neighbours(netlink: Netlink, index: int) -> list[bytes]:
    def wanted(body: bytes) -> bool:
        _, of, state, _, _ = _NEIGHBOUR.unpack_from(body)
        return bool(of == index and state & _PERMANENT)

    every = _each(netlink, RTM_GETNEIGH, lambda family: _NEIGHBOUR.pack(family, 0, 0, 0, 0))
    return [body for body in every if wanted(body)]


def _through(body: bytes) -> set[int]:
    """Give the interfaces that a route leads through."""
    found = attributes(body[_ROUTE.size :])
    direct = {struct.unpack("=i", found[_OIF])[0]} if _OIF in found else set()
    hops = found.get(_MULTIPATH, b"")
    return direct | {_HOP.unpack_from(hops, at)[3] for at in _hops(hops)}


def _hops(data: bytes) -> Iterator[int]:
    """Yield where each next hop of a multipath route begins."""
    at = 0
    while at + _HOP.size <= len(data):
        yield at
        at += max((_HOP.unpack_from(data, at)[0] + 3) & ~3, _HOP.size)


def _aged(body: bytes, index: int, passed: float) -> bytes | None:
    """Take the time that has passed off an address's lifetimes; None if it has expired."""
    family, length, flags, scope, _ = _ADDRESS.unpack_from(body)
    found = attributes(body[_ADDRESS.size :])
    if _ADDRESS_CACHE in found:
        preferred, valid = struct.unpack_from("=II", found[_ADDRESS_CACHE])
        if valid != _FOREVER and valid <= passed:
            return None
        times = [t if t == _FOREVER else max(0, t - int(passed)) for t in (preferred, valid)]
        found[_ADDRESS_CACHE] = struct.pack("=IIII", *times, 0, 0)
    return _ADDRESS.pack(family, length, flags, scope, index) + _encode(found)


def _of_neighbour(body: bytes, index: int) -> bytes:
    family, _, state, flags, kind = _NEIGHBOUR.unpack_from(body)
    found = attributes(body[_NEIGHBOUR.size :])
    kept: dict[int, bytes] = {number: found[number] for number in (1, 2) if number in found}
    return _NEIGHBOUR.pack(family, index, state, flags, kind) + _encode(kept)


def _of_route(body: bytes, old: int, new: int) -> bytes:
    *fields, flags = _ROUTE.unpack_from(body)
    found = attributes(body[_ROUTE.size :])
    found.pop(_CACHE, None)
    if _OIF in found:
        found[_OIF] = struct.pack("=i", new)
    if _MULTIPATH in found:
        found[_MULTIPATH] = _of_hops(found[_MULTIPATH], old, new)
    return _ROUTE.pack(*fields, flags & _KEPT_ROUTE_FLAGS) + _encode(found)


def _of_hops(data: bytes, old: int, new: int) -> bytes:
    result = bytearray(data)
    for at in _hops(data):
        length, flags, weight, index = _HOP.unpack_from(data, at)
        index = new if index == old else index
        _HOP.pack_into(result, at, length, flags & _KEPT_ROUTE_FLAGS, weight, index)
    return bytes(result)


def _encode(found: dict[int, bytes]) -> bytes:
    return b"".join(attribute(kind, value) for kind, value in found.items())


_BELOW, _BELOW_NAMESPACE = 5, 37
_LOOPBACK = 0x8
_STACKED_KIND = 1


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
    every = {other.index: other for other in every_link()}
    if MASTER in link.attributes:
        master = every.get(_number(link.attributes[MASTER]))
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
    said = system.checked(["tc", "-j", "qdisc", "show", "dev", device]).output
    queues = [queue for queue in json.loads(said or "[]") if queue]
    return [queue["kind"] for queue in queues if queue.get("handle", "0:") != "0:"]


def _is_above(other: Link, link: Link) -> bool:
    if other.index == link.index:
        return False
    if _number(other.attributes.get(MASTER, b"")) == link.index:
        return True
    below = _number(other.attributes.get(_BELOW, b""))
    here = _BELOW_NAMESPACE not in other.attributes
    return below == link.index and here and _kind(other) != "veth"


def _kind(link: Link) -> str:
    info = attributes(link.attributes.get(LINKINFO, b""))
    return info.get(_STACKED_KIND, b"").rstrip(b"\0").decode()


def _number(value: bytes) -> int:
    return int(struct.unpack("=I", value)[0]) if len(value) == 4 else 0
