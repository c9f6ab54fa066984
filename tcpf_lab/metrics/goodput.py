"""Goodput: payload that arrived and was acknowledged, once."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def acknowledged_at(time_ns: ArrayLike, acked: ArrayLike, instant_ns: int) -> int:
    """Payload bytes of one flow that were acknowledged by an instant.

    Parameters
    ----------
    time_ns : array_like, shape (n,)
        Times of the flow's acknowledgements at the sender, in order.
    acked : array_like, shape (n,)
        Payload bytes acknowledged after each (`tcpf_lab.trace.recovery.Recovery.acked`).
    instant_ns : int
        On the clock of `time_ns`.

    Returns
    -------
    int
        Bytes; 0 before the first acknowledgement.

    Raises
    ------
    ValueError
        If the arrays differ in length.

    Examples
    --------
    >>> acknowledged_at([10, 20, 30], [960, 1920, 2880], 25)
    1920
    >>> acknowledged_at([10, 20, 30], [960, 1920, 2880], 9)
    0
    """
    times, total = np.asarray(time_ns, np.int64), np.asarray(acked, np.int64)
    if times.shape != total.shape:
        raise ValueError("one time is needed for each acknowledgement")
    before = int(np.searchsorted(times, instant_ns, side="right"))
    return int(total[before - 1]) if before else 0


def goodput(
    acked_start: ArrayLike, acked_end: ArrayLike, start_ns: ArrayLike, end_ns: ArrayLike
) -> NDArray[np.float64]:
    """Goodput of each flow over its window.

    .. math:: g_i = (una_i(t_1) - una_i(t_0)) / (t_1 - t_0)

    Parameters
    ----------
    acked_start, acked_end : array_like, shape (flows,)
        Payload bytes acknowledged at the window's start and end (SYN and FIN not counted).
    start_ns, end_ns : array_like, shape (flows,) or scalar
        The window.

    Returns
    -------
    ndarray, shape (flows,)
        Bytes per second.

    Raises
    ------
    ValueError
        A window that is empty, or a count that falls.

    Examples
    --------
    96 000 bytes more after 60 s:

    >>> goodput([4000], [100000], 0, 60_000_000_000).tolist()
    [1600.0]
    """
    gained = np.asarray(acked_end, np.int64) - np.asarray(acked_start, np.int64)
    duration = np.asarray(end_ns, np.int64) - np.asarray(start_ns, np.int64)
    if np.any(duration <= 0):
        raise ValueError("the window's end is not after its start: goodput is undefined")
    if np.any(gained < 0):
        raise ValueError("acknowledged bytes fell within the window")
    return np.asarray(gained * 1e9 / duration, np.float64)


def mean_goodput(values: ArrayLike) -> float:
    """Arithmetic mean over all flows, those that got nothing included.

    Parameters
    ----------
    values : array_like, shape (flows,)
        Goodputs.

    Returns
    -------
    float
        In their unit.

    Raises
    ------
    ValueError
        If there are no flows.

    Examples
    --------
    >>> mean_goodput([0.0, 1500.0, 3000.0])
    1500.0
    """
    array = np.asarray(values, np.float64)
    if array.size == 0:
        raise ValueError("no flows: mean goodput is undefined")
    return float(np.mean(array))
