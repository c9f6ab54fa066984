"""How many packets are lost in a row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def run_lengths(lost: ArrayLike, flow: ArrayLike | None = None) -> NDArray[np.int64]:
    """Lengths of the runs of lost packets.

    Parameters
    ----------
    lost : array_like of bool, shape (n,)
        Whether each packet was lost, in the order of arrival.
    flow : array_like of int, shape (n,), optional
        Flow of each packet; then the packets of each flow make runs of their own.

    Returns
    -------
    int64, shape (runs,)
        In the order in which they begin, flow after flow.

    Examples
    --------
    >>> run_lengths([True, False, True, True]).tolist()
    [1, 2]

    Two flows that lose two packets each, one of them in a row:

    >>> run_lengths([True, True, False, True, True], [7, 8, 7, 8, 7]).tolist()
    [1, 1, 2]
    """
    gone = np.asarray(lost, np.bool_)
    if flow is None:
        apart = np.zeros(gone.size, np.bool_)
    else:
        order = np.argsort(np.asarray(flow), kind="stable")
        gone, sorted_flow = gone[order], np.asarray(flow)[order]
        apart = np.concatenate([[False], sorted_flow[1:] != sorted_flow[:-1]])[: gone.size]
    before = np.concatenate([[False], gone[:-1]])[: gone.size]
    begins = np.flatnonzero(gone & (~before | apart))
    total = np.concatenate([[0], np.cumsum(gone)])
    counted = total[begins]
    lengths: NDArray[np.int64] = np.diff(counted, append=total[-1]).astype(np.int64)
    return lengths


def tally(lengths: NDArray[np.int64]) -> dict[str, int]:
    """Count the runs of each length; the lengths are words, as JSON wants them.

    Examples
    --------
    >>> tally(np.array([1, 3, 1]))
    {'1': 2, '3': 1}
    """
    found: tuple[Any, Any] = np.unique(lengths, return_counts=True)
    return {str(int(length)): int(count) for length, count in zip(*found, strict=True)}


def mean_run(lengths: NDArray[np.int64]) -> float | None:
    """Mean length of the runs, None without any.

    In Gilbert's model of loss with two states it is 1 / P(the packet after a lost one arrives)
    (Gilbert: Capacity of a Burst-Noise Channel, BSTJ 39, 1960).
    """
    return float(np.mean(lengths)) if lengths.size else None
