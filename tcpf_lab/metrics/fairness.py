"""How evenly flows share."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def _values(values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values, np.float64)
    if array.size == 0:
        raise ValueError("no flows: fairness is undefined")
    if not np.all(np.isfinite(array)) or np.any(array < 0):
        raise ValueError("shares must be finite and not negative")
    return array


def coefficient_of_variation(values: ArrayLike) -> float:
    r"""Standard deviation over mean, both of the whole population (ddof = 0).

    .. math:: CoV = \frac{\sqrt{\frac{1}{n} \sum (x_i - \bar x)^2}}{\bar x}

    Parameters
    ----------
    values : array_like, shape (n,)
        One non-negative share per flow; flows that got nothing are included as 0.

    Returns
    -------
    float
        Without unit.

    Raises
    ------
    ValueError
        No flows, or a mean of 0.

    Examples
    --------
    Mean 4, deviations -2, 0, 2: sqrt(8/3) / 4.

    >>> round(coefficient_of_variation([2, 4, 6]), 6)
    0.408248
    """
    array = _values(values)
    mean = float(np.mean(array))
    if mean == 0:
        raise ValueError("every share is 0: the coefficient of variation is undefined")
    return float(np.std(array)) / mean


def jain_index(values: ArrayLike) -> float:
    r"""Jain's fairness index, from 1/n (one flow has all) to 1 (all equal).

    .. math:: F = \frac{(\sum x_i)^2}{n \sum x_i^2} = \frac{1}{1 + CoV^2}

    Parameters
    ----------
    values : array_like, shape (n,)
        One non-negative share per flow.

    Returns
    -------
    float
        Without unit.

    Raises
    ------
    ValueError
        No flows, or every share 0.

    References
    ----------
    R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984.

    Examples
    --------
    Sum 12, squares 4 + 16 + 36 = 56: 144 / (3 * 56).

    >>> round(jain_index([2, 4, 6]), 6)
    0.857143
    """
    array = _values(values)
    largest = float(np.max(array))
    if largest == 0:
        raise ValueError("every share is 0: the fairness index is undefined")
    scaled = array / largest  # squares of very small or large shares would leave the range
    return float(np.sum(scaled) ** 2 / (scaled.size * np.sum(scaled**2)))


def min_max_ratio(values: ArrayLike) -> float:
    """Smallest share over the largest.

    Parameters
    ----------
    values : array_like, shape (n,)
        One non-negative share per flow.

    Returns
    -------
    float
        From 0 to 1.

    Raises
    ------
    ValueError
        No flows, or every share 0.

    Examples
    --------
    >>> min_max_ratio([2, 4, 8])
    0.25
    """
    array = _values(values)
    if np.max(array) == 0:
        raise ValueError("every share is 0: the ratio of smallest to largest is undefined")
    return float(np.min(array) / np.max(array))
