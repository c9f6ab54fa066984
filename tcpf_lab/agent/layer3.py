"""What an interface loses when it is moved: addresses, routes and permanent neighbours.

Each is kept as the message in which the kernel describes it.  What the kernel makes by itself is
left to it: the routes that come with an address, and what a router advertises.
"""

from __future__ import annotations

import errno
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tcpf_lab.agent.netlink import (
    APPEND,
    CREATE,
    EXCLUSIVE,
    REPLACE,
    RTM_GETADDR,
    RTM_GETNEIGH,
    RTM_GETROUTE,
    RTM_NEWADDR,
    RTM_NEWNEIGH,
    RTM_NEWROUTE,
    Netlink,
    attribute,
    attributes,
)

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
