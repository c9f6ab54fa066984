"""The misfit over the unknowns, as far as the emulator knows it, and its least values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from tcpf_lab.calibration.emulator import Cells, Emulator, Share
from tcpf_lab.calibration.objective import Target, misfit
from tcpf_lab.calibration.space import Floats, Space, sobol_points


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

        All at once by L-BFGS-B: the sum of the misfits' logarithms has its least value where each
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
        The point of the least expected misfit first; the others are each the best candidate of a
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
