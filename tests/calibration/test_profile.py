"""Profiles and proposals on problems whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from synthetic import METRICS, NOISE, TOLERANCE, Laboratory, laboratory, space

from tcpf_lab.calibration import profile as shown
from tcpf_lab.calibration.emulator import Emulator, Surface, batch
from tcpf_lab.calibration.profile import Profiles, plausible, profiles
from tcpf_lab.calibration.space import Dimension, Space, first_points
from tcpf_lab.calibration.target import Target, misfit

SPACE = space(3, (3,))
SILENT = 1


def one(seed: int) -> tuple[Laboratory, np.ndarray, Target, np.ndarray, np.ndarray]:
    """Make a laboratory, its truth, what it published there, and a design that was run."""
    random = np.random.default_rng(seed)
    lab = laboratory(SPACE, 7, seed, silent=(SILENT,))
    truth = SPACE.snap(random.random(SPACE.size))
    points = first_points(SPACE, 32, seed)
    return lab, truth, lab.published(truth, random), points, lab.run(points, random)


def searched(seed: int) -> tuple[np.ndarray, Target, np.ndarray, Profiles]:
    lab, truth, target, points, measured = one(seed)
    emulator = Emulator.fit(SPACE, points, measured, target.noise, lab.reached)
    return truth, target, measured, profiles(emulator, target, SPACE, points, seed=1)


@pytest.fixture(scope="module")
def repeated() -> list[tuple[np.ndarray, Target, np.ndarray, Profiles]]:
    return [searched(seed) for seed in range(3)]


def covers(found: shown.Profile, dimension: Dimension, place: float) -> bool:
    if dimension.levels:
        return (dimension.value(place),) in found.pieces
    return any(
        dimension.unit(low) - 1e-9 <= place <= dimension.unit(high) + 1e-9
        for low, high in found.pieces
    )


def holds(truth: np.ndarray, result: Profiles) -> list[bool]:
    """Tell of each unknown that has influence whether its interval holds the truth."""
    return [
        covers(found, dimension, place)
        for found, dimension, place in zip(result.profiles, SPACE.dimensions, truth, strict=True)
        if found.name != f"x{SILENT}"
    ]


def test_truth_is_in_the_intervals_of_what_is_identified(repeated) -> None:
    inside = [inner for truth, _, _, result in repeated for inner in holds(truth, result)]
    assert inside == [True] * 9


@pytest.mark.full
def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Of 95 % intervals, at least 90 %: 27 or fewer of 30 has a chance of 6 %, 24 of 0.04 %."""
    results = [searched(seed) for seed in range(10)]
    assert (
        np.mean([inner for truth, _, _, found in results for inner in holds(truth, found)]) >= 0.9
    )


def test_unknown_without_influence_is_not_identified(repeated) -> None:
    for _, _, _, result in repeated:
        found = result.profiles[SILENT]
        assert (found.verdict, found.share) == (shown.FREE, 1.0)
        assert found.pieces == ((1.0, 10.0),)
        assert max(found.expected) < result.threshold.least + 0.5


def test_intervals_of_what_has_influence_are_narrower_than_the_range(repeated) -> None:
    shares = [result.profiles[k].share for _, _, _, result in repeated for k in (0, 2)]
    assert np.median(shares) < 0.5
    verdicts = {result.profiles[k].verdict for _, _, _, result in repeated for k in (0, 2)}
    assert verdicts <= {shown.PINNED, shown.FROM_ABOVE, shown.FROM_BELOW, shown.SPLIT, shown.FREE}
    assert shown.PINNED in verdicts


def test_levels_have_a_misfit_each_and_the_best_has_the_least(repeated) -> None:
    for _, _, _, result in repeated:
        levels = result.profiles[3]
        assert levels.values == ("l0", "l1", "l2")
        assert levels.best == levels.values[int(np.argmin(levels.expected))]
        assert len(levels.pieces) == round(3 * levels.share)


def test_curves_enclose_each_other_and_the_least_is_the_threshold_s(repeated) -> None:
    for _, _, _, result in repeated:
        least = min(min(found.expected) for found in result.profiles)
        assert result.threshold.least == least
        for found in result.profiles:
            assert min(found.expected) < least + 0.05, "every profile reaches the least misfit"
            assert (np.array(found.possible) <= np.array(found.expected) + 1e-9).all()
            assert (np.array(found.expected) <= np.array(found.above)).all()


def test_least_misfit_is_no_worse_than_a_plain_search_finds() -> None:
    """Along one unknown, against many random points of it."""
    lab, _, target, points, measured = one(3)
    emulator = Emulator.fit(SPACE, points, measured, target.noise, lab.reached)
    result = profiles(emulator, target, SPACE, points, seed=1)
    surface = Surface(emulator, target)
    anywhere = SPACE.snap(np.random.default_rng(5).random((4000, SPACE.size)))
    for unit, found in zip(result.profiles[0].units, result.profiles[0].expected, strict=True):
        anywhere[:, 0] = unit
        assert found <= surface.expected(anywhere).min() + 0.05


