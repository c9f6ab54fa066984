"""The claims on the published tables, and how a verdict comes about."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_builder import known, table

from tcpf_lab.papers.rio import model_figures
from tcpf_lab.papers.rio.model_page import shown
from tcpf_lab.papers.rio.router import solve
from tcpf_lab.papers.thesis import claims as t
from tcpf_lab.report.claims.judge import (
    Check,
    CheckResult,
    Claim,
    ClaimResult,
    Judgement,
    Reading,
    Source,
    Verdict,
    judge,
    read,
)
from tcpf_lab.report.claims.papers import Measured, PaperCheck
from tcpf_lab.report.claims.published import published
from tcpf_lab.report.compare.statistics import CellKey, Sample, measured_sample, published_sample

CLAIMS = t.CLAIMS
PUBLISHED = published_sample()
NOTHING = Sample({}, {})
FRIO, RED = CellKey("A", 100, t.FRIO), CellKey("A", 100, t.RED)


def named(name: str) -> Claim:
    return next(claim for claim in CLAIMS if claim.id == name)


def on_published(name: str) -> ClaimResult:
    return judge(named(name), PUBLISHED, NOTHING)


def values_of(name: str) -> list[float]:
    return [row.published.value or math.nan for row in on_published(name).findings]


def timeouts(frio: list[float], red: list[float]) -> Sample:
    """Two cells with these timeouts, seed by seed."""
    own = {FRIO: frio, RED: red}
    return measured_sample(
        table(
            lambda cell, metric, seed: own[cell][seed - 1],
            seeds=range(1, len(frio) + 1),
            cells=list(own),
        ),
        seed=1,
        resamples=1000,
    )


def claim_of(*checks: Check, every: bool = True) -> Claim:
    return Claim("x", (Source("paper", "1", "so it is"),), "it is so", checks, every)


def gain(
    metric: str, pair: t.Pair, low: float = 1, high: float = math.inf, strict: bool = False
) -> Check:
    return Check(*t.gain(metric, pair)[:2], low, high, strict)


def factor(low: float, high: float = math.inf, strict: bool = False) -> Check:
    """RED's timeouts over those of TCPF+FRIO."""
    return gain(t.TIMEOUTS, (FRIO, RED), low, high, strict)


def test_the_published_table_measured_gives_the_published_verdicts() -> None:
    measured = measured_sample(table(), seed=1, resamples=100)
    for claim in CLAIMS:
        result = judge(claim, PUBLISHED, measured)
        for row in result.findings:
            assert row.ours.value == pytest.approx(row.published.value)
        assert result.ours == result.published


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("thesis-4.1-two-orders", [911 / 41]),
        ("thesis-4.1-loss-half", [7.75 / 4, 4.13 / 2.14]),
        ("thesis-4.1-cov-orders", [0.33 / 0.06, 0.12 / 0.03]),
        ("thesis-4.1-multiplexing", [911 / 253 / 2, 1322 / 491 / 2]),
        ("thesis-4.3-timeouts-percent", [100 * (1864 / 92 - 1), 100 * (1200 / 92 - 1)]),
        ("thesis-4.3-cov-percent", [100 * (0.45 / 0.07 - 1)]),
        ("thesis-4.3-gap-narrows-timeouts", [60 / 92 / (79 / 41), 3 / 7 / (7 / 2)]),
        ("paper-6.2.1-loss-example", [100 * (4 / 9.01 - 1)]),
        ("paper-6.2.1-goodput-example", [100 * (11421 / 9015 - 1)]),
        ("paper-6.2.1-old-marker", [911 / 390, 253 / 49]),
        ("paper-6.2.2-orders", [1127 / 62, 610 / 8]),
        ("paper-6.2.4-loss-17-20", [17.11, 20.58]),
    ],
)
def test_numbers_behind_a_claim(name: str, expected: list[float]) -> None:
    assert values_of(name) == pytest.approx(expected)


