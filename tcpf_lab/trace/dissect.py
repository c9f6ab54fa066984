"""Fill a row of `PACKET` from an IP packet on, in compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcpf_lab.trace.jit import inlined, part
from tcpf_lab.trace.packet import FIRST, LATER, MAPPED, SACK_BLOCKS, TCP, UDP, WHOLE
from tcpf_lab.trace.words import byte, u16, u32, u64

#: What `fill_packet` found.
FILLED, WITHOUT_OPTIONS, TOO_SHORT = 0, 1, 2

_MAXIMUM = 0x7FFFFFFF
#: IPv6 extension headers (RFC 8200, 4302, 6275, 7401, 5533).
_HOPS, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION = 0, 43, 44, 51, 60
_MOBILITY, _HOST_IDENTITY, _SHIM = 135, 139, 140
#: NOP, NOP, timestamps of 10 bytes: how most stacks lay their options out (RFC 7323, appendix A).
_USUAL, _TWO_NOPS = 0x0101080A, 0x0101
_NOP, _SACK = 1, 5


@inlined
def _ip4(data: Any, at: Any, end: Any, p: Any) -> Any:
    """Fill the IPv4 fields; offset of what follows, -1 if cut off."""
    header = (byte(data, at) & 15) * 4
    if header < 20 or at + 20 > end:
        return -1
    offset = u16(data, at + 6)
    p.fragment = LATER if offset & 0x1FFF else (FIRST if offset & 0x2000 else WHOLE)
    p.tos = byte(data, at + 1)
    p.ip_length = u16(data, at + 2)
    p.ip_id = u16(data, at + 4)
    p.ttl = byte(data, at + 8)
    p.protocol = byte(data, at + 9)
    p.src_high = 0
    p.dst_high = 0
    p.src = MAPPED | u32(data, at + 12)
    p.dst = MAPPED | u32(data, at + 16)
    return at + header


@inlined
def _extended(kind: Any) -> bool:
    """Whether an IPv6 extension header comes next."""
    return kind in (
        *(_HOPS, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION),
        *(_MOBILITY, _HOST_IDENTITY, _SHIM),
    )


@part
def _extensions(data: Any, at: Any, end: Any, kind: Any, p: Any) -> Any:
    """Follow IPv6 extension headers; offset behind them, -1 if they are cut off."""
    while _extended(kind):
        if at + 8 > end:
            return -1
        size = (byte(data, at + 1) + 1) * 8
        if kind == _AUTHENTICATION:
            size = (byte(data, at + 1) + 2) * 4
        elif kind == _FRAGMENT:
            size, offset = 8, u16(data, at + 2)
            p.ip_id = u16(data, at + 6)
            p.fragment = LATER if offset >> 3 else (FIRST if offset & 1 else WHOLE)
        kind = byte(data, at)
        at += size
        if p.fragment == LATER:
            break
    p.protocol = kind
    return at


@inlined
def _ip6(data: Any, at: Any, end: Any, p: Any) -> Any:
    """Fill the IPv6 fields; offset of what follows the extension headers, -1 if cut off."""
    if at + 40 > end:
        return -1
    length = u16(data, at + 4)
    p.fragment = WHOLE
    p.tos = (u16(data, at) >> 4) & 255
    p.ip_length = length + 40 if length else 0
    p.ip_id = 0
    p.ttl = byte(data, at + 7)
    p.protocol = byte(data, at + 6)
    p.src_high = u64(data, at + 8)
    p.src = u64(data, at + 16)
    p.dst_high = u64(data, at + 24)
    p.dst = u64(data, at + 32)
    kind = byte(data, at + 6)
    return _extensions(data, at + 40, end, kind, p) if _extended(kind) else at + 40


@inlined
def _sack_option(data: Any, at: Any, length: Any, p: Any) -> None:
    """Read the SACK option (RFC 2018) at ``at``."""
    blocks = min((length - 2) // 8, SACK_BLOCKS)
    p.sacks = blocks
    if blocks > 0:
        p.sack[0], p.sack[1] = u32(data, at + 2), u32(data, at + 6)
    if blocks > 1:
        p.sack[2], p.sack[3] = u32(data, at + 10), u32(data, at + 14)
    if blocks > 2:
        p.sack[4], p.sack[5] = u32(data, at + 18), u32(data, at + 22)
    if blocks > 3:
        p.sack[6], p.sack[7] = u32(data, at + 26), u32(data, at + 30)


@inlined
def _timestamps(data: Any, at: Any, p: Any) -> None:
    """Read the values of the timestamps option (RFC 7323)."""
    p.timestamps = 1
    p.tsval = u32(data, at)
    p.tsecr = u32(data, at + 4)


@part
def _any_options(data: Any, at: Any, end: Any, p: Any) -> None:
    """Read TCP options in any order; a broken one ends their list."""
    while at + 1 < end:
        kind = byte(data, at)
        if kind == _NOP:
            at += 1
            continue
        length = byte(data, at + 1)
        if kind == 0 or length < 2 or at + length > end:
            return
        if kind == _SACK:
            _sack_option(data, at, length, p)
        elif kind == 8 and length == 10:
            _timestamps(data, at + 2, p)
        elif kind == 2 and length == 4:
            p.mss = u16(data, at + 2)
        elif kind == 3 and length == 3:
            p.window_scale = min(byte(data, at + 2), 14)
        elif kind == 4 and length == 2:
            p.sack_permitted = 1
        at += length


@inlined
def _options(data: Any, at: Any, end: Any, p: Any) -> None:
    """Read the TCP options; those of most packets without a loop."""
    if at + 12 <= end and u32(data, at) == _USUAL:
        _timestamps(data, at + 4, p)
        at += 12
    if at + 4 <= end and u16(data, at) == _TWO_NOPS and byte(data, at + 2) == _SACK:
        length = byte(data, at + 3)
        if at + 2 + length == end:
            _sack_option(data, at + 2, length, p)
            at = end
    if at < end:
        _any_options(data, at, end, p)


@inlined
def _no_options(p: Any) -> None:
    p.mss = 0
    p.sacks = 0
    p.timestamps = 0
    p.sack_permitted = 0
    p.window_scale = -1
    p.tsval = 0
    p.tsecr = 0


@inlined
def _ports(sport: Any, dport: Any, p: Any) -> None:
    """Fill the ports; a packet that is not TCP has nothing else."""
    p.sport = sport
    p.dport = dport
    p.seq = 0
    p.ack = 0
    p.flags = 0
    p.window = 0


@inlined
def _tcp(data: Any, at: Any, end: Any, p: Any) -> Any:
    """Fill the TCP fields; bytes of the header, -1 if it is cut off."""
    if at + 20 > end:
        return -1
    p.sport = u16(data, at)
    p.dport = u16(data, at + 2)
    p.seq = u32(data, at + 4)
    p.ack = u32(data, at + 8)
    header = (byte(data, at + 12) >> 4) * 4
    p.flags = byte(data, at + 13)
    p.window = u16(data, at + 14)
    if header > 20:
        _options(data, at + 20, min(end, at + header), p)
    return header if header >= 20 else -1


@inlined
def _transport(data: Any, at: Any, end: Any, p: Any) -> Any:
    """Fill what stands behind the IP header; bytes of that header, -1 if it is cut off."""
    _no_options(p)
    if p.protocol == TCP and p.fragment != LATER:
        return _tcp(data, at, end, p)
    if p.protocol == UDP and p.fragment != LATER and at + 8 <= end:
        _ports(u16(data, at), u16(data, at + 2), p)
        return 8
    _ports(0, 0, p)
    return 0


@inlined
def fill_packet(data: Any, at: Any, end: Any, overhead: Any, p: Any) -> int:
    """Fill everything from the IP header at ``at`` on; `FILLED` and so on.

    ``overhead`` is the length of the link-layer header, ``data[end]`` the first byte not captured.
    """
    behind = _ip4(data, at, end, p) if byte(data, at) >> 4 == 4 else _ip6(data, at, end, p)
    if behind < 0:
        return TOO_SHORT
    length = np.int64(p.ip_length)
    if length == 0:  # an offloaded packet of 64 kB or more: only the frame knows
        length = np.int64(min(np.int64(p.wire_length) - overhead, np.int64(_MAXIMUM)))
        p.ip_length = length
    header = _transport(data, behind, end, p)
    payload = length - (behind - at) - header
    if header < 0 or payload < 0:
        return TOO_SHORT
    p.payload = payload
    return WITHOUT_OPTIONS if behind + header > end and p.protocol == TCP else FILLED
