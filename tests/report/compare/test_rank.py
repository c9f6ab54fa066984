from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import kendalltau
from table_builder import cell_result, known, table

from tcpf_lab.base.errors import LabError
from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.report.claims.published import CONFIGS, FLOWS, THESIS_CASES
from tcpf_lab.report.compare.statistics import (
    PUBLISHED_CELLS,
    CellKey,
    Ranking,
    Sample,
    correlation,
    interval,
    measured_sample,
    published_sample,
    rankings,
    tau_b,
    used_seeds,
)
from tcpf_lab.report.section import Cell, CellResult, Problem
from tcpf_lab.report.style import CASES, DRAWN

A100 = [CellKey("A", 100, case) for case in CASES]
RANKS = arrays(float, 7, elements=st.integers(-3, 3).map(float))


def ranked(results: list[CellResult], metric: str = "timeouts") -> Ranking:
    sample = measured_sample(results, seed=1, resamples=500)
    return next(row for row in rankings(sample, published_sample()) if row.metric == metric)


def by_place(places: dict[str, float], wobble: float = 0.0) -> list[CellResult]:
    """Block A 100 with these means; seeds 1 to 8 add their own wobble, a different one per case."""

    def value(cell: CellKey, metric: str, seed: int) -> float:
        return places[cell.case] + wobble * np.sin(7 * seed + list(CASES).index(cell.case))

    return table(value, seeds=range(1, 9), cells=[CellKey("A", 100, case) for case in places])


@settings(deadline=None)
@given(RANKS, RANKS)
def test_tau_is_that_of_scipy(x: np.ndarray, y: np.ndarray) -> None:
    ours, theirs = tau_b(x, y)[0], kendalltau(x, y).statistic
    assert ours == pytest.approx(theirs, nan_ok=True)


@settings(deadline=None)
@given(RANKS, RANKS)
def test_tau_is_bounded_and_symmetric_and_turns_with_its_argument(
    x: np.ndarray, y: np.ndarray
) -> None:
    tau = tau_b(x, y)[0]
    assume(not np.isnan(tau))
    assert -1 <= tau <= 1
    assert tau_b(y, x)[0] == pytest.approx(tau)
    assert tau_b(x, -y)[0] == pytest.approx(-tau)
    assert tau_b(x, x)[0] == pytest.approx(1)


@settings(deadline=None)
@given(arrays(float, (5, 4), elements=st.integers(0, 3).map(float)))
def test_many_columns_are_each_their_own(y: np.ndarray) -> None:
    x = np.arange(5.0)
    each = [tau_b(x, y[:, column])[0] for column in range(4)]
    np.testing.assert_array_equal(tau_b(x, y), each)


def test_tau_of_equal_values_is_undefined() -> None:
    assert np.isnan(tau_b(np.ones(3), np.arange(3.0))).all()


@pytest.mark.parametrize(("x", "y"), [([1.0], [1.0]), ([1.0, 2.0], [1.0, 2.0, 3.0])])
def test_tau_needs_two_cases_and_equal_lengths(x: list[float], y: list[float]) -> None:
    with pytest.raises(ValueError, match="two cases or more"):
        tau_b(np.array(x), np.array(y))


def test_the_published_order_has_tau_1_and_nothing_reversed() -> None:
    sample = measured_sample(table(), seed=1, resamples=200)
    rows = list(rankings(sample, published_sample()))
    assert len(rows) == 8 * 4
    assert all(row.tau == pytest.approx(1) for row in rows)
    assert all(row.interval == pytest.approx((1, 1)) for row in rows)
    assert {row.reversed for row in rows} == {()}
    assert {row.missing for row in rows} == {()}
    assert all(row.order == row.published_order and row.ties == row.published_ties for row in rows)
    a50 = next(r for r in rows if (r.config, r.flows, r.metric) == ("A", 50, "goodput_cov"))
    assert a50.published_ties == (("TB+RIO", "NoMark+TailDrop"),)  # both are printed as 0.12


def test_a_swapped_pair_lowers_tau_by_two_pairs_of_21() -> None:
    places = {case: float(place) for place, case in enumerate(CASES)}
    places["TB+RIO"], places["NoMark+FRED"] = places["NoMark+FRED"], places["TB+RIO"]
    row = ranked(by_place(places))
    assert row.tau == pytest.approx(1 - 2 / 21)
    assert row.reversed == (("NoMark+FRED", "TB+RIO"),)
    assert row.ties == ()
    assert row.order[3:5] == ("NoMark+FRED", "TB+RIO")


