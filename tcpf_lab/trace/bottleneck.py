"""What happened to each packet at the bottleneck: captures before and after its queue, matched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tcpf_lab import _trace
from tcpf_lab.trace.identity import MarkArray, Marks
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
    return _trace.match_packets(entered, left, left_ns, max_delay_ns)


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
