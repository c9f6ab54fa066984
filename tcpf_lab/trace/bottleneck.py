"""What happened to each packet at the bottleneck: captures before and after its queue, matched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.trace.identity import MarkArray, Marks
from tcpf_lab.trace.jit import allocating, part
from tcpf_lab.trace.packet import Packets

#: Longest stay in the queue that is looked for when nothing better is known.
MAX_DELAY_NS = 500_000_000
#: Departures of a busy period that are not timed: a token bucket lets a burst pass at its start.
SETTLE_BYTES = 10_000
#: Instead of the row of what entered: it never did, or has left before.
FOREIGN, COPY = -1, -2


@dataclass(frozen=True)
class Crossing:
    """One bottleneck, packet by packet.

    Attributes
    ----------
    arrival_ns : int64, shape (n,)
        When each packet entered.
    departure_ns : int64, shape (n,)
        When it left; -1 if it never did.
    wire_length, ip_length : int64, shape (n,)
        Its bytes, with and without the link-layer header.
    tos : uint8, shape (n,)
        Its type of service when it entered.
    unmatched : int
        Packets that left without having entered, or once more than they had.
    copies : int
        Those of them that are copies of one that left before.
    """

    arrival_ns: NDArray[np.int64]
    departure_ns: NDArray[np.int64]
    wire_length: NDArray[np.int64]
    ip_length: NDArray[np.int64]
    tos: NDArray[np.uint8]
    unmatched: int
    copies: int = 0

    @property
    def lost(self) -> NDArray[np.bool_]:
        """Whether each packet was dropped."""
        return self.departure_ns < 0


@dataclass(frozen=True)
class Backlog:
    """The queue as a step function: ``size[i]`` bytes from ``time_ns[i]`` on."""

    time_ns: NDArray[np.int64]
    size: NDArray[np.int64]


@part
def _enter(
    entered: MarkArray,
    known: int,
    now: Any,
    bucket: NDArray[np.int64],
    older: NDArray[np.int64],
) -> int:
    """Hang up what entered until now; how many that are."""
    mask = np.uint64(bucket.size - 1)
    while known < entered.shape[0] and entered[known].time_ns <= now:
        at = entered[known].identity & mask
        older[known] = bucket[at]
        bucket[at] = known
        known += 1
    return known


@part
def _choose(
    entered: MarkArray, p: Any, now: Any, i: Any, limits: Any, older: Any, taken: Any
) -> Any:
    """Which packet of the chain from ``i`` on has left as ``p``; `COPY` or `FOREIGN` if none has.

    ``limits``: longest stay, and the stay that is expected (-1: no idea, the oldest is it).
    """
    longest, expected = limits
    found, remarked, none = -1, -1, FOREIGN
    while i >= 0 and now - entered[i].time_ns <= longest:
        e = entered[i]
        same = e.detail == p.detail or e.detail == 0 or p.detail == 0
        if e.identity == p.identity and same:
            past = now - e.time_ns - expected
            if taken[i] >= 0:
                none = COPY
            elif e.tos >> 2 != p.tos >> 2:
                if (
                    remarked < 0
                    or expected < 0
                    or past <= abs(now - entered[remarked].time_ns - expected)
                ):
                    remarked = i
            elif found < 0 or expected < 0 or past <= abs(now - entered[found].time_ns - expected):
                found = i
            if found >= 0 and expected >= 0 and past > 0:
                break
        i = older[i]
    if found >= 0:
        return found
    return remarked if remarked >= 0 else none


@allocating
def _match(
    entered: MarkArray,
    left: MarkArray,
    left_ns: NDArray[np.int64],
    longest: int,
    bucket: NDArray[np.int64],
    older: NDArray[np.int64],
    taken: NDArray[np.int64],
    origin: NDArray[np.int64],
) -> None:
    """Give each packet of ``left`` an equal one that entered shortly before it.

    ``bucket`` holds the newest packet of each hash value, ``older`` the next older one.
    """
    known, mask = 0, np.uint64(bucket.size - 1)
    expected = np.full(64, -1, np.int64)
    for j in range(left.shape[0]):
        p, now = left[j], left_ns[j]
        known = _enter(entered, known, now, bucket, older)
        limits = (longest, expected[p.tos >> 2])
        found = _choose(entered, p, now, bucket[p.identity & mask], limits, older, taken)
        origin[j] = found
        if found >= 0:
            taken[found] = j
            expected[p.tos >> 2] = now - entered[found].time_ns


def match(
    entered: MarkArray, left: MarkArray, left_ns: NDArray[np.int64], *, max_delay_ns: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Match marks; both in the order of time.

    Parameters
    ----------
    entered, left : array of MARK, shapes (n,) and (m,)
        Of both sides.
    left_ns : int64, shape (m,)
        When those of `left` left, by the clock of `entered`.
    max_delay_ns : int
        Longest possible stay.

    Returns
    -------
    tuple of (int64 shape (n,), int64 shape (m,))
        For each that entered its row in `left`, -1 if it never left; for each that left its row in
        `entered`, `COPY` or `FOREIGN`.

    Notes
    -----
    Of several equal packets that have not left (repeats by a sender that does not number its
    packets) that one is taken whose stay is closest to the last one of its codepoint: a queue's
    delay changes little from one packet to the next.
    """
    size = 1 << max(10, int(entered.size).bit_length())
    taken, origin = np.full(entered.size, -1, np.int64), np.empty(left.size, np.int64)
    older, bucket = np.empty(entered.size, np.int64), np.full(size, -1, np.int64)
    _match(entered, left, left_ns, max_delay_ns, bucket, older, taken, origin)
    return taken, origin