def test_neighbours_whose_seeds_disagree_are_a_tie_and_not_reversed() -> None:
    places = {case: 10.0 * place for place, case in enumerate(CASES)}
    places["TB+RIO"] = places["NoMark+FRED"] + 0.01  # the published order is the other one
    row = ranked(by_place(places, wobble=1.0))
    tie = {"TB+RIO", "NoMark+FRED"}
    assert [set(pair) for pair in row.ties] == [tie]
    assert row.reversed == ()
    assert row.interval == pytest.approx((1 - 2 / 21, 1))


def test_a_difference_that_every_seed_shows_is_no_tie_however_much_the_seeds_vary() -> None:
    """That is what pairing is for: both cases move together by far more than their distance."""

    def value(cell: CellKey, metric: str, seed: int) -> float:
        return 100 * seed + list(CASES).index(cell.case)

    row = ranked(table(value, cells=A100))
    assert row.ties == ()
    assert row.interval == pytest.approx((1, 1))


def test_cases_that_are_missing_are_named_and_the_others_ranked() -> None:
    row = ranked(table(cells=A100[:3]))
    assert row.order == tuple(CASES)[:3]
    assert row.missing == tuple(CASES)[3:]
    assert row.tau == pytest.approx(1)


def test_one_case_has_no_rank() -> None:
    row = ranked(table(cells=A100[:1]))
    assert (row.tau, row.interval) == (None, None)
    assert "one case" in row.note


def test_equal_cases_have_no_order() -> None:
    row = ranked(by_place(dict.fromkeys(CASES, 5.0)))
    assert row.tau is None
    assert "equal" in row.note
    assert len(row.ties) == 6


def test_one_seed_gives_tau_without_interval_and_says_so() -> None:
    row = ranked(table(seeds=[3], cells=A100))
    assert row.tau == pytest.approx(1)
    assert row.interval is None
    assert row.seeds == 1
    assert "one seed" in row.note


def test_only_measured_blocks_are_ranked() -> None:
    sample = measured_sample(table(cells=A100), seed=1, resamples=10)
    rows = list(rankings(sample, published_sample()))
    assert [(row.config, row.flows, row.metric) for row in rows] == [("A", 100, m) for m in DRAWN]


def test_resamples_take_the_same_seeds_in_every_cell() -> None:
    def value(cell: CellKey, metric: str, seed: int) -> float:
        return seed + known(cell)["timeouts"]

    sample = measured_sample(table(value, cells=A100), seed=4, resamples=300)
    one, other = (sample.values(cell, "timeouts") for cell in A100[:2])
    np.testing.assert_allclose(other - one, 120 - 41)
    assert np.ptp(one) > 1
    assert one[0] == pytest.approx(41 + 3.5)


def test_a_seed_missing_in_one_cell_leaves_the_others_paired() -> None:
    whole = table(lambda cell, metric, seed: float(seed), seeds=[1, 2, 3], cells=A100[:1])
    values = {metric: [1.0, 3.0] for metric in DRAWN}
    part = cell_result(A100[1], values, [1, 3])
    sample = measured_sample([*whole, part], seed=1, resamples=2000)
    full, partial = (sample.values(cell, "timeouts")[1:] for cell in A100[:2])
    assert sample.seeds == {A100[0]: 3, A100[1]: 2}
    # With seed 2 drawn three times there is nothing of the cell that lacks it.
    assert np.isnan(partial[full == 2]).any()
    assert set(partial[full == 1]) == {1.0}
    assert set(partial[full == 3]) == {3.0}
    assert interval(partial, 2) == (1.0, 3.0)


def test_the_same_seed_of_the_bootstrap_gives_the_same_resamples() -> None:
    def sample(seed: int) -> Sample:
        results = table(lambda cell, metric, number: float(number), cells=A100[:1])
        return measured_sample(results, seed, 100)

    first, again, another = (sample(seed).values(A100[0], "timeouts") for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != another).any()