def test_numbers_of_differences_growth_and_orders_of_magnitude() -> None:
    amount = on_published("thesis-4.1-scalable-amount").findings[0]
    assert amount.label == "A 100: timeouts TB+RIO - TCPF+FRIO, less that of A 50"
    assert amount.published.value == pytest.approx((911 - 41) - (253 - 2))
    reno = on_published("thesis-4.2-reno-gain-amount")
    goodput = next(row for row in reno.findings if "B 100: goodput TCPF+RIO - TB+RIO" in row.label)
    assert goodput.published.value == pytest.approx((10472 - 9660) - (10575 - 9705))
    assert goodput.unit == " bytes/s"
    similar = on_published("paper-6.2.1-scalable").findings[0]
    assert similar.published.value == pytest.approx(math.log10(911 / 41 / (253 / 2)))
    shadow = on_published("paper-6.2.3-gain-overshadows").findings[0]
    assert shadow.published.value == pytest.approx(1200 / 92 / (92 / 41))
    gap = on_published("thesis-4.1-gap-sizes").findings[0]
    assert gap.published.value == pytest.approx(911 / 41 / (7.75 / 4))


def test_immunity_compares_mistuned_with_well_tuned() -> None:
    labels = [row.label for row in on_published("thesis-4.5-immune").findings]
    assert labels[0] == "timeouts A 100 TB+RIO / C 100 TCPF+FRIO"
    assert "goodput D 50 TCPF+RIO / B 50 NoMark+RED" in labels


def test_claim_of_one_configuration_reads_no_other() -> None:
    measured = measured_sample(
        table(cells=[cell for cell in PUBLISHED.means if cell.config == "A"]), 1, 50
    )
    for claim in CLAIMS:
        if claim.id.startswith(("thesis-4.1-", "paper-6.2.1-")):
            assert judge(claim, PUBLISHED, measured).ours.verdict is not Verdict.OPEN
        if claim.id.startswith(("thesis-4.2-", "paper-6.2.3-")):
            assert judge(claim, PUBLISHED, measured).ours.verdict is Verdict.OPEN


@pytest.mark.parametrize(
    ("red", "verdict"),
    [
        ([200, 210, 190, 205], Verdict.HOLDS),
        ([20, 21, 19, 20], Verdict.REFUTED),
        ([95, 150, 60, 110], Verdict.NOISE),
        ([85, 88, 150, 60], Verdict.NOISE),
    ],
)
def test_noise_decides_nothing(red: list[float], verdict: Verdict) -> None:
    measured = timeouts([10, 10, 10, 10], red)
    result = judge(claim_of(factor(10)), PUBLISHED, measured)
    assert result.ours.verdict is verdict
    reading = result.findings[0].ours
    assert reading.value == pytest.approx(sum(red) / 40)
    assert reading.seeds == 4
    low, high = reading.interval or (math.nan, math.nan)
    assert low <= sum(red) / 40 <= high


@pytest.mark.parametrize("seeds", [1, 2])
def test_few_seeds_decide_nothing_whatever_they_say(seeds: int) -> None:
    for red in (101, 99):
        sample = timeouts([10] * seeds, [red] * seeds)
        assert read(factor(10), sample).verdict is Verdict.FEW
        assert judge(claim_of(factor(10)), PUBLISHED, sample).ours.verdict is Verdict.FEW
    assert read(factor(10), timeouts([10] * 3, [101] * 3)).verdict is Verdict.HOLDS


def test_what_was_not_measured_is_counted_apart() -> None:
    elsewhere = gain(t.TIMEOUTS, t.moved((FRIO, RED), "B"))
    result = judge(
        claim_of(factor(10), factor(20), elsewhere), PUBLISHED, timeouts([1] * 3, [15] * 3)
    )
    assert result.ours == Judgement(Verdict.REFUTED, holding=1, measured=2, checks=3)
    assert str(result.ours) == "1 of 2, 1 not measured"
    assert str(result.published) == "3 of 3"


def test_missing_cells_are_named_and_leave_a_claim_open() -> None:
    result = judge(claim_of(factor(10)), PUBLISHED, NOTHING)
    assert result.ours.verdict is Verdict.OPEN
    assert result.findings[0].ours.value is None
    assert set(result.findings[0].ours.missing) == {"A 100 TCPF+FRIO", "A 100 NoMark+RED"}


