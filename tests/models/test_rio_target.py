"""Settings that keep a limit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcpf_lab.base.errors import RequestError
from tcpf_lab.papers.rio.router import paper_scenarios, settings_for, solve

FULL, _, PART = paper_scenarios().values()


def test_out_probability_for_the_papers_limit_of_in() -> None:
    """Section 5.3 says 2.49 %; 1.687 % where every round trip takes 16 ms more."""
    scenario = replace(FULL, in_probability=0.0)
    answer = settings_for(scenario, "p_in", 0.006, "out_probability")
    assert round(100 * answer.kept[0].low, 3) == 2.485
    assert [one.high for one in answer.kept] == [1.0]
    assert answer.edge == answer.kept[0].low
    longer = settings_for(replace(scenario, extra_rtt=0.016), "p_in", 0.006, "out_probability")
    assert round(100 * longer.kept[0].low, 3) == 1.687


def test_a_threshold_is_found_to_the_packet() -> None:
    answer = settings_for(FULL, "q", 40, "out_min")
    (kept,) = answer.kept
    assert kept.low == 0
    last = int(kept.high)
    assert solve(replace(FULL, out_min=last)).q <= 40 < solve(replace(FULL, out_min=last + 1)).q


def test_a_limit_that_none_keeps_and_one_that_all_keep() -> None:
    none = settings_for(FULL, "p_in", 1e-9, "out_probability")
    assert none.kept == ()
    assert none.edge is None
    assert none.least[0] == 1.0
    assert none.least[1] == pytest.approx(solve(replace(FULL, out_probability=1.0)).p_in)
    every = settings_for(FULL, "q", 99, "out_probability")
    assert [(one.low, one.high) for one in every.kept] == [(0.0, 1.0)]
    assert every.edge is None


def test_what_may_be_varied_stays_in_order() -> None:
    for vary, low, high in (("in_min", 0, 100), ("out_max", 20, 100), ("in_max", 100, 1000)):
        tried = settings_for(PART, "q", 40, vary).tried
        assert (tried.low, tried.high) == (low, high)


def test_unknown_words_are_refused() -> None:
    with pytest.raises(RequestError, match="one of T, T_in"):
        settings_for(FULL, "p", 0.1, "in_min")
    with pytest.raises(RequestError, match="one of in_probability"):
        settings_for(FULL, "q", 10, "capacity")
