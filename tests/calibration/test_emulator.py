"""The emulator against functions that are known."""

from __future__ import annotations

import numpy as np
import pytest
from synthetic import METRICS, NOISE, laboratory, space

from tcpf_lab.base.errors import LabError, RequestError
from tcpf_lab.calibration.emulator import Emulator, check_installed
from tcpf_lab.calibration.profile import influence
from tcpf_lab.calibration.space import first_points

SPACE = space(4, (3,))
LAB = laboratory(SPACE, 7, seed=11, silent=(1,), own=1)
POINTS = first_points(SPACE, 48, 1)
MEASURED = LAB.run(POINTS, np.random.default_rng(1))
NOISES = np.broadcast_to(NOISE**2, (7, 4)).copy()


@pytest.fixture(scope="module")
def emulator() -> Emulator:
    return Emulator.fit(SPACE, POINTS, MEASURED, NOISES, LAB.reached)


@pytest.fixture(scope="module")
def unseen() -> np.ndarray:
    return SPACE.snap(np.random.default_rng(2).random((400, SPACE.size)))


def test_unseen_points_are_predicted_as_well_as_it_says(emulator, unseen) -> None:
    means, variances = emulator.predict(unseen)
    exact = LAB.exact(unseen)
    errors = (means - exact) ** 2
    deviations = (exact - exact.mean(axis=0)) ** 2
    assert (1 - errors.sum(axis=(0, 1)) / deviations.sum(axis=(0, 1)) > 0.9).all()
    standardised = np.sqrt((errors / variances).mean(axis=(0, 1)))
    assert ((standardised > 0.5) & (standardised < 1.6)).all(), standardised


def test_leaving_out_in_closed_form_is_leaving_out(emulator) -> None:
    """Each point predicted by a process of the others, with the hyperparameters of all."""
    from tcpf_lab.calibration.emulator import conditioned

    group = emulator.groups[0]
    inputs = SPACE.encode(POINTS)[:, group.columns]
    outputs = MEASURED[:, group.cells, group.metric]
    errors, variances = group.process.left_out()
    for out in (0, 17, 47):
        others = np.arange(len(inputs)) != out
        process = conditioned(inputs[others], outputs[others], group.process.settings)
        mean, variance = process.predict(inputs[[out]])
        assert outputs[out] - mean[0] == pytest.approx(errors[out])
        # the size is estimated from the others alone here
        size = np.diag(process.between) / np.diag(group.process.between)
        noisy = variance[0] + process.settings.nugget * np.diag(process.between)
        assert noisy == pytest.approx(variances[out] * size)


def test_cross_validation_says_how_good_it_is(emulator) -> None:
    for quality in emulator.cross_validate():
        assert 0.7 < quality.r_squared < 1
        assert 0.6 < quality.standardised_error < 1.5


def test_cell_knows_nothing_of_an_unknown_that_does_not_reach_it(emulator, unseen) -> None:
    moved = unseen.copy()
    moved[:, 1] = 1 - moved[:, 1]
    assert emulator.predict(moved)[0] == pytest.approx(emulator.predict(unseen)[0])
    moved = unseen.copy()
    moved[:, 4] = SPACE.snap(1 - 0.9 * moved)[:, 4]
    same = np.isclose(emulator.predict(moved)[0], emulator.predict(unseen)[0]).all(axis=(0, 2))
    assert same.tolist() == [False] + [True] * 6


def test_gradient_is_that_of_the_differences(emulator, unseen) -> None:
    def share(mean, variance, cells, metric):
        total = (mean**2 + 3 * variance).sum(axis=1)
        return total, 2 * mean, np.full(mean.shape, 3.0)

    points = 0.1 + 0.8 * unseen[:20]
    total, slope = emulator.gradient(points, share)
    for place in range(4):
        moved = points.copy()
        moved[:, place] += 1e-6
        difference = (emulator.gradient(moved, share)[0] - total) / 1e-6
        assert difference == pytest.approx(slope[:, place], rel=1e-3, abs=1e-3)
    assert (slope[:, 4] == 0).all()


