"""Packets as an array: one row per IP packet.

A structured array, because compiled code then gets one pointer per packet and ``packets["seq"]`` is
still a plain numpy column.
"""

from __future__ import annotations

import ipaddress
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tcpf_lab import _trace
from tcpf_lab.base.errors import RequestError, TraceError, path_text
from tcpf_lab.trace.analysis import CaptureInfo

if TYPE_CHECKING:
    import dpkt
    import pandas as pd


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
#: ``ip_length``      bytes from the IP header on, by that header
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


_HINT = "accept a truncated end, if the capturing program was killed"


@dataclass(frozen=True, kw_only=True)
class Capture(CaptureInfo):
    """One capture in memory: its IP packets, in the order of the capture."""

    packets: Packets


def read_capture(path: Path | str, *, accept_truncated: bool = False) -> Capture:
    """Read a capture into arrays.

    Parameters
    ----------
    path : Path or str
        A pcap or pcapng file, plain or packed with zstd, gzip, xz, bzip2 or lz4; ``-`` is standard
        input.
    accept_truncated : bool
        Take a capture that ends within a record (its writer was killed) up to there, and what is
        credible of one that is damaged behind the first record, with a warning.

    Raises
    ------
    TraceError
        Missing, empty, no capture, damaged, or truncated.
    """
    info, packets, hint = _trace.read(os.fspath(path))
    name = path_text(path)
    if info["truncated"] and not accept_truncated:
        raise TraceError(info["truncated"], where=name, hint=hint or _HINT)
    if info["truncated"]:
        warnings.warn(f"{name}: {info['truncated']}", stacklevel=2)
    return Capture(name=name, packets=packets, **info)


