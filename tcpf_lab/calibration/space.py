"""The unknowns: what values each may take, and the unit cube that they are searched in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import qmc

from tcpf_lab.base.errors import RequestError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Dimension:
    """One unknown: a range of numbers, or some levels.

    Parameters
    ----------
    name : str
        As the user calls it.
    low, high : float
        Ends of the range; without meaning where there are levels.
    log : bool
        Whether equal ratios, not equal differences, count alike.
    levels : tuple of str
        Names of the levels, two or more; empty for a range.
    default : float or str, optional
        Value of the experiment as it stands; without one, the middle of the range or the first
        level is taken.

    Raises
    ------
    RequestError
        If the range is empty, logarithmic and not positive, or without the default, or if there is
        one level alone or one of them twice.
    """

    name: str
    low: float = 0.0
    high: float = 1.0
    log: bool = False
    levels: tuple[str, ...] = ()
    default: float | str | None = None

    def __post_init__(self) -> None:
        if self.levels:
            if len(set(self.levels)) < max(2, len(self.levels)):
                raise RequestError("at least two different levels are needed", where=self.name)
            if self.default is not None and self.default not in self.levels:
                raise RequestError(
                    f"the default '{self.default}' is not one of the levels",
                    where=self.name,
                    hint=f"one of {', '.join(self.levels)}",
                )
            return
        if not -np.inf < self.low < self.high < np.inf or (self.log and self.low <= 0):
            raise RequestError(
                f"empty range: {self.low:g} to {self.high:g}",
                where=self.name,
                hint="`from` lies below `to`, and above 0 with `scale: log`",
            )
        if self.default is not None and not self.low <= float(self.default) <= self.high:
            raise RequestError(
                f"the default {self.default} lies outside {self.low:g} to {self.high:g}",
                where=self.name,
                hint="widen the range: the search compares everything with the default",
            )

    def value(self, unit: float) -> float | str:
        """Give the number or the level at a place of the unit interval."""
        if self.levels:
            return self.levels[int(_level_numbers(unit, len(self.levels)))]
        if self.log:
            return float(self.low * (self.high / self.low) ** unit)
        return float(self.low + (self.high - self.low) * unit)

    def unit(self, value: float | str) -> float:
        """Give the place of a number or a level: for a level, the middle of its share."""
        if self.levels:
            return (self.levels.index(str(value)) + 0.5) / len(self.levels)
        number = float(value)
        if self.log:
            return float(np.log(number / self.low) / np.log(self.high / self.low))
        return (number - self.low) / (self.high - self.low)

    @property
    def columns(self) -> int:
        """How many inputs of the emulator it makes."""
        return len(self.levels) if len(self.levels) > 2 else 1


def _level_numbers(units: ArrayLike, count: int) -> NDArray[np.int64]:
    """Give the level at each place: each has an equal share of the unit interval."""
    numbers: NDArray[np.int64] = np.floor(np.asarray(units, dtype=float) * count).astype(np.int64)
    return np.clip(numbers, 0, count - 1)


@dataclass(frozen=True)
class Space:
    """All unknowns together; a **point** is a place in their unit cube."""

    dimensions: tuple[Dimension, ...]

    def __post_init__(self) -> None:
        if not self.dimensions:
            raise RequestError("no unknowns: there is nothing to search")

    @property
    def size(self) -> int:
        """Number of unknowns, d."""
        return len(self.dimensions)

    @property
    def parameters(self) -> int:
        """How many numbers a fit is free to choose: one for a range, levels - 1 for levels."""
        return sum(max(1, len(one.levels) - 1) for one in self.dimensions)

    @property
    def default(self) -> Floats:
        """The point of the experiment as it stands, (d,)."""
        places = [
            (0.5 / max(1, len(one.levels)) if one.levels else 0.5)
            if one.default is None
            else one.unit(one.default)
            for one in self.dimensions
        ]
        return np.array(places)

    def snap(self, units: ArrayLike) -> Floats:
        """Put points (..., d) into the cube, and levels in the middle of their shares."""
        snapped: Floats = np.clip(np.asarray(units, dtype=float), 0.0, 1.0)
        for place, one in enumerate(self.dimensions):
            if one.levels:
                numbers = _level_numbers(snapped[..., place], len(one.levels))
                snapped[..., place] = (numbers + 0.5) / len(one.levels)
        return snapped

    def encode(self, units: ArrayLike) -> Floats:
        """Give the emulator's inputs (n, e) of points (n, d).

        Numbers are as they are; two levels are 0 and 1, more have a column each, so that no order
        is put into what has none.
        """
        points = np.atleast_2d(np.asarray(units, dtype=float))
        columns = [
            _encoded(points[:, place], len(one.levels)) for place, one in enumerate(self.dimensions)
        ]
        return np.concatenate(columns, axis=1, dtype=np.float64)

    @property
    def owners(self) -> NDArray[np.int64]:
        """The unknown that each of the emulator's inputs belongs to, (e,)."""
        counts = [one.columns for one in self.dimensions]
        return np.repeat(np.arange(self.size), counts).astype(np.int64)

    def values(self, unit: ArrayLike) -> tuple[float | str, ...]:
        """Give numbers and names of levels at one point (d,)."""
        places = np.asarray(unit, dtype=float)
        return tuple(one.value(float(u)) for one, u in zip(self.dimensions, places, strict=True))

    def units(self, values: Sequence[float | str]) -> Floats:
        """Give the point (d,) of numbers and names of levels."""
        return np.array([one.unit(v) for one, v in zip(self.dimensions, values, strict=True)])


def _encoded(places: Floats, levels: int) -> Floats:
    if not levels:
        return places[:, None]
    numbers = _level_numbers(places, levels)
    columns: Floats = np.eye(levels)[numbers]
    return columns[:, 1:] if levels == 2 else columns


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
