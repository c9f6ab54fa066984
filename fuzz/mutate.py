"""Mutations that know what a capture is: of its file, its records, its packets' fields."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

from fuzz.containers import Record, Taken, as_pcapng, blocks, put_together, take_apart

#: Records that a capture keeps, at most: an input is to be analysed in milliseconds.
MOST_RECORDS = 96
_IP_AT = {1: 14, 12: 0, 14: 0, 101: 0, 113: 16, 228: 0, 229: 0, 276: 20, 0: 4, 108: 4}
_LINKS = (0, 1, 12, 101, 108, 113, 228, 229, 276, 9999)
_EDGES = (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1460, 0xFFFF)
#: Offset in the TCP header and width in bytes of what is changed there.
_TCP = {"seq": (4, 4), "ack": (8, 4), "offset": (12, 1), "flags": (13, 1), "window": (14, 2)}
#: The same for IPv4.
_IP = {"version": (0, 1), "tos": (1, 1), "length": (2, 2), "id": (4, 2), "fragment": (6, 2)}
_OPTIONS = (
    b"\x01\x01\x05\x0a" + bytes(8),
    b"\x01\x01\x08\x0a" + bytes(8),
    b"\x04\x02\x01\x01",
    b"\x03\x03\x07\x01",
    b"\x02\x04\x05\xb4",
    b"\x05\x22" + bytes(32) + b"\x01\x01",
    b"\x08\x03\x00\x01",
    b"\x05\x01\x01\x01",
)
_Mutation = Callable[[Taken, random.Random], None]


def mutate(data: bytes, seed: int, most: int = 1 << 16) -> bytes:
    """Change a capture in a few places.

    Parameters
    ----------
    data : bytes
        A capture, or anything.
    seed : int
        Of everything random.
    most : int
        Length of the result, at most.
    """
    rng = random.Random(seed)
    taken = take_apart(data)
    if taken is None or not taken.records:
        return (_pcapng(data, rng) if data[:4] == b"\n\r\r\n" else _bytes(data, rng))[:most]
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        if taken.records:
            rng.choice(_MUTATIONS)(taken, rng)
    del taken.records[MOST_RECORDS:]
    chosen = rng.random()
    if chosen < 0.04:
        return as_pcapng(taken, nanoseconds=rng.random() < 0.5)[:most]
    whole = put_together(taken)
    return (_bytes(whole, rng) if chosen < 0.08 else whole)[:most]


def _bytes(data: bytes, rng: random.Random) -> bytes:
    """Change bytes without a look at what they are."""
    changed = bytearray(data or b"\0")
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed) or 1)
        way = rng.randrange(4)
        if way == 0:
            changed[at : at + 1] = bytes([rng.randrange(256)])
        elif way == 1:
            changed[at : at + 4] = struct.pack(rng.choice("<>") + "I", rng.choice(_EDGES))
        elif way == 2:
            del changed[at : at + rng.randint(1, 40)]
        else:
            changed[at:at] = changed[at : at + rng.randint(1, 64)]
    return bytes(changed)


def _pcapng(data: bytes, rng: random.Random) -> bytes:
    """Move, drop or repeat blocks, or change bytes of one."""
    parts = blocks(data)
    at, other = rng.randrange(len(parts)), rng.randrange(len(parts))
    way = rng.randrange(5)
    if way == 0:
        parts[at], parts[other] = parts[other], parts[at]
    elif way == 1:
        del parts[at]
    elif way == 2:
        parts.insert(other, parts[at])
    else:
        parts[at] = _bytes(parts[at], rng)
    return b"".join(parts[: MOST_RECORDS + 4])


def _record(taken: Taken, rng: random.Random) -> Record:
    return rng.choice(taken.records)


def _drop(taken: Taken, rng: random.Random) -> None:
    at = rng.randrange(len(taken.records))
    del taken.records[at : at + rng.choice((1, 1, 2, 10))]


def _swap(taken: Taken, rng: random.Random) -> None:
    a = rng.randrange(len(taken.records))
    b = min(len(taken.records) - 1, a + rng.choice((1, 1, 2, 5)))
    taken.records[a], taken.records[b] = taken.records[b], taken.records[a]


def _repeat(taken: Taken, rng: random.Random) -> None:
    r = _record(taken, rng)
    again = Record(r.seconds, r.fraction, r.wire, bytearray(r.frame))
    taken.records.insert(rng.randrange(len(taken.records) + 1), again)


def _turn(taken: Taken, rng: random.Random) -> None:
    """Let a packet run the other way: addresses and ports change places."""
    frame, at = _record(taken, rng).frame, _IP_AT.get(taken.link, 14)
    for low, width in ((at + 12, 4), (at + 20, 2)):
        a, b = frame[low : low + width], frame[low + width : low + 2 * width]
        frame[low : low + 2 * width] = b + a


def _time(taken: Taken, rng: random.Random) -> None:
    """Move everything from a record on, or that record alone, in time."""
    begin = rng.randrange(len(taken.records))
    step = rng.choice((1, 1000, 5_000_000, 210_000_000, 3_000_000_000, -300_000_000, 1 << 61))
    until = begin + 1 if rng.random() < 0.3 else len(taken.records)
    for record in taken.records[begin:until]:
        time = record.seconds * 10**9 + record.fraction + step
        record.seconds, record.fraction = time // 10**9 & 0xFFFFFFFF, time % 10**9


def _number(frame: bytearray, at: int, width: int, rng: random.Random) -> None:
    """Move a number a little, flip a bit, or set it to an edge."""
    if at + width > len(frame):
        return
    old = int.from_bytes(frame[at : at + width], "big")
    new = rng.choice(
        (
            old + rng.choice((-960, 960, -1, 1, 1920)),
            old ^ 1 << rng.randrange(8 * width),
            rng.choice(_EDGES),
            rng.getrandbits(8 * width),
        )
    )
    frame[at : at + width] = (new % (1 << 8 * width)).to_bytes(width, "big")


def _tcp(taken: Taken, rng: random.Random) -> None:
    at, width = rng.choice(list(_TCP.values()))
    _number(_record(taken, rng).frame, _IP_AT.get(taken.link, 14) + 20 + at, width, rng)


def _ip(taken: Taken, rng: random.Random) -> None:
    at, width = rng.choice(list(_IP.values()))
    _number(_record(taken, rng).frame, _IP_AT.get(taken.link, 14) + at, width, rng)


def _option(taken: Taken, rng: random.Random) -> None:
    """Put an option behind the TCP header, its header longer by that, or change one."""
    frame, at = _record(taken, rng).frame, _IP_AT.get(taken.link, 14) + 20
    if len(frame) < at + 20:
        return
    if rng.random() < 0.5 and len(frame) > at + 24:
        _number(frame, rng.randrange(at + 20, len(frame)), rng.choice((1, 4)), rng)
        return
    option = bytearray(rng.choice(_OPTIONS))
    if len(option) >= 12:
        ack = int.from_bytes(frame[at + 8 : at + 12], "big") + rng.choice((960, 1920, -960, 0))
        option[4:8] = (ack % 2**32).to_bytes(4, "big")
        option[8:12] = ((ack + 960) % 2**32).to_bytes(4, "big")
    frame[at + 20 : at + 20] = option
    frame[at + 12] = (frame[at + 12] + (len(option) // 4 << 4)) & 0xFF


def _cut(taken: Taken, rng: random.Random) -> None:
    """Keep less of a packet, or of all of them."""
    length = rng.choice((0, 13, 14, 20, 33, 34, 53, 54, 60))
    chosen = taken.records if rng.random() < 0.2 else [_record(taken, rng)]
    for record in chosen:
        del record.frame[length:]


def _wire(taken: Taken, rng: random.Random) -> None:
    """Change a packet's length on the wire; maybe nothing else says how long it is."""
    record, length = _record(taken, rng), _IP_AT.get(taken.link, 14) + _IP["length"][0]
    record.wire = rng.choice(_EDGES)
    if rng.random() < 0.5 and len(record.frame) >= length + 2:
        record.frame[length : length + 2] = bytes(2)


def _link(taken: Taken, rng: random.Random) -> None:
    link = rng.choice(_LINKS)
    at, now = _IP_AT.get(taken.link, 14), _IP_AT.get(link, 14)
    taken.head[20:24] = struct.pack(taken.order + "I", link)
    for record in taken.records:
        type_of = {113: bytes(14) + b"\x08\0", 276: b"\x08\0" + bytes(18), 0: b"\2\0\0\0"}
        record.frame[:at] = type_of.get(link, bytes(12) + b"\x08\0" if now == 14 else bytes(now))


def _tag(taken: Taken, rng: random.Random) -> None:
    frame = _record(taken, rng).frame
    frame[12:12] = rng.choice((b"\x81\0\0\7", b"\x88\xa8\0\1\x81\0\0\2"))


_MUTATIONS: tuple[_Mutation, ...] = (
    *(_tcp, _tcp, _tcp, _time, _time, _option, _option, _drop, _swap, _repeat),
    *(_turn, _ip, _cut, _wire, _link, _tag),
)
