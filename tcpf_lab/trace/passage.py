"""The way of packets through a box, from captures on both of its sides."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tcpf_lab import _trace
from tcpf_lab.base.errors import TraceError, path_text
from tcpf_lab.trace.packet import Packets

#: ``time_ns``      time stamp
#: ``identity``     digest of everything that no router changes: see `Marks.of`
#: ``record``       number of its record in the capture, from 0
#: ``detail``       digest of TCP's timestamps, 0 without them (or if they were cut off)
#: ``ip_length``    bytes from the IP header on
#: ``wire_length``  bytes of the frame
#: ``flow``         row of `Marks.ends`
#: ``seq``          TCP sequence number
#: ``payload``      bytes of payload
#: ``tos``          type of service
MARK = np.dtype(
    [
        ("time_ns", np.int64),
        ("identity", np.uint64),
        ("record", np.int64),
        ("detail", np.uint32),
        ("ip_length", np.uint32),
        ("wire_length", np.uint32),
        ("flow", np.uint32),
        ("seq", np.uint32),
        ("payload", np.int32),
        ("tos", np.uint8),
    ],
    align=True,
)
#: An array of `MARK`, shape (n,), in the order of time.
MarkArray: TypeAlias = NDArray[Any]

#: One direction of a connection.
ENDS = np.dtype(
    [
        ("src", np.uint64),
        ("dst", np.uint64),
        ("src_high", np.uint64),
        ("dst_high", np.uint64),
        ("sport", np.uint16),
        ("dport", np.uint16),
        ("protocol", np.uint8),
    ],
    align=True,
)


class Marks:
    """Number the ends of packets and reduce packets to marks, alike for all captures."""

    def __init__(self) -> None:
        self._marks = _trace.Marks()

    @property
    def ends(self) -> NDArray[Any]:
        """Each direction of each connection, array of ENDS, in the order of their first packets."""
        return self._marks.ends

    def of(self, packets: Packets) -> MarkArray:
        """Reduce packets to marks, in the order of time.

        Parameters
        ----------
        packets : Packets
            Of one capture, or a part of it.

        Returns
        -------
        array of MARK
            Sorted by time; packets of one instant stay in the order of the capture.

        Notes
        -----
        The identity is made of addresses, ports, protocol, IP identification and length, TCP's
        sequence and acknowledgement number, flags but CWR, and window.  The fields that routers
        change (type of service, time to live, check sums) are left out.  64 bits: of a million
        packets two different ones have the same digest with a probability of 3e-8.
        """
        return self._marks.of(packets)

    def read(self, path: Path | str) -> tuple[MarkArray, str]:
        """Read a capture and keep of each packet its mark only.

        Parameters
        ----------
        path : Path or str
            As for `tcpf_lab.trace.packet.read_capture`.

        Returns
        -------
        tuple of (array of MARK, str)
            The packets in the order of time, and what is wrong with the capture, if anything.

        Raises
        ------
        TraceError
            If the capture cannot be read.
        """
        found, truncated = self._marks.read(os.fspath(path))
        return found, f"{path_text(path)}: {truncated}" if truncated else ""


#: Default maximum delay in the queue.
MAX_DELAY_NS = 500_000_000
#: Least departures of a busy period that are not timed, see `settling`.
SETTLE_BYTES = 10_000


@dataclass(frozen=True)
class Transit:
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
    record : int64, shape (n,), optional
        Record of each in the capture; segments of one packet have the same, and arrive together.
    """

    arrival_ns: NDArray[np.int64]
    departure_ns: NDArray[np.int64]
    wire_length: NDArray[np.int64]
    ip_length: NDArray[np.int64]
    tos: NDArray[np.uint8]
    unmatched: int
    copies: int = 0
    record: NDArray[np.int64] | None = None

    @property
    def lost(self) -> NDArray[np.bool_]:
        """Whether each packet was dropped."""
        return self.departure_ns < 0


@dataclass(frozen=True)
class Backlog:
    """The queue as a step function: ``size[i]`` bytes from ``time_ns[i]`` on."""

    time_ns: NDArray[np.int64]
    size: NDArray[np.int64]


def cross(entered: Packets, left: Packets, *, max_delay_ns: int = MAX_DELAY_NS) -> Transit:
    """Match the packets that entered a queue with those that left it.

    Two packets are the same if everything agrees that no router changes
    (`tcpf_lab.trace.passage.Marks.of`).  Identifications repeat after 65 536 packets, and sooner
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
    Transit
        One row per packet of `entered`.
    """
    marks = Marks()
    return cross_marks(marks.of(entered), marks.of(left), max_delay_ns=max_delay_ns)


def cross_marks(entered: MarkArray, left: MarkArray, *, max_delay_ns: int) -> Transit:
    """Do the same for packets of any protocol, as their marks."""
    return crossing_of(entered, *_trace.cross(entered, left, max_delay_ns))


def crossing_of(
    entered: MarkArray, departure_ns: NDArray[np.int64], unmatched: int, copies: int
) -> Transit:
    """Put together what was matched."""
    return Transit(
        arrival_ns=entered["time_ns"].copy(),
        departure_ns=departure_ns,
        wire_length=entered["wire_length"].astype(np.int64),
        ip_length=entered["ip_length"].astype(np.int64),
        tos=entered["tos"].copy(),
        unmatched=unmatched,
        copies=copies,
        record=entered["record"].copy(),
    )


