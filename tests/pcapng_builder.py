"""Hand-made pcapng captures: sections, interfaces and every kind of packet block."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

COMMENT, RESOLUTION, TIME_OFFSET = 1, 9, 14
SECOND = 10**9


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


@dataclass
class Pcapng:
    """A capture under construction; it begins with a section."""

    big: bool = False
    blocks: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.section(big=self.big)

    def pack(self, form: str, *values: int) -> bytes:
        return struct.pack((">" if self.big else "<") + form, *values)

    def block(self, kind: int, body: bytes) -> Pcapng:
        size = self.pack("I", 12 + len(body))
        self.blocks.append(self.pack("I", kind) + size + body + size)
        return self

    def options(self, *pairs: tuple[int, bytes]) -> bytes:
        if not pairs:
            return b""
        listed = [self.pack("HH", code, len(value)) + padded(value) for code, value in pairs]
        return b"".join(listed) + bytes(4)

    def section(self, *, big: bool = False, options: bool = False) -> Pcapng:
        self.big = big
        extra = self.options((COMMENT, b"made by hand")) if options else b""
        return self.block(0x0A0D0D0A, self.pack("IHHq", 0x1A2B3C4D, 1, 0, -1) + extra)

    def interface(
        self, link: int = 1, *, resolution: int = 6, offset: int = 0, snaplen: int = 0
    ) -> Pcapng:
        pairs = [(COMMENT, b"eth0")]
        if resolution != 6:
            pairs.append((RESOLUTION, bytes([resolution])))
        if offset:
            pairs.append((TIME_OFFSET, self.pack("q", offset)))
        return self.block(1, self.pack("HHI", link, 0, snaplen) + self.options(*pairs))

    def enhanced(
        self, units: int, frame: bytes, *, number: int = 0, missing: int = 0, options: bool = False
    ) -> Pcapng:
        """Append an enhanced packet block; ``units`` of its interface's resolution."""
        extra = self.options((COMMENT, b"odd")) if options else b""
        head = self.pack("IIII", number, units >> 32, units & 0xFFFFFFFF, len(frame))
        return self.block(6, head + self.pack("I", len(frame) + missing) + padded(frame) + extra)

    def obsolete(self, units: int, frame: bytes, *, number: int = 0, missing: int = 0) -> Pcapng:
        """Append an (obsolete) packet block."""
        head = self.pack("HHII", number, 3, units >> 32, units & 0xFFFFFFFF)
        sizes = self.pack("II", len(frame), len(frame) + missing)
        return self.block(2, head + sizes + padded(frame))

    def simple(self, frame: bytes, *, missing: int = 0) -> Pcapng:
        """Append a simple packet block: no time, no captured length."""
        return self.block(3, self.pack("I", len(frame) + missing) + padded(frame))

    def data(self) -> bytes:
        return b"".join(self.blocks)

    def write(self, path: Path) -> Path:
        path.write_bytes(self.data())
        return path
