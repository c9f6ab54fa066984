"""The misfit over the unknowns, as far as the emulator knows it, and its least values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

from tcpf_lab.calibration.emulator import Cells, Emulator, Share
from tcpf_lab.calibration.objective import Target
from tcpf_lab.calibration.space import Floats, Space


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
