"""How far measured numbers are from published ones, in units of what noise and a model may do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2

from tcpf_lab.base.errors import RequestError
from tcpf_lab.calibration.space import Floats

#: Counts, which may be 0, and what is added to both sides before the logarithm. With one half cells
#: of 0 to 2 timeouts would rule all others: their noise alone is a factor of several.
COUNTS = {"timeouts": 3.0}
#: The smallest value told from 0, of metrics that may be 0: the last digit that is published.
FLOORS = {"loss_percent": 0.01}


def logged(values: ArrayLike, metrics: Sequence[str]) -> Floats:
    """Give the natural logarithms of metrics, values (..., metrics).

    A count n is log(n + 3); loss below its floor is taken at the floor; of any other metric a
    value that is not positive has no logarithm, and is NaN.
    """
    numbers = np.array(values, dtype=float)
    for place, metric in enumerate(metrics):
        column = numbers[..., place] + COUNTS.get(metric, 0.0)
        if metric in FLOORS:
            column = np.maximum(column, FLOORS[metric])
        numbers[..., place] = np.where(column > 0, column, np.nan)
    logarithms: Floats = np.log(numbers)
    return logarithms


@dataclass(frozen=True)
class Target:
    """The published numbers, and how far a right setting may be from them.

    Parameters
    ----------
    names : tuple of (str, int, str)
        Configuration, number of flows and case of each cell.
    metrics : tuple of str
        Names of the metrics.
    log_published : ndarray, shape (cells, metrics)
        Logarithms of `logged`; NaN where nothing was published.
    variance : ndarray, shape (cells, metrics)
        Variance of one run's logarithm between seeds.
    tolerance : ndarray, shape (metrics,)
        How far a right setting may be off beside noise, as a ratio: 0.1 is 10 %.
    seeds : int
        Runs behind each measured mean.

    Raises
    ------
    RequestError
        If the shapes do not fit, or a variance is not positive with a tolerance of 0.
    """

    names: tuple[tuple[str, int, str], ...]
    metrics: tuple[str, ...]
    log_published: Floats
    variance: Floats
    tolerance: Floats
    seeds: int = 1

    def __post_init__(self) -> None:
        shape = (len(self.names), len(self.metrics))
        if self.log_published.shape != shape or self.variance.shape != shape:
            raise RequestError(f"published numbers and variances must be of shape {shape}")
        if self.tolerance.shape != shape[1:] or self.seeds < 1:
            raise RequestError("there is one tolerance per metric, and one seed at least")
        if not (self.spread[np.isfinite(self.log_published)] > 0).all():
            raise RequestError(
                "a number without noise and without tolerance can be fitted by nothing",
                hint="give `tolerance` for every metric",
            )

    @property
    def noise(self) -> Floats:
        """Variance of a measured mean (cells, metrics), of its logarithm."""
        return self.variance / self.seeds

    @property
    def spread(self) -> Floats:
        """Variance that a residual has at a right setting, (cells, metrics).

        Three parts: noise of our mean; noise of the published number; tolerance. The papers do not
        say whether they print one run or a mean of several: one is taken, the larger noise. The
        tolerance stands for what no setting mends (the model discrepancy of M. C. Kennedy and
        A. O'Hagan, Bayesian calibration of computer models, JRSS B 63, 2001).
        """
        spread: Floats = self.noise + self.variance + np.log1p(self.tolerance) ** 2
        return spread

    @property
    def fitted(self) -> int:
        """How many numbers there are to fit, N."""
        return int(np.isfinite(self.log_published).sum())

    def only(self, known: NDArray[np.bool_]) -> Target:
        """Give the same without the numbers that are not `known` (cells, metrics)."""
        return replace(self, log_published=np.where(known, self.log_published, np.nan))


@dataclass(frozen=True)
class Misfit:
    """Sum of squared standardised residuals (...), and what each metric adds (..., metrics)."""

    total: Floats
    by_metric: Floats


def residuals(log_measured: ArrayLike, target: Target) -> Floats:
    """Give standardised residuals of logarithms (..., cells, metrics); NaN where one is missing."""
    difference: Floats = np.asarray(log_measured, dtype=float) - target.log_published
    return difference / np.sqrt(target.spread)


def misfit(log_measured: ArrayLike, target: Target) -> Misfit:
    """Give J, the sum of squared standardised residuals.

    Parameters
    ----------
    log_measured : array, shape (..., cells, metrics)
        Logarithms of measured means of some points; NaN where a cell has no usable run.
    target : Target
        What is to be fitted.

    Returns
    -------
    Misfit
        A cell that a point lacks counts as the worst residual of its metric at any of the points
        given, 1 at least: a setting whose runs fail or are not valid must not gain by it. A cell
        that all of them lack is left out. NaN where a point has no cell of a metric.
    """
    squares = residuals(log_measured, target) ** 2
    there = np.isfinite(squares)
    points = tuple(range(squares.ndim - 2))
    measured = there.any(axis=points)  # by any point, (cells, metrics)
    known = np.where(there, squares, 0.0)
    worst = np.maximum(known.max(axis=(*points, -2), initial=0.0), 1.0)
    shares = np.where(there, known, np.where(measured, worst, 0.0)).sum(axis=-2)
    wanted = np.isfinite(target.log_published).any(axis=0)
    shares = np.where(wanted & ~there.any(axis=-2), np.nan, shares)
    return Misfit(shares.sum(axis=-1), shares)


def complete(log_measured: ArrayLike, target: Target) -> NDArray[np.bool_]:
    """Say which points (..., cells, metrics) have measured all that is to be fitted, (...)."""
    there: NDArray[np.bool_] = np.isfinite(np.asarray(log_measured, dtype=float))
    whole = (there | ~np.isfinite(target.log_published)).all(axis=(-2, -1))
    return np.asarray(whole, dtype=bool)


def least_of(totals: Floats, whole: NDArray[np.bool_]) -> int:
    """Give the place of the least misfit (n,): of a `complete` point, if there is one.

    What a point lacks is guessed, and the best one must not rest on a guess. If no point has a
    misfit, the first is given.
    """
    finite = np.isfinite(totals)
    among = finite & whole if (finite & whole).any() else finite
    return int(np.argmin(np.where(among, totals, np.inf)))


@dataclass(frozen=True)
class Threshold:
    """The misfit up to which a setting is not excluded, and where it comes from.

    ``least`` is the least misfit, ``residuals`` how many there are, ``effective`` how many
    independent ones they are taken for, ``parameters`` how many numbers were free, ``scale`` the
    factor of the chi-squared quantile, ``limit`` the threshold itself.
    """

    least: float
    residuals: int
    effective: float
    parameters: int
    scale: float
    limit: float

    @property
    def inflation(self) -> float:
        """By how much all variances V are taken to be too small; 1 where something fits."""
        return self.scale * self.effective / self.residuals


def threshold(
    least: float,
    target: Target,
    parameters: int,
    effective: float | None = None,
    confidence: float = 0.95,
) -> Threshold:
    """Give the threshold of profiles, scaled by the lack of fit.

    Parameters
    ----------
    least : float
        The least misfit, J_min.
    target : Target
        Its N residuals.
    parameters : int
        Number of free parameters, d: one of a range, of levels one less than there are.
    effective : float, optional
        How many independent residuals the N are worth; N without it.
    confidence : float
        Of one unknown's interval.

    Returns
    -------
    Threshold
        ``limit`` = J_min + chi2_1(confidence) · max(N / N_eff, J_min / (N_eff - d)).

    Notes
    -----
    With N_eff = N this is J_min + chi2_1 · max(1, J_min / (N - d)). The quantile is that of the
    profile likelihood (D. J. Venzon and S. H. Moolgavkar, Applied Statistics 37, 1988): it holds
    if J is -2 log L, the residuals are independent and some setting is right. None is where J_min
    exceeds N - d, and then all variances are taken to be too small by that factor: R. T. Birge's
    ratio (Phys. Rev. 40, 1932), the dispersion of a quasi-likelihood (P. McCullagh, Ann. Stat. 11,
    1983). It makes intervals wider, not right: it supposes that what does not fit is spread over
    all residuals at random. Residuals of one case or one metric miss together, so they are worth
    fewer than N, and the interval of a smaller `effective` is the more honest one. If groups of
    N / N_eff residuals are equal, J counts each N / N_eff times: the first term of the maximum.
    """
    count = target.fitted
    worth = float(count if effective is None else effective)
    if not 0 < worth <= count:
        raise RequestError(
            f"{worth:g} independent residuals of {count}", hint="more than 0, at most all of them"
        )
    # With no more residuals than parameters nothing is left to judge the fit by: one is left.
    scale = max(count / worth, least / max(1.0, worth - parameters))
    limit = least + float(chi2.ppf(confidence, 1)) * scale
    return Threshold(least, count, worth, parameters, scale, limit)
