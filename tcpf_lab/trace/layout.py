"""How the records of a capture look: the header of a pcap file, the link types.

Format: https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-03.html.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.errors import TraceError
from tcpf_lab.trace.link import NAMES, UNKNOWN_LINK
from tcpf_lab.trace.scan import (
    BIG,
    DIVIDE,
    HEADER,
    INTERFACE,
    LAYOUT,
    LIMIT,
    LINK,
    MULTIPLY,
    SHIFT,
    UNITS,
)

#: Bytes of the header of a pcap file.
PCAP_HEADER = 24
#: How a pcapng capture begins, in either byte order.
PCAPNG_MAGIC = b"\x0a\x0d\x0d\x0a"
#: Time stamps later than this (in the year 2116) are damage.
LATEST_NS = 1 << 62

#: Magic number -> big-endian, nanoseconds per unit of the fraction, bytes of a record header.
_MAGIC = {
    b"\xd4\xc3\xb2\xa1": (False, 1000, 16),
    b"\xa1\xb2\xc3\xd4": (True, 1000, 16),
    b"\x4d\x3c\xb2\xa1": (False, 1, 16),
    b"\xa1\xb2\x3c\x4d": (True, 1, 16),
    b"\x34\xcd\xb2\xa1": (False, 1000, 24),  # "modified": the interface is in the record header
    b"\xa1\xb2\xcd\x34": (True, 1000, 24),
}
#: libpcap refuses to write longer records (MAXIMUM_SNAPLEN).
_LARGEST_RECORD = 262_144


def new_layout(header: int, big: bool, limit: int) -> NDArray[np.int64]:
    """Describe records.

    Parameters
    ----------
    header : int
        Bytes of a record header; 0 for pcapng.
    big : bool
        Whether the writer's byte order is big-endian.
    limit : int
        Bytes of the longest credible record.
    """
    layout = np.zeros(LAYOUT, np.int64)
    layout[HEADER], layout[BIG], layout[LIMIT] = header, big, limit
    return layout


def new_interface(link: int, unit_ns: int) -> NDArray[np.int64]:
    """Describe an interface whose time stamps count ``unit_ns`` nanoseconds."""
    interface = np.zeros(INTERFACE, np.int64)
    interface[LINK] = link if link in NAMES else UNKNOWN_LINK
    interface[MULTIPLY], interface[DIVIDE], interface[SHIFT] = unit_ns, 1, -1
    interface[UNITS] = LATEST_NS // unit_ns
    return interface


def link_refused(link: int, name: str) -> TraceError:
    """Say that no frame of this link type can be read."""
    known = ", ".join(f"{text} ({number})" for number, text in NAMES.items())
    return TraceError(f"unknown link type {link}; known are {known}", where=name)


def pcap_layout(head: bytes, name: str) -> tuple[Any, Any, int]:
    """Layout, interface and link type of a pcap file that begins with ``head``.

    Raises
    ------
    TraceError
        If it is no pcap file, is cut off, or has an unknown link type.
    """
    if head[:4] not in _MAGIC:
        raise TraceError(
            f"not a pcap capture: it begins with {head[:4].hex(' ')}",
            where=name,
            hint="give a capture that 'tcpdump -w' or Wireshark wrote (plain or compressed)",
        )
    if len(head) < PCAP_HEADER:
        raise TraceError(
            f"truncated in the file header: {len(head)} of {PCAP_HEADER} bytes", where=name
        )
    big, unit, header = _MAGIC[head[:4]]
    snaplen, link = struct.unpack(">II" if big else "<II", head[16:24])
    link &= 0xFFFF  # the upper bits describe frame check sequences
    if link not in NAMES:
        raise link_refused(link, name)
    limit = max(snaplen, _LARGEST_RECORD) if snaplen < 1 << 27 else _LARGEST_RECORD
    return new_layout(header, big, limit), new_interface(link, unit), link
