"""A cheap stand-in for the runs: what each cell would measure at a point, and its misfit there.

Gaussian processes, after J. Sacks, W. J. Welch, T. J. Mitchell and H. P. Wynn, Design and analysis
of computer experiments (Statistical Science 4, 1989), and Kennedy and O'Hagan (2001).
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from tcpf_lab.base.errors import LabError, RequestError
from tcpf_lab.calibration.space import Floats, Space, sobol_points
from tcpf_lab.calibration.target import Target, misfit

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

        In closed form, the mean re-estimated and the hyperparameters kept: O. Dubrule, Cross
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


#: scikit-learn and what it brings, which keeps linear algebra to one thread.
NEEDED = ("sklearn", "threadpoolctl")


def check_installed() -> None:
    """Refuse to go on without the libraries.

    Raises
    ------
    RequestError
        If one is missing.
    """
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise RequestError(
            f"a calibration needs the Python package '{missing[0]}'",
            hint="pip install 'tcpf-lab[calibrate]'",
        )


def one_thread() -> AbstractContextManager[Any]:
    """Keep linear algebra to one thread: runs have the other processors, and sums stay the same.

    Several threads add in another order, and the last digits would depend on the machine.
    """
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[Any] = threadpool_limits(1)
    return limits


Cells = NDArray[np.int64]
#: From means and variances (m, k) of some cells of a metric to a share of a sum (m,) and its
#: derivatives by them (m, k).
Share = Callable[[Floats, Floats, Cells, int], tuple[Floats, Floats, Floats]]
_FEWEST = 4  # points that a process is made of
_AT_ONCE = 2048  # points predicted at once: what bounds the memory


@dataclass(frozen=True)
class Group:
    """Cells of one metric with a common process over ``columns``.

    The same unknowns reach them, and they were measured at the same points.
    """

    metric: int
    cells: Cells
    columns: NDArray[np.int64]
    process: Process


@dataclass(frozen=True)
class Quality:
    """How well the emulator predicts points that it has not seen, of one metric.

    ``r_squared`` is 1 - Σ error² / Σ deviation² over points and cells, ``standardised_error`` the
    root mean square of errors over their own standard deviations: 1 if it knows what it does not
    know, more if it is too sure.
    """

    r_squared: float
    standardised_error: float


@dataclass(frozen=True)
class Emulator:
    """All groups together; ``shape`` is (cells, metrics)."""

    space: Space
    shape: tuple[int, int]
    groups: tuple[Group, ...]

    @classmethod
    def fit(
        cls,
        space: Space,
        units: ArrayLike,
        log_measured: ArrayLike,
        noise: Floats,
        reached: NDArray[np.bool_],
    ) -> Emulator:
        """Fit all cells and metrics.

        Parameters
        ----------
        space : Space
            The d unknowns.
        units : array, shape (n, d)
            Points that were run.
        log_measured : array, shape (n, cells, metrics)
            Logarithms of the means; NaN where there is no usable run.
        noise : ndarray, shape (cells, metrics)
            Variance of such a mean between seeds: `Target.noise`.
        reached : ndarray of bool, shape (cells, d)
            Which unknowns change a cell.

        Raises
        ------
        LabError
            If no cell has enough points, or a library is missing.
        """
        check_installed()
        points = space.encode(units)
        measured = np.asarray(log_measured, dtype=float)
        with one_thread():
            groups = tuple(_groups(space, points, measured, noise, reached))
        if not groups:
            raise LabError(
                f"no cell has {_FEWEST} points with usable runs",
                hint="run more points, or fix the invalid runs",
            )
        return cls(space, (measured.shape[1], measured.shape[2]), groups)

    @property
    def modelled(self) -> NDArray[np.bool_]:
        """Which cells and metrics have a process, (cells, metrics); of the rest nothing is said."""
        known = np.zeros(self.shape, dtype=bool)
        for group in self.groups:
            known[group.cells, group.metric] = True
        return known

    def predict(self, units: ArrayLike) -> tuple[Floats, Floats]:
        """Give means and variances (m, cells, metrics) at points (m, d).

        They are those of the mean over all seeds: the runs' own noise is no part of the variance.
        NaN where no process could be made.
        """
        points = self.space.encode(units)
        means = np.full((len(points), *self.shape), np.nan)
        variances = means.copy()
        with one_thread():
            for part in _parts(len(points)):
                for group in self.groups:
                    mean, variance = group.process.predict(points[part][:, group.columns])
                    means[part, group.cells, group.metric] = mean
                    variances[part, group.cells, group.metric] = variance
        return means, variances

    def gradient(self, units: ArrayLike, share: Share) -> tuple[Floats, Floats]:
        """Give a sum over all outputs at points (m, d), and its gradient (m, d).

        The gradient is 0 for unknowns with levels.
        """
        points = self.space.encode(units)
        totals, slopes = np.zeros(len(points)), np.zeros_like(points)
        with one_thread():
            for part in _parts(len(points)):
                for group in self.groups:
                    inputs = points[part][:, group.columns]
                    places = group.process.places(inputs)
                    mean, variance = group.process.at(places)
                    value, *derivatives = share(mean, variance, group.cells, group.metric)
                    totals[part] += value
                    slopes[part, group.columns] += group.process.slope(places, *derivatives)
        gradients = np.zeros((len(points), self.space.size))
        for column, owner in enumerate(self.space.owners):
            if not self.space.dimensions[owner].levels:
                gradients[:, owner] = slopes[:, column]
        return totals, gradients

    def draws(self, units: ArrayLike, count: int, seed: int) -> Iterator[Floats]:
        """Yield functions (m, cells, metrics) that the points allow, at points (m, d).

        Outputs of one group vary together as their estimated covariance says, groups on their own.
        """
        points = self.space.encode(units)
        means, _ = self.predict(units)
        drawn = np.repeat(means[None], count, axis=0)
        seeds = np.random.SeedSequence(seed).spawn(len(self.groups))
        with one_thread():
            # one group after the other: a root is as large as the points are many, squared
            for group, own in zip(self.groups, seeds, strict=True):
                process, between = group.process, group.process.between
                over = _root(process.covariance(points[:, group.columns]), 1.0)
                outputs = _root(between, float(np.diag(between).max()))
                normal = np.random.default_rng(own).standard_normal(
                    (count, len(points), len(group.cells))
                )
                drawn[:, :, group.cells, group.metric] += over @ normal @ outputs.T
        yield from drawn

    def cross_validate(self) -> tuple[Quality | None, ...]:
        """Give the quality for each metric, every point left out in turn; None without a process.

        The hyperparameters are those of all points, so it flatters a little.
        """
        return tuple(
            _quality([group.process for group in self.groups if group.metric == metric])
            for metric in range(self.shape[1])
        )


def _groups(
    space: Space,
    points: Floats,
    measured: Floats,
    noise: Floats,
    reached: NDArray[np.bool_],
) -> Iterator[Group]:
    """Yield the outputs of one metric that are reached alike and measured at the same points.

    Those that are reached alike share hyperparameters, whatever runs a cell of them lacks.
    """
    there = np.isfinite(measured)
    alike: dict[tuple[int, bytes], list[int]] = {}
    for cell, metric in np.ndindex(measured.shape[1:]):
        if there[:, cell, metric].sum() >= _FEWEST:
            alike.setdefault((metric, reached[cell].tobytes()), []).append(cell)
    for (metric, _), members in alike.items():
        columns = np.flatnonzero(reached[members[0]][space.owners])
        inputs, outputs = points[:, columns], measured[:, members, metric]
        settings = _settings(inputs, outputs, noise[members, metric])
        for rows, places in _measured_together(outputs):
            process = conditioned(inputs[rows], outputs[rows][:, places], settings)
            yield Group(metric, np.array(members)[places], columns, process)


def _settings(inputs: Floats, outputs: Floats, noise: Floats) -> Settings:
    """Learn from the points that have all outputs (n, k), or all but those that lack the most."""
    there = np.isfinite(outputs)
    kept = np.argsort(-there.sum(axis=0), kind="stable")
    while there[:, kept].all(axis=1).sum() < max(_FEWEST, there[:, kept[0]].sum() / 2):
        kept = kept[:-1]
    rows = there[:, kept].all(axis=1)
    whole = outputs[rows][:, kept]
    spread = whole.var(axis=0)
    if not inputs.shape[1] or spread.max() <= 1e-12:
        return Settings(np.ones(inputs.shape[1]), 1.0)
    quiet = float(np.mean(noise[kept] / np.maximum(spread, 1e-12)))
    return learn(inputs[rows], whole, quiet)


def _measured_together(outputs: Floats) -> Iterator[tuple[NDArray[np.bool_], list[int]]]:
    """Yield rows, and the columns of outputs (n, k) that have numbers in just these."""
    there = np.isfinite(outputs)
    found: dict[bytes, list[int]] = {}
    for column in range(outputs.shape[1]):
        found.setdefault(there[:, column].tobytes(), []).append(column)
    for rows, columns in found.items():
        yield np.frombuffer(rows, dtype=bool), columns


def _parts(count: int) -> Iterator[slice]:
    return (slice(start, start + _AT_ONCE) for start in range(0, count, _AT_ONCE))


def _root(covariance: Floats, size: float) -> Floats:
    """Give a square root of a covariance, with as little noise as rounding needs.

    ``size`` is that of the numbers it was computed from: 1 where correlations were subtracted.
    """
    for exponent in range(-9, 0):
        noise = 10.0**exponent * max(size, 1e-12) * np.eye(len(covariance))
        try:
            return np.asarray(np.linalg.cholesky(covariance + noise), dtype=np.float64)
        except np.linalg.LinAlgError:
            continue
    raise LabError("the emulator's covariance is not positive: check the runs for outliers")


def _quality(processes: list[Process]) -> Quality | None:
    """Put the errors of several processes together; None if nothing varies."""
    errors, standard, deviations = 0.0, [], 0.0
    for process in processes:
        missed, variance = process.left_out()
        errors += float((missed**2).sum())
        deviations += float(((process.outputs - process.outputs.mean(axis=0)) ** 2).sum())
        standard.append((missed**2 / np.maximum(variance, 1e-300)).ravel())
    if not deviations:
        return None
    return Quality(1 - errors / deviations, float(np.sqrt(np.mean(np.concatenate(standard)))))


@dataclass(frozen=True)
class Surface:
    """Two misfits at a point, both of the emulator.

    The **expected** one is the mean of J over what the emulator allows, Σ ((m - p)² + s²) / V, with
    its mean m and variance s², the published p and the variance V of `Target.spread`.

    The **possible** one counts the emulator's ignorance as noise, Σ (m - p)² / (V + s²): the
    implausibility of history matching (P. S. Craig, M. Goldstein, A. H. Seheult and J. A. Smith,
    1997; I. Vernon, M. Goldstein and R. G. Bower, Bayesian Analysis 5, 2010). A setting is excluded
    only if this is too large, so that nothing is excluded for want of runs. Both are J where the
    emulator is sure.

    Where nothing fits, V is taken to be too small by a factor, the `inflation`; the emulator's
    variance is not. The possible misfit is then Σ (m - p)² / (V + s² / inflation): what the
    residuals' variance, inflation·V + s², gives, in the units of J.
    """

    emulator: Emulator
    target: Target
    inflation: float = 1.0

    def expected(self, units: ArrayLike) -> Floats:
        """Give the expected misfit (m,) at points (m, d)."""
        return self._total(units, self._expected)

    def possible(self, units: ArrayLike) -> Floats:
        """Give the possible misfit (m,) at points (m, d)."""
        return self._total(units, self._possible)

    def deviation(self, units: ArrayLike) -> Floats:
        """Give the standard deviation (m,) of the misfit at points (m, d), about the expected one.

        That of a quadratic form of normal numbers, with the covariance between outputs of a group.
        """
        means, variances = self.emulator.predict(units)
        total = np.zeros(len(means))
        for group in self.emulator.groups:
            weight, published = self._of(group.cells, group.metric)
            known = weight > 0
            size = np.diag(group.process.between)
            first = int(np.argmax(size))
            share = variances[:, group.cells[first], group.metric] / max(size[first], 1e-300)
            covariance = weight[:, None] * group.process.between * weight
            off = np.where(known, means[:, group.cells, group.metric] - published, 0.0)
            twice = float((covariance * group.process.between).sum())
            total += 2 * share**2 * twice
            total += 4 * share * np.einsum("mi,ij,mj->m", off, covariance, off)
        deviation: Floats = np.sqrt(total)
        return deviation

    def _total(self, units: ArrayLike, share: Share) -> Floats:
        means, variances = self.emulator.predict(units)
        total = np.zeros(len(means))
        for group in self.emulator.groups:
            mean = means[:, group.cells, group.metric]
            variance = variances[:, group.cells, group.metric]
            total += share(mean, variance, group.cells, group.metric)[0]
        return total

    def _of(self, cells: Cells, metric: int) -> tuple[Floats, Floats]:
        """Give 1 / V and the published numbers; 0 and 0 where there is none to fit."""
        published = self.target.log_published[cells, metric]
        known = np.isfinite(published)
        weight = np.where(known, 1 / np.where(known, self.target.spread[cells, metric], 1.0), 0.0)
        return weight, np.where(known, published, 0.0)

    def _expected(
        self, mean: Floats, variance: Floats, cells: Cells, metric: int
    ) -> tuple[Floats, Floats, Floats]:
        weight, published = self._of(cells, metric)
        off = mean - published
        total = (weight * (off**2 + variance)).sum(axis=1)
        return total, 2 * weight * off, np.broadcast_to(weight, off.shape)

    def _possible(
        self, mean: Floats, variance: Floats, cells: Cells, metric: int
    ) -> tuple[Floats, Floats, Floats]:
        weight, published = self._of(cells, metric)
        off = mean - published
        shrunk = weight / (1 + weight * variance / self.inflation)
        total = (shrunk * off**2).sum(axis=1)
        return total, 2 * shrunk * off, -((shrunk * off) ** 2) / self.inflation

    def descend(
        self, units: Floats, held: NDArray[np.bool_], possible: bool = False, steps: int = 25
    ) -> Floats:
        """Move points (m, d) to lower misfits, unknowns that are `held` (m, d) and levels kept.

        All at once by L-BFGS-B: the sum of the misfits' logarithms has its minimum value where each
        has. A point that ends higher than it began stays where it was.
        """
        share = self._possible if possible else self._expected
        fixed = held | np.array([bool(one.levels) for one in self.emulator.space.dimensions])

        def objective(flat: Floats) -> tuple[float, Floats]:
            total, slope = self.emulator.gradient(flat.reshape(units.shape), share)
            above = total + 1.0
            return float(np.log(above).sum()), np.where(fixed, 0.0, slope / above[:, None]).ravel()

        low, high = np.where(fixed, units, 0.0), np.where(fixed, units, 1.0)
        found = minimize(
            objective,
            units.ravel(),
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(low.ravel().tolist(), high.ravel().tolist(), strict=True)),
            options={"maxiter": steps, "maxcor": 30},
        )
        moved = found.x.reshape(units.shape)
        worse = self._total(moved, share) > self._total(units, share)
        return np.where(worse[:, None], units, moved)


def neighbours(
    space: Space, centres: Floats, count: int, size: float, random: np.random.Generator
) -> Floats:
    """Give points (count, d) near some: each unknown moved with one chance in two.

    Numbers move by a normal deviate of standard deviation `size`, levels to any one.
    """
    chosen = centres[random.integers(len(centres), size=count)]
    moves = size * random.standard_normal(chosen.shape)
    levels = np.array([bool(one.levels) for one in space.dimensions])
    moved = np.where(levels, random.random(chosen.shape), chosen + moves)
    changed = random.random(chosen.shape) < np.where(levels, 0.25, 0.5)
    return space.snap(np.where(changed, moved, chosen))


_EVERYWHERE = 512  # candidates of the whole cube
_NEARBY = 384  # and near the best points, at each of the sizes of step
_STEPS = (0.25, 0.08)
_APART = 0.03  # least distance of new points, per unknown, of a range of 1
_SAME = 1e-9  # points at such a distance are one


def batch(
    emulator: Emulator,
    target: Target,
    space: Space,
    tried: ArrayLike,
    count: int,
    seed: int,
) -> Floats:
    """Propose points to run at once.

    Parameters
    ----------
    emulator : Emulator
        Of the points tried.
    target : Target
        The published numbers.
    space : Space
        The d unknowns.
    tried : array, shape (n, d)
        Points that were run or failed: none is proposed again.
    count : int
        How many are wanted.
    seed : int
        Of candidates and draws; another for every round.

    Returns
    -------
    ndarray, shape (count or fewer, d)
        The point of the minimum expected misfit first; the others are each the best candidate of a
        function drawn from what the emulator allows. No two are closer than 0.03·√d, unless too few
        are left. Where all unknowns have levels there may be fewer: all that were not tried.

    Notes
    -----
    Thompson sampling (W. R. Thompson, Biometrika 25, 1933) in batches, after K. Kandasamy,
    A. Krishnamurthy, J. Schneider and B. Póczos (AISTATS 2018). The misfit is no Gaussian process,
    so the outputs are drawn and the misfit is computed from them, as in A. K. Uhrenholt and B. S.
    Jensen, Efficient Bayesian optimization for target vector estimation (AISTATS 2019).
    """
    past = space.snap(np.asarray(tried, dtype=float))
    target = target.only(emulator.modelled)
    surface = Surface(emulator, target)
    random = np.random.default_rng(seed)
    candidates = _candidates(surface, space, past, random)
    ranks = [np.argsort(surface.expected(candidates), kind="stable")]
    draws = emulator.draws(candidates, count - 1, int(random.integers(2**31)))
    ranks.extend(np.argsort(misfit(drawn, target).total, kind="stable") for drawn in draws)
    return _apart(candidates, ranks, past, space)


def _candidates(
    surface: Surface, space: Space, past: Floats, random: np.random.Generator
) -> Floats:
    """Give points of the whole cube, near the best of those tried, and where they lead downhill."""
    anywhere = sobol_points(space.size, _EVERYWHERE, int(random.integers(2**31)))
    pool = np.vstack([past, space.snap(anywhere)])
    best = pool[np.argsort(surface.expected(pool), kind="stable")[:16]]
    downhill = surface.descend(best, np.zeros_like(best, dtype=bool))
    centres = np.vstack([best, downhill])
    nearby = [neighbours(space, centres, _NEARBY, step, random) for step in _STEPS]
    return np.unique(np.vstack([pool[len(past) :], downhill, *nearby]), axis=0)


def _apart(
    candidates: Floats, ranks: list[NDArray[np.int64]], past: Floats, space: Space
) -> Floats:
    """Take each ranking's first candidate that is far enough from those taken and tried.

    Where that leaves none, the distance is halved; no point comes twice, so there may be fewer.
    """
    chosen: list[Floats] = []
    for ranking in ranks:
        distance = _APART * space.size**0.5
        others = np.vstack([past, *chosen]) if len(past) + len(chosen) else candidates[:0]
        nearest = cdist(candidates, others).min(axis=1) if len(others) else np.inf
        free = np.broadcast_to(nearest, len(candidates))
        while distance > _SAME and not (free > distance).any():
            distance /= 2
        if distance <= _SAME:
            break
        first = ranking[np.argmax(free[ranking] > distance)]
        chosen.append(candidates[first][None])
    return np.vstack(chosen) if chosen else candidates[:0]
