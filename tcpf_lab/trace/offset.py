"""How two captures' clocks compare, found from the packets that both have.

A packet's difference is its time in the second capture less its time in the first: the offset of
the clocks plus the time it took.  Nothing is known of the offset, which may be hours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.errors import TraceError
from tcpf_lab.trace.coincidence import Pairs, coincidences, most_agreed
from tcpf_lab.trace.drift import LARGEST_DRIFT, Line, lower_line
from tcpf_lab.trace.identity import MarkArray

#: Packets of a kind that are enough to leave less certain ones out.
_ENOUGH = 30
_NOTHING = "are both of the same time and traffic, with no address translation in between?"
_SWAP = "name the capture first whose packets come first"


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

    def on_first(self, second_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give instants of the second clock on the first; int64 nanoseconds, any shape.

        Examples
        --------
        >>> ClockOffset(1_000, 1e-4, 0, given=True).on_first(np.array([0, 20_000]))
        array([-1000, 18998])
        """
        passed = second_ns - self.reference_ns
        # The correction alone is small enough for a float; the time itself is not.
        gained = np.rint(passed * self.drift).astype(np.int64)
        result: NDArray[np.int64] = second_ns - self.offset_ns - gained
        return result


@dataclass(frozen=True)
class Sides:
    """Which side of the box each capture was taken on, flow by flow, and by which clocks.

    Attributes
    ----------
    clock : ClockOffset
        The second capture's clock.
    there : bool, shape (flows,)
        Whether a flow crosses from the first capture to the second.
    back : bool, shape (flows,)
        Whether it crosses against that.  One between hosts of which nothing crossed does neither.
    """

    clock: ClockOffset
    there: NDArray[np.bool_]
    back: NDArray[np.bool_]


def estimate(
    first: MarkArray,
    second: MarkArray,
    ends: NDArray[Any],
    *,
    max_delay_ns: int,
    given_ns: int | None = None,
) -> Sides:
    """Find the offset and drift of the clocks, and which way the packets of each flow cross.

    Parameters
    ----------
    first, second : array of MARK
        The two captures.
    ends : array of ENDS, shape (flows,)
        What their ``flow`` counts.
    max_delay_ns : int
        Longest possible stay.
    given_ns : int, optional
        The offset, if it is known (0: one clock).

    Returns
    -------
    Sides
        The clocks, and which flows cross.

    Raises
    ------
    TraceError
        If the captures have no packet in common, or none that goes from the first to the second
        by the offset that is given.

    Notes
    -----
    The difference that most coincidences agree on is right but for the delay.  The least one bounds
    it from above, that of packets which cross the other way from below.
    """
    pairs = coincidences(first, second)
    if not pairs.first.size:
        raise TraceError("the captures have no packet in common", hint=_NOTHING)
    span = max(int(np.ptp(marks["time_ns"])) for marks in (first, second))
    width = max_delay_ns + round(LARGEST_DRIFT * span)
    near, ambiguous = (given_ns, False) if given_ns is not None else most_agreed(pairs, width)
    every, pairs = pairs, pairs.only(np.abs(pairs.difference - near) <= width)
    if given_ns is not None and not np.any(pairs.difference >= given_ns):
        raise _contradicted(given_ns, most_agreed(every, width)[0])
    there, back = _ways(pairs, first, ends, given_ns)
    clock = _clock(pairs, second["time_ns"], there[first["flow"][pairs.first]], given_ns)
    return Sides(replace(clock, ambiguous=ambiguous), there, back)


def _contradicted(given_ns: int, seen_ns: int) -> TraceError:
    """Say that by the offset that is given no packet leaves within the longest stay."""
    message = "nothing goes from the first capture to the second by this offset"
    agreed = f"most packets agree on {seen_ns / 1e9:.6f} s, their delay included"
    hint = f"{agreed}; or leave it out, or {_SWAP}"
    return TraceError(message, where=f"--offset {given_ns / 1e9:g} s", hint=hint)


def _ways(
    pairs: Pairs, first: MarkArray, ends: NDArray[Any], given_ns: int | None
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether each flow crosses there, or back: the differences there are greater than those back.

    Flows between the same hosts, in the same direction, go the same way.
    """
    sides = np.stack([ends[name] for name in ("src_high", "src", "dst_high", "dst")], axis=1)
    hosts, of_flow = np.unique(sides, axis=0, return_inverse=True)
    of_flow = of_flow.reshape(-1)
    middle, seen = _medians(of_flow[first["flow"][pairs.first]], pairs.difference, len(hosts))
    place = {tuple(pair): k for k, pair in enumerate(hosts.tolist())}
    turned = np.roll(hosts, 2, axis=1).tolist()
    opposite = np.array([place.get(tuple(pair), -1) for pair in turned], np.int64)
    both = seen & (opposite >= 0) & seen[opposite]
    if given_ns is not None:
        there = middle >= given_ns
    else:
        there = np.where(both, middle >= middle[opposite], True)
        if np.any(both & ~there):
            limit = (np.median(middle[both & there]) + np.median(middle[both & ~there])) / 2
            there = np.where(both, there, middle >= limit)
    return (seen & there)[of_flow], (seen & ~there)[of_flow]


def _medians(group: Any, value: Any, groups: int) -> tuple[Any, NDArray[np.bool_]]:
    """Median of the values of each group, and whether it has any."""
    order = np.lexsort((value, group))
    begin = np.searchsorted(group[order], np.arange(groups + 1))
    seen = begin[1:] > begin[:-1]
    middle = np.minimum((begin[1:] + begin[:-1]) // 2, order.size - 1)
    return value[order[middle]], seen


def _clock(
    pairs: Pairs, second_ns: NDArray[np.int64], there: NDArray[np.bool_], given_ns: int | None
) -> ClockOffset:
    """Draw the line under what crosses there, and the one above what crosses back."""
    if not np.any(there):
        raise TraceError("nothing goes from the first capture to the second", hint=_SWAP)
    reference = int(second_ns[0])
    if given_ns is not None:
        return ClockOffset(given_ns, 0.0, reference, given=True, coincidences=there.size)
    single = pairs.weight == 1.0
    if np.sum(single & there) >= _ENOUGH:
        pairs, there = pairs.only(single), there[single]
    passed = second_ns[pairs.second] - reference
    lines = [
        lower_line(passed[there], pairs.difference[there]),
        lower_line(passed[~there], -pairs.difference[~there]),
    ]
    drift = _drift(lines)
    rest = pairs.difference - np.rint(drift * passed).astype(np.int64)
    least = int(rest[there].min())
    return ClockOffset(
        offset_ns=least,
        drift=drift,
        reference_ns=reference,
        given=False,
        between_ns=None if np.all(there) else (int(rest[~there].max()), least),
        coincidences=int(there.size),
        drift_seen=lines[0].slope,
    )


def _drift(lines: list[Line]) -> float:
    """Take the drift that there is evidence for: first of the way back, whose queue is shorter."""
    there, back = lines
    if back.sure:
        return -back.slope
    return there.slope if there.sure else 0.0
