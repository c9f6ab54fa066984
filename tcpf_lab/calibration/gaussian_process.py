"""One Gaussian process for several outputs that share their correlation function.

The outputs' covariance is that of the inputs times a matrix between outputs, both estimated: the
multi-output emulator of S. Conti and A. O'Hagan (J. Stat. Planning and Inference 140, 2010). The
hyperparameters are found by scikit-learn's `GaussianProcessRegressor`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from tcpf_lab.calibration.space import Floats

_SHORTEST, _LONGEST = 0.1, 30.0  # length scales, of a range of 1
_LEAST_NOISE, _MOST_NOISE = 1e-4, 1.0  # nugget, of an output's variance
_ITERATIONS = 20  # of the search for hyperparameters
_SEARCHED = 120  # points that the hyperparameters are sought with; all are conditioned on
_ROOT5 = 5**0.5


class Settings(NamedTuple):
    """Hyperparameters: length scales (e,), and the nugget as a share of the process's variance."""

    lengths: Floats
    nugget: float


class Places(NamedTuple):
    """Inputs (m, e) as a process sees them: scaled, with their distances (m, n) to its points.

    ``near`` (m, n) are the correlations, ``left`` (m,) is the share of the variance that remains,
    ``slopes`` (m, n) are its derivatives by the correlations.
    """

    scaled: Floats
    distance: Floats
    near: Floats
    left: Floats
    slopes: Floats


@dataclass(frozen=True)
class Process:
    """A process conditioned on n points; make one with `conditioned`.

    ``inputs`` (n, e) are divided by the length scales, ``outputs`` (n, k) are called Y here,
    ``inverse`` (n, n) is that of the correlation matrix R with its nugget, ``ones`` (n,) is R⁻¹1,
    ``levels`` (k,) the outputs' means, ``weights`` (n, k) is R⁻¹(Y - 1·levels), ``between`` (k, k)
    the covariance between outputs.
    """

    settings: Settings
    inputs: Floats
    outputs: Floats
    inverse: Floats
    ones: Floats
    levels: Floats
    weights: Floats
    between: Floats

    def predict(self, inputs: Floats) -> tuple[Floats, Floats]:
        """Give means (m, k) and variances (m, k), without the nugget, at inputs (m, e)."""
        return self.at(self.places(inputs))

    def places(self, inputs: Floats) -> Places:
        """Work out once what means, variances and gradients at inputs (m, e) share."""
        scaled = inputs / self.settings.lengths
        distance = cdist(scaled, self.inputs)
        near = _matern(distance)
        solved = near @ self.inverse
        missed = (1 - near @ self.ones) / self.ones.sum()
        left = 1 - (solved * near).sum(axis=1) + missed**2 * self.ones.sum()
        slopes = -2 * (solved + np.outer(missed, self.ones))
        return Places(scaled, distance, near, np.maximum(left, 1e-12), slopes)

    def at(self, places: Places) -> tuple[Floats, Floats]:
        """Give means (m, k) and variances (m, k), without the nugget."""
        means: Floats = self.levels + places.near @ self.weights
        return means, places.left[:, None] * np.diag(self.between)

    def covariance(self, inputs: Floats) -> Floats:
        """Give the process's remaining correlation between inputs (m, m)."""
        scaled = inputs / self.settings.lengths
        near = _matern(cdist(scaled, self.inputs))
        missed = 1 - near @ self.ones
        prior = _matern(cdist(scaled, scaled))
        remaining: Floats = (
            prior - near @ self.inverse @ near.T + np.outer(missed, missed) / self.ones.sum()
        )
        return remaining

    def slope(self, places: Places, by_mean: Floats, by_variance: Floats) -> Floats:
        """Give the gradient (m, e) of a sum over outputs, from its derivatives (m, k) by each."""
        shares = by_variance @ np.diag(self.between)
        pull = by_mean @ self.weights.T + shares[:, None] * places.slopes
        reach = _ROOT5 * places.distance
        pull *= -5 / 3 * (1 + reach) * np.exp(-reach)
        slope: Floats = pull.sum(axis=1)[:, None] * places.scaled - pull @ self.inputs
        return slope / self.settings.lengths

    def left_out(self) -> tuple[Floats, Floats]:
        """Give errors (n, k) and their variances, each point predicted from the others.

        In closed form, the mean estimated anew and the hyperparameters kept: O. Dubrule, Cross
        validation of kriging in a unique neighborhood, Mathematical Geology 15, 1983.
        """
        reduced = np.diag(self.inverse) - self.ones**2 / self.ones.sum()
        errors = self.weights / reduced[:, None]
        return errors, np.diag(self.between) / reduced[:, None]


