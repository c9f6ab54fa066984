"""Changes to staged packets and to written captures, in compiled code.

They know where the fields of IPv4, IPv6 and TCP are, and what upsets a TCP sender's state: numbers
from the other side of their range, ACKs of what was never sent, clocks that jump, SYNs in between.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzz.stage import FACTS, LENGTH, MOST, ROOM, TIME, WIRE, below, draw, get, put
from tcpf_lab.trace.jit import part

_EDGES = np.array([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1460, 0xFFFF, 0x3FFFFFFF, 255, 20])
_SMALL = np.array([-960, 960, -1, 1, 1920, -1920, 4800, 100, -100, 1 << 20])
_STEPS = np.array(
    [
        *(1, 1000, 5_000_000, 40_000_000, 210_000_000, 400_000_000, 3_000_000_000),
        *(-300_000_000, -1000, 130_000_000_000, 1 << 61, -(1 << 60)),
    ]
)
#: Offset from the TCP header on, and width.
_FIELDS = np.array([(4, 4), (8, 4), (4, 4), (8, 4), (12, 1), (13, 1), (14, 2), (0, 2), (2, 2)])
_FLAGS = np.array([0, 1, 2, 4, 16, 17, 18, 20, 24, 255])
#: Lengths on the wire of packets that do not say their own.
_WIRES = np.array([1 << 16, 1 << 18, 1 << 20, 1 << 24, 0x7FFFFF00, 0x7FFFFFFF, 0xFFFFFF00])


@part
def _header(row: Any) -> Any:
    """Offset of the TCP header in a row."""
    return 40 if row[0] >> 4 == 6 else 4 * (row[0] & 15)


@part
def _number(row: Any, at: Any, width: Any, dice: Any) -> None:
    """Move a number a little, flip a bit, set it to an edge or to anything."""
    way, value = below(dice, 8), get(row, at, width)
    if way < 4:
        value += _SMALL[below(dice, _SMALL.size)]
    elif way < 6:
        value ^= np.int64(1) << below(dice, 8 * width)
    elif way == 6:
        value = _EDGES[below(dice, _EDGES.size)]
    else:
        value = np.int64(draw(dice) >> np.uint64(1))
    put(row, at, width, value, True)


@part
def _move_in_time(stage: Any, dice: Any) -> None:
    _, facts, count = stage
    begin, step = below(dice, count[0]), _STEPS[below(dice, _STEPS.size)]
    until = count[0] if below(dice, 3) else begin + 1
    for r in range(begin, until):
        facts[r, TIME] = (facts[r, TIME] + step) & 0x3FFFFFFFFFFFFFFF


@part
def _insert(stage: Any, r: Any, at: Any, size: Any) -> bool:
    """Make room in a packet; whether there is some."""
    rows, facts, _ = stage
    if at > facts[r, LENGTH] or facts[r, LENGTH] + size > ROOM:
        return False
    for i in range(facts[r, LENGTH] - 1, at - 1, -1):
        rows[r, i + size] = rows[r, i]
    facts[r, LENGTH] += size
    facts[r, WIRE] += size
    return True


@part
def _add_option(stage: Any, r: Any, dice: Any) -> None:
    """Put SACK blocks, timestamps or nonsense in front of the TCP options."""
    row = stage[0][r]
    tcp, way = _header(row), below(dice, 6)
    blocks = 1 + below(dice, 4)
    size = 12 if way == 0 else (4 + 8 * blocks if way < 4 else 4)
    if row[tcp + 12] + 4 * size > 255 or not _insert(stage, r, tcp + 20, size):
        return
    at = tcp + 20
    put(row, at, 4, 0x01010101, True)
    if way == 0:
        put(row, at, 4, 0x0101080A, True)
        put(row, at + 4, 4, np.int64(draw(dice) >> np.uint64(40)), True)
        put(row, at + 8, 4, np.int64(draw(dice) >> np.uint64(40)), True)
    elif way < 4:
        put(row, at, 4, 0x01010502 + 8 * blocks, True)
        for i in range(2 * blocks):
            value = get(row, tcp + 8, 4) + _SMALL[below(dice, _SMALL.size)] * below(dice, 5)
            put(row, at + 4 + 4 * i, 4, value + 480 * i, True)
    else:
        put(row, at, 4, np.int64(draw(dice) >> np.uint64(1)), True)
    row[tcp + 12] += 4 * size
    length = 4 if row[0] >> 4 == 6 else 2
    put(row, length, 2, get(row, length, 2) + size, True)


@part
def _change_option(row: Any, dice: Any) -> None:
    at = _header(row) + 20 + below(dice, 40)
    _number(row, at, 4 if below(dice, 2) else 1, dice)


@part
def _echo(stage: Any, r: Any, dice: Any) -> None:
    """Take a number of another packet: an ACK of it, a repeat of it, a SACK of it."""
    rows, _, count = stage
    other, row = rows[below(dice, count[0])], rows[r]
    frm, to = _header(other), _header(row)
    number = get(other, frm + 4 + 4 * below(dice, 2), 4) + 960 * (below(dice, 3) - 1)
    place = below(dice, 4)
    at = to + 4 if place == 0 else (to + 8 if place == 1 else to + 24 + 4 * below(dice, 4))
    put(row, at, 4, number, True)


@part
def _turn(row: Any) -> None:
    """Send a packet the other way."""
    tcp = _header(row)
    size, at = (16, 8) if row[0] >> 4 == 6 else (4, 12)
    for i in range(size):
        row[at + i], row[at + size + i] = row[at + size + i], row[at + i]
    for i in range(2):
        row[tcp + i], row[tcp + 2 + i] = row[tcp + 2 + i], row[tcp + i]


@part
def _extend(stage: Any, r: Any, dice: Any) -> None:
    """Put an IPv6 extension header behind the first one."""
    row = stage[0][r]
    if row[0] >> 4 != 6 or not _insert(stage, r, 40, 8):
        return
    for i in range(8):
        row[40 + i] = 0
    way = below(dice, 4)
    row[40] = row[6]
    row[6] = (0, 43, 44, 60)[way]
    if way == 2:
        put(row, 42, 2, (0, 1, 8, 9)[below(dice, 4)], True)
    put(row, 4, 2, get(row, 4, 2) + 8, True)


@part
def copy_packet(stage: Any, r: Any, source: Any, q: Any) -> None:
    """Let packet ``r`` be packet ``q`` of another stage, or of the same."""
    for i in range(ROOM):
        stage[0][r, i] = source[0][q, i]
    for i in range(FACTS):
        stage[1][r, i] = source[1][q, i]


@part
def _arrange(stage: Any, dice: Any) -> None:
    """Drop a packet, repeat one, or let two change their places but not their times."""
    rows, facts, count = stage
    r, other, way = below(dice, count[0]), below(dice, count[0]), below(dice, 3)
    if way == 0 and count[0] > 1:
        for k in range(r, count[0] - 1):
            copy_packet(stage, k, stage, k + 1)
        count[0] -= 1
    elif way == 1 and count[0] < MOST:
        copy_packet(stage, count[0], stage, r)
        facts[count[0], TIME] = facts[count[0] - 1, TIME] + 1000
        count[0] += 1
    else:
        for i in range(ROOM):
            rows[r, i], rows[other, i] = rows[other, i], rows[r, i]
        length, wire = facts[r, LENGTH], facts[r, WIRE]
        facts[r, LENGTH], facts[r, WIRE] = facts[other, LENGTH], facts[other, WIRE]
        facts[other, LENGTH], facts[other, WIRE] = length, wire


@part
def _inflate(stage: Any, r: Any, dice: Any) -> None:
    """Leave it to the frame to say how long a packet is."""
    row = stage[0][r]
    put(row, 4 if row[0] >> 4 == 6 else 2, 2, 0, True)
    stage[1][r, WIRE] = _WIRES[below(dice, _WIRES.size)]


@part
def _spoil_packet(stage: Any, r: Any, dice: Any) -> None:
    """Change one field of a packet, or its length."""
    row, way = stage[0][r], below(dice, 11)
    tcp = _header(row)
    if way < 6:
        at, width = _FIELDS[below(dice, len(_FIELDS))]
        _number(row, tcp + at, width, dice)
    elif way == 6:
        _change_option(row, dice)
    elif way == 7:
        _number(row, below(dice, 24), 1 + below(dice, 2), dice)
    elif way == 8:
        stage[1][r, LENGTH] = min(stage[1][r, LENGTH], below(dice, 100))
    elif way == 9:
        row[tcp + 13] = _FLAGS[below(dice, _FLAGS.size)]
    else:
        _inflate(stage, r, dice)


@part
def spoil(stage: Any, dice: Any) -> None:
    """Change one thing in a stage."""
    r, way = below(dice, stage[2][0]), below(dice, 20)
    if way < 10:
        _spoil_packet(stage, r, dice)
    elif way < 12:
        _move_in_time(stage, dice)
    elif way < 14:
        _echo(stage, r, dice)
    elif way < 16:
        _add_option(stage, r, dice)
    elif way < 18:
        _arrange(stage, dice)
    elif way == 18:
        _turn(stage[0][r])
    else:
        _extend(stage, r, dice)


@part
def spoil_bytes(out: Any, begin: Any, end: Any, dice: Any) -> Any:
    """Change bytes of a written capture without a look at what they are; its new end."""
    for _ in range(1 + below(dice, 3)):
        if end - begin < 2:
            return end
        at, way = begin + below(dice, end - begin), below(dice, 5)
        if way == 0:
            out[at] = below(dice, 256)
        elif way == 1 and at + 4 <= end:
            put(out, at, 4, _EDGES[below(dice, _EDGES.size)], below(dice, 2) == 0)
        elif way == 2:
            size = min(1 + below(dice, 40), end - at)
            for i in range(at, end - size):
                out[i] = out[i + size]
            end -= size
        elif way == 3:
            out[at] ^= 1 << below(dice, 8)
        else:
            end = at + 1
    return end
