"""Reduce packets to what tells them apart on both sides of a router, a few words each.

A mark is all that the comparison of two captures keeps of a packet, so that its memory does not
depend on the length of frames.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.trace.jit import compiled, part
from tcpf_lab.trace.packet import PACKET, Packets
from tcpf_lab.trace.reader import Reader

#: ``time_ns``      time stamp
#: ``identity``     digest of everything that no router changes: see `mark`
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

_ROWS = 4096


@part
def _stir(digest: Any, value: Any) -> Any:
    """Mix 64 bits into a digest."""
    mixed = (digest ^ value) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xC2B2AE3D27D4EB4F)
    return mixed ^ (mixed >> np.uint64(32))


@part
def _pair(high: Any, low: Any) -> Any:
    return (np.uint64(high) << np.uint64(32)) | np.uint64(low)


@part
def _ends_digest(p: Any) -> Any:
    ports = (np.uint64(p.sport) << np.uint64(16)) | np.uint64(p.dport)
    digest = _stir(_stir(_stir(ports, p.src), p.dst), np.uint64(p.protocol))
    if p.src_high or p.dst_high:
        digest = _stir(_stir(digest, p.src_high), p.dst_high)
    return digest


@part
def _equal(a: Any, b: Any) -> bool:
    return bool(
        a.src == b.src
        and a.dst == b.dst
        and a.sport == b.sport
        and a.dport == b.dport
        and a.protocol == b.protocol
        and a.src_high == b.src_high
        and a.dst_high == b.dst_high
    )


@part
def _number(p: Any, digest: Any, table: NDArray[np.int64], ends: Any, known: int) -> Any:
    """Row of the packet's ends in ``ends``, a new one if it is the first; and how many there are.

    The table must have room.
    """
    mask = np.uint64(table.size - 1)
    at = digest & mask
    while table[at] >= 0:
        if _equal(ends[table[at]], p):
            return table[at], known
        at = (at + np.uint64(1)) & mask
    table[at] = known
    e = ends[known]
    e.src, e.dst, e.src_high, e.dst_high = p.src, p.dst, p.src_high, p.dst_high
    e.sport, e.dport, e.protocol = p.sport, p.dport, p.protocol
    return np.int64(known), known + 1


@compiled
def _mark(
    packets: Packets,
    table: NDArray[np.int64],
    ends: NDArray[Any],
    known: int,
    out: MarkArray,
) -> int:
    """Fill ``out`` with the marks of ``packets``; how many ends are known then."""
    for i in range(packets.shape[0]):
        p, m = packets[i], out[i]
        digest = _ends_digest(p)
        flow, known = _number(p, digest, table, ends, known)
        digest = _stir(digest, _pair(p.seq, p.ack))
        digest = _stir(digest, _pair(p.ip_id, p.ip_length))
        digest = _stir(
            digest, _pair(p.window, (np.uint64(p.fragment) << np.uint64(8)) | np.uint64(p.flags))
        )
        m.time_ns, m.identity, m.record = p.time_ns, digest, p.record
        m.detail = 0
        if p.timestamps:
            m.detail = np.uint32(
                _stir(digest, _pair(p.tsval, p.tsecr)) >> np.uint64(32)
            ) | np.uint32(1)
        m.ip_length, m.wire_length = p.ip_length, p.wire_length
        m.flow, m.seq, m.payload, m.tos = flow, p.seq, p.payload, p.tos
    return known


class Marks:
    """Number the ends of packets and reduce packets to marks, alike for all captures it is given.

    Attributes
    ----------
    ends : array of ENDS, shape (flows,)
        Each direction of each connection, in the order of their first packets.
    """

    def __init__(self) -> None:
        self._ends = np.zeros(2 * _ROWS, ENDS)
        self._table = np.full(4 * _ROWS, -1, np.int64)
        self._known = 0

    @property
    def ends(self) -> NDArray[Any]:
        """Each direction of each connection."""
        return self._ends[: self._known]

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
        sequence and acknowledgement number, flags and window.  The fields that routers change
        (type of service, time to live, check sums) are left out.  64 bits: of a million packets
        two different ones have the same digest with a probability of 3e-8.
        """
        found = np.zeros(packets.size, MARK)
        for begin in range(0, packets.size, _ROWS):
            self._make_room()
            self._known = int(
                _mark(
                    packets[begin : begin + _ROWS],
                    self._table,
                    self._ends,
                    self._known,
                    found[begin : begin + _ROWS],
                )
            )
        return in_order(found)

    def _make_room(self) -> None:
        """See to it that a block of packets with new ends each finds room, the table half empty."""
        if self._known + _ROWS <= self._ends.size:
            return
        old = self.ends
        self._ends = np.zeros(2 * self._ends.size, ENDS)
        self._table = np.full(2 * self._ends.size, -1, np.int64)
        self._known = int(_refill(old, self._table, self._ends))


@compiled
def _refill(old: NDArray[Any], table: NDArray[np.int64], ends: NDArray[Any]) -> int:
    known = 0
    for i in range(old.shape[0]):
        _, known = _number(old[i], _ends_digest(old[i]), table, ends, known)
    return known


def in_order(marks: MarkArray) -> MarkArray:
    """Sort by time, which costs nothing where that is the order already."""
    time = marks["time_ns"]
    return marks[np.argsort(time, kind="stable")] if np.any(np.diff(time) < 0) else marks


def read_marks(path: Path | str, marks: Marks) -> tuple[MarkArray, str]:
    """Read a capture, block by block, and keep of each packet its mark only.

    Parameters
    ----------
    path : Path or str
        As for `tcpf_lab.trace.pcap.read_capture`.
    marks : Marks
        What numbers the ends.

    Returns
    -------
    tuple of (array of MARK, str)
        The packets in the order of time, and what is wrong with the capture's end, if anything.

    Raises
    ------
    TraceError
        If the capture cannot be read.
    """
    block, parts = np.zeros(_ROWS, PACKET), [np.zeros(0, MARK)]
    with Reader(path) as reader:
        while count := reader.fill(block):
            parts.append(marks.of(block[:count]))
    problem = f"{reader.name}: {reader.truncated}" if reader.truncated else ""
    return in_order(np.concatenate(parts)), problem
