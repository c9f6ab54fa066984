"""Profiles of the unknowns: the minimum misfit along each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import sobol_indices, uniform

from tcpf_lab.calibration.emulator import Emulator, Surface, neighbours
from tcpf_lab.calibration.record import PINNED
from tcpf_lab.calibration.space import Dimension, Floats, Space, sobol_points
from tcpf_lab.calibration.target import Target, Threshold, threshold


@dataclass(frozen=True)
class Pair:
    """Two unknowns, a value of each, and the possible misfit with one change and with both.

    All other unknowns stay at the best point. ``alone`` are the misfits with the first value and
    with the second, each of them excluded; with ``both``, the misfit is not.
    """

    names: tuple[str, str]
    values: tuple[float | str, float | str]
    alone: tuple[float, float]
    both: float


def pairs(
    surface: Surface, space: Space, best: Floats, grids: list[Floats], limit: float
) -> tuple[Pair, ...]:
    """Give the pairs of unknowns that explain the same numbers, those that save most first.

    Parameters
    ----------
    surface : Surface
        The misfit.
    space : Space
        The d unknowns.
    best : array, shape (d,)
        The point from which unknowns are changed.
    grids : list of array
        Of each unknown, the places that are tried.
    limit : float
        Possible misfit above which a point is excluded.

    Returns
    -------
    tuple of Pair
        Of two unknowns, the values where the second change saves most of what either costs alone.

    Notes
    -----
    A profile does not show these: it gives each unknown's values with all others free. That no
    pair is found does not mean that unknowns are independent: three may make up for each other.
    """
    found = (
        pair
        for a, b in combinations(range(space.size), 2)
        for pair in _saving(surface, space, best, (a, b), (grids[a], grids[b]), limit)
    )
    return tuple(sorted(found, key=lambda pair: pair.both - min(pair.alone)))


def _saving(
    surface: Surface,
    space: Space,
    best: Floats,
    places: tuple[int, int],
    grids: tuple[Floats, Floats],
    limit: float,
) -> Iterator[Pair]:
    """Yield the pair of values that saves most, if there is one that is excluded only apart."""
    first = np.append(best[places[0]], grids[0])
    second = np.append(best[places[1]], grids[1])
    points = np.tile(best, (len(first), len(second), 1))
    points[..., places[0]], points[..., places[1]] = first[:, None], second
    both = surface.possible(points.reshape(-1, len(best))).reshape(points.shape[:2])
    alone = np.minimum(both[:, :1], both[:1])  # the first row and column keep the best value
    saved = np.where((alone > limit) & (both <= limit), alone - both, 0.0)
    a, b = np.unravel_index(np.argmax(saved), saved.shape)
    if saved[a, b] > 0:
        one, other = (space.dimensions[place] for place in places)
        yield Pair(
            (one.name, other.name),
            (one.value(float(first[a])), other.value(float(second[b]))),
            (float(both[a, 0]), float(both[0, b])),
            float(both[a, b]),
        )


FROM_ABOVE = "bounded from above"
FROM_BELOW = "bounded from below"
SPLIT = "several ranges"
SOME_LEVELS = "some levels excluded"
FREE = "not identified"

_GRID = 12  # steps over a range
_POOL = 2048  # points the searches start from


@dataclass(frozen=True)
class Profile:
    """One unknown's profile: at each of ``values``, the minimum misfit with all others free.

    ``units`` are the values' places in the unit interval; ``expected`` the minimum expected misfit
    and ``above`` what it is one standard deviation of the emulator higher; ``possible`` the least
    misfit that the emulator does not exclude. ``pieces`` are the ranges of values, or the levels,
    whose possible misfit is within the threshold, ``share`` the part of the range that they are,
    ``best`` the value of the minimum misfit.
    """

    name: str
    values: tuple[float | str, ...]
    units: tuple[float, ...]
    expected: tuple[float, ...]
    above: tuple[float, ...]
    possible: tuple[float, ...]
    pieces: tuple[tuple[float | str, ...], ...]
    share: float
    verdict: str
    best: float | str


@dataclass(frozen=True)
class Profiles:
    """All unknowns' profiles, and the threshold they were cut at.

    ``best`` (d,) is the point of the minimum expected misfit; ``within`` (n, d) are those of the
    minimum possible misfit at the profiles' values, those that the threshold does not exclude.
    ``pairs`` are the unknowns that make up for each other: see `pairs.pairs`.
    """

    profiles: tuple[Profile, ...]
    pairs: tuple[Pair, ...]
    threshold: Threshold
    best: Floats
    within: Floats


def profiles(
    emulator: Emulator,
    target: Target,
    space: Space,
    tried: ArrayLike,
    seed: int,
    effective: float | None = None,
) -> Profiles:
    """Give each unknown's profile.

    Parameters
    ----------
    emulator : Emulator
        Of the cells that are fitted.
    target : Target
        The numbers published of them.
    space : Space
        The d unknowns.
    tried : array, shape (n, d)
        Points that were run: the searches begin there, too.
    seed : int
        Of the other points that they begin with.
    effective : float, optional
        How many independent residuals there are: see `threshold`; all, if it is more than that.

    Notes
    -----
    Numbers that the emulator has no process for have no say, neither in the misfit nor in N.
    A value is excluded if its minimum *possible* misfit is above the threshold, which starts from
    the minimum *expected* one: see `Surface`. What the emulator does not know makes intervals wider
    at both ends. Searches may miss a minimum, which would make them narrower: each begins with
    the best of many points, again with what was found at its neighbours, and all of them once more
    with what was found for the other unknowns, so that every profile reaches the minimum misfit.
    """
    target = target.only(emulator.modelled)
    surface = Surface(emulator, target)
    pool = _pool(surface, space, np.asarray(tried, dtype=float), np.random.default_rng(seed))
    free = np.zeros_like(pool[:8], dtype=bool)
    start = surface.descend(pool[:8], free)
    best = start[np.argmin(surface.expected(start))]
    for _ in range(2):  # what was found for one unknown is where the searches of others begin
        pool = np.vstack([best, pool])
        owners, held = _grids(space, best)
        pool = np.vstack([_least(surface, pool, owners, held, possible=False), pool])
        best = pool[np.argmin(surface.expected(pool))]
    sure = pool[: len(held)]
    expected = surface.expected(sure)
    worth = None if effective is None else min(effective, target.fitted)
    limit = threshold(float(expected.min()), target, space.parameters, worth)
    surface = Surface(emulator, target, limit.inflation)
    hoped = _least(surface, pool, owners, held, possible=True)
    hoped = np.where((surface.possible(sure) < surface.possible(hoped))[:, None], sure, hoped)
    possible = surface.possible(hoped)
    curves = np.stack([expected, expected + surface.deviation(sure), possible])
    made = [
        _profile(one, held[owners == k], curves[:, owners == k], limit, float(best[k]))
        for k, one in enumerate(space.dimensions)
    ]
    grids = [held[owners == k] for k in range(space.size)]
    paired = pairs(surface, space, best, grids, limit.limit)
    return Profiles(tuple(made), paired, limit, best, hoped[possible <= limit.limit])


def plausible(
    emulator: Emulator, target: Target, units: ArrayLike, limit: Threshold
) -> NDArray[np.bool_]:
    """Say which points (n, d) the threshold does not exclude, (n,).

    They are judged as the profiles are, by their possible misfit: that of a run of one seed has
    this seed's noise in it, which the minimum misfit of the emulator has not.
    """
    kept: NDArray[np.bool_] = (
        Surface(emulator, target, limit.inflation).possible(units) <= limit.limit
    )
    return kept


def _pool(surface: Surface, space: Space, tried: Floats, random: np.random.Generator) -> Floats:
    """Give points of low misfit, the lowest first, from anywhere and from near the best."""
    anywhere = space.snap(sobol_points(space.size, _POOL, int(random.integers(2**31))))
    pool = np.vstack([space.snap(tried), anywhere])
    for size in (0.3, 0.1):
        best = pool[np.argsort(surface.expected(pool))[:32]]
        pool = np.vstack([pool, neighbours(space, best, _POOL // 2, size, random)])
    return pool[np.argsort(surface.expected(pool), kind="stable")]


def _grids(space: Space, best: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Give each place of all profiles (g,), and the unknown that it is of (g,)."""
    grids = [_grid(one, float(best[place])) for place, one in enumerate(space.dimensions)]
    return np.repeat(np.arange(space.size), [len(grid) for grid in grids]), np.concatenate(grids)