def test_interval_of_ten_seeds_covers_the_truth_as_often_as_students() -> None:
    """Student's interval of the same draws is exact; the plain percentiles would miss 5 % more."""
    generator = np.random.default_rng(11)
    hits, exact, tries = 0, 0, 400
    for number in range(tries):
        drawn = generator.normal(size=10)
        metrics = dict.fromkeys(DRAWN, drawn.tolist())
        result = cell_result(A100[0], metrics, range(1, 11))
        values = measured_sample([result], number, 1000).values(A100[0], "timeouts")
        low, high = interval(values[1:], 10) or (np.nan, np.nan)
        mean, half = mean_ci(drawn.tolist())
        hits += low <= 0 <= high
        exact += abs(mean) <= (half or 0)
    assert abs(hits - exact) <= 0.02 * tries


@pytest.mark.full
def test_coverage_in_the_document_is_what_a_simulation_has() -> None:
    """Means of normal numbers, 400 draws for each number of seeds: 2.5 % is one deviation."""
    text = (Path(__file__).parents[3] / "docs" / "papers.md").read_text(encoding="utf-8")
    rows = {
        name: [int(cell.removesuffix(" %")) for cell in row.strip("| ").split(" | ")]
        for name, row in re.findall(r"^\| (seeds|plain|expanded) \|(.*)$", text, re.MULTILINE)
    }
    generator = np.random.default_rng(3)
    for place, seeds in enumerate(rows["seeds"]):
        plain = expanded = 0
        for _ in range(400):
            counts = generator.multinomial(seeds, np.full(seeds, 1 / seeds), size=500)
            means = counts @ generator.normal(size=seeds) / seeds
            low, high = np.quantile(means, (0.025, 0.975))
            plain += low <= 0 <= high
            low, high = interval(means, seeds) or (np.nan, np.nan)
            expanded += low <= 0 <= high
        assert plain / 4 == pytest.approx(rows["plain"][place], abs=7)
        assert expanded / 4 == pytest.approx(rows["expanded"][place], abs=7)


def test_infinite_resamples_count_and_undefined_ones_do_not() -> None:
    assert interval(np.array([np.inf, 1.0, np.nan, 2.0]), 2) == (1.0, np.inf)
    assert interval(np.array([np.nan]), 5) is None
    assert interval(np.empty(0), 5) is None
    assert interval(np.arange(100.0), 1) is None


def test_published_sample_has_all_56_cells_and_no_resamples() -> None:
    sample = published_sample()
    assert len(PUBLISHED_CELLS) == 56 == len(sample.means)
    assert sample.values(A100[0], "timeouts").tolist() == [41]
    assert np.isnan(sample.values(CellKey("E", 1, "x"), "timeouts")).tolist() == [True]


def test_runs_left_out_give_no_seed_and_runs_used_all_the_same_do() -> None:
    cell = Cell("A", "TB+RIO", 100, ("a-seed1", "a-seed2", "a-seed13"))
    problems = (Problem("a-seed1", "invalid", used=True), Problem("a-seed2", "missing"))
    assert used_seeds(CellResult(cell, 2, 1, 2, {}, problems)) == (1, 13)


def test_a_run_without_a_seed_in_its_name_is_refused() -> None:
    result = CellResult(Cell("A", "TB+RIO", 100, ("strange",)), 1, 1, 1, {}, ())
    with pytest.raises(LabError, match=r"strange.*-seedN"):
        used_seeds(result)


def test_a_cell_given_twice_is_refused() -> None:
    with pytest.raises(LabError, match="twice"):
        measured_sample([*table(cells=A100), *table(cells=A100)], 1, 10)


def test_correlation_is_tau_where_there_is_one() -> None:
    x, y = np.arange(3.0), np.array([[1.0, 3.0], [2.0, 2.0], [3.0, 1.0]])
    found = correlation(x, y)
    assert found is not None
    np.testing.assert_array_equal(found, [1, -1])
    assert correlation(x, np.ones(3)) is None
    assert correlation(np.ones(3), x) is None
    assert correlation(x[:1], x[:1]) is None
    assert correlation(np.empty(0), np.empty(0)) is None


def test_what_was_published_has_one_home() -> None:
    assert {cell.config for cell in PUBLISHED_CELLS} == set(CONFIGS)
    assert {cell.flows for cell in PUBLISHED_CELLS} == set(FLOWS)
    assert [case for case in CASES if case in THESIS_CASES] == list(THESIS_CASES)
