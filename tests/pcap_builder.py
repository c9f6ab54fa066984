"""Hand-made captures: frames, files and conversations written as tables."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from pathlib import Path

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
S, D = "10.0.0.1", "10.0.3.2"


def address(text: str) -> bytes:
    return bytes(int(part) for part in text.split("."))


def sack_option(blocks: list[tuple[int, int]]) -> bytes:
    body = b"".join(struct.pack(">II", a % 2**32, b % 2**32) for a, b in blocks)
    return b"\x01\x01" + bytes([5, 2 + len(body)]) + body if blocks else b""


def timestamp_option(value: int, echo: int) -> bytes:
    return b"\x01\x01\x08\x0a" + struct.pack(">II", value, echo)


def tcp(
    sport: int,
    dport: int,
    *,
    seq: int = 0,
    ack: int = 0,
    flags: int = ACK,
    window: int = 1000,
    options: bytes = b"",
) -> bytes:
    assert len(options) % 4 == 0
    offset = (20 + len(options)) // 4 << 4
    head = struct.pack(">HHIIBBHHH", sport, dport, seq, ack, offset, flags, window, 0, 0)
    return head + options


def ip4(
    inner: bytes,
    *,
    src: str = S,
    dst: str = D,
    payload: int = 0,
    ip_id: int = 0,
    tos: int = 0,
    protocol: int = 6,
    fragment: int = 0,
    options: bytes = b"",
) -> bytes:
    """Make an IPv4 packet; the header speaks of ``payload`` bytes more, which are cut off."""
    first = 0x40 | (5 + len(options) // 4)
    length = 20 + len(options) + len(inner) + payload
    head = struct.pack(">BBHHHBBH", first, tos, length, ip_id, fragment, 64, protocol, 0)
    return head + address(src) + address(dst) + options + inner


def ip6(inner: bytes, *, src: bytes, dst: bytes, payload: int = 0, tclass: int = 0) -> bytes:
    head = struct.pack(">IHBB", 6 << 28 | tclass << 20, len(inner) + payload, 6, 64)
    return head + src + dst + inner


def ethernet(inner: bytes, *, kind: int = 0x0800, tags: tuple[int, ...] = ()) -> bytes:
    labels = b"".join(struct.pack(">HH", tag, 7) for tag in tags)
    return b"\x02" * 12 + labels + struct.pack(">H", kind) + inner


@dataclass
class Pcap:
    """A classic capture under construction."""

    big: bool = False
    nano: bool = True
    link: int = 1
    snaplen: int = 262144
    records: list[bytes] = field(default_factory=list)

    def add(self, time_ns: int, frame: bytes, *, missing: int = 0) -> Pcap:
        """Append a frame of which ``missing`` more bytes were on the wire."""
        seconds, rest = divmod(time_ns, 10**9)
        fraction = rest if self.nano else rest // 1000
        sizes = (len(frame), len(frame) + missing)
        order = ">" if self.big else "<"
        self.records.append(struct.pack(order + "IIII", seconds, fraction, *sizes) + frame)
        return self

    def data(self) -> bytes:
        magic = 0xA1B23C4D if self.nano else 0xA1B2C3D4
        order = ">" if self.big else "<"
        head = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, self.snaplen, self.link)
        return head + b"".join(self.records)

    def write(self, path: Path) -> Path:
        path.write_bytes(self.data())
        return path


def segment(
    start: int,
    length: int = 960,
    *,
    sport: int = 20000,
    isn: int = 0,
    flags: int = ACK,
    ip_id: int = 0,
    tos: int = 0,
) -> bytes:
    """Make a data packet S to D whose payload is cut off."""
    head = tcp(sport, 5001, seq=(isn + start) % 2**32, ack=1, flags=flags)
    return ethernet(ip4(head, payload=length, ip_id=ip_id, tos=tos))


def acknowledgement(
    ack: int,
    *,
    sport: int = 20000,
    isn: int = 0,
    flags: int = ACK,
    sack: list[tuple[int, int]] | None = None,
) -> bytes:
    """Make a packet D to S without payload."""
    blocks = [(isn + a, isn + b) for a, b in sack or []]
    head = tcp(
        5001, sport, seq=1, ack=(isn + ack) % 2**32, flags=flags, options=sack_option(blocks)
    )
    return ethernet(ip4(head, src=D, dst=S))


_LINE = re.compile(
    r"""^\s*(?P<at>[\d.]+)\s+(?P<way>[<>])\s+
    (?P<what>SYN-ACK|SYN|RST|(?P<a>\d+):(?P<b>\d+)(?P<fin>F?)|ack\s+(?P<ack>\d+))
    (?:\s+sack(?P<sack>(?:\s+\d+:\d+)+))?
    (?:\s*\#\s*(?P<note>\w+))?\s*$""",
    re.VERBOSE,
)


def conversation(
    table: str, *, isn: int = 0, sport: int = 20000, into: Pcap | None = None
) -> tuple[Pcap, list[str]]:
    """Turn a table into a capture at S and the notes behind its lines.

    A line is ``seconds > SYN``, ``seconds < SYN-ACK``, ``seconds > 1:961`` (data),
    ``seconds > 961:961F`` (FIN), ``seconds < ack 961 sack 1921:2881``; what follows ``#`` is the
    kind of retransmission that is expected there (``new`` without one).
    """
    capture, notes = into or Pcap(), []
    for line in table.strip().splitlines():
        found = _LINE.match(line)
        assert found, f"not understood: {line!r}"
        capture.add(10**18 + round(float(found["at"]) * 1e9), _frame(found, isn, sport))
        if found["way"] == ">":
            notes.append(found["note"] or "new")
    return capture, notes


def _frame(found: re.Match[str], isn: int, sport: int) -> bytes:
    what = found["what"]
    if what == "SYN":
        return segment(0, 0, isn=isn, sport=sport, flags=SYN)
    if what == "SYN-ACK":
        return acknowledgement(1, isn=isn, sport=sport, flags=SYN | ACK)
    if what == "RST":
        return segment(1, 0, isn=isn, sport=sport, flags=RST)
    if found["ack"]:
        pairs = [pair.split(":") for pair in (found["sack"] or "").split()]
        blocks = [(int(a), int(b)) for a, b in pairs]
        return acknowledgement(int(found["ack"]), isn=isn, sport=sport, sack=blocks)
    a, b = int(found["a"]), int(found["b"])
    return segment(a, b - a, isn=isn, sport=sport, flags=ACK | (FIN if found["fin"] else 0))
