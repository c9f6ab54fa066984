"""TCP over IPv4 as bytes: what the player of TCP scenarios sends, and what it reads back."""

import struct
from dataclasses import dataclass, field

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
HERE, PEER = "10.7.0.1", "10.7.0.2"
END, NOP, MSS, WSCALE, SACK_OK, SACK, TIMESTAMPS = 0, 1, 2, 3, 4, 5, 8
PROTOCOL_TCP = 6


@dataclass
class Segment:
    """A segment with absolute sequence numbers; ``sack`` holds (first byte, byte after)."""

    sport: int
    dport: int
    seq: int
    ack: int
    flags: int
    window: int = 65535
    length: int = 0
    mss: int | None = None
    wscale: int | None = None
    sack_ok: bool = False
    sack: list[tuple[int, int]] = field(default_factory=list)
    timestamps: tuple[int, int] | None = None


def address(text):
    return bytes(map(int, text.split(".")))


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def options(segment):
    parts = []
    if segment.mss is not None:
        parts.append(struct.pack(">BBH", MSS, 4, segment.mss))
    if segment.sack_ok:
        parts.append(bytes((NOP, NOP, SACK_OK, 2)))
    if segment.timestamps:
        parts.append(struct.pack(">4B2I", NOP, NOP, TIMESTAMPS, 10, *segment.timestamps))
    if segment.wscale is not None:
        parts.append(bytes((NOP, WSCALE, 3, segment.wscale)))
    if segment.sack:
        parts.append(bytes((NOP, NOP, SACK, 2 + 8 * len(segment.sack))))
        parts.extend(struct.pack(">2I", *block) for block in segment.sack)
    return b"".join(parts)


def encode(segment):
    """Give the IPv4 packet that takes ``segment`` from the peer to the kernel."""
    words = options(segment)
    offset = (20 + len(words)) // 4 << 4
    head = (segment.sport, segment.dport, segment.seq, segment.ack, offset, segment.flags)
    tcp = bytearray(struct.pack(">HHIIBBHHH", *head, segment.window, 0, 0) + words)
    tcp += bytes(segment.length)
    ends = address(PEER) + address(HERE)
    pseudo = ends + struct.pack(">BBH", 0, PROTOCOL_TCP, len(tcp))
    struct.pack_into(">H", tcp, 16, checksum(pseudo + bytes(tcp)))
    ip = bytearray(struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, PROTOCOL_TCP, 0))
    ip += ends
    struct.pack_into(">H", ip, 10, checksum(bytes(ip)))
    return bytes(ip + tcp)


def decode(packet):
    """Read a packet of the kernel's; None if it is not TCP over IPv4."""
    if packet[0] != 0x45 or packet[9] != PROTOCOL_TCP:
        return None
    tcp = packet[20:]
    sport, dport, seq, ack, offset, flags, window = struct.unpack_from(">HHIIBBH", tcp)
    header = (offset >> 4) * 4
    segment = Segment(sport, dport, seq, ack, flags, window, len(tcp) - header)
    read_options(tcp[20:header], segment)
    return segment


def read_options(data, segment):
    at = 0
    while at < len(data) and data[at] != END:
        if data[at] == NOP:
            at += 1
            continue
        kind, length = data[at], data[at + 1]
        value = data[at + 2 : at + length]
        at += length
        if kind == MSS:
            (segment.mss,) = struct.unpack(">H", value)
        elif kind == WSCALE:
            segment.wscale = value[0]
        elif kind == SACK_OK:
            segment.sack_ok = True
        elif kind == SACK:
            segment.sack = list(struct.iter_unpack(">2I", value))
        elif kind == TIMESTAMPS:
            segment.timestamps = struct.unpack(">2I", value)
