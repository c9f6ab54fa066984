"""Spurious retransmissions by the packets that passed the bottleneck, against the marks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.trace.analysis import KINDS, RETRANSMISSIONS, SPURIOUS, SYN_RTO, Analysis
from tcpf_lab.trace.packet import ACK, SYN, Packets, read_capture
from tcpf_lab.trace.passage import Marks, cross

#: Retransmissions of data.
_OF_DATA = tuple(kind for kind in RETRANSMISSIONS if kind != SYN_RTO)
#: Packets sent in the last second are not judged: an earlier copy may still travel to the
#: bottleneck, and the evidence back.
END_NS = 1_000_000_000
#: A packet passes whenever it does: nothing but its copy has its number, bytes and time stamps.
_EVER = int(np.iinfo(np.int64).max)
#: Bytes of a connection that have a place of their own on the line of all bytes.
_ROOM = 1 << 40


@dataclass(frozen=True)
class Spurious:
    """Retransmissions of data, and which of them the analysis marked as spurious.

    Attributes
    ----------
    retransmissions : int
        Judged retransmissions: all but those of the last second.
    right : dict
        Evidence -> spurious retransmissions that are marked.
    wrong : dict
        Evidence -> marked retransmissions that were not spurious.
    missed : dict
        Kind -> spurious retransmissions that are not marked.
    """

    retransmissions: int
    right: dict[str, int]
    wrong: dict[str, int]
    missed: dict[str, int]

    @property
    def count(self) -> int:
        """Retransmissions of which an earlier copy passed the bottleneck."""
        return sum(self.right.values()) + sum(self.missed.values())


def known(forward: dict[str, Any] | None) -> bool:
    """Whether every packet that passed the bottleneck arrived: no loss behind it.

    Parameters
    ----------
    forward : dict, optional
        Impairments of data behind the bottleneck, as in `Scenario.settings`.  Delayed, reordered
        and duplicated packets arrive.
    """
    return not (forward or {}).get("loss")


def judge(found: Analysis, sender: Path, behind: Path) -> Spurious:
    """Compare the marks of an analysis with the packets that passed the bottleneck.

    Parameters
    ----------
    found : Analysis
        Of the capture at the sender, with its events.
    sender, behind : Path
        That capture, and the one behind the bottleneck, by the same clock and in its order.

    Raises
    ------
    TraceError
        If a capture cannot be read.
    """
    sent = _data(sender)
    last = int(found.last_ns) - END_NS
    again = found.events[np.isin(found.events["kind"], _OF_DATA)]
    again = again[(again["time_ns"] < last) & (again["length"] > 0)]
    rows = np.searchsorted(sent["record"], again["record"])
    was_spurious = passed_before(sent, _data(behind))[rows]
    marked = again["spurious"] > 0
    return Spurious(
        retransmissions=int(again.size),
        right=_counted(SPURIOUS, again["spurious"][was_spurious & marked]),
        wrong=_counted(SPURIOUS, again["spurious"][~was_spurious & marked]),
        missed=_counted(KINDS, again["kind"][was_spurious & ~marked]),
    )


def _data(capture: Path) -> Packets:
    """Read packets with payload, and SYNs, which mark the start of a connection."""
    packets = read_capture(capture, accept_truncated=True).packets
    opening = (packets["flags"] & (SYN | ACK)) == SYN
    data: Packets = packets[(packets["payload"] > 0) | opening]
    return data


def passed_before(sent: Packets, passed: Packets) -> NDArray[np.bool_]:
    """For each packet, whether a copy sent earlier of each of its bytes ever passed.

    Parameters
    ----------
    sent : Packets
        Shape (n,), packets with payload and SYNs at the sender, in the order of time.
    passed : Packets
        Behind the bottleneck, by the same clock.

    Returns
    -------
    bool, shape (n,)
        The copies may be cut otherwise than the packet.  False for a packet without payload.
    """
    lost, flow = cross(sent, passed, max_delay_ns=_EVER).lost, Marks().of(sent)["flow"]
    order = np.argsort(flow, kind="stable")
    start = _line(sent[order], flow[order])
    size = sent["payload"][order].astype(np.int64)
    found = np.zeros(sent.size, np.bool_)
    found[order] = _covered(start, start + size, ~lost[order])
    return found


def _line(packets: Packets, flow: NDArray[Any]) -> NDArray[np.int64]:
    """Put the bytes of all connections on one line; where each packet begins on it.

    The packets are in the order of their flows.  A SYN begins another connection unless it repeats
    the packet before it; from one packet to the next a sequence number goes less than 2^31 on or
    back.
    """
    syn, seq = (packets["flags"] & SYN) > 0, packets["seq"]
    step = np.diff(seq, prepend=seq[:1]).view(np.int32).astype(np.int64)
    begins = np.diff(flow.astype(np.int64), prepend=-1) != 0
    begins[1:] |= syn[1:] & ~(syn[:-1] & (step[1:] == 0))
    place = np.cumsum(step)
    connection = np.cumsum(begins)
    first = place[begins][connection - 1]
    line: NDArray[np.int64] = connection * _ROOM + (place - first)
    return line


def _covered(
    start: NDArray[np.int64], end: NDArray[np.int64], passed: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Whether rows above that passed hold all of ``start`` to ``end`` of each row.

    The line is cut wherever a packet begins or ends; each piece has a first row that passed.
    """
    bounds = np.unique(np.concatenate([start, end]))
    low, high = np.searchsorted(bounds, start), np.searchsorted(bounds, end)
    pieces = high - low
    offset = np.cumsum(pieces) - pieces
    row = np.repeat(np.arange(start.size), pieces)
    piece = np.arange(row.size) - offset[row] + low[row]
    first = np.full(bounds.size, start.size, np.int64)
    np.minimum.at(first, piece[passed[row]], row[passed[row]])
    missing = np.bincount(row[first[piece] >= row], minlength=start.size)
    whole: NDArray[np.bool_] = (missing == 0) & (pieces > 0)
    return whole


def _counted(names: tuple[str, ...], numbers: NDArray[Any]) -> dict[str, int]:
    """Name -> how often its number occurs, in the order of the names."""
    counts = np.bincount(numbers, minlength=len(names))
    return {name: int(count) for name, count in zip(names, counts, strict=True) if count}


@dataclass(frozen=True)
class Sum:
    """`Spurious` of some scenarios.

    Attributes
    ----------
    name : str
        What they have in common.
    scenarios : int
        How many.
    of : Spurious
        All of them added up.
    """

    name: str
    scenarios: int
    of: Spurious

    @property
    def precision_percent(self) -> float | None:
        """Share of the marks that are right; None without any."""
        right = sum(self.of.right.values())
        return _share(right, right + sum(self.of.wrong.values()))

    @property
    def recall_percent(self) -> float | None:
        """Share of the spurious retransmissions that are marked; None without any."""
        return _share(sum(self.of.right.values()), self.of.count)


def _share(part: int, whole: int) -> float | None:
    return 100.0 * part / whole if whole else None


def add(name: str, each: Iterable[Spurious]) -> Sum:
    """Add up the results of some scenarios; ``name`` is what they have in common."""
    listed = list(each)
    tables = {
        key: dict(sum((Counter(getattr(one, key)) for one in listed), Counter()))
        for key in ("right", "wrong", "missed")
    }
    return Sum(name, len(listed), Spurious(sum(one.retransmissions for one in listed), **tables))
