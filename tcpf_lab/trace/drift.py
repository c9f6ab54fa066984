"""What one clock gains on another, from the least delays of packets over time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Fewer packets, or parts of the time with packets, are no evidence.
_PACKETS, _PARTS_SEEN = 32, 8
#: The time is cut into so many parts for the evidence, and for the line itself.
_PARTS, _FINE = 16, 512
#: What one clock gains on another at most, as far as it is believed: what NTP corrects at most.
LARGEST_DRIFT = 5e-4
#: A part of the time bears the line out if its least delay is this near: ns, share of the effect.
_NEAR_NS, _NEAR_SHARE = 50_000, 0.1
#: Share of the parts that must.
_BEARING = 0.75


class Line(NamedTuple):
    """A drift, and whether there is evidence for it."""

    slope: float
    sure: bool


def lower_line(time_ns: NDArray[np.int64], delay_ns: NDArray[np.int64]) -> Line:
    """Fit the line under all delays that is closest to them.

    Parameters
    ----------
    time_ns, delay_ns : int64, shape (n,)
        When each packet was seen, in any order, and its delay, a constant and a drift included.

    Returns
    -------
    Line
        The slope, and whether it is a drift: queues that never empty make slopes too, but not such
        that the least delays of most parts of the time lie on one line.

    Notes
    -----
    Of all lines below the points the one with the least sum of distances is the edge of their lower
    hull above the mean of their times (Moon, Skelly, Towsley: Estimation and Removal of Clock Skew
    from Network Delay Measurements, INFOCOM 1999).  The hull is made of the least delay in each of
    512 parts of the time.
    """
    span = int(np.ptp(time_ns)) if time_ns.size else 0
    if time_ns.size < _PACKETS or span == 0:
        return Line(0.0, sure=False)
    x = (time_ns - time_ns.min()).astype(np.float64)
    y = (delay_ns - delay_ns.min()).astype(np.float64)
    hull_x, hull_y = _hull(*_least(x, y, span, _FINE))
    k = min(max(int(np.searchsorted(hull_x, x.mean())), 1), hull_x.size - 1)
    if hull_x.size < 2:
        return Line(0.0, sure=False)
    slope = float((hull_y[k] - hull_y[k - 1]) / (hull_x[k] - hull_x[k - 1]))
    return Line(slope, sure=_borne_out(x, y - slope * x, span, slope))


def _least(x: Any, y: Any, span: int, parts: int) -> tuple[Any, Any]:
    """Point of the least y in each part of x that has one, in the order of x."""
    part = np.minimum((x * (parts / span)).astype(np.int64), parts - 1)
    order = np.lexsort((y, part))
    first = order[np.unique(part[order], return_index=True)[1]]
    return x[first], y[first]


def _hull(x: Any, y: Any) -> tuple[Any, Any]:
    """Lower convex hull of points in the order of x (Andrew's monotone chain)."""
    kept: list[int] = []
    for i in range(x.size):
        while len(kept) > 1 and _turns_down(x, y, kept[-2], kept[-1], i):
            kept.pop()
        kept.append(i)
    return x[kept], y[kept]


def _turns_down(x: Any, y: Any, a: int, b: int, c: int) -> bool:
    """Whether b lies on or above the line from a to c."""
    return bool((x[b] - x[a]) * (y[c] - y[a]) <= (x[c] - x[a]) * (y[b] - y[a]))


def _borne_out(x: Any, left_over: Any, span: int, slope: float) -> bool:
    """Whether the least delays of most parts of the time lie on the line."""
    effect = abs(slope) * span
    near = max(_NEAR_NS, _NEAR_SHARE * effect)
    if abs(slope) > LARGEST_DRIFT or effect < 3 * near:
        return False
    least = _least(x, left_over, span, _PARTS)[1]
    bearing = least - left_over.min() <= near
    return bool(least.size >= _PARTS_SEEN and np.mean(bearing) >= _BEARING)
