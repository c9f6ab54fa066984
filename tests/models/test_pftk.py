"""PFTK against worked values, its limits, and the shapes it takes."""

from __future__ import annotations

import numpy as np
import pytest

from tcpf_lab.base.errors import RequestError
from tcpf_lab.metrics import pftk


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
