"""One TCP connection of a scenario: the kernel's socket, and what the peer says and hears.

Scenarios count in segments; this is where they become sequence numbers, and the reverse.
"""

import contextlib
import re
import socket
import struct
import time
from dataclasses import dataclass, field

# TCP over IPv4 as bytes.

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


# The connection.

#: Data bytes of every segment, and of a small one.
SIZE, SMALL = 1000, 100
PEER_ISN, PORT, PEER_PORT = 1_000_000, 8080, 40000
#: What is read of ``struct tcp_info``.
INFO = {
    "rto": 8,  # us
    "ato": 12,  # us
    "unacked": 24,
    "sacked": 28,
    "lost": 32,
    "retrans": 36,
    "rtt": 68,  # us
    "rttvar": 72,  # us
    "snd_ssthresh": 76,
    "snd_cwnd": 80,
}
#: What follows ``ack`` where the peer acknowledges.
ACKED = re.compile(r"(\d+)(?: sack (\d[-\d ]*?))?(?: window (\d+))?( echo first)?")


def numbers(words):
    """Expand ``0 2-4`` to 0, 2, 3, 4."""
    for word in words:
        first, _, last = word.partition("-")
        yield from range(int(first), int(last or first) + 1)


class Connection:
    """The kernel's socket, and what the peer knows of the connection."""

    def __init__(self, settings):
        self.settings = settings
        self.timestamps = settings["timestamps"] == "1"
        self.window = int(settings.get("window", 64000))
        self.wscale = 4 if self.window > 65535 else None
        self.here_isn, self.here_port = None, PORT
        self.acked = self.given = 0  # segments: what the peer has acknowledged, and has sent
        self.stamps = {}  # segment -> timestamps of its transmissions
        self.echoed = 0
        self.listener = self.socket = None

    def open_socket(self):
        new = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        new.setblocking(False)
        new.setsockopt(socket.SOL_SOCKET, 32, 4 << 20)  # SO_SNDBUFFORCE
        new.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return new

    def listen(self):
        self.listener = self.open_socket()
        self.listener.bind((HERE, PORT))
        self.listener.listen()

    def connect(self):
        self.socket = self.open_socket()
        with contextlib.suppress(BlockingIOError):
            self.socket.connect((PEER, PEER_PORT))

    def established(self):
        if self.socket is None:
            self.socket, _ = self.listener.accept()
            self.socket.setblocking(False)
        return self.socket

    def read(self):
        with contextlib.suppress(BlockingIOError):
            while self.established().recv(1 << 20):
                pass

    def finish(self):
        self.established().shutdown(socket.SHUT_WR)

    def info(self):
        if self.socket is None:
            return {}
        data = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
        return {name: struct.unpack_from("I", data, at)[0] for name, at in INFO.items()}

    def close(self):
        for one in filter(None, (self.socket, self.listener)):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("2i", 1, 0))
            one.close()

    # --- what the kernel sends

    def describe(self, segment):
        """Say what a segment is, in segments of data; remember what the peer will need."""
        if segment.flags & SYN:
            self.here_isn, self.here_port = segment.seq, segment.sport
        stamp = segment.timestamps[0] if segment.timestamps else 0
        if segment.flags & SYN:
            self.echoed = stamp
        for flag, name in ((RST, "rst"), (FIN, "fin")):
            if segment.flags & flag:
                return name
        if segment.flags & SYN:
            return "synack" if segment.flags & ACK else "syn"
        if not segment.length:
            return self.describe_ack(segment)
        first = segment.seq - self.at(0) & 0xFFFFFFFF
        number, rest = divmod(first, SIZE)
        if rest or segment.length != SIZE:
            return f"bytes {first}:{first + segment.length}"
        self.stamps.setdefault(number, []).append(stamp)
        return str(number)

    @staticmethod
    def describe_ack(segment):
        def count(at):
            number, rest = divmod(at - PEER_ISN - 1, SIZE)
            return f"{number}+{rest}bytes" if rest else number

        text = f"ack {count(segment.ack)}"
        if segment.sack:
            text += " sack"
        for left, right in segment.sack:
            first, last = count(left), count(right) - 1
            text += f" {first}-{last}" if last > first else f" {first}"
        return text

    # --- what the peer sends

    def stamp(self, echoed):
        return (time.monotonic_ns() // 10**6, echoed) if self.timestamps else None

    def begin(self, flags):
        """Give the peer's SYN, or its SYN-ACK."""
        return Segment(
            *(PEER_PORT, self.here_port, PEER_ISN),
            ack=self.here_isn + 1 if flags & ACK else 0,
            flags=flags,
            window=min(self.window, 65535),
            mss=SIZE + 12 * self.timestamps,
            wscale=self.wscale,
            sack_ok=self.settings["sack"] == "1",
            timestamps=self.stamp(self.echoed),
        )

    def segment(self, sack=()):
        """Give an ACK of the peer's as it stands."""
        return Segment(
            *(PEER_PORT, self.here_port, PEER_ISN + 1 + self.given * SIZE),
            ack=self.at(self.acked),
            flags=ACK,
            window=self.window >> (self.wscale or 0),
            sack=list(sack),
            timestamps=self.stamp(self.echoed),
        )

    def data(self, words):
        """Give the peer's data segments: ``3 5-6``, or pushed: ``push 3``, or ``small 3``, too."""
        kind, *rest = words.split()
        plain = kind[0].isdigit()
        for number in numbers([kind, *rest] if plain else rest):
            segment = self.segment()
            segment.seq = PEER_ISN + 1 + number * SIZE
            segment.length = SMALL if kind == "small" else SIZE
            segment.flags |= 0 if plain else PSH
            self.given = max(self.given, number + 1)
            yield segment, str(number)

    def acknowledge(self, rest):
        """Give what ``ack N [sack A-B C ...] [window BYTES] [echo first]`` stands for.

        The timestamp echoed is that of the segment which was awaited (RFC 7323, 4.3).
        """
        number, blocks, window, first = ACKED.fullmatch(rest).groups()
        if int(number) > self.acked:
            self.echoed = self.stamps[self.acked][0 if first else -1]
        self.acked = int(number)
        self.window = int(window or self.window)
        sack = []
        for block in (blocks or "").split():
            begin, *_ = covered = list(numbers([block]))
            sack.append((self.at(begin), self.at(covered[-1] + 1)))
        return self.segment(sack=sack)

    def at(self, number):
        """Give the sequence number at which a segment of the kernel's begins."""
        return self.here_isn + 1 + number * SIZE & 0xFFFFFFFF
