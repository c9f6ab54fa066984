"""From an event to its packets: the records of a capture around it, dissected by dpkt."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tcpf_lab import _trace
from tcpf_lab.errors import RequestError
from tcpf_lab.trace.pcap import read_between

if TYPE_CHECKING:
    import dpkt
    import pandas as pd


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
        import dpkt  # here and below: `tcpf_lab.api` should not pay for the import

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