def test_one_refuted_check_refutes_whatever_is_missing_and_one_open_check_leaves_it_open() -> None:
    absent = gain(t.TIMEOUTS, (CellKey("B", 50, t.FRIO), CellKey("B", 50, t.RED)))
    measured = timeouts([10] * 5, [50] * 5)
    for low, verdict in ((100, Verdict.REFUTED), (2, Verdict.OPEN)):
        result = judge(claim_of(absent, factor(low)), PUBLISHED, measured)
        assert result.ours.verdict is verdict


def test_up_to_needs_one_check_only() -> None:
    measured = timeouts([10] * 5, [50] * 5)
    absent = gain(t.TIMEOUTS, (CellKey("B", 50, t.FRIO), CellKey("B", 50, t.RED)))
    for checks, verdict in (
        ((factor(100), factor(2)), Verdict.HOLDS),
        ((absent, factor(2)), Verdict.HOLDS),
        ((absent, factor(100)), Verdict.OPEN),
        ((factor(100), factor(200)), Verdict.REFUTED),
    ):
        assert judge(claim_of(*checks, every=False), PUBLISHED, measured).ours.verdict is verdict


def test_no_timeouts_on_one_side_are_an_infinite_factor_and_on_both_sides_none() -> None:
    reading = read(factor(10, strict=True), timeouts([0] * 5, [50, 60, 55, 51, 52]))
    assert reading.value == math.inf
    assert reading.verdict is Verdict.HOLDS
    assert read(factor(10), timeouts([0] * 5, [0] * 5)).verdict is Verdict.OPEN


def test_a_scheme_that_is_as_good_in_every_seed_is_not_better() -> None:
    measured = timeouts([50] * 5, [50] * 5)
    assert read(factor(1, strict=True), measured).verdict is Verdict.REFUTED
    wobbling = timeouts([50] * 5, [49, 51, 50, 52, 48])
    assert read(factor(1, strict=True), wobbling).verdict is Verdict.NOISE
    assert read(factor(1), measured).verdict is Verdict.HOLDS
    assert read(gain(t.TIMEOUTS, (FRIO, FRIO), strict=True), PUBLISHED).verdict is Verdict.REFUTED


@settings(deadline=None)  # the first call loads scipy
@given(
    st.lists(st.integers(1, 1000), min_size=2, max_size=6),
    st.floats(0.1, 20),
    st.floats(0.1, 20),
    st.booleans(),
)
def test_a_verdict_agrees_with_its_interval(
    red: list[int], one: float, other: float, strict: bool
) -> None:
    low, high = sorted((one, other))
    reading = read(factor(low, high, strict), timeouts([10.0] * len(red), [float(x) for x in red]))
    assert reading.interval is not None
    first, last = reading.interval
    if reading.verdict is Verdict.HOLDS:
        assert low <= first <= last <= high
    if reading.verdict is Verdict.REFUTED:  # an end left out may be touched
        assert (last <= low or first >= high) if strict else (last < low or first > high)
    if reading.verdict is Verdict.NOISE:
        assert first <= high
        assert last >= low


def test_gain_is_above_1_where_the_first_cell_is_better_in_every_metric() -> None:
    for metric in (t.TIMEOUTS, t.LOSS, t.GOODPUT, t.COV):
        reading = read(gain(metric, (FRIO, RED)), PUBLISHED)
        numbers = known(FRIO)[metric], known(RED)[metric]
        assert reading.value == pytest.approx(max(numbers) / min(numbers))


def test_a_finding_tells_its_range() -> None:
    row = judge(claim_of(factor(2, 5)), PUBLISHED, NOTHING).findings[0]
    published = Reading(pytest.approx(1322 / 41), None, 0, Verdict.REFUTED)
    label = "A 100: timeouts NoMark+RED / TCPF+FRIO"
    assert row == CheckResult(label, "", 2, 5, False, published, row.ours)


