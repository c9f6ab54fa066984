"""Interfaces as the kernel has them in the namespace of the calling thread."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import Any

from tcpf_lab.agent.netlink import REQUEST, RTM_GETLINK, RTM_SETLINK, Netlink, attribute, attributes

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

_HEADER = struct.Struct("=BxHiII")


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


def every() -> list[Link]:
    """List all interfaces."""
    with Netlink() as netlink:
        return [_link(body) for body in netlink.dump(RTM_GETLINK, _HEADER.pack(0, 0, 0, 0, 0))]


def find(name: str) -> Link | None:
    """Find an interface by name."""
    return next((link for link in every() if link.name == name), None)


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
    header = _HEADER.pack(socket.AF_UNSPEC, 0, index, flags, mask)
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
    _, _, index, flags, _ = _HEADER.unpack_from(body)
    return Link(index, flags, attributes(body[_HEADER.size :]))