def test_unknown_whose_truth_is_at_the_end_of_the_range_is_bounded_from_one_side() -> None:
    plain = Space((Dimension("a", 0.0, 1.0), Dimension("b", 0.0, 1.0)))
    lab = laboratory(plain, 7, seed=4)
    random = np.random.default_rng(4)
    points = first_points(plain, 32, 4)
    verdicts = []
    for end in (0.0, 1.0):
        target = lab.published(np.array([end, 0.5]), random)
        emulator = Emulator.fit(plain, points, lab.run(points, random), target.noise, lab.reached)
        verdicts.append(profiles(emulator, target, plain, points, seed=1).profiles[0].verdict)
    assert verdicts == [shown.FROM_ABOVE, shown.FROM_BELOW]


def test_lack_of_fit_and_correlation_widen_intervals() -> None:
    lab, truth, _, points, measured = one(6)
    shares = {}
    for off, effective in ((1.0, None), (1.0, 14.0), (4.0, None)):
        target = lab.published(truth, np.random.default_rng(1), misfit=off)
        emulator = Emulator.fit(SPACE, points, measured, target.noise, lab.reached)
        result = profiles(emulator, target, SPACE, points, seed=1, effective=effective)
        shares[off, effective] = result.profiles[0].share
        assert effective or (result.threshold.scale > 2) == (off == 4.0)
    assert shares[1.0, None] < shares[1.0, 14.0]
    assert shares[1.0, None] < shares[4.0, None]


@pytest.mark.parametrize("seeds", [2, pytest.param(6, marks=pytest.mark.full)])
def test_lack_of_fit_makes_the_emulator_no_less_sure_and_intervals_still_hold_the_truth(
    seeds: int,
) -> None:
    """Tolerances are four times too small, and the cells of a case are off alike."""
    inside = []
    for seed in range(seeds):
        random = np.random.default_rng(100 + seed)
        lab = laboratory(SPACE, 28, seed, silent=(SILENT,))
        truth = SPACE.snap(random.random(SPACE.size))
        points = first_points(SPACE, 24, seed)
        target = lab.published(truth, random, misfit=4.0, alike=0.5)
        emulator = Emulator.fit(SPACE, points, lab.run(points, random), target.noise, lab.reached)
        result = profiles(emulator, target, SPACE, points, seed=1)
        assert result.threshold.inflation > 4
        careless, careful = (
            Surface(emulator, target, factor).possible(points)
            for factor in (1.0, result.threshold.inflation)
        )
        assert (careless <= careful).all()
        assert (careful <= Surface(emulator, target).expected(points)).all()
        inside += holds(truth, result)
    assert np.mean(inside) >= 0.9


def test_unknowns_of_which_only_the_sum_counts_make_up_for_each_other() -> None:
    """x0 and x1 move all numbers alike, c0 moves half of them: nothing makes up for that."""
    three, random = space(2, (2,)), np.random.default_rng(4)
    points = first_points(three, 32, 4)
    alike = 3 * points[:, :2].sum(axis=1)
    half = 2 * (points[:, 2] > 0.5)
    means = np.stack([alike if cell < 4 else alike + half for cell in range(8)], axis=1)
    measured = means[..., None] + NOISE * random.standard_normal((32, 8, 4))
    names = tuple(("X", 100, f"case{cell}") for cell in range(8))
    published = np.full((8, 4), 3.0)  # where x0 + x1 is 1, and c0 is its first level
    target = Target(names, METRICS, published, np.tile(NOISE**2, (8, 1)), TOLERANCE)
    emulator = Emulator.fit(three, points, measured, target.noise, np.ones((8, 3), dtype=bool))
    found = profiles(emulator, target, three, points, seed=1)
    assert [one.names for one in found.pairs] == [("x0", "x1")]
    (pair,) = found.pairs
    x0, x1 = (three.dimensions[k].unit(value) for k, value in enumerate(pair.values))
    assert x0 + x1 == pytest.approx(1, abs=0.1)
    assert abs(x0 - found.best[0]) > 0.1
    assert pair.both <= found.threshold.limit < min(pair.alone)


def test_verdicts_of_pieces() -> None:
    grid = np.linspace(0, 1, 5)
    cut: dict[tuple[int, ...], tuple[str, list[tuple[float, float]]]] = {
        (-1, -1, -1, -1, -1): (shown.FREE, [(0, 1)]),
        (1, -1, -1, -1, 1): (shown.PINNED, [(0.125, 0.875)]),
        (1, 1, 1, -1, -1): (shown.FROM_BELOW, [(0.625, 1)]),
        (-1, 1, 1, 1, 1): (shown.FROM_ABOVE, [(0, 0.125)]),
        (-1, -1, 1, -1, -1): (shown.SPLIT, [(0, 0.375), (0.625, 1)]),
    }
    for excess, (verdict, expected) in cut.items():
        ranges = shown._ranges(grid, np.array(excess, dtype=float))
        assert np.array(ranges) == pytest.approx(np.array(expected))
        assert shown._verdict(ranges) == verdict


