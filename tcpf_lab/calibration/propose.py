"""The next points to run: where the least misfit may be, as far as the emulator knows."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from tcpf_lab.calibration.design import sobol_points
from tcpf_lab.calibration.emulator import Emulator
from tcpf_lab.calibration.objective import Target, misfit
from tcpf_lab.calibration.space import Floats, Space
from tcpf_lab.calibration.surface import Surface, neighbours

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
