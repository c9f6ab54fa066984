"""Why a record is not credible, in words: the scanner only says that it is not."""

from __future__ import annotations

import struct
from typing import Any

from numpy.typing import NDArray

from tcpf_lab.trace.scan import BIG, ENHANCED, HEADER, LIMIT, MULTIPLY, OLD, SIMPLE

#: Bytes of a packet block without its packet, and what it is called.
_PACKET_BLOCKS = {
    OLD: (32, "a packet block"),
    SIMPLE: (16, "a simple packet block"),
    ENHANCED: (32, "an enhanced packet block"),
}
_SECOND = 1_000_000_000


def counted(number: int, thing: str) -> str:
    """Write how many of a thing there are: ``1 byte``, ``2 bytes``."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def reason(record: bytes, layout: NDArray[Any], interfaces: NDArray[Any]) -> str:
    """Say what is wrong with a record that the scanner refused.

    Parameters
    ----------
    record : bytes
        It, and maybe what follows; a pcapng block is whole if its length is credible.
    layout, interfaces
        As for `tcpf_lab.trace.scan.scan`.
    """
    order = ">" if layout[BIG] else "<"
    if layout[HEADER]:
        return _of_record(record, order, layout, int(interfaces[0, MULTIPLY]))
    kind, length = struct.unpack_from(order + "II", record)
    if length < 12 or length & 3 or length > layout[LIMIT]:
        return f"its length of {counted(length, 'byte')} is not credible"
    (last,) = struct.unpack_from(order + "I", record, length - 4)
    if last != length:
        return f"its lengths differ: {length} and {last} bytes"
    return _of_packet(record, order, kind, length, len(interfaces))


def _of_record(record: bytes, order: str, layout: NDArray[Any], unit_ns: int) -> str:
    """Say it of a pcap record, whose header is all that can be wrong."""
    fraction, captured = struct.unpack_from(order + "II", record, 4)
    if captured > layout[LIMIT]:
        return f"it is said to have {captured} bytes, {layout[LIMIT]} are the most"
    if not any(record[:16]):
        return "its header is zeros"
    return f"its time has {fraction} parts of a second, of {_SECOND // unit_ns} in one"


def _of_packet(record: bytes, order: str, kind: int, length: int, known: int) -> str:
    """Say it of a pcapng packet block whose lengths agree."""
    shortest, name = _PACKET_BLOCKS[kind]
    if length < shortest:
        return f"its length of {length} bytes is too short for {name} ({shortest})"
    number = 0
    if kind != SIMPLE:
        form = order + ("I" if kind == ENHANCED else "H")
        (number,) = struct.unpack_from(form, record, 8)
    if number >= known:
        described = f"{known} {'is' if known == 1 else 'are'} described"
        return f"it is of interface {number}, of which {described} before it"
    high, low, captured = struct.unpack_from(order + "III", record, 12)
    if captured > length - shortest:
        return (
            f"it is said to hold {counted(captured, 'byte')}, it has room for {length - shortest}"
        )
    return f"its time stamp of {high << 32 | low} units is out of all reason"
