"""A sentence of a paper: every verdict is reached, and nothing is judged that was not measured."""

from __future__ import annotations

import math

import pytest

from tcpf_lab.report.claims.judge import (
    Measured,
    PaperCheck,
    PaperClaim,
    Source,
    Verdict,
    counted,
    paired,
)

SOURCES = (Source("001", "3", "it is so"),)


def check(*values: float, low: float = -math.inf, high: float = math.inf) -> PaperCheck:
    return PaperCheck("loss", Measured(values), low, high)


def claim(*checks: PaperCheck, every: bool = True) -> PaperClaim:
    return PaperClaim("x-1", SOURCES, "loss at least 0.3", checks, every)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((0.5, 0.52, 0.51), Verdict.HOLDS),
        ((0.1, 0.12, 0.11), Verdict.REFUTED),
        ((0.2, 0.6, 0.3), Verdict.NOISE),
        ((0.31,), Verdict.HOLDS),
        ((0.29,), Verdict.REFUTED),
        ((), Verdict.OPEN),
        ((0.5, math.nan), Verdict.OPEN),
        ((math.inf,), Verdict.HOLDS),
        ((math.inf, 0.5, 0.6), Verdict.HOLDS),
        ((math.inf, 0.1, 0.2), Verdict.NOISE),
    ],
)
def test_an_interval_must_lie_on_one_side_of_the_bound(
    values: tuple[float, ...], verdict: Verdict
) -> None:
    assert check(*values, low=0.3).verdict == verdict


def test_the_number_has_students_interval_and_its_seeds() -> None:
    one = PaperCheck("loss", Measured((2.0, 4.0, 6.0)), low=1, unit="%", decimals=1)
    assert one.number == "4.0 ± 5.0 % (3 seeds)"
    assert PaperCheck("loss", Measured((2.0,)), low=1).number == "2.00 (1 seed)"


def test_negative_numbers_have_a_minus_sign_and_nothing_has_none() -> None:
    assert PaperCheck("loss", Measured((-0.0001,)), decimals=3).number == "0.000 (1 seed)"
    assert PaperCheck("loss", Measured((-0.5,)), decimals=1).number == "−0.5 (1 seed)"


def test_what_is_missing_is_said_and_not_judged() -> None:
    one = PaperCheck("loss", Measured((), ("CBR with 8 flows",)), low=1)
    assert (one.number, one.verdict) == ("missing: CBR with 8 flows", Verdict.OPEN)
    assert claim(check(1.0, low=0), one).missing == ("CBR with 8 flows",)


def test_a_number_is_worked_out_seed_by_seed_where_both_sides_were_run() -> None:
    difference = paired(lambda a, b: a - b, {1: 3.0, 2: 5.0, 4: 1.0}, {2: 4.0, 1: 1.0, 3: 9.0})
    assert difference.values == (2.0, 1.0)
    alone = paired(lambda a, b: a - b, {1: 3.0}, {2: 4.0})
    assert alone.mean is None
    assert alone.missing == ("no seed that all of it was run with",)
    assert paired(abs, {1: -1.0}, missing=("SACK",)) == Measured((), ("SACK",))


def test_a_claim_needs_all_of_its_checks_or_any() -> None:
    good, bad, none = check(1.0, low=0), check(-1.0, low=0), check(low=0)
    assert claim(good, bad).judgement.verdict == Verdict.REFUTED
    assert claim(good, none).judgement.verdict == Verdict.OPEN
    assert claim(good, bad, every=False).judgement.verdict == Verdict.HOLDS
    assert claim(bad, none, every=False).judgement.verdict == Verdict.OPEN
    assert claim(good, bad).judgement.holding == 1


def test_verdicts_are_counted() -> None:
    two, one, none = check(1.0, 1.1, low=0), check(1.0, low=0), check(low=0)
    assert counted([claim(two), claim(none)]) == "Of 2 claims: 1 hold, 1 not decidable."
    assert counted([claim(two), claim(one), claim(none)]) == (
        "Of 3 claims: 2 hold, 1 not decidable. Verdicts that stand on one run: 1."
    )


def test_check_that_decides_nothing_shows_its_number() -> None:
    check = PaperCheck("x", Measured((2.0,)), low=1, undecidable="scaled")
    assert check.verdict is Verdict.OPEN
    assert check.told == "not decidable"
    assert check.number == "2.00 (1 seed)"
