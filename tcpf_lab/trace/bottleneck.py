"""What happened to each packet at the bottleneck: captures before and after its queue, matched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.trace.jit import compiled, part
from tcpf_lab.trace.packet import Packets

#: Longest stay in the queue that is looked for when nothing better is known.
MAX_DELAY_NS = 500_000_000
#: Departures of a busy period that are not timed: a token bucket lets a burst pass at its start.
SETTLE_BYTES = 10_000


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
        Packets that left without having entered.
    """

    arrival_ns: NDArray[np.int64]
    departure_ns: NDArray[np.int64]
    wire_length: NDArray[np.int64]
    ip_length: NDArray[np.int64]
    tos: NDArray[np.uint8]
    unmatched: int

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
def _key(p: Any) -> Any:
    """Mix of everything that identifies a packet on both sides of a router."""
    a = p.src ^ (p.dst << np.uint64(31)) ^ (p.dst >> np.uint64(33))
    b = (np.uint64(p.sport) << np.uint64(48)) | (np.uint64(p.dport) << np.uint64(32))
    c = (np.uint64(p.ip_id) << np.uint64(24)) | (np.uint64(p.flags) << np.uint64(16))
    a = (a ^ b ^ np.uint64(p.seq)) * np.uint64(0x9E3779B97F4A7C15)
    return (a ^ c ^ np.uint64(p.ip_length) ^ (a >> np.uint64(29))) * np.uint64(0xC2B2AE3D27D4EB4F)


@part
def _same(a: Any, b: Any) -> bool:
    return bool(
        a.seq == b.seq
        and a.ip_id == b.ip_id
        and a.sport == b.sport
        and a.dport == b.dport
        and a.src == b.src
        and a.dst == b.dst
        and a.ip_length == b.ip_length
        and a.flags == b.flags
        and a.protocol == b.protocol
    )


@compiled
def _match(
    entered: Packets,
    left: Packets,
    max_delay: int,
    bucket: NDArray[np.int64],
    after: NDArray[np.int64],
    departure: NDArray[np.int64],
) -> int:
    """Give each packet of ``left`` the oldest equal one that entered shortly before it.

    ``bucket`` holds the newest packet of each hash value, ``after`` the next older one.
    """
    mask, unmatched, known = np.uint64(bucket.size - 1), 0, 0
    for j in range(left.shape[0]):
        p = left[j]
        while known < entered.shape[0] and entered[known].time_ns <= p.time_ns:
            at = (_key(entered[known]) >> np.uint64(20)) & mask
            after[known] = bucket[at]
            bucket[at] = known
            known += 1
        i, found, remarked = bucket[(_key(p) >> np.uint64(20)) & mask], -1, -1
        while i >= 0 and p.time_ns - entered[i].time_ns <= max_delay:
            if departure[i] < 0 and _same(entered[i], p):
                if entered[i].tos >> 2 == p.tos >> 2:
                    found = i
                else:
                    remarked = i
            i = after[i]
        if found < 0:
            found = remarked
        if found < 0:
            unmatched += 1
        else:
            departure[found] = p.time_ns
    return unmatched


def cross(entered: Packets, left: Packets, *, max_delay_ns: int = MAX_DELAY_NS) -> Crossing:
    """Match the packets that entered a queue with those that left it.

    Two packets are the same if addresses, ports, protocol, IP identification, sequence number,
    length and flags agree.  Identifications repeat after 65 536 packets, and sooner where a sender
    draws them, so a packet matches the oldest free one that entered at most `max_delay_ns` earlier:
    one of its own codepoint if there is one, else of any, as something may mark in between.

    Parameters
    ----------
    entered, left : Packets
        Captures on both sides, by one clock.
    max_delay_ns : int
        Longest possible stay in the queue.

    Returns
    -------
    Crossing
        One row per packet of `entered`.
    """
    size = 1 << max(10, int(2 * entered.size).bit_length())
    departure = np.full(entered.size, -1, np.int64)
    after = np.empty(entered.size, np.int64)
    bucket = np.full(size, -1, np.int64)
    unmatched = _match(entered, left, max_delay_ns, bucket, after, departure)
    return Crossing(
        arrival_ns=entered["time_ns"].copy(),
        departure_ns=departure,
        wire_length=entered["wire_length"].astype(np.int64),
        ip_length=entered["ip_length"].astype(np.int64),
        tos=entered["tos"].copy(),
        unmatched=int(unmatched),
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
