"""Retransmission timeouts."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def count_between(time_ns: ArrayLike, start_ns: int, end_ns: int) -> int:
    """Events in a window that includes its start and excludes its end.

    Parameters
    ----------
    time_ns : array_like, shape (n,)
        Times of the events.
    start_ns, end_ns : int
        The window.

    Returns
    -------
    int
        Their number.

    Raises
    ------
    ValueError
        If the window ends before it starts.

    Examples
    --------
    >>> count_between([5, 10, 15, 20], 10, 20)
    2
    """
    if end_ns < start_ns:
        raise ValueError("the window ends before it starts")
    times = np.asarray(time_ns, np.int64)
    return int(np.sum((times >= start_ns) & (times < end_ns)))


def episodes(backoff: ArrayLike) -> int:
    """Sequences of expiries of one timer without progress between them: what PFTK counts.

    Parameters
    ----------
    backoff : array_like, shape (n,)
        For each timeout, how many expiries of the same sequence went before it.

    Returns
    -------
    int
        Number of sequences.

    References
    ----------
    J. Padhye, V. Firoiu, D. Towsley, J. Kurose, SIGCOMM 1998, section 2.2.

    Examples
    --------
    Two sequences: one of three expiries, one of a single one.

    >>> episodes([0, 1, 2, 0])
    2
    """
    return int(np.sum(np.asarray(backoff) == 0))


def per_flow_minute(timeouts: int, flows: int, seconds: float) -> float:
    """Timeouts per flow and minute, comparable between runs of different length.

    Parameters
    ----------
    timeouts : int
        Of all flows.
    flows : int
        Their number.
    seconds : float
        Length of the window.

    Returns
    -------
    float
        1/min.

    Raises
    ------
    ValueError
        If there are no flows or no time.

    Examples
    --------
    >>> per_flow_minute(600, 100, 30.0)
    12.0
    """
    if flows <= 0 or seconds <= 0:
        raise ValueError("without flows or without time there is no rate of timeouts")
    return timeouts * 60.0 / (flows * seconds)