def conditioned(inputs: Floats, outputs: Floats, settings: Settings) -> Process:
    """Condition a process on outputs (n, k) at inputs (n, e).

    The outputs' means and the covariance between outputs have their closed form, the generalised
    least squares' (Conti and O'Hagan, section 2).
    """
    scaled = inputs / settings.lengths
    correlation = _matern(cdist(scaled, scaled)) + settings.nugget * np.eye(len(scaled))
    inverse = cho_solve(cho_factor(correlation), np.eye(len(scaled)))
    inverse = (inverse + inverse.T) / 2
    ones = inverse.sum(axis=0)
    levels = ones @ outputs / ones.sum()
    weights = inverse @ (outputs - levels)
    between = (outputs - levels).T @ weights / max(1, len(scaled) - 1)
    return Process(settings, scaled, outputs, inverse, ones, levels, weights, between)


def learn(inputs: Floats, outputs: Floats, noise: float) -> Settings:
    """Find hyperparameters by maximum likelihood of all outputs together.

    Parameters
    ----------
    inputs, outputs : ndarray, shapes (n, e) and (n, k)
        The points; every output counts alike, whatever its variance.
    noise : float
        What is known of the noise, as a share of the outputs' variance: the nugget is at least half
        of it, as a variance of few seeds is not exact, and may be more.

    Returns
    -------
    Settings
        After few steps of L-BFGS-B.
    """
    from sklearn.gaussian_process import GaussianProcessRegressor  # here: it takes a second
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    chosen = np.unique(np.linspace(0, len(inputs) - 1, min(len(inputs), _SEARCHED)).astype(int))
    spread = outputs[chosen].std(axis=0)
    standard = (outputs[chosen] - outputs[chosen].mean(axis=0)) / np.where(spread > 0, spread, 1)
    least = float(np.clip(noise / 2, _LEAST_NOISE, _MOST_NOISE / 2))
    kernel = ConstantKernel(1.0, (0.05, 50.0)) * Matern(
        np.ones(inputs.shape[1]), (_SHORTEST, _LONGEST), nu=2.5
    ) + WhiteKernel(float(np.clip(max(noise, 0.03), least, _MOST_NOISE)), (least, _MOST_NOISE))
    regressor = GaussianProcessRegressor(kernel, alpha=1e-8, optimizer=_few_steps)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a length scale at its longest: no influence, as it may be
        found = regressor.fit(inputs[chosen], standard).kernel_
    lengths = np.broadcast_to(found.k1.k2.length_scale, (inputs.shape[1],))
    nugget = max(found.k2.noise_level / found.k1.k1.constant_value, _LEAST_NOISE)
    return Settings(np.array(lengths), float(nugget))


def _few_steps(objective: Any, begin: Floats, bounds: NDArray[Any]) -> tuple[Floats, float]:
    found = minimize(
        objective,
        begin,
        method="L-BFGS-B",
        jac=True,
        bounds=bounds.tolist(),
        options={"maxiter": _ITERATIONS},
    )
    return found.x, found.fun


def _matern(distance: Floats) -> Floats:
    """Matérn's correlation with ν = 5/2: twice differentiable, as rough as simulations are."""
    reach = _ROOT5 * distance
    near: Floats = (1 + reach + reach**2 / 3) * np.exp(-reach)
    return near
