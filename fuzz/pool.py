"""What the storm's inputs are made of: stretches of connections, staged for compiled code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from fuzz.containers import ETHERNET, Record, Taken, connections, take_apart
from fuzz.stage import FACTS, LENGTH, MOST, ROOM, TIME, WIRE

#: Stretches in the pool: those it begins with, and those that reached something new.
_PLACES = 768
#: Where stretches begin, in packets of their connections.
_BEGINNINGS = (0, 20, 44, 68, 92, 116, 140)
_MAPPED = bytes(10) + b"\xff\xff"

#: A packet from its IP header on, its time, and its bytes on the wire from there on.
_Packet = tuple[bytes, int, int]
#: Bytes, shape (places * MOST, ROOM); facts, shape (places * MOST, FACTS); packets of each stretch,
#: shape (places,); stretches there are and, of those, the ones that are never replaced, shape (2,).
Pool = tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


def make(captures: Iterable[bytes]) -> Pool:
    """Stage what classic Ethernet captures hold, connection by connection.

    Parameters
    ----------
    captures : iterable of bytes
        Whole files; what is none of those captures is left out.
    """
    rows = np.zeros((_PLACES * MOST, ROOM), np.uint8)
    facts = np.zeros((_PLACES * MOST, FACTS), np.int64)
    sizes, place = np.zeros(_PLACES, np.int64), 0
    for stretch in _stretches(captures):
        if place == _PLACES // 2:
            break
        for number, (packet, time, wire) in enumerate(stretch):
            at = place * MOST + number
            rows[at, : len(packet)] = np.frombuffer(packet, np.uint8)
            facts[at, [LENGTH, TIME, WIRE]] = len(packet), time, wire
        sizes[place] = len(stretch)
        place += 1
    return rows, facts, sizes, np.array([place, place])


def _stretches(captures: Iterable[bytes]) -> Iterator[list[_Packet]]:
    """Yield stretches of each connection in turn: its handshake with what follows, and others."""
    several = [_packets(taken) for taken in map(take_apart, captures) if taken]
    for begin in _BEGINNINGS:
        for packets in (packets for found in several for packets in found):
            part = packets[:3] + packets[begin : begin + MOST // 2] if begin else packets[:MOST]
            if len(part) > 3:
                yield part
                yield [_as_ip6(*packet) for packet in part]


def _packets(taken: Taken) -> list[list[_Packet]]:
    """Give the packets of each connection."""
    nanoseconds = bytes(taken.head[:4]) in (b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d")
    unit = 1 if nanoseconds else 1000

    def packet(record: Record) -> _Packet:
        kept = bytes(record.frame[ETHERNET : ETHERNET + ROOM - 64])
        time = record.seconds * 10**9 + record.fraction * unit
        return kept, time, record.wire - ETHERNET

    return [[packet(record) for record in records] for records in connections(taken)]


def _as_ip6(packet: bytes, time: int, wire: int) -> _Packet:
    """Give the same packet with an IPv6 header."""
    size = int.from_bytes(packet[2:4], "big") - 20
    ends = _MAPPED + packet[12:16] + _MAPPED + packet[16:20]
    head = b"\x60\0\0\0" + size.to_bytes(2, "big") + packet[9:10] + packet[8:9] + ends
    return head + packet[20:], time, wire + 20
