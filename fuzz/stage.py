"""Captures in compiled code: packets laid out one per row, changed, and written as a file.

A stage is what one input is made of before it is written: for each packet a row of bytes from the
IP header on, its length, time stamp, and length on the wire.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.trace.jit import part
from tcpf_lab.trace.link import ETHERNET, RAW, SLL, SLL2

#: Packets of an input, at most; bytes of each that are kept, at most; those of a written input.
MOST, ROOM = 64, 256
LARGEST = MOST * (ROOM + 64) + 1024
#: Bytes of the link-layer headers that are written.
_LINKS = ((ETHERNET, 14), (RAW, 0), (SLL, 16), (SLL2, 20))
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
#: Columns of what is known of a packet beside its bytes.
LENGTH, TIME, WIRE, FACTS = range(4)

Stage = tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]


def new_stage() -> Stage:
    """Room for one input: bytes, shape (MOST, ROOM); facts, shape (MOST, FACTS); their number."""
    return (
        np.zeros((MOST, ROOM), np.uint8),
        np.zeros((MOST, FACTS), np.int64),
        np.zeros(1, np.int64),
    )


@part
def draw(dice: Any) -> Any:
    """Draw 64 random bits (splitmix64) from a state of one word."""
    dice[0] += _GOLDEN
    mixed = (dice[0] ^ (dice[0] >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@part
def below(dice: Any, count: Any) -> Any:
    """Draw a number from 0 to ``count - 1``."""
    return np.int64((draw(dice) >> np.uint64(33)) % np.uint64(count))


@part
def put(data: Any, at: Any, width: Any, value: Any, big: Any) -> None:
    """Write a number of ``width`` bytes."""
    for i in range(width):
        shift = 8 * (width - 1 - i) if big else 8 * i
        data[at + i] = (value >> shift) & 255


@part
def get(data: Any, at: Any, width: Any) -> Any:
    """Read a number in network order."""
    value = np.int64(0)
    for i in range(width):
        value = (value << 8) | np.int64(data[at + i])
    return value


@part
def _write_link(out: Any, at: Any, link: Any, version: Any) -> Any:
    """Write a link-layer header; its length."""
    size, kind = 0, 0x86DD if version == 6 else 0x0800
    for number, length in _LINKS:
        if number == link:
            size = length
    for i in range(size):
        out[at + i] = 0
    if link == SLL2:
        put(out, at, 2, kind, True)
    elif size:
        put(out, at + size - 2, 2, kind, True)
    return size


@part
def _write_record(out: Any, at: Any, stage: Any, r: Any, form: Any) -> Any:
    """Write a packet as a pcap record or an enhanced packet block; the offset behind it."""
    rows, facts, _ = stage
    link, big, unit, blocks = form
    begin = at + (28 if blocks else 16)
    size = _write_link(out, begin, link, rows[r, 0] >> 4)
    captured, time = size + facts[r, LENGTH], facts[r, TIME]
    wire = size + facts[r, WIRE]
    for i in range(facts[r, LENGTH]):
        out[begin + size + i] = rows[r, i]
    if not blocks:
        put(out, at, 4, time // 1_000_000_000, big)
        put(out, at + 4, 4, time % 1_000_000_000 // unit, big)
        put(out, at + 8, 4, captured, big)
        put(out, at + 12, 4, wire, big)
        return begin + captured
    padded = (captured + 3) & ~3
    for i in range(captured, padded):
        out[begin + i] = 0
    put(out, at, 4, 6, big)
    put(out, at + 4, 4, padded + 32, big)
    put(out, at + 8, 4, 0, big)
    put(out, at + 12, 4, (time // unit) >> 32, big)
    put(out, at + 16, 4, time // unit, big)
    put(out, at + 20, 4, captured, big)
    put(out, at + 24, 4, wire, big)
    put(out, begin + padded, 4, padded + 32, big)
    return begin + padded + 4


@part
def _write_pcap_head(out: Any, form: Any) -> Any:
    link, big, unit, _ = form
    put(out, 0, 4, 0xA1B2C3D4 if unit == 1000 else 0xA1B23C4D, big)
    put(out, 4, 2, 2, big)
    put(out, 6, 2, 4, big)
    put(out, 8, 8, 0, big)
    put(out, 16, 4, ROOM, big)
    put(out, 20, 4, link, big)
    return 24


@part
def _write_pcapng_head(out: Any, form: Any) -> Any:
    link, big, unit, _ = form
    put(out, 0, 4, 0x0A0D0D0A, big)
    put(out, 4, 4, 28, big)
    put(out, 8, 4, 0x1A2B3C4D, big)
    put(out, 12, 2, 1, big)
    put(out, 14, 2, 0, big)
    put(out, 16, 8, -1, big)
    put(out, 24, 4, 28, big)
    put(out, 28, 4, 1, big)
    put(out, 32, 4, 32, big)
    put(out, 36, 2, link, big)
    put(out, 38, 2, 0, big)
    put(out, 40, 4, 0, big)
    put(out, 44, 2, 9, big)
    put(out, 46, 2, 1, big)
    put(out, 48, 4, 0, big)
    out[48] = 9 if unit == 1 else 6
    put(out, 52, 4, 0, big)
    put(out, 56, 4, 32, big)
    return 60


@part
def write(out: Any, stage: Any, form: Any) -> Any:
    """Write a stage as a capture.

    Parameters
    ----------
    out : uint8, shape (LARGEST,)
        Where to.
    stage : Stage
        The packets.
    form : tuple of int
        Link type, whether big-endian, nanoseconds per unit of time (1 or 1000), whether pcapng.

    Returns
    -------
    tuple of int
        Offset of the first record, and of the end.
    """
    begin = _write_pcapng_head(out, form) if form[3] else _write_pcap_head(out, form)
    at = begin
    for r in range(stage[2][0]):
        at = _write_record(out, at, stage, r, form)
    return begin, at