def backlog(transit: Transit) -> Backlog:
    """Rebuild the queue's length from arrivals and departures.

    Bytes are counted as ``tc`` does, with the link-layer header.  At equal times departures count
    first.  Dropped packets never were in the queue.
    """
    return Backlog(*_trace.backlog(transit.arrival_ns, transit.departure_ns, transit.wire_length))


def settling(transit: Transit) -> int:
    """Return how many bytes of a busy period are not timed: a token bucket lets a burst pass.

    Two of the largest frames, and `SETTLE_BYTES` at least.
    """
    return max(SETTLE_BYTES, 2 * int(np.max(transit.wire_length, initial=0)))


def backlogged_rate(
    transit: Transit, *, settle_bytes: int | None = None
) -> tuple[float, int] | None:
    """Rate of departures while the next packet was already waiting.

    Parameters
    ----------
    transit : Transit
        Shape (n,).
    settle_bytes : int, optional
        Bytes at the start of each busy period that are left out; by default `settling`.

    Returns
    -------
    tuple of (float, int), optional
        Bit/s, frame bytes over time between departures, and the number of departures it was
        measured on; None if the queue never was busy long enough.
    """
    return _trace.backlogged_rate(
        transit.arrival_ns,
        transit.departure_ns,
        transit.wire_length,
        settling(transit) if settle_bytes is None else settle_bytes,
    )


@dataclass(frozen=True)
class ClockOffset:
    r"""The second capture's clock, seen from the first's.

    .. math:: t_{first} = t_{second} - o - d (t_{second} - r)

    Attributes
    ----------
    offset_ns : int
        o.  Where it was estimated, it includes the minimum delay.
    drift : float
        d: what the second clock gains, seconds per second.
    reference_ns : int
        r: instant of the second clock.
    given : bool
        Whether the offset was given, so that delays are absolute; else the minimum delay counts 0.
    between_ns : (int, int), optional
        What the offset of the clocks alone is between, where packets cross both ways.
    coincidences : int
        Pairs of packets that the estimate is made of.
    ambiguous : bool
        Whether another offset explains nearly as many.
    drift_seen : float
        The drift estimated from minimum delays; `drift` is 0 without evidence for one.
    """

    offset_ns: int
    drift: float
    reference_ns: int
    given: bool
    between_ns: tuple[int, int] | None = None
    coincidences: int = 0
    ambiguous: bool = False
    drift_seen: float = 0.0


@dataclass(frozen=True)
class Passage:
    """What crossed a box from one capture to the other, packet by packet.

    Attributes
    ----------
    transit : Transit
        A row per packet that entered, in the order of arrival, times by the first clock.
    entered : array of MARK, shape (n,)
        The same packets.
    tos_out : uint8, shape (n,)
        Type of service with which each left; as it entered for those that did not.
    overtaken : bool, shape (n,)
        Whether a packet that came later left earlier (RFC 4737's reordering, by arrival).
    clock : ClockOffset
        How the clocks compare.
    ends : array of ENDS, shape (flows,)
        What the marks' ``flow`` counts.
    judged_ns : (int, int)
        From the first to behind the last arrival whose departure the second capture would have.
    back : (int, int)
        Packets of either capture that cross the other way.
    elsewhere : (int, int)
        Packets of either capture between hosts of which nothing crossed.
    foreign : int
        Packets that left and must have entered while the first capture was made, but did not.
    """

    transit: Transit
    entered: MarkArray
    tos_out: NDArray[np.uint8]
    overtaken: NDArray[np.bool_]
    clock: ClockOffset
    ends: NDArray[Any]
    judged_ns: tuple[int, int]
    back: tuple[int, int]
    elsewhere: tuple[int, int]
    foreign: int


def passage(
    first: MarkArray,
    second: MarkArray,
    ends: NDArray[Any],
    *,
    max_delay_ns: int,
    offset_ns: int | None = None,
) -> Passage:
    """Match what two captures saw of the traffic through a box.

    Parameters
    ----------
    first, second : array of MARK
        The captures on either side, by clocks of their own.
    ends : array of ENDS, shape (flows,)
        What their ``flow`` counts.
    max_delay_ns : int
        Longest possible stay in the box.
    offset_ns : int, optional
        What the second clock shows more than the first; None: it is estimated, and then the minimum
        delay counts 0.

    Returns
    -------
    Passage
        Packets that entered on the side of `first`, and their fate.

    Raises
    ------
    TraceError
        If nothing crosses from `first` to `second`.
    """
    found = _trace.passage(first, second, ends, max_delay_ns, offset_ns)
    if "error" in found:
        raise _unmatched(found, offset_ns)
    matched = [found.pop(name) for name in ("departure_ns", "unmatched", "copies")]
    return Passage(
        transit=crossing_of(found["entered"], *matched),
        clock=ClockOffset(**found.pop("clock")),
        ends=ends,
        **found,
    )


def _unmatched(found: dict[str, Any], offset_ns: int | None) -> TraceError:
    """Say why nothing crosses."""
    where, hint = "", found["hint"]
    if offset_ns is not None and found["agreed_ns"] is not None:
        where = f"--offset {offset_ns / 1e9:g} s"
        agreed = f"most packets agree on {found['agreed_ns'] / 1e9:.6f} s, their delay included"
        hint = f"{agreed}; or leave it out, or {hint}"
    return TraceError(found["error"], where=where, hint=hint)