def two_blocks(one: tuple[float, float], other: tuple[float, float]) -> Sample:
    """TCPF+FRIO's and RED's value in A 100, then in B 100; every metric has them."""
    values = dict(zip((FRIO, RED, *t.moved((FRIO, RED), "B")), (*one, *other), strict=True))
    cells = table(lambda cell, name, seed: values[cell], seeds=[1, 2, 3], cells=list(values))
    return measured_sample(cells, 1, 0)


@pytest.mark.parametrize(
    ("first", "second", "metric", "difference"),
    [
        ((10, 15), (20, 28), t.TIMEOUTS, 3),
        ((10, 15), (20, 25), t.TIMEOUTS, 0),  # equal is not farther
        ((15, 10), (28, 20), t.TIMEOUTS, -3),  # worse, and by more: no growth
        ((15, 10), (10, 15), t.TIMEOUTS, 10),
        ((100, 90), (95, 80), t.GOODPUT, 5),
        ((90, 100), (80, 95), t.GOODPUT, -5),
    ],
)
def test_an_amount_grows_by_a_difference_whatever_its_sign(
    first: tuple[float, float], second: tuple[float, float], metric: str, difference: float
) -> None:
    pair = FRIO, RED
    grown = Check(*t.amount_growth(metric, pair, "B")[:2], low=0, strict=True)
    reading = read(grown, two_blocks(first, second))
    assert reading.value == difference
    assert reading.verdict is (Verdict.HOLDS if difference > 0 else Verdict.REFUTED)


def scaled(sample: Sample, config: str, excess: float) -> Sample:
    """The published cells; the gain of TCPF+FRIO over RED in goodput, less 1, times ``excess``."""
    means = {cell: dict(own) for cell, own in sample.means.items()}
    for flows in (100, 50):
        frio, red = (CellKey(config, flows, case) for case in (t.FRIO, t.RED))
        gain = means[frio][t.GOODPUT] / means[red][t.GOODPUT]
        means[frio][t.GOODPUT] = means[red][t.GOODPUT] * (1 + excess * (gain - 1))
    return Sample(means, {})


@pytest.mark.parametrize(
    ("name", "config", "excess", "stays"),
    [
        ("thesis-4.3-gains-kept", "C", 0.6, True),
        ("thesis-4.3-gains-kept", "C", 0.3, False),
        ("thesis-4.3-gains-kept", "A", -0.1, False),
        ("thesis-4.4-gains-kept", "D", 0.3, False),
        ("paper-6.2.2-similar-gains", "B", 0.6, True),
        ("paper-6.2.2-similar-gains", "B", 0.3, False),
        ("paper-6.2.2-similar-gains", "B", 2.2, False),
    ],
)
def test_a_gain_near_1_that_is_lost_fails_its_check(
    name: str, config: str, excess: float, stays: bool
) -> None:
    """With 16 to 33 % more goodput than RED no loss of it would halve the factor."""
    rows = judge(named(name), PUBLISHED, scaled(PUBLISHED, config, excess)).findings
    goodput = [r.ours.verdict for r in rows if "goodput TCPF+FRIO / NoMark+RED" in r.label]
    assert goodput == [Verdict.HOLDS if stays else Verdict.REFUTED] * 2


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (3.0, 2.0, Verdict.HOLDS),
        (3.0, 0.5, Verdict.HOLDS),  # half too few is nearer than three times too many
        (1.2, 0.5, Verdict.REFUTED),
        (2.0, 2.0, Verdict.REFUTED),
        (0.8, 0.7, Verdict.REFUTED),  # FRIO is the worse one: no gap that could narrow
        (0.7, 0.8, Verdict.REFUTED),
        (1.0, 1.0, Verdict.REFUTED),
        (math.nan, 1.0, Verdict.OPEN),
        (2.0, math.nan, Verdict.OPEN),
    ],
)
def test_a_gap_narrows_if_there_is_one_and_it_comes_nearer_to_none(
    before: float, after: float, verdict: Verdict
) -> None:
    check = named("thesis-4.3-gap-narrows-timeouts").checks[0]
    gains = {"A": before, "C": after}
    means = {
        CellKey(config, 100, case): {
            t.TIMEOUTS: np.array([gains[config] if case == t.RIO else 1.0])
        }
        for config in gains
        for case in (t.FRIO, t.RIO)
    }
    assert read(check, Sample(means, {})).verdict is verdict


