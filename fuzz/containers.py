"""Take captures apart into records, and put them together again: pcap and pcapng."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

#: Bytes of an Ethernet header.
ETHERNET = 14
_HEADER = 24
_RECORD = 16
_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6
_ORDERS = {b"\xd4\xc3\xb2\xa1": "<", b"\x4d\x3c\xb2\xa1": "<"} | {
    b"\xa1\xb2\xc3\xd4": ">",
    b"\xa1\xb2\x3c\x4d": ">",
}


@dataclass
class Record:
    """A packet: seconds, fraction, length on the wire, and the bytes that were kept."""

    seconds: int
    fraction: int
    wire: int
    frame: bytearray


@dataclass
class Taken:
    """A classic capture, taken apart; ``rest`` is what makes no whole record."""

    head: bytearray
    order: str
    records: list[Record] = field(default_factory=list)
    rest: bytes = b""

    @property
    def link(self) -> int:
        """Its link type."""
        return int(struct.unpack_from(self.order + "I", self.head, 20)[0]) & 0xFFFF


def take_apart(data: bytes) -> Taken | None:
    """Take a classic capture apart; None if it is none."""
    order = _ORDERS.get(data[:4])
    if order is None or len(data) < _HEADER:
        return None
    taken, at = Taken(bytearray(data[:_HEADER]), order), _HEADER
    while at + _RECORD <= len(data):
        seconds, fraction, kept, wire = struct.unpack_from(order + "IIII", data, at)
        if at + _RECORD + kept > len(data):
            break
        frame = bytearray(data[at + _RECORD : at + _RECORD + kept])
        taken.records.append(Record(seconds, fraction, wire, frame))
        at += _RECORD + kept
    taken.rest = data[at:]
    return taken


def connections(taken: Taken) -> list[list[Record]]:
    """Give the IPv4 packets without IP options of each connection of an Ethernet capture."""
    found: dict[frozenset[bytes], list[Record]] = {}
    for record in taken.records if taken.link == 1 else []:
        packet = bytes(record.frame[ETHERNET : ETHERNET + 40])
        if len(packet) == 40 and packet[0] == 0x45:
            ends = frozenset((packet[12:16] + packet[20:22], packet[16:20] + packet[22:24]))
            found.setdefault(ends, []).append(record)
    return list(found.values())


def put_together(taken: Taken) -> bytes:
    """Write a classic capture."""
    parts = [bytes(taken.head)]
    for record in taken.records:
        words = (record.seconds, record.fraction, len(record.frame), record.wire)
        parts += [struct.pack(taken.order + "IIII", *(word & 0xFFFFFFFF for word in words))]
        parts += [bytes(record.frame)]
    return b"".join(parts) + taken.rest


def as_pcapng(taken: Taken, *, nanoseconds: bool = True) -> bytes:
    """Write the same packets as pcapng."""
    order = taken.order
    section = struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1)
    resolution = struct.pack(order + "HHB3xHH", 9, 1, 9 if nanoseconds else 6, 0, 0)
    interface = struct.pack(order + "HHI", taken.link, 0, 0) + resolution
    parts = [_block(order, _SECTION, section), _block(order, _INTERFACE, interface)]
    for record in taken.records:
        unit = 10**9 if nanoseconds else 10**6
        time = record.seconds * unit + record.fraction % unit
        sizes = (len(record.frame), record.wire & 0xFFFFFFFF)
        words = (0, time >> 32 & 0xFFFFFFFF, time & 0xFFFFFFFF, *sizes)
        padding = bytes(-len(record.frame) % 4)
        body = struct.pack(order + "IIIII", *words) + bytes(record.frame) + padding
        parts.append(_block(order, _PACKET, body))
    return b"".join(parts)


def _block(order: str, kind: int, body: bytes) -> bytes:
    length = 12 + len(body)
    head = struct.pack(order + "II", kind, length)
    return head + body + struct.pack(order + "I", length)


def blocks(data: bytes) -> list[bytes]:
    """Split a pcapng capture where its lengths say; the last piece is what is left."""
    order = ">" if data[8:12] == b"\x1a\x2b\x3c\x4d" else "<"
    found, at = [], 0
    while at + 12 <= len(data):
        length = struct.unpack_from(order + "I", data, at + 4)[0]
        if length < 12 or at + length > len(data):
            break
        found.append(data[at : at + length])
        at += length
    return [*found, data[at:]]
