"""Sections and interfaces of a pcapng capture; its packet blocks are read by the scanner.

Format: https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray

from tcpf_lab.trace.damage import counted
from tcpf_lab.trace.layout import LATEST_NS, PCAPNG_MAGIC, new_interface, new_layout
from tcpf_lab.trace.scan import DIVIDE, MULTIPLY, OFFSET, SHIFT, SNAPLEN, UNITS

#: Bytes of the longest credible block.
LARGEST_BLOCK = 1 << 27

_ORDER = {b"\x1a\x2b\x3c\x4d": True, b"\x4d\x3c\x2b\x1a": False}
_SECTION_BYTES, _INTERFACE_BYTES = 28, 20
_END_OF_OPTIONS, _RESOLUTION, _TIME_OFFSET = 0, 9, 14
_SECOND = 1_000_000_000


class DamagedError(ValueError):
    """A block that contradicts itself; the message says how."""


def block_length(head: bytes, big: bool) -> int:
    """Give the length of the section header or interface description that begins with ``head``.

    Parameters
    ----------
    head : bytes
        Twelve bytes or more.
    big : bool
        Byte order of the current section; a section header has its own.

    Raises
    ------
    DamagedError
        If it cannot be a block's.
    """
    if head[:4] == PCAPNG_MAGIC:
        if head[8:12] not in _ORDER:
            raise DamagedError(f"its byte-order magic is {head[8:12].hex(' ')}")
        big = _ORDER[head[8:12]]
    shortest = _SECTION_BYTES if head[:4] == PCAPNG_MAGIC else _INTERFACE_BYTES
    (length,) = struct.unpack_from(">I" if big else "<I", head, 4)
    if length < shortest or length & 3 or length > LARGEST_BLOCK:
        raise DamagedError(f"its length of {counted(length, 'byte')} is not credible")
    return int(length)


def section(block: bytes) -> NDArray[Any]:
    """Layout of the section that a whole section header block begins.

    Raises
    ------
    DamagedError
        If its two lengths differ or its version is not 1.
    """
    big = _ORDER[block[8:12]]
    order = ">" if big else "<"
    _check_end(block, order)
    major, minor = struct.unpack_from(order + "HH", block, 12)
    if major != 1:
        raise DamagedError(f"it is of pcapng version {major}.{minor}; version 1 is read")
    return new_layout(0, big, LARGEST_BLOCK)


def interface(block: bytes, big: bool) -> tuple[NDArray[Any], int]:
    """Interface and link type that a whole interface description block gives.

    Raises
    ------
    DamagedError
        If its two lengths differ or its time stamps are out of all reason.
    """
    order = ">" if big else "<"
    _check_end(block, order)
    link, _, snaplen = struct.unpack_from(order + "HHI", block, 8)
    described, offset = new_interface(link, 1000), 0
    for code, value in _options(block[16:-4], order):
        if code == _RESOLUTION and len(value) == 1:
            _set_resolution(described, value[0])
        elif code == _TIME_OFFSET and len(value) == 8:
            (offset,) = struct.unpack(order + "q", value)
    if abs(offset) * _SECOND > LATEST_NS:
        raise DamagedError(f"its time stamps are offset by {offset} s")
    described[OFFSET], described[SNAPLEN] = offset * _SECOND, snaplen
    return described, link


def _check_end(block: bytes, order: str) -> None:
    first, last = struct.unpack_from(order + "I", block, 4), struct.unpack(order + "I", block[-4:])
    if first != last:
        raise DamagedError(f"its lengths differ: {first[0]} and {last[0]} bytes")


def _options(data: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """Yield code and value of every option; what is cut off ends their list."""
    at = 0
    while at + 4 <= len(data):
        code, length = struct.unpack_from(order + "HH", data, at)
        if code == _END_OF_OPTIONS or at + 4 + length > len(data):
            return
        yield code, data[at + 4 : at + 4 + length]
        at += 4 + (length + 3 & ~3)


def _set_resolution(described: NDArray[Any], value: int) -> None:
    """Enter if_tsresol: a negative power of 10, of 2 with the highest bit set."""
    power = value & 127
    if value & 128:
        # Finer than 2^-63 s, 64 bits hold no whole second.
        described[SHIFT] = min(power, 63)
        if power > 63:
            raise DamagedError(f"its time stamps count units of 2^-{power} s")
        described[UNITS] = min(LATEST_NS // _SECOND << power, (1 << 63) - 1)
    elif power <= 9:
        described[MULTIPLY] = 10 ** (9 - power)
        described[UNITS] = LATEST_NS // 10 ** (9 - power)
    elif power <= 27:
        described[MULTIPLY], described[DIVIDE] = 1, 10 ** (power - 9)
        described[UNITS] = (1 << 63) - 1
    else:
        raise DamagedError(f"its time stamps count units of 10^-{power} s")
