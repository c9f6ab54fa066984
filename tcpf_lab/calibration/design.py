"""The first points: spread evenly over the unknowns before anything is known of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from tcpf_lab.calibration.space import Floats, Space
from tcpf_lab.errors import RequestError


def first_points(space: Space, count: int, seed: int) -> Floats:
    """Give a space-filling design: the default first, then scrambled Sobol' points.

    Parameters
    ----------
    space : Space
        The d unknowns.
    count : int
        Number of points, the default among them.
    seed : int
        Of the scrambling.

    Returns
    -------
    ndarray, shape (count, d)
        Points of the unit cube; every level is in as many of them as any other, or in one more.

    Raises
    ------
    RequestError
        If `count` is not positive.

    Notes
    -----
    I. M. Sobol', On the distribution of points in a cube, 1967, scrambled after Owen. Balanced
    levels: the numbers of one column are ranked, and equal shares of the ranks get a level each, as
    a Latin hypercube would.
    """
    if count < 1:
        raise RequestError(f"a design of {count} points", hint="`points` is at least 1")
    drawn = sobol_points(space.size, count - 1, seed)
    for place, one in enumerate(space.dimensions):
        if one.levels:
            drawn[:, place] = _balanced(drawn[:, place])
    return np.vstack([space.default, space.snap(drawn)])


def sobol_points(size: int, count: int, seed: int | np.random.SeedSequence) -> Floats:
    """Give the first `count` points (count, size) of a scrambled Sobol' sequence."""
    engine = qmc.Sobol(size, scramble=True, rng=np.random.default_rng(seed))
    power = int(np.ceil(np.log2(max(count, 1))))
    drawn: Floats = engine.random_base2(power)[:count]
    return drawn


def _balanced(places: Floats) -> Floats:
    """Spread places evenly over the unit interval, their order unchanged."""
    ranks: NDArray[np.int64] = np.argsort(np.argsort(places))
    return (ranks + 0.5) / len(places)