def test_draws_have_the_mean_and_the_variance_that_are_predicted(emulator, unseen) -> None:
    points = unseen[:30]
    means, variances = emulator.predict(points)
    drawn = np.array(list(emulator.draws(points, 600, seed=1)))
    off = (drawn.mean(axis=0) - means) / np.sqrt(variances / 600)
    assert np.abs(off).max() < 6
    assert np.median(drawn.var(axis=0) / variances) == pytest.approx(1, abs=0.1)
    again = next(emulator.draws(points, 1, seed=1))
    assert (again == drawn[0]).all()


def test_missing_runs_leave_the_rest_as_it_is(unseen) -> None:
    holes = MEASURED.copy()
    holes[3, 2] = np.nan
    holes[5:, 4, 0] = np.nan
    holes[:, 5] = np.nan
    found = Emulator.fit(SPACE, POINTS, holes, NOISES, LAB.reached).predict(unseen)[0]
    assert np.isnan(found[:, 5]).all()
    assert np.isfinite(np.delete(found, 5, axis=1)).all()
    exact = LAB.exact(unseen)
    assert np.corrcoef(found[:, 2, 1], exact[:, 2, 1])[0, 1] > 0.9


def test_what_never_varies_is_predicted_as_it_is(unseen) -> None:
    flat = MEASURED.copy()
    flat[:, :, 0] = np.log(0.5)
    emulator = Emulator.fit(SPACE, POINTS, flat, NOISES, LAB.reached)
    means, variances = emulator.predict(unseen)
    assert means[..., 0] == pytest.approx(np.log(0.5))
    assert variances[..., 0] == pytest.approx(0)
    assert emulator.cross_validate()[0] is None
    assert np.isnan(influence(emulator, SPACE, seed=1, count=16)[0]).all()


def test_cell_that_nothing_reaches_keeps_its_mean(unseen) -> None:
    reached = LAB.reached.copy()
    reached[3] = False
    means, variances = Emulator.fit(SPACE, POINTS, MEASURED, NOISES, reached).predict(unseen[:3])
    assert means[0, 3] == pytest.approx(MEASURED[:, 3].mean(axis=0))
    assert variances[0, 3] == pytest.approx(MEASURED[:, 3].var(axis=0, ddof=1) / len(POINTS))


def test_fit_depends_on_its_arguments_alone(emulator, unseen) -> None:
    again = Emulator.fit(SPACE, POINTS, MEASURED, NOISES, LAB.reached)
    assert (again.predict(unseen)[0] == emulator.predict(unseen)[0]).all()


def test_cells_share_hyperparameters_whatever_runs_they_lack() -> None:
    holes = MEASURED.copy()
    for cell in range(7):
        holes[3 + cell, cell] = np.nan
    holes[:40, 5] = np.nan
    emulator = Emulator.fit(SPACE, POINTS, holes, NOISES, LAB.reached)
    assert emulator.modelled.all()
    patterns = {row.tobytes() for row in LAB.reached}
    for metric in range(4):
        groups = [group for group in emulator.groups if group.metric == metric]
        assert sorted(cell for group in groups for cell in group.cells) == list(range(7))
        assert len({id(group.process.settings) for group in groups}) == len(patterns) < len(groups)
        for group in groups:
            rows = np.isfinite(holes[:, group.cells[0], metric]).sum()
            assert len(group.process.outputs) == rows


def test_too_few_points_are_refused() -> None:
    with pytest.raises(LabError, match="no cell has 4 points"):
        Emulator.fit(SPACE, POINTS[:3], MEASURED[:3], NOISES, LAB.reached)


def test_influence_is_that_of_a_known_function() -> None:
    """y = 2 a + b, levels c worth 1 or 0: shares of the variance 4/12, 1/12 and 1/4."""
    plain = space(3, (2,))
    points = first_points(plain, 64, 5)
    measured = 2 * points[:, 0] + points[:, 2] + plain.encode(points)[:, 3]
    outputs = np.repeat(measured[:, None, None], len(METRICS), axis=2)
    emulator = Emulator.fit(plain, points, outputs, np.full((1, 4), 1e-6), np.ones((1, 4), bool))
    found = influence(emulator, plain, seed=1)
    parts = np.array([4 / 12, 0, 1 / 12, 1 / 4])
    assert found == pytest.approx(np.tile(parts / parts.sum(), (4, 1)), abs=0.02)


def test_missing_library_is_said_with_what_installs_it(monkeypatch) -> None:
    check_installed()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RequestError, match=r"needs the Python package 'sklearn'(.|\n)*calibrate\]"):
        check_installed()
