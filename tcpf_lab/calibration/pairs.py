"""Pairs of unknowns that make up for each other: only both changes together are not excluded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tcpf_lab.calibration.space import Floats, Space
from tcpf_lab.calibration.surface import Surface


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
