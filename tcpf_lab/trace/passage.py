"""The way of packets through a box, from captures on both of its sides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.trace.bottleneck import FOREIGN, Crossing, crossing_of, match
from tcpf_lab.trace.identity import MarkArray
from tcpf_lab.trace.offset import ClockOffset, Sides, estimate

#: The clocks' estimate is as good as the packets that it was made of: others may be faster.
_SLACK_NS = 2_000_000


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
    sides = estimate(first, second, ends, max_delay_ns=max_delay_ns, given_ns=offset_ns)
    entered, left = _of(first, sides.there), _of(second, sides.there)
    slack = 0 if sides.clock.given else _SLACK_NS
    left_ns = sides.clock.on_first(left["time_ns"])
    taken, origin = match(entered, left, left_ns + slack, max_delay_ns=max_delay_ns + 2 * slack)
    clock, left_ns = _least_is_zero(sides.clock, entered, left_ns, origin)
    crossing = crossing_of(entered, left_ns, taken, origin)
    longest = int(np.max(crossing.departure_ns - crossing.arrival_ns, initial=0))
    began, ended = clock.on_first(second["time_ns"][[0, -1]])
    lone = (origin == FOREIGN) & (left_ns > first["time_ns"][0] + longest)
    tos_out = entered["tos"].copy()
    tos_out[taken >= 0] = left["tos"][taken[taken >= 0]]
    return Passage(
        crossing=crossing,
        entered=entered,
        tos_out=tos_out,
        overtaken=_overtaken(origin, entered.size),
        clock=clock,
        ends=ends,
        judged_ns=(max(int(began), int(first["time_ns"][0])), int(ended) - longest),
        back=(_count(first, sides.back), _count(second, sides.back)),
        elsewhere=(_elsewhere(first, sides), _elsewhere(second, sides)),
        foreign=int(np.sum(lone)),
    )


def _least_is_zero(
    clock: ClockOffset, entered: MarkArray, left_ns: NDArray[np.int64], origin: NDArray[np.int64]
) -> tuple[ClockOffset, NDArray[np.int64]]:
    """Make the least delay of all 0: the estimate knew a sample of the packets only."""
    through = origin >= 0
    if clock.given or not np.any(through):
        return clock, left_ns
    least = int(np.min(left_ns[through] - entered["time_ns"][origin[through]]))
    offset = clock.offset_ns + least
    between = (clock.between_ns[0], offset) if clock.between_ns else None
    return replace(clock, offset_ns=offset, between_ns=between), left_ns - least


def _overtaken(origin: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    """Which packets left behind one that entered after them."""
    through = origin[origin >= 0]
    late = through < np.maximum.accumulate(through)
    found = np.zeros(count, np.bool_)
    found[through[late]] = True
    return found


def _of(marks: MarkArray, flows: NDArray[np.bool_]) -> MarkArray:
    """Packets of some flows, without a copy if these are all."""
    chosen = flows[marks["flow"]]
    return marks if np.all(chosen) else marks[chosen]


def _count(marks: MarkArray, flows: NDArray[np.bool_]) -> int:
    return int(np.sum(flows[marks["flow"]]))


def _elsewhere(marks: MarkArray, sides: Sides) -> int:
    return _count(marks, ~(sides.there | sides.back))
