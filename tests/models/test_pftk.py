"""PFTK against worked values, its limits, and the shapes it takes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tcpf_lab.base.errors import RequestError
from tcpf_lab.metrics import pftk
from tcpf_lab.papers.buffers import (
    bandwidth_delay_product,
    effective_rtt,
    long_flows_rule,
    small_buffer_packets,
)
from tcpf_lab.papers.rio.router import paper_scenarios, settings_for, solve


@pytest.mark.parametrize(
    ("p", "b", "wm", "by_full", "by_approximation"),
    [
        (0.01, 2, None, 38.162, 38.910),
        (0.05, 2, None, 12.452, 12.047),
        (0.1, 2, None, 6.820, 5.510),
        (0.01, 1, None, 54.368, 55.027),
        (0.001, 2, 20, 88.283, 100.0),
    ],
)
def test_formulas_give_the_worked_values(
    p: float, b: int, wm: float | None, by_full: float, by_approximation: float
) -> None:
    assert pftk.full(p, 0.2, 1.0, b=b, wm=wm) == pytest.approx(by_full, abs=5e-4)
    assert pftk.approximate(p, 0.2, 1.0, b=b, wm=wm) == pytest.approx(by_approximation, abs=5e-4)


def test_a_column_of_flows_gives_what_each_flow_gives_alone() -> None:
    p, rtt = np.array([0.001, 0.01, 0.2]), np.array([[0.05], [0.3]])
    for formula in (pftk.full, pftk.approximate):
        rates = formula(p, rtt, 0.4, wm=30)
        alone = [[formula(one, delay, 0.4, wm=30) for one in p] for delay in rtt[:, 0]]
        assert rates.shape == (2, 3)
        np.testing.assert_array_equal(rates, alone)


@pytest.mark.parametrize("formula", [pftk.full, pftk.approximate])
def test_without_losses_only_the_window_limits(formula: pftk.Formula) -> None:
    assert formula(0, 0.2, 1.0, wm=20) == pytest.approx(100)
    assert formula(1e-9, 0.2, 1.0, wm=20) == pytest.approx(100, rel=1e-5)
    assert formula(0, 0.2, 1.0) == np.inf


def test_where_all_is_lost_a_packet_goes_with_each_timeout() -> None:
    # f(1) = 64: the timer stands at 64 times its first value.
    assert pftk.full(1.0, 0.2, 1.0) == pytest.approx(1 / 64)


@pytest.mark.parametrize("formula", [pftk.full, pftk.approximate])
def test_more_losses_longer_paths_and_longer_timers_slow_a_flow_down(
    formula: pftk.Formula,
) -> None:
    p = np.geomspace(1e-5, 0.9, 200)
    rates = formula(p, 0.1, 0.5)
    assert (np.diff(rates) < 0).all()
    assert (formula(p, 0.11, 0.5) < rates).all()
    assert (formula(p, 0.1, 0.6) < rates).all()


def test_few_losses_give_the_square_root_law() -> None:
    rtt, p = 0.1, 1e-7
    assert pftk.full(p, rtt, 1.0) * rtt * np.sqrt(2 * p / 3) == pytest.approx(1, rel=2e-3)


def test_a_window_of_three_packets_cannot_be_told_of_a_loss_but_by_the_timer() -> None:
    p = np.full(3, 1e-5)
    shares = pftk.timeout_share(p, np.array([2.0, 3.0, 12.0]))
    assert shares[0] == shares[1] == 1
    assert shares[2] == pytest.approx(3 / 12, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("p", (1.1, 0.2, 1.0, 1)),
        ("p", ([0.1, -0.1], 0.2, 1.0, 1)),
        ("rtt", (0.1, 0, 1.0, 1)),
        ("t0", (0.1, 0.2, -1.0, 1)),
        ("b", (0.1, 0.2, 1.0, 0)),
    ],
)
def test_values_out_of_range_are_named(name: str, arguments: tuple[float, ...]) -> None:
    with pytest.raises(RequestError) as caught:
        pftk.full(*arguments)
    assert caught.value.where == name


def test_what_is_not_known_of_a_flow_stays_unknown() -> None:
    rates = pftk.full([0.01, np.nan], 0.2, 1.0)
    assert np.isfinite(rates[0])
    assert np.isnan(rates[1])


# Rules for buffers, with the numbers of the study's own setting: 1 Gbit/s, RTT 30 to 150 ms.

SPREAD = np.linspace(0.03, 0.15, 100_001)


def test_effective_rtt_of_an_even_spread_is_its_harmonic_mean() -> None:
    assert effective_rtt(SPREAD.tolist()) == pytest.approx(0.12 / np.log(5), rel=1e-4)


def test_bdp_of_the_study() -> None:
    assert bandwidth_delay_product(1e9, effective_rtt(SPREAD.tolist())) == pytest.approx(
        9.32e6, rel=1e-3
    )
    assert bandwidth_delay_product(1e9, 0.09) == pytest.approx(11.25e6)


@pytest.mark.parametrize(("users", "kilobytes"), [(1000, 295), (2000, 208), (3000, 170)])
def test_rule_for_many_flows(users: int, kilobytes: float) -> None:
    size = long_flows_rule(1e9, effective_rtt(SPREAD.tolist()), users)
    assert size == pytest.approx(1e3 * kilobytes, rel=3e-3)


@pytest.mark.parametrize(("window", "packets"), [(8, 25.85), (64, 44.49), (1000, 69.13)])
def test_small_buffer_rule_by_hand(window: float, packets: float) -> None:
    assert small_buffer_packets(window) == pytest.approx(packets, abs=0.01)


def test_small_buffer_rule_grows_with_load_and_share() -> None:
    assert small_buffer_packets(64, load=0.9) > small_buffer_packets(64, load=0.8)
    assert small_buffer_packets(64, share=0.99) > small_buffer_packets(64, share=0.9)


def test_values_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="needs round-trip times"):
        effective_rtt([])
    with pytest.raises(ValueError, match="needs round-trip times"):
        effective_rtt([0.1, 0.0])
    with pytest.raises(ValueError, match="rate must be above 0"):
        bandwidth_delay_product(0, 0.1)
    with pytest.raises(ValueError, match="flows must be above 0"):
        long_flows_rule(1e9, 0.1, 0)
    with pytest.raises(ValueError, match="between 0 and 1"):
        small_buffer_packets(64, load=1)


# Settings that keep a limit.

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