def cross(entered: Packets, left: Packets, *, max_delay_ns: int = MAX_DELAY_NS) -> Crossing:
    """Match the packets that entered a queue with those that left it.

    Two packets are the same if everything agrees that no router changes
    (`tcpf_lab.trace.identity.Marks.of`).  Identifications repeat after 65 536 packets, and sooner
    where a sender draws them, so a packet matches one that entered at most `max_delay_ns` earlier:
    one of its own codepoint if there is one, else of any, as something may mark in between.

    Parameters
    ----------
    entered, left : Packets
        Captures on both sides, by one clock, in the order of time.
    max_delay_ns : int
        Longest possible stay in the queue.

    Returns
    -------
    Crossing
        One row per packet of `entered`.
    """
    marks = Marks()
    before, after = marks.of(entered), marks.of(left)
    taken, origin = match(before, after, after["time_ns"].copy(), max_delay_ns=max_delay_ns)
    return crossing_of(before, after["time_ns"], taken, origin)


def crossing_of(
    entered: MarkArray,
    left_ns: NDArray[np.int64],
    taken: NDArray[np.int64],
    origin: NDArray[np.int64],
) -> Crossing:
    """Put together what `match` found."""
    gone = taken >= 0
    departure = np.full(entered.size, -1, np.int64)
    departure[gone] = left_ns[taken[gone]]
    return Crossing(
        arrival_ns=entered["time_ns"].copy(),
        departure_ns=departure,
        wire_length=entered["wire_length"].astype(np.int64),
        ip_length=entered["ip_length"].astype(np.int64),
        tos=entered["tos"].copy(),
        unmatched=int(np.sum(origin < 0)),
        copies=int(np.sum(origin == COPY)),
    )


def backlog(crossing: Crossing) -> Backlog:
    """Rebuild the queue's length from arrivals and departures.

    Bytes are counted as ``tc`` does, with the link-layer header.  At equal times departures count
    first.  Dropped packets never were in the queue.
    """
    through = ~crossing.lost
    size = crossing.wire_length[through]
    time = np.concatenate([crossing.departure_ns[through], crossing.arrival_ns[through]])
    order = np.argsort(time, kind="stable")
    step = np.concatenate([-size, size])[order]
    return Backlog(time[order], np.maximum(np.cumsum(step), 0))


def backlogged_rate(
    crossing: Crossing, *, settle_bytes: int = SETTLE_BYTES
) -> tuple[float, int] | None:
    """Rate of departures while the next packet was already waiting.

    Parameters
    ----------
    crossing : Crossing
        Shape (n,).
    settle_bytes : int
        Bytes at the start of each busy period that are left out.

    Returns
    -------
    tuple of (float, int), optional
        Bit/s, frame bytes over time between departures, and the number of departures it was
        measured on; None if the queue never was busy long enough.
    """
    through = np.flatnonzero(~crossing.lost)
    through = through[np.argsort(crossing.departure_ns[through], kind="stable")]
    if through.size < 2:
        return None
    left, came = crossing.departure_ns[through], crossing.arrival_ns[through]
    size = crossing.wire_length[through]
    waited = np.concatenate([[False], came[1:] <= left[:-1]])
    total = np.cumsum(size)
    begin = np.maximum.accumulate(np.where(waited, 0, np.arange(through.size)))
    timed = waited & (total - total[begin] > settle_bytes)
    duration = int(np.sum(np.diff(left, prepend=left[0])[timed]))
    if duration <= 0:
        return None
    return float(8e9 * np.sum(size[timed]) / duration), int(np.sum(timed))
