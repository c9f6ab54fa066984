"""Just enough of rtnetlink to read, move and restore what the kernel knows of an interface.

Messages are kept as the kernel gives them, so that what is read can be given back unchanged,
whatever attributes this or a later kernel has.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator
from types import TracebackType

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
