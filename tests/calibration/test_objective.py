"""The misfit and its threshold, against numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tcpf_lab.base.errors import RequestError
from tcpf_lab.calibration.target import (
    Target,
    complete,
    least_of,
    logged,
    misfit,
    residuals,
    threshold,
)

METRICS = ("timeouts", "loss_percent")
PUBLISHED = np.array([[41.0, 4.0], [120.0, 5.5]])
TARGET = Target(
    (("A", 100, "x"), ("A", 100, "y")),
    METRICS,
    logged(PUBLISHED, METRICS),
    np.array([[0.04, 0.01], [0.04, 0.01]]),
    np.array([0.25, 0.10]),
    seeds=2,
)


def test_logarithms_bear_counts_and_losses_of_nothing() -> None:
    found = logged([[0.0, 0.0], [41.0, 4.0]], METRICS)
    assert found == pytest.approx(np.log([[3.0, 0.01], [44.0, 4.0]]))
    assert np.isnan(logged([[-1.0, 0.0]], ("x", "goodput_cov"))).all()


def test_residual_has_the_noise_of_both_sides_and_the_tolerance() -> None:
    measured = logged([[82.0, 4.0], [120.0, 5.5]], METRICS)
    # noise of a mean of two, of one published run, and 25 % as a logarithm
    size = (0.02 + 0.04 + np.log(1.25) ** 2) ** 0.5
    expected = np.zeros((2, 2))
    expected[0, 0] = np.log(85 / 44) / size
    assert residuals(measured, TARGET) == pytest.approx(expected)
    found = misfit(measured, TARGET)
    assert found.total == pytest.approx(expected[0, 0] ** 2)
    assert found.by_metric == pytest.approx([expected[0, 0] ** 2, 0.0])


def test_missing_cell_counts_as_the_worst_of_its_metric_at_any_point() -> None:
    points = np.stack([logged(PUBLISHED * factor, METRICS) for factor in (2, 1, 3, 2)])
    squares = residuals(points, TARGET) ** 2
    points[1, 0, 1] = np.nan
    points[3, :, 1] = np.nan
    found = misfit(points, TARGET)
    assert found.by_metric[[0, 2]] == pytest.approx(squares[[0, 2]].sum(axis=1))
    assert found.by_metric[1] == pytest.approx([0.0, squares[2, :, 1].max()])
    assert np.isnan(found.total[3])
    assert found.by_metric[3, 0] == pytest.approx(found.by_metric[0, 0])


def test_missing_cell_is_no_gain_where_all_that_is_there_fits() -> None:
    points = np.stack([logged(PUBLISHED, METRICS)] * 2)
    points[1, 0, 0] = np.nan
    assert misfit(points, TARGET).total == pytest.approx([0.0, 1.0])


def test_cell_that_no_point_has_measured_is_left_out() -> None:
    points = np.stack([logged(PUBLISHED * factor, METRICS) for factor in (2, 3)])
    points[:, 1, 0] = np.nan
    known = np.isfinite(points[0])
    found = misfit(points, TARGET)
    assert np.isfinite(found.total).all()
    assert found.total == pytest.approx(misfit(points, TARGET.only(known)).total)
    assert TARGET.only(known).fitted == 3


def test_best_point_has_measured_everything_unless_none_has() -> None:
    points = np.stack([logged(PUBLISHED * factor, METRICS) for factor in (3, 1.01, 2)])
    points[1, 0, 0] = np.nan
    whole = complete(points, TARGET)
    assert whole.tolist() == [True, False, True]
    totals = np.array([9.0, 1.0, 4.0])
    assert least_of(totals, whole) == 2
    assert least_of(totals, np.zeros(3, bool)) == 1
    assert least_of(np.array([np.nan, 1.0, np.nan]), whole) == 1
    assert complete(points, TARGET.only(np.isfinite(points[1]))).all()


def test_what_was_not_published_is_not_fitted() -> None:
    half = replace(TARGET, log_published=np.where([[True, False]], TARGET.log_published, np.nan))
    assert half.fitted == 2
    found = misfit(logged(PUBLISHED * 2, METRICS), half)
    assert found.total == found.by_metric[0] > 0


def test_threshold_is_that_of_a_profile_likelihood_where_the_fit_is_good() -> None:
    found = threshold(1.0, TARGET, parameters=2)
    assert found.limit == pytest.approx(1.0 + 3.841459)
    assert (found.residuals, found.effective, found.scale) == (4, 4.0, 1.0)


def test_threshold_grows_with_the_lack_of_fit_and_with_the_correlation() -> None:
    assert threshold(30.0, TARGET, parameters=1).scale == pytest.approx(30 / 3)
    assert threshold(30.0, TARGET, parameters=1, effective=2).scale == pytest.approx(30 / 1)
    assert threshold(1.0, TARGET, parameters=1, effective=2).scale == pytest.approx(4 / 2)
    assert threshold(30.0, TARGET, parameters=9).scale == pytest.approx(30.0)


@pytest.mark.parametrize("effective", [0.0, -1.0, 5.0])
def test_threshold_wants_no_more_residuals_than_there_are(effective: float) -> None:
    with pytest.raises(RequestError, match="independent residuals of 4"):
        threshold(1.0, TARGET, parameters=2, effective=effective)


@pytest.mark.parametrize(
    "wrong",
    [
        {"variance": np.zeros((2, 2)), "tolerance": np.zeros(2)},
        {"variance": np.ones((1, 2))},
        {"tolerance": np.ones(3)},
        {"seeds": 0},
    ],
)
def test_target_that_nothing_fits_is_refused(wrong) -> None:
    with pytest.raises(RequestError):
        replace(TARGET, **wrong)
