"""Which unknown moves which metric, alone and together with others."""

from __future__ import annotations

import numpy as np
from scipy.stats import sobol_indices, uniform

from tcpf_lab.calibration.design import sobol_points
from tcpf_lab.calibration.emulator import Emulator
from tcpf_lab.calibration.space import Floats, Space


def influence(emulator: Emulator, space: Space, seed: int, count: int = 512) -> Floats:
    """Give total-order Sobol' indices of the emulator's mean.

    Parameters
    ----------
    emulator : Emulator
        Of the cells.
    space : Space
        The d unknowns, independent of each other and even over their ranges as they are scaled;
        each level is as likely as any other.
    seed : int
        Of the points.
    count : int
        Number of base points, a power of 2; the mean is taken at (d + 2) times as many.

    Returns
    -------
    ndarray, shape (metrics, d)
        The share of a metric's variance that would be left if all unknowns but one were known: 0
        has no influence, and the sum over unknowns exceeds 1 where they act together. Cells count
        as their variances: Σ over cells of variance · index / Σ variance. NaN where nothing varies.

    Notes
    -----
    I. M. Sobol', Global sensitivity indices for nonlinear mathematical models (Mathematics and
    Computers in Simulation 55, 2001); the estimator is that of A. Saltelli and others, Variance
    based sensitivity analysis of model output (Computer Physics Communications 181, 2010). They
    belong to the ranges: a wider range gives an unknown more influence.
    """
    cells, metrics = emulator.shape

    def outputs(points: Floats) -> Floats:
        means = emulator.predict(space.snap(points.T))[0]
        return np.nan_to_num(means.reshape(len(means), cells * metrics).T)

    variances = outputs(sobol_points(space.size, count, seed).T).var(axis=1)
    varying = variances > 1e-12
    if not varying.any():
        return np.full((metrics, space.size), np.nan)
    found = sobol_indices(
        func=lambda points: outputs(points)[varying],
        n=count,
        dists=[uniform()] * space.size,  # type: ignore[list-item]
        rng=np.random.default_rng(seed),
    )
    parts = np.zeros((cells * metrics, space.size))
    parts[varying] = found.total_order.reshape(-1, space.size) * variances[varying][:, None]
    sums = parts.reshape(cells, metrics, space.size).sum(axis=0)
    with np.errstate(invalid="ignore"):
        shares: Floats = sums / (variances * varying).reshape(cells, metrics).sum(axis=0)[:, None]
    return shares
