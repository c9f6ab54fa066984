"""Find the IP header behind each kind of link-layer header, in compiled code.

Link types: https://www.tcpdump.org/linktypes.html.
"""

from __future__ import annotations

from typing import Any

from tcpf_lab.trace.jit import inlined, part
from tcpf_lab.trace.words import byte, u16, u32

NULL, ETHERNET, PPP, RAW_OPENBSD, RAW_BSD = 0, 1, 9, 12, 14
PPP_HDLC, PPPOE, RAW, CISCO_HDLC, LOOP, ENC = 50, 51, 101, 104, 108, 109
SLL, PPP_DIRECTION, RAW_IPV4, RAW_IPV6, SLL2 = 113, 204, 228, 229, 276

#: The link types that are read, with what they are called.
NAMES = {
    NULL: "BSD loopback",
    ETHERNET: "Ethernet",
    PPP: "PPP",
    RAW_OPENBSD: "raw IP",
    RAW_BSD: "raw IP",
    PPP_HDLC: "PPP in HDLC framing",
    PPPOE: "PPPoE",
    RAW: "raw IP",
    CISCO_HDLC: "Cisco HDLC",
    LOOP: "OpenBSD loopback",
    ENC: "OpenBSD encapsulated IP",
    SLL: "Linux cooked",
    PPP_DIRECTION: "PPP with direction",
    RAW_IPV4: "raw IPv4",
    RAW_IPV6: "raw IPv6",
    SLL2: "Linux cooked v2",
}
#: Link type of an interface that carries none of them.
UNKNOWN_LINK = -1

_ETHERNET_SIZE, _SLL_SIZE, _SLL2_SIZE = 14, 16, 20


@part
def _behind_ppp(data: Any, at: Any, end: Any) -> Any:
    """Offset behind a PPP header (RFC 1661, 1662), -1 if it is not IP."""
    if at + 2 <= end and u16(data, at) in (0xFF03, 0x0F00):
        at += 2
    if at + 2 > end:
        return -1
    if byte(data, at) in (0x21, 0x57):  # the protocol field may be compressed to one byte
        return at + 1
    return at + 2 if u16(data, at) in (0x0021, 0x0057) else -1


@part
def _behind_labels(data: Any, at: Any, end: Any) -> Any:
    """Offset behind a stack of MPLS labels (RFC 3032)."""
    while at + 4 <= end:
        at += 4
        if byte(data, at - 2) & 1:
            return at
    return -1


@part
def _behind_rare_type(data: Any, at: Any, end: Any) -> Any:
    """Offset behind an EtherType at ``at`` that needs more than itself, -1 if it is not IP."""
    while at + 2 <= end:
        kind = u16(data, at)
        if kind in (0x0800, 0x86DD):
            return at + 2
        if kind in (0x8100, 0x88A8, 0x9100, 0x9200):
            at += 4
        elif kind == 0x8864:
            return _behind_ppp(data, at + 8, end)
        elif kind in (0x8847, 0x8848):
            return _behind_labels(data, at + 2, end)
        elif kind > 1500 or at + 8 > end:
            return -1
        elif u32(data, at + 2) == 0xAAAA0300 and u16(data, at + 6) == 0:
            at += 8  # a length, and LLC with SNAP (RFC 1042)
        else:
            return -1
    return -1


@part
def _rare_offset(data: Any, at: Any, end: Any, link: Any) -> Any:
    """Offset of the IP header of a frame that is neither Ethernet nor Linux cooked, or -1."""
    if link in (RAW, RAW_IPV4, RAW_IPV6, RAW_BSD, RAW_OPENBSD):
        return at
    if link in (NULL, LOOP):
        return at + 4
    if link in (PPP, PPP_HDLC):
        return _behind_ppp(data, at, end)
    if link == PPP_DIRECTION:
        return _behind_ppp(data, at + 1, end)
    if link == PPPOE:
        return _behind_ppp(data, at + 6, end)
    if link == CISCO_HDLC:
        return _behind_rare_type(data, at + 2, end)
    return at + 12 if link == ENC else -1


@inlined
def ip_offset(data: Any, at: Any, end: Any, link: Any) -> Any:
    """Offset of the IP header of the frame ``data[at:end]``; -1 (or ``end`` and more): none."""
    if link == ETHERNET:
        at += _ETHERNET_SIZE
    elif link == SLL:
        at += _SLL_SIZE
    elif link == SLL2:
        at += _SLL2_SIZE
        if at > end:
            return -1
        if u16(data, at - _SLL2_SIZE) not in (0x0800, 0x86DD):  # a VLAN tag's control comes first
            tagged = u16(data, at - _SLL2_SIZE) in (0x8100, 0x88A8)
            return _behind_rare_type(data, at + 2, end) if tagged else -1
        return at
    else:
        return _rare_offset(data, at, end, link)
    if at > end:
        return -1
    if u16(data, at - 2) in (0x0800, 0x86DD):
        return at
    return _behind_rare_type(data, at - 2, end)