def test_points_are_excluded_as_the_profiles_exclude_values(repeated) -> None:
    lab, truth, target, points, measured = one(0)
    emulator = Emulator.fit(SPACE, points, measured, target.noise, lab.reached)
    limit = repeated[0][3].threshold
    asked = np.vstack([truth, repeated[0][3].best, points])
    kept = plausible(emulator, target, asked, limit)
    assert (
        kept == (Surface(emulator, target, limit.inflation).possible(asked) <= limit.limit)
    ).all()
    assert kept[:2].all()
    assert not kept.all()


def test_places_within_the_threshold_stand_for_every_value_that_is_not_excluded(repeated) -> None:
    lab, _, target, points, measured = one(0)
    emulator = Emulator.fit(SPACE, points, measured, target.noise, lab.reached)
    result = repeated[0][3]
    surface = Surface(emulator, target, result.threshold.inflation)
    possible = surface.possible(result.within)
    assert (possible <= result.threshold.limit).all()
    for place, found in enumerate(result.profiles):
        left = np.array(found.units)[np.array(found.possible) <= result.threshold.limit]
        assert len(left)
        assert np.isclose(left[:, None], result.within[:, place]).any(axis=1).all()


def test_one_unlucky_run_excludes_no_setting() -> None:
    """The emulator knows how noisy a run is; the misfit of one run has its noise in it."""
    lab, truth, target, points, measured = one(0)
    points = np.vstack([points, truth])
    random = np.random.default_rng(7)
    unlucky = max((lab.run(truth[None], random) for _ in range(20)), key=lambda y: total(y, target))
    emulator = Emulator.fit(
        SPACE, points, np.concatenate([measured, unlucky]), target.noise, lab.reached
    )
    limit = profiles(emulator, target, SPACE, points, seed=1).threshold
    assert plausible(emulator, target, truth[None], limit).all()
    assert Surface(emulator, target).possible(truth[None])[0] < total(unlucky, target)


def total(log_measured: np.ndarray, target: Target) -> float:
    return float(misfit(log_measured, target).total[0])


def test_numbers_that_nothing_is_known_of_do_not_count() -> None:
    """Neither in the misfit nor in N: with all of them the lack of fit would look smaller."""
    lab, _, target, points, measured = one(2)
    holes = measured.copy()
    holes[3:, 2] = np.nan
    holes[:, 4, 1] = np.nan
    emulator = Emulator.fit(SPACE, points, holes, target.noise, lab.reached)
    known = emulator.modelled
    assert np.argwhere(~known).tolist() == [[2, 0], [2, 1], [2, 2], [2, 3], [4, 1]]
    found = profiles(emulator, target, SPACE, points, seed=1, effective=28)
    assert (found.threshold.residuals, found.threshold.effective) == (23, 23)
    assert (
        found.threshold == profiles(emulator, target.only(known), SPACE, points, seed=1).threshold
    )
    assert batch(emulator, target, SPACE, points, 3, seed=1).shape == (3, SPACE.size)


def test_proposals_are_new_apart_and_depend_on_the_seed() -> None:
    lab, _, target, points, measured = one(1)
    emulator = Emulator.fit(SPACE, points, measured, target.noise, lab.reached)
    found = batch(emulator, target, SPACE, points, 8, seed=1)
    assert found.shape == (8, SPACE.size)
    assert (found == SPACE.snap(found)).all()
    together = cdist(np.vstack([points, found]), found)
    assert np.sort(together, axis=0)[1].min() > 0.03 * SPACE.size**0.5 * 0.999
    assert (batch(emulator, target, SPACE, points, 8, seed=1) == found).all()
    assert (batch(emulator, target, SPACE, points, 8, seed=2) != found).any()
    assert batch(emulator, target, SPACE, points, 1, seed=1).shape == (1, SPACE.size)


def test_levels_alone_run_out_of_points() -> None:
    plain = space(0, (2, 3))
    lab = laboratory(plain, 3, seed=1)
    random = np.random.default_rng(1)
    every = np.unique(plain.snap(random.random((200, 2))), axis=0)
    assert len(every) == 6
    target = lab.published(every[0], random)
    emulator = Emulator.fit(plain, every[:4], lab.run(every[:4], random), target.noise, lab.reached)
    found = batch(emulator, target, plain, every[:4], 2, seed=1)
    assert {tuple(point) for point in found} == {tuple(point) for point in every[4:]}
    left = batch(emulator, target, plain, every[:4], 5, seed=1)
    assert {tuple(point) for point in left} == {tuple(point) for point in every[4:]}
    assert batch(emulator, target, plain, every, 3, seed=1).shape == (0, 2)


def test_proposals_come_nearer_than_as_many_random_points() -> None:
    """The median over laboratories, of the exact misfit of the best of 8 more points."""
    gains = []
    for seed in range(4):
        lab, _, target, points, measured = one(20 + seed)
        emulator = Emulator.fit(SPACE, points, measured, target.noise, lab.reached)
        proposed = batch(emulator, target, SPACE, points, 8, seed=1)
        drawn = SPACE.snap(np.random.default_rng(seed).random((8, SPACE.size)))
        best, blind = (misfit(lab.exact(at), target).total.min() for at in (proposed, drawn))
        gains.append(blind / best)
    assert np.median(gains) > 2
