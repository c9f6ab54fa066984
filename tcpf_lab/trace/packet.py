"""Packets as an array: one row per IP packet.

A structured array, because compiled code then gets one pointer per packet and ``packets["seq"]`` is
still a plain numpy column.
"""

from __future__ import annotations

import ipaddress
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
TCP, UDP = 6, 17

#: SACK blocks that fit into the 40 bytes of TCP options.
SACK_BLOCKS = 4
#: What stands above an IPv4 address in ``src`` and ``dst`` (RFC 4291, 2.5.5.2).
MAPPED = 0xFFFF << 32
#: Values of ``fragment``; a later one has no TCP header, its ports are 0.
WHOLE, FIRST, LATER = 0, 1, 2

#: The columns; a row fills two lines of the cache.
#:
#: ``time_ns``        time stamp, nanoseconds since 1970
#: ``record``         number of its record in the capture, from 0
#: ``src dst``        lower 64 bits of the addresses; an IPv4 one is mapped, ``::ffff:a.b.c.d``
#: ``src_high``       upper 64 bits of the addresses (``dst_high``): 0 for IPv4
#: ``seq ack``        TCP sequence and acknowledgement number
#: ``tsval tsecr``    TCP timestamps, if ``timestamps`` is not 0
#: ``ip_length``      bytes from the IP header on, as that header says
#: ``wire_length``    bytes of the whole frame, link-layer header included: what ``tc`` counts
#: ``payload``        bytes behind the TCP or UDP header; for other protocols behind the IP header
#: ``sack``           start and end of each SACK block; the first ``2 * sacks`` entries count
#: ``sport dport``    ports; 0 where the protocol has none or the packet is a later fragment
#: ``ip_id``          IPv4 identification, lower half of an IPv6 fragment's; 0 for other IPv6
#: ``window``         TCP window field, not scaled
#: ``mss``            TCP option maximum segment size; 0 without it
#: ``protocol``       IP protocol number, of what stands behind IPv6 extension headers
#: ``tos``            type of service or traffic class: DSCP in the upper six bits
#: ``ttl``            time to live or hop limit
#: ``fragment``       `WHOLE`, `FIRST` or `LATER` part of a packet
#: ``flags``          TCP flags
#: ``sacks``          number of SACK blocks
#: ``timestamps``     1 with the TCP option timestamps
#: ``sack_permitted`` 1 with the TCP option SACK-permitted
#: ``window_scale``   TCP option window scale; -1 without it
#: ``interface``      number of the interface in a pcapng capture (255: that or a larger one)
PACKET = np.dtype(
    [
        ("time_ns", np.int64),
        ("record", np.int64),
        ("src", np.uint64),
        ("dst", np.uint64),
        ("src_high", np.uint64),
        ("dst_high", np.uint64),
        ("seq", np.uint32),
        ("ack", np.uint32),
        ("tsval", np.uint32),
        ("tsecr", np.uint32),
        ("ip_length", np.uint32),
        ("wire_length", np.uint32),
        ("payload", np.int32),
        ("sack", np.uint32, (2 * SACK_BLOCKS,)),
        ("sport", np.uint16),
        ("dport", np.uint16),
        ("ip_id", np.uint16),
        ("window", np.uint16),
        ("mss", np.uint16),
        ("protocol", np.uint8),
        ("tos", np.uint8),
        ("ttl", np.uint8),
        ("fragment", np.uint8),
        ("flags", np.uint8),
        ("sacks", np.uint8),
        ("timestamps", np.uint8),
        ("sack_permitted", np.uint8),
        ("window_scale", np.int8),
        ("interface", np.uint8),
    ],
    align=True,
)

#: An array of `PACKET`, shape (n,), in the order of the capture.
Packets: TypeAlias = NDArray[Any]


def address_bytes(high: int, low: int) -> bytes:
    """Give an address of `PACKET` as 16 bytes in network order.

    Parameters
    ----------
    high, low : int
        ``src_high`` and ``src`` of a packet, or ``dst_high`` and ``dst``.
    """
    return (int(high) << 64 | int(low)).to_bytes(16, "big")


def address_text(high: int, low: int) -> str:
    """Write an address of `PACKET` the usual way.

    Parameters
    ----------
    high, low : int
        ``src_high`` and ``src`` of a packet, or ``dst_high`` and ``dst``.

    Examples
    --------
    >>> address_text(0, MAPPED | 0x0A000001)
    '10.0.0.1'
    >>> address_text(0x20010DB8 << 32, 1)
    '2001:db8::1'
    """
    address = ipaddress.IPv6Address(address_bytes(high, low))
    return str(address.ipv4_mapped or address)