def test_an_interval_that_ends_on_a_bound_that_is_left_out_is_outside_of_the_range() -> None:
    assert factor(1, strict=True).excludes(0.5, 1)
    assert not factor(1, strict=True).excludes(1, 1.5)
    assert not factor(1).excludes(0.5, 1)
    assert factor(1, 2, strict=True).excludes(2, 3)
    assert not factor(1, 2).excludes(2, 3)
    assert not factor(1, strict=True).excludes(math.inf, math.inf), "an open side has no end"
    sometimes_equal = timeouts([10] * 4, [10, 9, 9, 9])
    reading = read(factor(1, strict=True), sometimes_equal)
    assert reading.interval is not None
    assert reading.interval[1] == 1
    assert reading.verdict is Verdict.REFUTED


def test_a_number_that_is_not_there_or_infinite_says_why() -> None:
    assert read(factor(1), NOTHING).note == "missing: a cell has no usable run"
    assert read(factor(1), timeouts([0], [0])).note.startswith("undefined")
    assert read(factor(1), timeouts([0], [1])).note == "infinite"
    assert read(factor(1), timeouts([1], [1])).note == ""
    check = named("thesis-4.3-gap-narrows-timeouts").checks[0]
    means = {
        CellKey(config, 100, case): {t.TIMEOUTS: np.ones(1)}
        for config in "AC"
        for case in (t.FRIO, t.RIO)
    }
    assert read(check, Sample(means, {})).note == "minus infinite"


def test_a_statement_stands_by_itself_and_names_cases_in_one_way() -> None:
    for claim in CLAIMS:
        assert not re.match(r"The same|Each of these|That ", claim.statement), claim.id
        assert "NoMark" not in claim.statement, claim.id
        # Which cells: a configuration, or all of them.
        assert re.search(r"\b[A-D]\b|block|configuration", claim.statement), claim.id
        assert not any(x.sentence.startswith(("The same", "That ")) for x in claim.sources)
    assert named("paper-6.2.1-all-metrics").statement.startswith(
        "A: TCPF+FRIO and TCPF+RIO are better than TB+RIO, FRED, tail drop and RED in all four"
    )


# Sentences of RR-4469 on the model: each has its numbers, and its verdict follows from them.


def test_a_number_decides_by_its_range() -> None:
    below = PaperCheck("x", Measured((5.0,)), high=5, strict=True, unit="%")
    assert (below.verdict, below.range, shown(below)) == (
        Verdict.REFUTED,
        "below 5 %",
        "5.00 %",
    )
    assert PaperCheck("x", Measured((2.485,)), 2.48, 2.5).verdict is Verdict.HOLDS


@pytest.mark.full
def test_boundary_of_a_limit_is_where_the_loss_is_the_limit() -> None:
    first, second = model_figures.boundary(0.006)
    assert first[0] == 0
    assert (np.diff(second) > 0).all()
    for one, two in zip(first, second, strict=True):
        scenario = replace(model_figures.base(), in_probability=one, out_probability=two)
        assert abs(solve(scenario).p_in - 0.006) < 2e-5


#


def test_a_cell_has_the_printed_numbers() -> None:
    assert published("A", "NoMark+RED", 100) == {
        "timeouts": 1322.0,
        "loss_percent": 9.01,
        "goodput_bytes_per_s": 9015.0,
        "goodput_cov": 0.38,
    }


def test_the_misprinted_goodput_is_read_in_kilobytes() -> None:
    cell = published("D", "TCPF(O)+RIO", 100)
    assert cell is not None
    assert cell["goodput_bytes_per_s"] == 9892.0


def test_what_was_not_published_is_none() -> None:
    assert published("A", "NoMark+RED", 10) is None
    assert published("E", "NoMark+RED", 100) is None
    assert published("A", "nomark+red", 100) is None


def test_changing_an_answer_does_not_change_the_table() -> None:
    cell = published("A", "NoMark+RED", 100)
    assert cell is not None
    cell["timeouts"] = 0.0
    assert published("A", "NoMark+RED", 100) != cell
