"""Frames to send past a marker: all kinds of IPv4 and IPv6, and what nobody can parse."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass

LINK = b"\x02" * 12
EDGES = (0x0000, 0x0001, 0x00FF, 0x0100, 0x7FFF, 0x8000, 0xFF00, 0xFFFE, 0xFFFF)


@dataclass(frozen=True)
class Frame:
    """``flow`` tells flows apart as the markers do; -1: not to be touched."""

    data: bytes
    length: int  #: of the IP packet
    flow: int


def fold(total: int) -> int:
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def total(data: bytes) -> int:
    """Return the ones' complement sum of 16-bit words."""
    return fold(sum(struct.unpack(f">{len(data) // 2}H", data)))


def ipv4(
    inner: bytes,
    tos: int,
    protocol: int = 6,
    *,
    flow: int = 0,
    fragment: int = 0,
    options: bytes = b"",
    check: int | None = None,
) -> bytes:
    """Make a packet; ``check`` is reached by choosing the identification."""
    words = (0x45 + len(options) // 4, tos, 20 + len(options) + len(inner))
    source, destination = bytes([10, 0, 0, flow]), bytes([10, 0, 3, 2])

    def header(identification: int, checksum: int) -> bytes:
        head = struct.pack(">BBHHHBBH", *words, identification, fragment, 64, protocol, checksum)
        return head + source + destination + options

    if check is None:
        check = 0xFFFF - total(header(7, 0))
        return header(7, check) + inner
    return header(0xFFFF - total(header(0, check)), check) + inner


def ipv6(inner: bytes, traffic_class: int, following: int = 6, *, flow: int = 0) -> bytes:
    first = 6 << 28 | traffic_class << 20 | 0xABCDE
    source, destination = bytes([0xFD, flow] + 14 * [1]), bytes([0xFD] + 15 * [2])
    return struct.pack(">IHBB", first, len(inner), following, 64) + source + destination + inner


def tcp(payload: int, options: bytes = b"") -> bytes:
    offset = (20 + len(options)) // 4 << 4
    head = struct.pack(">HHIIBBHHH", 20000, 5001, 1, 1, offset, 16, 1000, 0x1234, 0)
    return head + options + bytes(payload)


def udp(payload: int) -> bytes:
    return struct.pack(">HHHH", 20000, 5001, 8 + payload, 0x1234) + bytes(payload)


def fit(packet: bytes, flow: int) -> Frame:
    kind = b"\x08\x00" if packet[0] >> 4 == 4 else b"\x86\xdd"
    frame = LINK + kind + packet
    return Frame(frame + bytes(max(0, 60 - len(frame))), len(packet), flow)


def good(rng: random.Random) -> Frame:
    """Make any frame that a marker judges."""
    tos, size, flow = rng.randrange(256), rng.randrange(1200), rng.randrange(4)
    timestamps = b"\x01\x01\x08\x0a" + bytes(8)
    extension = bytes([6, 0, 1, 4, 0, 0, 0, 0])
    fragment = struct.pack(">BBHI", 6, 0, 0x0101, 99)
    made = [
        (ipv4(tcp(size), tos, flow=flow), flow),
        (ipv4(tcp(size, timestamps), tos, flow=flow, options=b"\x01" * 8), flow),
        (ipv4(tcp(size), tos, flow=flow, check=rng.choice(EDGES)), flow),
        (ipv4(udp(size), tos, 17, flow=flow), 10 + flow),
        (ipv4(bytes(size), tos, 6, flow=flow, fragment=0x2064), 20 + flow),
        (ipv4(bytes(size), tos, 47, flow=flow), 30 + flow),
        (ipv6(tcp(size), tos, flow=flow), 40 + flow),
        (ipv6(udp(size), tos, 17, flow=flow), 50 + flow),
        (ipv6(extension + tcp(size), tos, 0, flow=flow), 40 + flow),
        (ipv6(fragment + bytes(size), tos, 44, flow=flow), 60 + flow),
    ]
    return fit(*rng.choice(made))


def bad(rng: random.Random) -> Frame:
    """Make any frame that no marker may touch."""
    whole = ipv4(tcp(100), 0)
    made = [
        LINK + b"\x08\x06" + bytes(46),  # ARP
        LINK + b"\x08\x00" + b"\x44" + whole[1:],  # a header shorter than any
        LINK + b"\x08\x00" + b"\x65" + whole[1:],  # not the version that was announced
        LINK + b"\x86\xdd" + whole,
        LINK + b"\x08\x00" + whole[:60],  # shorter than it says
        LINK + b"\x08\x00" + ipv4(tcp(0)[:10], 0),  # no whole TCP header
        LINK + b"\x08\x00" + ipv4(b"\0" * 12 + b"\xf0" + b"\0" * 27, 0),  # a longer one than fits
        LINK + b"\x86\xdd" + ipv6(bytes(100), 0)[:60],
        LINK + b"\x86\xdd" + ipv6(bytes([0, 200]) + bytes(38), 0, 0),  # an extension without end
        LINK + b"\x86\xdd" + b"\x60" + bytes(9),  # no whole header
        LINK + b"\x88\xb5" + whole,  # another protocol that looks alike
    ]
    frame = rng.choice(made)
    return Frame(frame + bytes(max(0, 15 - len(frame))), 0, -1)


def mixture(count: int, seed: int) -> list[Frame]:
    """Give frames of which one in ten is bad."""
    rng = random.Random(seed)
    return [bad(rng) if rng.random() < 0.1 else good(rng) for _ in range(count)]


def remarked(frame: bytes, dscp: int) -> bytes:
    """Return a frame with another codepoint: ECN stays, IPv4's checksum is what makes it right."""
    link, packet = frame[:14], bytearray(frame[14:])
    if packet[0] >> 4 == 4:
        packet[1] = packet[1] & 3 | dscp << 2
        header = (packet[0] & 15) * 4
        packet[10:12] = bytes(2)
        packet[10:12] = (0xFFFF - total(bytes(packet[:header]))).to_bytes(2, "big")
    else:
        (first,) = struct.unpack_from(">I", packet)
        struct.pack_into(">I", packet, 0, first & 0xF03FFFFF | dscp << 22)
    return link + bytes(packet)
