"""Loss at the bottleneck."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def loss_fraction(size: ArrayLike, lost: ArrayLike) -> float:
    r"""Share of what entered a queue that never left it.

    .. math:: p = \sum_{lost} s_i / \sum_{entered} s_i

    Parameters
    ----------
    size : array_like, shape (n,)
        Weight of each packet: its IP length for byte loss, 1 for packet loss.
    lost : array_like of bool, shape (n,)
        Whether it was dropped.

    Returns
    -------
    float
        From 0 to 1.

    Raises
    ------
    ValueError
        If nothing entered.

    Examples
    --------
    40 of 4040 bytes:

    >>> round(loss_fraction([1000, 1000, 40, 1000, 1000], [False, False, True, False, False]), 6)
    0.009901
    """
    weight, gone = np.asarray(size, np.int64), np.asarray(lost, np.bool_)
    if weight.shape != gone.shape:
        raise ValueError("one loss mark is needed for each packet")
    total = int(np.sum(weight))
    if total <= 0:
        raise ValueError("nothing entered the queue: its loss is undefined")
    return int(np.sum(weight[gone])) / total
