"""The compiled scanner: one pass over the bytes of a capture, one row per IP packet.

Streaming::

    with Reader(path) as reader:                  # tcpf_lab.trace.reader
        block = np.zeros(4096, PACKET)            # stays in the L2 cache
        while count := reader.fill(block):        # 0 at the end of the capture
            ...                                   # block[:count], valid until the next call
        reader.counters[SHORT], reader.truncated, reader.format, reader.link_types

`Reader.fill` gives `scan` one chunk of bytes after the other and keeps what is left of a record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.trace.dissect import TOO_SHORT, WITHOUT_OPTIONS, fill_packet
from tcpf_lab.trace.jit import compiled, inlined, stamp
from tcpf_lab.trace.link import UNKNOWN_LINK, ip_offset
from tcpf_lab.trace.packet import LATER, TCP, Packets
from tcpf_lab.trace.words import Bytes, byte, host16, host32

#: Why `scan` returned.
END, FULL, CUT, BROKEN, DESCRIPTION = range(5)
#: Meaning of the entries of its counters.
#:
#: ``RECORDS``   all records; ``NOT_IP`` those without an IP packet
#: ``SHORT``     those whose IP or TCP header is cut off or contradicts itself: they give no row
#: ``NOT_TCP``   IP packets of other protocols; ``FRAGMENTS`` later fragments: both give a row
#: ``OPTIONS``   TCP packets whose options are cut off: they give a row without them
#: ``UNTIMED``   records without a time stamp, which get the one of the record before
RECORDS, NOT_IP, SHORT, NOT_TCP, FRAGMENTS, OPTIONS, UNTIMED, COUNTERS = range(8)
#: Entries of a layout: bytes of a record header (0: pcapng), whether the byte order is big-endian,
#: bytes of the longest credible record, time of the last record.
HEADER, BIG, LIMIT, LAST, LAYOUT = range(5)
#: Entries of an interface: link type (-1: not known), nanoseconds are ``units * MULTIPLY //
#: DIVIDE`` (binary fractions: ``units * 1e9 >> SHIFT``) ``+ OFFSET``, largest credible units, bytes
#: it captures of a frame.
LINK, MULTIPLY, DIVIDE, SHIFT, OFFSET, UNITS, SNAPLEN, INTERFACE = range(8)

_SECOND = 1_000_000_000
_SECTION, _INTERFACE = 0x0A0D0D0A, 1
#: Types of pcapng's blocks with a packet.
OLD, SIMPLE, ENHANCED = 2, 3, 6
#: Results in place of a length.
_DESCRIBED, _DAMAGED = 0, -1


@inlined
def _nanoseconds(units: Any, interfaces: Any, number: Any) -> Any:
    """Time stamp of pcapng in nanoseconds, rounded down."""
    shift = interfaces[number, SHIFT]
    if shift < 0:
        scaled = units * interfaces[number, MULTIPLY]
        if interfaces[number, DIVIDE] > 1:
            scaled //= interfaces[number, DIVIDE]
        return scaled + interfaces[number, OFFSET]
    # The product of fraction and 1e9 needs more than 64 bits: it is made of two halves.
    rest = units & ((np.int64(1) << shift) - 1)
    low = (rest & 0xFFFFFFFF) * _SECOND
    high = (rest >> 32) * _SECOND + (low >> 32)
    fraction = low >> shift if shift < 32 else high >> (shift - 32)
    return (units >> shift) * _SECOND + fraction + interfaces[number, OFFSET]


@inlined
def record_length(data: Any, at: Any, layout: Any, interfaces: Any) -> Any:
    """Bytes of the record at ``at``, from its header alone."""
    big, header = layout[BIG], layout[HEADER]
    if header:
        captured = host32(data, at + 8, big)
        fraction = host32(data, at + 4, big) * interfaces[0, MULTIPLY]
        if captured > layout[LIMIT] or fraction >= _SECOND:
            return _DAMAGED
        if captured == 0 and fraction == 0 and host32(data, at, big) == 0:
            return _DAMAGED if host32(data, at + 12, big) == 0 else header  # zeros: a hole
        return header + captured
    kind = host32(data, at, big)
    if kind in (_SECTION, _INTERFACE):
        return _DESCRIBED
    length = host32(data, at + 4, big)
    return _DAMAGED if length < 12 or length & 3 or length > layout[LIMIT] else length


@inlined
def classic_record(data: Any, at: Any, layout: Any, interfaces: Any) -> Any:
    """Give offset of the frame, its captured bytes, those on the wire, time, interface."""
    big, header = layout[BIG], layout[HEADER]
    time_ns = host32(data, at, big) * _SECOND
    time_ns += host32(data, at + 4, big) * interfaces[0, MULTIPLY]
    return at + header, host32(data, at + 8, big), host32(data, at + 12, big), time_ns, 0


@inlined
def _simple(data: Any, at: Any, length: Any, layout: Any, interfaces: Any) -> Any:
    """Read a simple packet block, which has no time stamp; -1: interface 0."""
    if length < 16 or interfaces.shape[0] == 0:
        return -1, 0, 0, layout[LAST], 0
    wire, snaplen = host32(data, at + 8, layout[BIG]), interfaces[0, SNAPLEN]
    captured = min(wire, length - 16)
    if snaplen > 0:
        captured = min(captured, snaplen)
    return at + 12, captured, wire, layout[LAST], -1


@inlined
def _timed(data: Any, at: Any, length: Any, kind: Any, layout: Any, interfaces: Any) -> Any:
    """Read an enhanced packet block, or the obsolete one: they differ in one field."""
    if length < 32:
        return -1, 0, 0, layout[LAST], 0
    big = layout[BIG]
    number = host32(data, at + 8, big) if kind == ENHANCED else host16(data, at + 8, big)
    captured, high = host32(data, at + 20, big), host32(data, at + 12, big)
    units = (high << 32) | host32(data, at + 16, big)
    if number >= interfaces.shape[0] or captured > length - 32 or high >> 31:
        return -1, 0, 0, layout[LAST], 0
    if units > interfaces[number, UNITS]:
        return -1, 0, 0, layout[LAST], 0
    time_ns = _nanoseconds(units, interfaces, number)
    return at + 28, captured, host32(data, at + 24, big), time_ns, number


@inlined
def packet_block(data: Any, at: Any, length: Any, layout: Any, interfaces: Any) -> Any:
    """As `classic_record`, of a pcapng block; an offset of 0: no packet, -1: damaged."""
    kind = host32(data, at, layout[BIG])
    if host32(data, at + length - 4, layout[BIG]) != length:
        return -1, 0, 0, layout[LAST], 0
    if kind in (ENHANCED, OLD):
        return _timed(data, at, length, kind, layout, interfaces)
    if kind == SIMPLE:
        return _simple(data, at, length, layout, interfaces)
    return 0, 0, 0, layout[LAST], 0


@inlined
def _fill(data: Any, begin: Any, end: Any, kind: Any, p: Any, counters: Any) -> bool:
    """Fill a row from the frame ``data[begin:end]``; whether it is to be kept."""
    ip = ip_offset(data, begin, end, kind) if kind != UNKNOWN_LINK else -1
    if ip < 0 or ip >= end or byte(data, ip) >> 4 not in (4, 6):
        counters[NOT_IP] += 1
        return False
    found = fill_packet(data, ip, end, ip - begin, p)
    if found == TOO_SHORT:
        counters[SHORT] += 1
        return False
    counters[OPTIONS] += found == WITHOUT_OPTIONS
    counters[NOT_TCP] += p.protocol != TCP
    counters[FRAGMENTS] += p.fragment == LATER
    return True


@inlined
def _found(data: Any, at: Any, length: Any, layout: Any, interfaces: Any) -> Any:
    """As `classic_record` or `packet_block`."""
    if layout[HEADER]:
        return classic_record(data, at, layout, interfaces)
    return packet_block(data, at, length, layout, interfaces)


@inlined
def _enter(data: Any, found: Any, layout: Any, interfaces: Any, p: Any, counters: Any) -> bool:
    """Count a record and fill a row from it; whether the row is to be kept."""
    begin, captured, wire, time_ns, number = found
    counters[UNTIMED] += number < 0
    number = max(number, 0)
    layout[LAST] = time_ns
    p.time_ns = time_ns
    p.record = counters[RECORDS]
    p.wire_length = max(wire, captured)
    p.interface = min(number, 255)
    counters[RECORDS] += 1
    return _fill(data, begin, begin + captured, interfaces[number, LINK], p, counters)


@inlined
def _scan(
    data: Any,
    at: Any,
    end: Any,
    layout: Any,
    interfaces: Any,
    out: Any,
    row: Any,
    counters: Any,
) -> Any:
    """Read records from offset ``at`` into ``out`` from ``row`` on: what `scan` does.

    Parameters
    ----------
    data : uint8, shape (bytes,)
        A part of the capture; only ``data[:end]`` counts.
    at, end : int
        Offset of a record header (of a block, in pcapng); end of the bytes.
    layout : int64, shape (LAYOUT,)
        How records look; ``layout[LAST]`` is kept up to date.
    interfaces : int64, shape (n, INTERFACE)
        The interfaces of the section.
    out : Packets
        Room for the result.  Beyond ``2 * sacks``, ``sack`` keeps what was there.
    row : int
        First free row.
    counters : int64, shape (COUNTERS,)
        Incremented.

    Returns
    -------
    tuple of int
        Offset of the first record not read, first free row, and why it ended: `END`, `FULL` (no row
        left), `CUT` (the last record is not whole), `BROKEN` (no credible record), `DESCRIPTION` (a
        section header or an interface, which is not for this function).
    """
    need = layout[HEADER] if layout[HEADER] else 12
    while at < end:
        if at + need > end:
            return at, row, CUT
        if row == out.shape[0]:
            return at, row, FULL
        length = record_length(data, at, layout, interfaces)
        if length <= 0:
            return at, row, BROKEN if length else DESCRIPTION
        if at + length > end:
            return at, row, CUT
        found = _found(data, at, length, layout, interfaces)
        if found[0] < 0:
            return at, row, BROKEN
        at += length
        if found[0] > 0:
            row += _enter(data, found, layout, interfaces, out[row], counters)
    return at, row, END


def _compile(sources: str) -> Callable[..., tuple[int, int, int]]:
    """Compile the scanner; ``sources`` identifies the text of the modules it is made of."""

    def scan(
        data: Bytes,
        at: int,
        end: int,
        layout: NDArray[np.int64],
        interfaces: NDArray[np.int64],
        out: Packets,
        row: int,
        counters: NDArray[np.int64],
    ) -> tuple[int, int, int]:
        """Read records: see `_scan`."""
        _ = sources  # so that it is part of the key in the cache
        offset, free, status = _scan(data, at, end, layout, interfaces, out, row, counters)
        return offset, free, status

    return compiled(scan)


scan = _compile(stamp(__name__))


def new_counters() -> NDArray[Any]:
    """Counters for `scan`, all zero."""
    return np.zeros(COUNTERS, np.int64)
