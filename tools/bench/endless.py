"""A capture of any length on standard output: ``python -m tools.bench.endless BYTES [FLOWS]``.

Flows send on and on; of every eleven segments one is lost and sent again after three duplicate ACKs
with SACK.  Times and sequence numbers advance, and wrap, as in a real one.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

#: Bytes of each frame that are kept, and payload of a segment.
SNAPLEN, PAYLOAD = 94, 960
#: Nanoseconds between packets.
GAP_NS = 2000
#: Groups of packets that are written at a time.
_GROUPS = 4096
#: A group: segments by their place in it, and ACKs by what they acknowledge and their SACK block.
_GROUP: tuple[tuple[int] | tuple[int, int, int], ...] = (
    *((0,), (1,), (2, 0, 0), (2,), (3,), (4, 0, 0), (4,), (5,), (6, 0, 0)),
    *((6,), (7,), (8,), (9,), (6, 7, 8), (6, 7, 9), (6, 7, 10), (6,), (10, 0, 0)),
)
#: Segments that a group moves its flow on by.
_STEP = 10
#: Packets of a group, and those of them that are sent again.
PACKETS, RESENT = len(_GROUP), 1


def _frame(shape: tuple[int, ...]) -> bytes:
    """Give the record of a segment or an ACK, its numbers still 0."""
    options = b"\x01\x01\x05\x0a" + bytes(8) if len(shape) == 3 and shape[1] else b""
    data = len(shape) == 1
    ports = (20000, 5001) if data else (5001, 20000)
    offset = (20 + len(options)) // 4 << 4
    head = struct.pack(">HHIIBBHHH", *ports, 0, 0, offset, 16, 1000, 0, 0) + options
    size = 20 + len(head) + (PAYLOAD if data else 0)
    ends = (b"\x0a\0\0\1", b"\x0a\0\3\2") if data else (b"\x0a\0\3\2", b"\x0a\0\0\1")
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, size, 1, 0x4000, 64, 6, 0, *ends)
    frame = (b"\x02" * 12 + b"\x08\0" + ip + head + bytes(PAYLOAD if data else 0))[:SNAPLEN]
    return struct.pack("<IIII", 0, 0, len(frame), 14 + size) + frame


def _put(rows: NDArray[np.uint8], at: int, kind: str, values: Any) -> None:
    """Write a number into each row."""
    words = np.ascontiguousarray(np.asarray(values).astype(kind))
    rows[:, at : at + words.itemsize] = words.view(np.uint8).reshape(len(rows), -1)


def chunks(flows: int) -> Iterator[NDArray[np.uint8]]:
    """Yield pieces of a capture, without end."""
    records = [_frame(shape) for shape in _GROUP]
    begin = np.cumsum([0, *map(len, records)])
    rows = np.tile(np.frombuffer(b"".join(records), np.uint8), (_GROUPS, 1))
    first = 0
    while True:
        group = first + np.arange(_GROUPS, dtype=np.int64)
        flow, base = group % flows, 1 + group // flows * _STEP * PAYLOAD
        for place, shape in enumerate(_GROUP):
            time = 1_000_000_000 * 10**9 + (group * PACKETS + place) * GAP_NS
            at = int(begin[place])
            _put(rows, at, "<u4", time // 10**9)
            _put(rows, at + 4, "<u4", time % 10**9)
            _numbers(rows, at + 16 + 34, shape, flow, base)
        yield rows
        first += _GROUPS


def _numbers(rows: NDArray[np.uint8], at: int, shape: Any, flow: Any, base: Any) -> None:
    """Fill the TCP header at ``at`` of each row."""
    data = len(shape) == 1
    _put(rows, at if data else at + 2, ">u2", 20000 + flow)
    number = base + shape[0] * PAYLOAD
    _put(rows, at + 4, ">u4", number if data else 1 + 0 * base)
    _put(rows, at + 8, ">u4", 1 + 0 * base if data else number)
    if not data and shape[1]:
        _put(rows, at + 24, ">u4", base + shape[1] * PAYLOAD)
        _put(rows, at + 28, ">u4", base + shape[2] * PAYLOAD)


def write(out: BinaryIO, size: int, flows: int) -> int:
    """Write a capture of at least ``size`` bytes; its number of packets."""
    head = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, SNAPLEN, 1)
    out.write(head)
    written, packets = len(head), 0
    for rows in chunks(flows):
        if written >= size:
            break
        out.write(rows.data)
        written += rows.size
        packets += PACKETS * _GROUPS
    return packets


if __name__ == "__main__":
    count = write(sys.stdout.buffer, int(float(sys.argv[1])), int((sys.argv[2:] or ["100"])[0]))
    sys.stderr.write(f"{count}\n")
