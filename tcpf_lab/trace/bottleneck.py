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
    before = marks.of(entered)
    return crossing_of(before, *_trace.cross(before, marks.of(left), max_delay_ns))


def crossing_of(
    entered: MarkArray, departure_ns: NDArray[np.int64], unmatched: int, copies: int
) -> Crossing:
    """Put together what was matched."""
    return Crossing(
        arrival_ns=entered["time_ns"].copy(),
        departure_ns=departure_ns,
        wire_length=entered["wire_length"].astype(np.int64),
        ip_length=entered["ip_length"].astype(np.int64),
        tos=entered["tos"].copy(),
        unmatched=unmatched,
        copies=copies,
    )


def backlog(crossing: Crossing) -> Backlog:
    """Rebuild the queue's length from arrivals and departures.

    Bytes are counted as ``tc`` does, with the link-layer header.  At equal times departures count
    first.  Dropped packets never were in the queue.
    """
    return Backlog(
        *_trace.backlog(crossing.arrival_ns, crossing.departure_ns, crossing.wire_length)
    )


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
    return _trace.backlogged_rate(
        crossing.arrival_ns, crossing.departure_ns, crossing.wire_length, settle_bytes
    )
