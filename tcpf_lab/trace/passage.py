"""The way of packets through a box, from captures on both of its sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab import _trace
from tcpf_lab.errors import TraceError
from tcpf_lab.trace.bottleneck import Crossing, crossing_of
from tcpf_lab.trace.identity import MarkArray


@dataclass(frozen=True)
class ClockOffset:
    r"""The second capture's clock, seen from the first's.

    .. math:: t_{first} = t_{second} - o - d (t_{second} - r)

    Attributes
    ----------
    offset_ns : int
        o.  Where it was estimated, the least delay is part of it, as nothing tells them apart.
    drift : float
        d: what the second clock gains, seconds per second.
    reference_ns : int
        r: instant of the second clock.
    given : bool
        Whether the offset was given, so that delays are whole; else the least of them counts 0.
    between_ns : (int, int), optional
        What the offset of the clocks alone is between, where packets cross both ways.
    coincidences : int
        Pairs of packets that the estimate is made of.
    ambiguous : bool
        Whether another offset explains nearly as many.
    drift_seen : float
        The drift that the least delays suggest; `drift` is 0 if they are no evidence for it.
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
    crossing : Crossing
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

    crossing: Crossing
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
        What the second clock shows more than the first; None: it is estimated, and then the least
        delay counts 0.

    Returns
    -------
    Passage
        What entered on the side of `first`, and what became of it.

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
        crossing=crossing_of(found["entered"], *matched),
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