def segments(packets: Packets, mtu: int, mss: int | None = None) -> Packets:
    """Replace each packet of several TCP segments (TSO, GSO, GRO) by these, as a device sends them.

    Each keeps the time and the record of the packet. Shorter packets stay.

    Parameters
    ----------
    packets : Packets
        Shape (n,).
    mtu : int
        Largest IP packet on the way.
    mss : int, optional
        Largest segment without TCP's options, if it is less than the MTU allows.
    """
    ipv4 = (packets["src_high"] == 0) & (packets["src"] >> 32 == MAPPED >> 32)
    most = np.minimum(mtu, mtu if mss is None else mss + np.where(ipv4, 40, 60))
    length, data = packets["ip_length"].astype(np.int64), packets["payload"].astype(np.int64)
    room = most - (length - data)
    joined = (packets["protocol"] == TCP) & (length > most) & (room > 0)
    if not np.any(joined):
        return packets
    count = np.where(joined, -(-data // np.maximum(room, 1)), 1)
    row = np.repeat(np.arange(packets.size), count)
    number = np.arange(row.size) - np.repeat(np.cumsum(count) - count, count)
    found = packets[row]
    begin = np.where(joined[row], number * room[row], 0)
    size = np.where(joined[row], np.minimum(room[row], data[row] - begin), data[row])
    for name in ("ip_length", "wire_length", "payload"):
        found[name] -= (data[row] - size).astype(found[name].dtype)
    found["seq"] += begin.astype(np.uint32)
    found["ip_id"] += np.where(ipv4[row], number, 0).astype(np.uint16)
    found["flags"][number < count[row] - 1] &= ~np.uint8(FIN | PSH)
    return found


def read_between(path: Path | str, src: bytes, sport: int, dst: bytes, dport: int) -> Packets:
    """Read the packets between two ends, in both directions, and keep no others.

    Parameters
    ----------
    path : Path or str
        As for `read_capture`; what is whole before damage is read.
    src, dst : bytes
        Addresses as in `tcpf_lab.trace.analysis.FLOW`: 16 bytes, an IPv4 one as ``::ffff:a.b.c.d``.
    sport, dport : int
        Ports.
    """
    return _trace.read(os.fspath(path), (src, sport, dst, dport))[1]


@dataclass(frozen=True)
class Flows:
    """The TCP flows of a capture; a flow runs from its data sender to its receiver.

    Attributes
    ----------
    src, dst, src_high, dst_high : uint64, shape (flows,)
        Addresses as in `tcpf_lab.trace.packet.PACKET`.
    sport, dport : uint16, shape (flows,)
        Ports.
    connection : int64, shape (flows,)
        Row of `start` that holds the packets of both directions.
    reverse : bool, shape (flows,)
        Whether data runs against the direction of the connection's first packet.
    order : int64, shape (TCP packets,)
        Row numbers of the packets, connection after connection, in capture order within each.
    start : int64, shape (connections + 1,)
        Connection c owns ``order[start[c]:start[c + 1]]``.
    backward : bool, shape (packets,)
        Whether a packet runs against the direction of its connection's first packet.
    """

    src: NDArray[np.uint64]
    dst: NDArray[np.uint64]
    src_high: NDArray[np.uint64]
    dst_high: NDArray[np.uint64]
    sport: NDArray[np.uint16]
    dport: NDArray[np.uint16]
    connection: NDArray[np.int64]
    reverse: NDArray[np.bool_]
    order: NDArray[np.int64]
    start: NDArray[np.int64]
    backward: NDArray[np.bool_]

    @property
    def count(self) -> int:
        """Number of flows."""
        return int(self.connection.size)

    def both_ways(self, flow: int) -> NDArray[np.int64]:
        """Row numbers of the packets of a flow's connection, both directions, in capture order."""
        row = self.connection[flow]
        return self.order[self.start[row] : self.start[row + 1]]

    def split(self, flow: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Row numbers of the flow's own packets and of those that come back."""
        return self._halves[flow]

    @cached_property
    def _halves(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """The split of every flow, made once: every metric asks for it."""
        found = []
        for flow in range(self.count):
            rows = self.both_ways(flow)
            back = self.backward[rows] != self.reverse[flow]
            found.append((rows[~back], rows[back]))
        return found


def find_flows(packets: Packets) -> Flows:
    """Find the TCP flows of a capture.

    A connection whose two directions both carry data makes two flows; one that carries none makes
    one, in the direction of its SYN (of its first packet if there is none).

    Parameters
    ----------
    packets : Packets
        Shape (n,), in capture order.

    Returns
    -------
    Flows
        In the order of their connections' first packets.
    """
    label, first, backward = _trace.connections(packets)
    tcp = np.flatnonzero(label >= 0)
    # numpy sorts 16-bit numbers stably in linear time.
    short = label.astype(np.uint16) if first.size <= 1 << 16 else label
    order = tcp[np.argsort(short[tcp], kind="stable")]
    start = np.concatenate([[0], np.cumsum(np.bincount(label[tcp], minlength=first.size))])
    connection, reverse = _directions(packets, label, backward, first.size)
    head = packets[first[connection]]
    swap = reverse
    return Flows(
        src=np.where(swap, head["dst"], head["src"]),
        dst=np.where(swap, head["src"], head["dst"]),
        src_high=np.where(swap, head["dst_high"], head["src_high"]),
        dst_high=np.where(swap, head["src_high"], head["dst_high"]),
        sport=np.where(swap, head["dport"], head["sport"]),
        dport=np.where(swap, head["sport"], head["dport"]),
        connection=connection,
        reverse=reverse,
        order=order,
        start=start,
        backward=backward,
    )


def _directions(packets: Packets, label: Any, backward: Any, count: int) -> tuple[Any, Any]:
    """Connection and direction of every flow."""
    side = 2 * label + backward
    data = side[(label >= 0) & (packets["payload"] > 0)]
    syn = side[(label >= 0) & ((packets["flags"] & (SYN | ACK)) == SYN)]
    carries = np.zeros(2 * count, np.bool_)
    carries[data] = True
    silent = ~(carries[0::2] | carries[1::2])
    opened = np.zeros(2 * count, np.bool_)
    opened[syn] = True
    carries[1::2] |= silent & opened[1::2] & ~opened[0::2]
    carries[0::2] |= silent & ~carries[1::2]
    flow = np.flatnonzero(carries)
    return flow // 2, (flow % 2).astype(np.bool_)


@dataclass(frozen=True)
class Frame:
    """A record of a capture.

    Attributes
    ----------
    record : int
        Its number, from 0; Wireshark counts from 1.
    time_ns : int
        Nanoseconds since 1970.
    wire_length, payload : int
        Bytes of the frame, and of data behind its TCP header; the capture may have fewer.
    packet : dpkt.Packet
        The frame from its link-layer header on; from the IP header on where there is none.
    forward : bool
        Whether it runs as the event's packet does.
    """

    record: int
    time_ns: int
    wire_length: int
    payload: int
    packet: dpkt.Packet
    forward: bool

    @property
    def tcp(self) -> dpkt.tcp.TCP:
        """Its TCP segment."""
        import dpkt  # here and below: `tcpf_lab.run.api` should not pay for the import

        layer = self.packet
        while not isinstance(layer, dpkt.tcp.TCP):
            layer = layer.data
        return layer


def packets(
    path: Path | str, event: Mapping[str, Any] | pd.Series[Any], around: int = 8
) -> list[Frame]:
    """Give the packets of an event's connection around the event, dissected.

    Parameters
    ----------
    path : Path or str
        The capture that the event was found in, plain or packed.
    event : mapping or Series
        A row of `tcpf_lab.report.frames.captures.Captures.events`: ``record``, ``src``, ``sport``,
        ``dst`` and ``dport`` are read.
    around : int
        So many packets of the connection before the event's, and as many behind it.

    Returns
    -------
    list of Frame
        In the order of the capture.

    Raises
    ------
    TraceError
        If the capture cannot be read.
    RequestError
        If it has no such packet, or frames that dpkt cannot read.

    Examples
    --------
    >>> found = tcpf_lab.analyze("S.pcap")  # doctest: +SKIP
    >>> for frame in tcpf_lab.packets("S.pcap", found.events.iloc[0]):  # doctest: +SKIP
    ...     print(frame.record, frame.tcp.seq, dpkt.tcp.parse_opts(frame.tcp.opts))
    """
    src, dst = _address(event["src"]), _address(event["dst"])
    rows = read_between(path, src, int(event["sport"]), dst, int(event["dport"]))
    found = np.flatnonzero(rows["record"] == event["record"])
    if not found.size:
        message = f"no packet of this connection is record {event['record']}"
        raise RequestError(message, where=str(path), hint="take an event of this capture")
    place = int(found[0])
    chosen = rows[max(0, place - around) : place + around + 1]
    forward = chosen["sport"] == rows["sport"][place]
    forward &= chosen["src"] == rows["src"][place]
    raw = _trace.frames(os.fspath(path), chosen["record"].copy())
    return [
        Frame(
            record=int(row["record"]),
            time_ns=time_ns,
            wire_length=wire,
            payload=int(row["payload"]),
            packet=_dissect(link, data, str(path)),
            forward=bool(own),
        )
        for row, own, (time_ns, wire, link, data) in zip(chosen, forward, raw, strict=True)
    ]


def _address(text: str) -> bytes:
    ip = ipaddress.ip_address(text)
    return (bytes(10) + b"\xff\xff" if ip.version == 4 else b"") + ip.packed


def _dissect(link: int, data: bytes, path: str) -> dpkt.Packet:
    """Give what dpkt makes of a frame, by the capture's number for its link type."""
    import dpkt

    known = {
        0: dpkt.loopback.Loopback,
        1: dpkt.ethernet.Ethernet,
        9: dpkt.ppp.PPP,
        113: dpkt.sll.SLL,
        276: dpkt.sll2.SLL2,
        **dict.fromkeys((12, 101, 228, 229), dpkt.ip.IP if data[0] >> 4 == 4 else dpkt.ip6.IP6),
    }
    if link not in known:
        raise RequestError(f"dpkt cannot read frames of link type {link}", where=path)
    return known[link](data)
