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
#: Set in an address that stands for an IPv6 one (the other 63 bits are a hash of it).
IPV6 = 1 << 63

#: The columns.
#:
#: ``time_ns``        time stamp, nanoseconds since 1970
#: ``src dst``        an IPv4 address as a number, an IPv6 one as a hash with bit 63 set
#: ``header_at``      offset of the IP header in the capture
#: ``seq ack``        TCP sequence and acknowledgement number
#: ``tsval tsecr``    TCP timestamps, if ``timestamps`` is not 0
#: ``ip_length``      bytes from the IP header on, as that header says
#: ``wire_length``    bytes of the whole frame, link-layer header included: what ``tc`` counts
#: ``payload``        bytes behind the TCP or UDP header; for other protocols behind the IP header
#: ``sack``           start and end of each SACK block; the first ``2 * sacks`` entries count
#: ``sport dport``    ports; 0 where the protocol has none or the packet is a later fragment
#: ``ip_id``          IPv4 identification; 0 for IPv6
#: ``window``         TCP window field, not scaled
#: ``protocol``       IP protocol number
#: ``tos``            type of service or traffic class: DSCP in the upper six bits
#: ``flags``          TCP flags
#: ``sacks``          number of SACK blocks
PACKET = np.dtype(
    [
        ("time_ns", np.int64),
        ("src", np.uint64),
        ("dst", np.uint64),
        ("header_at", np.int64),
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
        ("protocol", np.uint8),
        ("tos", np.uint8),
        ("flags", np.uint8),
        ("sacks", np.uint8),
        ("timestamps", np.uint8),
    ],
    align=True,
)

#: An array of `PACKET`, shape (n,), in the order of the capture.
Packets: TypeAlias = NDArray[Any]


def address_text(address: int, data: Any = None, at: int = 0) -> str:
    """Write an address of `PACKET` the usual way.

    Parameters
    ----------
    address : int
        ``src`` or ``dst`` of a packet.
    data : buffer, optional
        The capture's bytes; an IPv6 address is read there.
    at : int
        Offset of that address in `data`.

    Examples
    --------
    >>> address_text(0x0A000001)
    '10.0.0.1'
    """
    if not address & IPV6:
        return str(ipaddress.IPv4Address(address))
    if data is None:
        return f"ipv6-{address ^ IPV6:016x}"
    return str(ipaddress.IPv6Address(bytes(data[at : at + 16])))
