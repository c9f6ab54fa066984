"""Contrasts of means: by hand, with noise that pairs share, and how often intervals hold."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from table_builder import cell_result, with_problems, without_runs

from tcpf_lab.report.compare.statistics import CellKey, Contrast, contrast, slope_weights
from tcpf_lab.report.section import CellResult, Problem

CELL = CellKey("A", 100, "TB+RIO")
METRIC = "loss_percent"


def cell(*values: float, seeds: tuple[int, ...] = ()) -> CellResult:
    return cell_result(CELL, {METRIC: values}, seeds or tuple(range(1, len(values) + 1)))


def compared(level: CellResult, reference: CellResult) -> Contrast:
    return contrast([(1.0, level), (-1.0, reference)], METRIC)


def test_an_effect_is_what_it_is_by_hand() -> None:
    """Differences 3, 2, 4; t = 4.302653 for two degrees of freedom."""
    found = compared(cell(13.0, 14.0, 18.0), cell(10.0, 12.0, 14.0))
    assert (found.pairs, found.difference, found.note) == (3, 3.0, "")
    assert found.difference_ci == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)
    assert found.ratio == pytest.approx(15 / 12)
    shares = [13 / 15 - 10 / 12, 14 / 15 - 12 / 12, 18 / 15 - 14 / 12]
    half = 4.302653 * np.std(shares, ddof=1) / math.sqrt(3)
    assert found.log_ratio_ci == pytest.approx(half, rel=1e-6)
    assert found.interval == pytest.approx((1.25 * math.exp(-half), 1.25 * math.exp(half)))
    assert found.beyond_noise is bool(math.log(1.25) > half)


def test_noise_that_a_seed_adds_to_both_is_no_noise() -> None:
    noisy = (3.0, 30.0, 7.0, 90.0)
    found = compared(cell(*(2 * value for value in noisy)), cell(*noisy))
    assert found.ratio == pytest.approx(2.0)
    assert found.interval == pytest.approx((2.0, 2.0))


def test_only_seeds_that_both_have_are_compared() -> None:
    level = with_problems(cell(20.0, 40.0, seeds=(2, 4)), Problem("x-seed1", "missing"))
    found = compared(level, cell(99.0, 10.0, 20.0, seeds=(1, 2, 4)))
    assert (found.pairs, found.ratio) == (2, pytest.approx(2.0))


def test_a_mean_of_nothing_has_a_difference_and_no_ratio() -> None:
    found = compared(cell(1.0, 3.0), cell(0.0, 0.0))
    assert (found.difference, found.ratio, found.interval) == (2.0, None, None)
    assert found.note == "a mean of 0: no ratio"
    assert compared(cell(0.0, 0.0), cell(0.0, 0.0)).difference == 0.0


def test_where_there_is_no_ratio_the_difference_says_whether_it_is_noise() -> None:
    assert compared(cell(8.0, 9.0, 10.0), cell(0.0, 0.0, 0.0)).beyond_noise is True
    assert compared(cell(0.0, 0.0, 1.0), cell(0.0, 0.0, 0.0)).beyond_noise is False
    assert compared(cell(0.0, 0.0), cell(0.0, 0.0)).beyond_noise is False
    assert compared(cell(3.0), cell(0.0)).beyond_noise is None


def test_what_rounding_leaves_of_no_change_is_none() -> None:
    """Thirds do not add up to 0, and 0.1 + 0.2 is not 0.3."""
    three = [cell(0.1, 0.1), cell(0.7, 0.7), cell(11819.3, 11819.3)]
    terms = [(w / 3, one) for one in three for w in (1.0, -0.9, -0.1)]
    found = contrast(terms, METRIC)
    assert (found.log_ratio, found.difference, found.beyond_noise) == (0.0, 0.0, False)
    level, reference = cell(0.1 + 0.2, 0.1 + 0.2), cell(0.3, 0.3)
    assert level.metrics[METRIC].values != reference.metrics[METRIC].values
    assert (compared(level, reference).ratio, compared(level, reference).beyond_noise) == (1, False)
    assert compared(cell(0.3000001, 0.3000001), reference).beyond_noise is True


def test_single_zeros_do_not_take_the_ratio_away() -> None:
    assert compared(cell(0.0, 4.0), cell(1.0, 1.0)).ratio == pytest.approx(2.0)


def test_one_pair_has_no_interval_and_none_has_nothing() -> None:
    one = compared(cell(4.0), cell(2.0))
    assert (one.pairs, one.ratio, one.interval) == (1, pytest.approx(2.0), None)
    assert one.note == "one pair: no interval"
    none = compared(cell(4.0, seeds=(1,)), cell(2.0, seeds=(2,)))
    assert (none.pairs, none.difference, none.ratio) == (0, None, None)
    assert compared(without_runs(CELL), cell(2.0)).pairs == 0


def test_weights_that_do_not_compare_are_refused() -> None:
    with pytest.raises(ValueError, match="add up to 0"):
        contrast([(1.0, cell(1.0)), (-0.5, cell(1.0))], METRIC)


@pytest.mark.parametrize("rise", [0.25, 1.0, 8.0])
def test_the_weights_of_a_line_give_its_rise_over_the_range(rise: float) -> None:
    places = [100.0, 150.0, 400.0, 200.0]
    cells = [cell(*[rise ** ((place - 100) / 300)] * 2) for place in places]
    terms = list(zip(slope_weights(places), cells, strict=True))
    assert contrast(terms, METRIC).ratio == pytest.approx(rise)


def test_weights_of_a_line_are_those_of_least_squares() -> None:
    places, values = [1.0, 2.0, 4.0, 5.0], [3.0, 1.0, 4.0, 2.0]
    slope = np.polyfit(places, values, 1)[0]
    assert np.dot(slope_weights(places), values) == pytest.approx(slope * 4)


def test_intervals_hold_as_often_as_they_say() -> None:
    """Pairs that share half of their noise; 5 seeds, a true ratio of 1.5."""
    random = np.random.default_rng(7)
    held = 0
    for _ in range(600):
        shared = random.normal(0, 0.15, 5)
        sides = [base * np.exp(shared + random.normal(0, 0.15, 5)) for base in (150.0, 100.0)]
        found = compared(*(cell(*map(float, side)) for side in sides))
        assert found.interval is not None
        held += found.interval[0] <= 1.5 <= found.interval[1]
    assert 0.91 <= held / 600 <= 0.98


@pytest.mark.full
def test_intervals_hold_as_often_as_the_document_says() -> None:
    """Runs that spread by a factor, 2 to 10 pairs, 60 times each: 1 % is one deviation."""
    text = (Path(__file__).parents[3] / "docs" / "experiments.md").read_text(encoding="utf-8")
    stated = re.search(r"hold in (\d+) % .* by a tenth, (\d+) % at 0.3 and (\d+) % at 0.6", text)
    assert stated
    random = np.random.default_rng(5)
    for spread, share in zip((0.1, 0.3, 0.6), stated.groups(), strict=True):
        held = []
        for pairs in 60 * list(range(2, 11)):
            sides = [base * np.exp(random.normal(0, spread, pairs)) for base in (150.0, 100.0)]
            found = compared(*(cell(*map(float, side)) for side in sides))
            assert found.interval is not None
            held.append(found.interval[0] <= 1.5 <= found.interval[1])
        assert 100 * np.mean(held) == pytest.approx(int(share), abs=4)