def _grid(one: Dimension, best: float) -> Floats:
    """Give the places of a profile: the levels, or even steps and the best place."""
    if one.levels:
        return np.array([one.unit(level) for level in one.levels])
    return np.unique(np.append(np.linspace(0.0, 1.0, _GRID + 1), best))


def _least(
    surface: Surface,
    pool: Floats,
    owners: NDArray[np.int64],
    held: Floats,
    possible: bool,
) -> Floats:
    """Give the point (g, d) of the minimum misfit for each place `held` (g,) of its unknown."""
    measure = surface.possible if possible else surface.expected
    ranking = np.argsort(measure(pool), kind="stable")
    # far from the best value of an unknown, the others' best ones may be anywhere
    pool = pool[np.append(ranking[:24], ranking[24 :: max(1, len(pool) // 72)])]
    fixed = np.arange(pool.shape[1]) == owners[:, None]
    found = _choose(measure, np.broadcast_to(pool, (len(held), *pool.shape)), fixed, held)
    found = surface.descend(found, fixed, possible)
    for _ in range(2):
        around = np.stack([found, np.roll(found, 1, axis=0), np.roll(found, -1, axis=0)], axis=1)
        dimensions = enumerate(surface.emulator.space.dimensions)
        others = [_with_level(found, place, one) for place, one in dimensions]
        found = _choose(measure, np.concatenate([around, *others], axis=1), fixed, held)
        found = surface.descend(found, fixed, possible, steps=12)
    return found


def _with_level(points: Floats, place: int, one: Dimension) -> Floats:
    """Give points (g, d) with each level of an unknown in turn, (g, levels, d)."""
    copies = np.repeat(points[:, None, :], len(one.levels), axis=1)
    for number, level in enumerate(one.levels):
        copies[:, number, place] = one.unit(level)
    return copies


def _choose(measure: Any, starts: Floats, fixed: NDArray[np.bool_], held: Floats) -> Floats:
    """Of several starts (g, s, d) of each search, put at its place, choose the lowest (g, d)."""
    placed = np.where(fixed[:, None, :], held[:, None, None], starts)
    total = measure(placed.reshape(-1, placed.shape[-1])).reshape(placed.shape[:2])
    chosen: Floats = placed[np.arange(len(placed)), np.argmin(total, axis=1)]
    return chosen


def _profile(
    one: Dimension, units: Floats, curves: Floats, limit: Threshold, best: float
) -> Profile:
    """Cut a profile at the threshold and name its verdict."""
    expected, above, possible = curves
    inside = possible <= limit.limit
    pieces: list[tuple[float | str, ...]]
    if one.levels:
        pieces = [(one.value(u),) for u in units[inside]]
        share = float(inside.mean())
        verdict = _verdict_of_levels(int(inside.sum()), len(units))
    else:
        ranges = _ranges(units, possible - limit.limit)
        pieces = [(one.value(low), one.value(high)) for low, high in ranges]
        share = sum(high - low for low, high in ranges)
        verdict = _verdict(ranges)
    return Profile(
        one.name,
        tuple(one.value(u) for u in units),
        tuple(units.tolist()),
        tuple(expected.tolist()),
        tuple(above.tolist()),
        tuple(possible.tolist()),
        tuple(pieces),
        share,
        verdict,
        one.value(best),
    )


def _ranges(units: Floats, excess: Floats) -> list[tuple[float, float]]:
    """Give the ranges where a line through the points is not above 0."""
    found: list[tuple[float, float]] = []
    start: float | None = float(units[0]) if excess[0] <= 0 else None
    for k in range(1, len(units)):
        if (excess[k - 1] <= 0) == (excess[k] <= 0):
            continue
        part = excess[k - 1] / (excess[k - 1] - excess[k])
        crossing = float(units[k - 1] + part * (units[k] - units[k - 1]))
        if start is None:
            start = crossing
        else:
            found.append((start, crossing))
            start = None
    return found if start is None else [*found, (start, float(units[-1]))]


def _verdict(ranges: list[tuple[float, float]]) -> str:
    if len(ranges) != 1:
        return SPLIT
    low, high = ranges[0][0] > 0, ranges[0][1] < 1
    return {(True, True): PINNED, (True, False): FROM_BELOW, (False, True): FROM_ABOVE}.get(
        (low, high), FREE
    )


def _verdict_of_levels(left: int, count: int) -> str:
    if left == count:
        return FREE
    return PINNED if left == 1 else SOME_LEVELS


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
