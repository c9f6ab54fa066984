"""The compiled scanner: one pass over a capture's bytes, one row per IP packet."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.trace.jit import compiled, part
from tcpf_lab.trace.packet import SACK_BLOCKS, Packets

#: Why `scan` returned.
END, FULL, CUT, BROKEN = 0, 1, 2, 3
#: Meaning of the entries of its counters.
RECORDS, NOT_IP, SHORT, COUNTERS = 0, 1, 2, 3

NULL, ETHERNET, RAW_OPENBSD, RAW_BSD = 0, 1, 12, 14
RAW, LOOP, SLL, RAW_IPV4, RAW_IPV6, SLL2 = 101, 108, 113, 228, 229, 276

_RECORD = 16


@part
def _wide(value: Any) -> Any:
    """Signed 64 bits: numba turns sums of signed and unsigned 64-bit numbers into floats."""
    return np.int64(value)


@part
def _u16(data: NDArray[np.uint8], at: int) -> Any:
    return (_wide(data[at]) << 8) | _wide(data[at + 1])


@part
def _u32(data: NDArray[np.uint8], at: int) -> Any:
    return (_u16(data, at) << 16) | _u16(data, at + 2)


@part
def _host32(data: NDArray[np.uint8], at: int, big: bool) -> Any:
    """Read 32 bits in the byte order of the machine that wrote the capture."""
    if big:
        return _u32(data, at)
    low = _wide(data[at]) | (_wide(data[at + 1]) << 8)
    return low | (_wide(data[at + 2]) << 16) | (_wide(data[at + 3]) << 24)


@part
def _behind_type(data: NDArray[np.uint8], at: int, end: int) -> int:
    """Offset behind an EtherType at ``at`` and any VLAN tags, or -1 if it is not IP."""
    while at + 2 <= end:
        kind = _u16(data, at)
        if kind in (0x0800, 0x86DD):
            return at + 2
        if kind not in (0x8100, 0x88A8, 0x9100):
            return -1
        at += 4
    return -1


@part
def _ip_offset(data: NDArray[np.uint8], at: int, end: int, link: int) -> int:
    """Offset of the IP header of the frame at ``at``, or -1."""
    if link == ETHERNET:
        return _behind_type(data, at + 12, end)
    if link == SLL:
        return _behind_type(data, at + 14, end)
    if link == SLL2:
        found = _behind_type(data, at, end)
        return found + 18 if found == at + 2 else -1
    if link in (NULL, LOOP):
        return at + 4
    return at


@part
def _address6(data: NDArray[np.uint8], at: int) -> Any:
    """63 bits of the FNV-1a hash of an IPv6 address, bit 63 set."""
    value = np.uint64(0xCBF29CE484222325)
    for i in range(16):
        value = (value ^ np.uint64(data[at + i])) * np.uint64(0x100000001B3)
    return value | np.uint64(0x8000000000000000)


@part
def _ip4(data: NDArray[np.uint8], at: int, end: int, p: Any) -> int:
    """Fill the IPv4 fields; offset of what follows, -1 if cut off, 0 for a later fragment."""
    header = (_wide(data[at]) & 15) * 4
    if header < 20 or at + 20 > end:
        return -1
    p.tos = data[at + 1]
    p.ip_length = _u16(data, at + 2)
    p.ip_id = _u16(data, at + 4)
    p.protocol = data[at + 9]
    p.src = _u32(data, at + 12)
    p.dst = _u32(data, at + 16)
    return 0 if _u16(data, at + 6) & 0x1FFF else at + header


@part
def _ip6(data: NDArray[np.uint8], at: int, end: int, p: Any) -> int:
    """Fill the fields of an IPv6 header (extension headers are not followed)."""
    if at + 40 > end:
        return -1
    p.tos = (_u16(data, at) >> 4) & 255
    length = _u16(data, at + 4)
    p.ip_length = length + 40 if length else 0
    p.ip_id = 0
    p.protocol = data[at + 6]
    p.src = _address6(data, at + 8)
    p.dst = _address6(data, at + 24)
    return at + 40


@part
def _sack_option(data: NDArray[np.uint8], at: int, length: int, p: Any) -> None:
    blocks = min((length - 2) // 8, SACK_BLOCKS)
    p.sacks = blocks
    for i in range(2 * blocks):
        p.sack[i] = _u32(data, at + 2 + 4 * i)


@part
def _options(data: NDArray[np.uint8], at: int, end: int, p: Any) -> None:
    """Read the TCP options SACK (5) and timestamp (8)."""
    while at + 1 < end:
        kind = data[at]
        if kind == 1:
            at += 1
            continue
        length = _wide(data[at + 1])
        if kind == 0 or length < 2 or at + length > end:
            return
        if kind == 5:
            _sack_option(data, at, length, p)
        elif kind == 8 and length == 10:
            p.timestamps = 1
            p.tsval = _u32(data, at + 2)
            p.tsecr = _u32(data, at + 6)
        at += length


@part
def _no_transport(p: Any) -> None:
    p.sport = 0
    p.dport = 0
    p.seq = 0
    p.ack = 0
    p.flags = 0
    p.window = 0
    p.sacks = 0
    p.timestamps = 0
    p.tsval = 0
    p.tsecr = 0


@part
def _tcp(data: NDArray[np.uint8], at: int, end: int, p: Any) -> int:
    """Fill the TCP fields; length of the header, -1 if it is cut off."""
    if at + 20 > end:
        return -1
    p.sport = _u16(data, at)
    p.dport = _u16(data, at + 2)
    p.seq = _u32(data, at + 4)
    p.ack = _u32(data, at + 8)
    header = _wide(data[at + 12] >> 4) * 4
    p.flags = data[at + 13]
    p.window = _u16(data, at + 14)
    if header > 20:
        _options(data, at + 20, min(end, at + header), p)
    return header if header >= 20 else -1


@part
def _packet(data: NDArray[np.uint8], at: int, end: int, overhead: int, p: Any) -> bool:
    """Fill everything from the IP header on; whether the headers are whole.

    ``overhead`` is the length of the link-layer header.
    """
    version = data[at] >> 4
    behind = _ip4(data, at, end, p) if version == 4 else _ip6(data, at, end, p)
    if behind < 0:
        return False
    if p.ip_length == 0:  # an offloaded packet of 64 kB or more: only the frame knows
        p.ip_length = p.wire_length - overhead
    _no_transport(p)
    header = 0
    if behind == 0:
        behind = at + (_wide(data[at]) & 15) * 4
    elif p.protocol == 6:
        header = _tcp(data, behind, end, p)
    elif p.protocol == 17 and behind + 8 <= end:
        p.sport = _u16(data, behind)
        p.dport = _u16(data, behind + 2)
        header = 8
    p.payload = _wide(p.ip_length) - (behind - at) - header
    return header >= 0


@compiled
def scan(
    data: NDArray[np.uint8],
    at: int,
    layout: tuple[bool, int, int, int],
    out: Packets,
    row: int,
    counters: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Read records from offset ``at`` into ``out`` from ``row`` on.

    Parameters
    ----------
    data : uint8, shape (bytes,)
        The whole capture.
    at : int
        Offset of a record header.
    layout : (bool, int, int, int)
        Big-endian; nanoseconds per unit of the fraction; link type; largest credible record.
    out : Packets
        Room for the result.
    row : int
        First free row.
    counters : int64, shape (COUNTERS,)
        Incremented: records, those that are not IP, those whose headers are cut off.

    Returns
    -------
    tuple of int
        Offset of the first record not read, first free row, and why it ended: `END`, `FULL` (no
        row left), `CUT` (the last record is not whole), `BROKEN` (no credible record header).
    """
    big, unit, link, limit = layout
    size = data.shape[0]
    while at < size:
        if at + _RECORD > size:
            return at, row, CUT
        if row == out.shape[0]:
            return at, row, FULL
        captured = _host32(data, at + 8, big)
        fraction = _host32(data, at + 4, big) * unit
        if captured > limit or fraction >= 1_000_000_000:
            return at, row, BROKEN
        begin, end = at + _RECORD, at + _RECORD + captured
        if end > size:
            return at, row, CUT
        counters[RECORDS] += 1
        ip = _ip_offset(data, begin, end, link)
        if ip < 0 or ip >= end or data[ip] >> 4 not in (4, 6):
            counters[NOT_IP] += 1
        else:
            record = out[row]
            record.time_ns = _host32(data, at, big) * 1_000_000_000 + fraction
            record.wire_length = _host32(data, at + 12, big)
            record.header_at = ip
            if _packet(data, ip, end, ip - begin, record):
                row += 1
            else:
                counters[SHORT] += 1
        at = end
    return at, row, END


def new_counters() -> NDArray[Any]:
    """Counters for `scan`, all zero."""
    return np.zeros(COUNTERS, np.int64)
