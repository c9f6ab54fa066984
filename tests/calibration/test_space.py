"""Unknowns, the first points, and what is refused of both."""

from __future__ import annotations

import numpy as np
import pytest

from tcpf_lab.base.errors import RequestError
from tcpf_lab.calibration.space import Dimension, Space, first_points

RTO = Dimension("minimum RTO", 0.2, 1.0, log=True, default=0.2)
LIMIT = Dimension("limit", 10.0, 30.0)
SIZE = Dimension("packet size", levels=("576 B", "1000 B", "1500 B"), default="1000 B")
SACK = Dimension("sack", levels=("off", "on"))
SPACE = Space((RTO, LIMIT, SIZE, SACK))


def test_values_are_those_of_the_scale() -> None:
    assert SPACE.values([0.0, 0.5, 0.1, 0.9]) == (0.2, 20.0, "576 B", "on")
    assert SPACE.values([1.0, 1.0, 1.0, 1.0]) == (1.0, 30.0, "1500 B", "on")
    assert RTO.value(0.5) == pytest.approx((0.2 * 1.0) ** 0.5)


def test_a_point_comes_back_from_its_values() -> None:
    points = SPACE.snap(np.random.default_rng(1).random((50, 4)))
    for point in points:
        assert SPACE.units(SPACE.values(point)) == pytest.approx(point)


def test_default_is_the_experiment_s_own_or_else_the_middle_and_the_first_level() -> None:
    assert SPACE.values(SPACE.default) == (0.2, 20.0, "1000 B", "off")


def test_levels_get_columns_without_an_order() -> None:
    encoded = SPACE.encode([[0.3, 0.6, 0.9, 0.9], [0.3, 0.6, 0.4, 0.1]])
    assert encoded.tolist() == [[0.3, 0.6, 0, 0, 1, 1], [0.3, 0.6, 0, 1, 0, 0]]
    assert SPACE.owners.tolist() == [0, 1, 2, 2, 2, 3]


def test_snapping_twice_changes_nothing_and_stays_in_the_cube() -> None:
    wild = np.random.default_rng(2).normal(0.5, 2, (100, 4))
    once = SPACE.snap(wild)
    assert (SPACE.snap(once) == once).all()
    assert once.min() >= 0
    assert once.max() <= 1
    assert len(np.unique(once[:, 2])) == 3


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: Dimension("a", 2, 1), "empty range"),
        (lambda: Dimension("a", 0, 1, log=True), "empty range"),
        (lambda: Dimension("a", 0, float("nan")), "empty range"),
        (lambda: Dimension("a", 0, 1, default=2), "outside"),
        (lambda: Dimension("a", levels=("x",)), "two different levels"),
        (lambda: Dimension("a", levels=("x", "x")), "two different levels"),
        (lambda: Dimension("a", levels=("x", "y"), default="z"), "not one of the levels"),
        (lambda: Space(()), "nothing to search"),
        (lambda: first_points(SPACE, 0, 1), "a design of 0 points"),
    ],
)
def test_what_cannot_be_searched_is_refused(made, said: str) -> None:
    with pytest.raises(RequestError, match=said):
        made()


@pytest.mark.parametrize("count", [1, 2, 13, 64])
def test_design_begins_with_the_default_and_balances_the_levels(count: int) -> None:
    points = first_points(SPACE, count, 7)
    assert points.shape == (count, 4)
    assert (points[0] == SPACE.default).all()
    assert (points == SPACE.snap(points)).all()
    for place, levels in ((2, 3), (3, 2)):
        counts = [np.isclose(points[1:, place], (k + 0.5) / levels).sum() for k in range(levels)]
        assert sum(counts) == count - 1
        assert max(counts) - min(counts) <= 1


def test_design_fills_every_eighth_of_a_range_and_depends_on_the_seed_alone() -> None:
    points = first_points(SPACE, 65, 3)
    counts = np.histogram(points[1:, 0], bins=8, range=(0, 1))[0]
    assert counts.tolist() == [8] * 8
    assert (first_points(SPACE, 65, 3) == points).all()
    assert (first_points(SPACE, 65, 4) != points).any()
