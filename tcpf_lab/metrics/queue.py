"""Length of a queue and time spent in it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def _within(
    time_ns: ArrayLike, size: ArrayLike, start_ns: int, end_ns: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Steps of the queue inside a window, the first at its start."""
    times, sizes = np.asarray(time_ns, np.int64), np.asarray(size, np.int64)
    if end_ns <= start_ns:
        raise ValueError("the window's end is not after its start")
    first = int(np.searchsorted(times, start_ns, side="right"))
    last = int(np.searchsorted(times, end_ns, side="left"))
    before = sizes[first - 1 : first] if first else np.zeros(1, np.int64)
    inside = slice(first, last)
    return np.concatenate([[start_ns], times[inside]]), np.concatenate([before, sizes[inside]])


def mean_backlog(time_ns: ArrayLike, size: ArrayLike, start_ns: int, end_ns: int) -> float:
    """Time average of a queue's length.

    Parameters
    ----------
    time_ns : array_like, shape (n,)
        When the length changed, in order.
    size : array_like, shape (n,)
        Length from then on; 0 before the first change.
    start_ns, end_ns : int
        The window.

    Returns
    -------
    float
        In the unit of `size`.

    Raises
    ------
    ValueError
        If the window is empty.

    Examples
    --------
    0 for one second, 3000 for one second, 1000 for two:

    >>> mean_backlog([1_000_000_000, 2_000_000_000], [3000, 1000], 0, 4_000_000_000)
    1250.0
    """
    times, sizes = _within(time_ns, size, start_ns, end_ns)
    held = np.diff(times, append=end_ns)
    return float(np.sum(held * sizes.astype(np.float64)) / (end_ns - start_ns))


def largest_backlog(time_ns: ArrayLike, size: ArrayLike, start_ns: int, end_ns: int) -> int:
    """Greatest length of a queue in a window.

    Parameters
    ----------
    time_ns, size : array_like, shape (n,)
        As for `mean_backlog`.
    start_ns, end_ns : int
        The window.

    Returns
    -------
    int
        In the unit of `size`.

    Raises
    ------
    ValueError
        If the window is empty.

    Examples
    --------
    >>> largest_backlog([10, 20, 30], [3000, 1000, 2000], 15, 40)
    3000
    """
    return int(np.max(_within(time_ns, size, start_ns, end_ns)[1]))


def delays(arrival_ns: ArrayLike, departure_ns: ArrayLike) -> NDArray[np.float64]:
    """Seconds that each packet spent in the queue; dropped ones (departure < 0) are left out.

    Parameters
    ----------
    arrival_ns, departure_ns : array_like, shape (n,)
        By one clock.

    Returns
    -------
    ndarray, shape (packets that left,)
        Seconds.

    Examples
    --------
    >>> delays([0, 0, 1_000_000], [2_000_000, -1, 2_500_000]).tolist()
    [0.002, 0.0015]
    """
    came, left = np.asarray(arrival_ns, np.int64), np.asarray(departure_ns, np.int64)
    through = left >= 0
    return np.asarray((left[through] - came[through]) / 1e9, np.float64)


def percentile(values: ArrayLike, percent: float) -> float:
    """Smallest value that at least `percent` per cent of all values do not exceed.

    Parameters
    ----------
    values : array_like, shape (n,)
        In any order.
    percent : float
        Above 0, at most 100.

    Returns
    -------
    float
        One of the values (no interpolation).

    Raises
    ------
    ValueError
        If there are no values, or `percent` is out of range.

    Examples
    --------
    >>> percentile([0.4, 0.1, 0.3, 0.2], 75)
    0.3
    """
    array = np.asarray(values, np.float64)
    if array.size == 0 or not 0 < percent <= 100:
        raise ValueError("a percentile needs values and a percentage above 0, at most 100")
    return float(np.percentile(array, percent, method="inverted_cdf"))
