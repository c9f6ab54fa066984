"""Weighted differences of cells' means, paired by seed: an effect, a slope, or a mean of either.

Runs of one seed have the same start times and the same random numbers as far as their experiments
let them, so what a seed adds to every cell is taken out before the spread is judged.
``docs/sweeps.md`` has the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.report.collect import CellResult
from tcpf_lab.report.compare.bootstrap import Array, Interval, used_seeds

#: What rounding can leave of no change at all, as a share of the means: no effect is that small.
_ROUNDING = 1e-9
#: Weights and the cells they are for; the weights of a contrast add up to 0.
Terms = Sequence[tuple[float, CellResult]]


@dataclass(frozen=True)
class Contrast:
    """What a metric's means make of a contrast.

    ``difference`` is the weighted sum of the means in the metric's unit, ``log_ratio`` that of
    their natural logarithms; each with the half width of its 95 % interval (Student's t over the
    pairs), which is None for fewer than two pairs. ``log_ratio`` is None where a mean is 0, and
    both are where no seed is in every cell; ``note`` says so.
    """

    pairs: int
    difference: float | None = None
    difference_ci: float | None = None
    log_ratio: float | None = None
    log_ratio_ci: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """The ratio that the difference of logarithms stands for."""
        return None if self.log_ratio is None else math.exp(self.log_ratio)

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of the ratio."""
        if self.log_ratio is None or self.log_ratio_ci is None:
            return None
        return _ends(self.log_ratio, self.log_ratio_ci)

    @property
    def beyond_noise(self) -> bool | None:
        """Whether no change at all is outside of the interval; None without an interval.

        The ratio's interval decides, and where there is no ratio that of the difference.
        """
        change, half = self.log_ratio, self.log_ratio_ci
        if change is None:
            change, half = self.difference, self.difference_ci
        return None if change is None or half is None else abs(change) > half


def _ends(middle: float, half: float) -> Interval:
    """Give the ends of an interval of logarithms as ratios."""
    return math.exp(middle - half), math.exp(middle + half)


def contrast(terms: Terms, metric: str) -> Contrast:
    r"""Estimate a contrast of cells from the seeds that all of them have.

    With :math:`y_{ck}` the metric of cell c in the run of seed k and :math:`\bar y_c` its mean,

    .. math:: D = \sum_c w_c \bar y_c, \quad L = \sum_c w_c \ln \bar y_c, \quad
       d_k = \sum_c w_c y_{ck}, \quad l_k = \sum_c w_c y_{ck} / \bar y_c

    and the half widths are those of the means of d and of l (the delta method: l is what the
    logarithms of the means change with, to first order).

    Parameters
    ----------
    terms : sequence of (float, CellResult)
        Weights that add up to 0, and cells.
    metric : str
        A name of ``style.METRICS``.

    Returns
    -------
    Contrast
        Over as many pairs as there are seeds that every cell has a used run of.

    Raises
    ------
    ValueError
        If the weights do not add up to 0.

    References
    ----------
    G. W. Oehlert, The American Statistician 46, 1992, for the delta method.
    """
    weights = np.array([weight for weight, _ in terms])
    if abs(weights.sum()) > 1e-9:
        raise ValueError(f"the weights of a contrast add up to 0, not to {weights.sum()}")
    values = _paired([result for _, result in terms], metric)
    pairs = values.shape[1]
    if pairs == 0:
        return Contrast(0, note="no seed has a usable run that measured it in every cell")
    means = values.mean(axis=1)
    difference, difference_ci = mean_ci(list(weights @ values))
    difference = _settled(difference, float(np.abs(means).max()))
    if means.min() <= 0:
        return Contrast(pairs, difference, difference_ci, note="a mean of 0: no ratio")
    log_ratio = _settled(float(weights @ np.log(means)), 1.0)
    _, log_ratio_ci = mean_ci(list(weights @ (values / means[:, np.newaxis])))
    note = "" if pairs > 1 else "one pair: no interval"
    return Contrast(pairs, difference, difference_ci, log_ratio, log_ratio_ci, note)


def _settled(change: float, size: float) -> float:
    """Take what rounding left of no change for none."""
    return change if abs(change) > _ROUNDING * size else 0.0


def _paired(results: Sequence[CellResult], metric: str) -> Array:
    """Values of the seeds that all cells have, cells x seeds."""
    known = [
        dict(zip(used_seeds(one), one.metrics[metric].values, strict=True))
        if one.metrics[metric].values
        else {}  # its runs could not measure it
        for one in results
    ]
    shared = [seed for seed in known[0] if all(seed in own for own in known)] if known else []
    return np.array([[own[seed] for seed in shared] for own in known]).reshape(
        len(known), len(shared)
    )


def slope_weights(places: Sequence[float]) -> list[float]:
    """Weights that give a straight line's rise from the least place to the greatest.

    Parameters
    ----------
    places : sequence of float
        Where the values stand, at least two different ones.

    Returns
    -------
    list of float
        Of ordinary least squares, in the order of `places`; they add up to 0.

    Examples
    --------
    >>> slope_weights([100.0, 200.0, 300.0])
    [-1.0, 0.0, 1.0]
    """
    x = np.asarray(places, float)
    unit = (x - x.min()) / (x.max() - x.min())
    centred = unit - unit.mean()
    return [float(weight) for weight in centred / np.sum(centred**2)]
