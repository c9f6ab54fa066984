"""The halves of the RIO model, each against another way to the same numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tcpf_lab.papers.rio.router import (
    Period,
    drop_curve,
    paper_scenarios,
    period,
    period_with_full_bucket,
    router,
)

FULL, NONE, _ = paper_scenarios().values()


@pytest.mark.parametrize("scenario", [FULL, NONE, replace(FULL, in_min=100)])
@pytest.mark.parametrize(("total", "total_in"), [(5900.0, 3700.0), (6500.0, 6500.0), (300.0, 0.0)])
def test_occupancy_is_stationary(scenario, total: float, total_in: float) -> None:
    state = router(scenario, total, total_in)
    share = total_in / total
    drop = share * scenario.drop_in() + (1 - share) * scenario.drop_out()
    size = drop.size
    rates = np.zeros((size, size))
    for length in range(size - 1):
        rates[length, length + 1] = total * (1 - drop[length])
        rates[length + 1, length] = scenario.capacity
    balance = state.occupancy @ rates - state.occupancy * rates.sum(axis=1)
    assert np.abs(balance).max() < 1e-9 * total
    assert state.p_in == pytest.approx(np.sum(state.occupancy * scenario.drop_in()))


def test_a_heavier_load_makes_more_losses_and_a_longer_queue() -> None:
    states = [router(FULL, load, 0.6 * load) for load in np.linspace(1000, 20000, 60)]
    for name in ("p_in", "p_out", "q"):
        assert (np.diff([getattr(state, name) for state in states]) > 0).all()


def test_drop_curve_without_a_slope_is_tail_drop() -> None:
    assert drop_curve(3, 3, 0.5, 4).tolist() == [0, 0, 0, 1, 1]


def bucket_by_steps(window: float, rho: float, sigma: float, level: float) -> tuple[float, float]:
    """Grow the window by a packet per round trip in small steps; return IN and OUT packets sent.

    The level of the bucket at a period's start is that at its end, unless it is given.
    """
    steps = 20_000
    sizes = np.linspace(window / 2, window, steps, endpoint=False) + window / 4 / steps
    step = window / 2 / steps  # round trips
    sent_in = 0.0
    for size in sizes:
        level += rho * step
        taken = min(level, size * step)
        sent_in += taken
        level = min(level - taken, sigma)
    return sent_in, 3 * window**2 / 8 - sent_in


@pytest.mark.parametrize(
    ("rho", "sigma", "p_in", "p_out"),
    [
        (8, 20, 0.004, 0.016),  # as in the paper: never overflows
        (40, 20, 0.001, 0.01),  # full, then empty
        (60, 20, 0.001, 0.01),  # never empty
        (25, 2, 0.0001, 0.02),
        (15, 10, 0.03, 0.002),  # OUT is lost less
    ],
)
def test_tokens_of_a_period_after_a_timeout_are_those_of_a_bucket(
    rho: float, sigma: float, p_in: float, p_out: float
) -> None:
    with np.errstate(all="ignore"):
        one = period_with_full_bucket(np.array([rho]), np.array([sigma]), p_in, p_out)
    sent_in, sent_out = bucket_by_steps(float(one.window[0]), rho, sigma, level=sigma)
    assert one.sent_in[0] == pytest.approx(sent_in, rel=2e-3)
    assert one.sent_out[0] == pytest.approx(sent_out, rel=2e-3, abs=0.05)


def at_random(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    rho = np.exp(rng.uniform(-2, 6, count))
    sigma = rng.choice([0, 1, 20, 100], count) * rng.uniform(0.5, 1.5, count)
    p_in, p_out = np.exp(rng.uniform(-14, -0.5, (2, count)))
    return rho, sigma, p_in, p_out


@pytest.mark.parametrize("kind", [period, period_with_full_bucket])
def test_exactly_one_packet_of_a_period_is_lost(kind) -> None:
    with np.errstate(all="ignore"):
        for rho, sigma, p_in, p_out in zip(*at_random(4000), strict=True):
            one: Period = kind(np.array([rho]), np.array([sigma]), p_in, p_out)
            assert p_in * one.sent_in[0] + p_out * one.sent_out[0] == pytest.approx(1, rel=1e-6)
            assert one.sent_out[0] > -1e-6 * one.sent_in[0]


def test_cases_are_told_apart_as_the_paper_tells_them() -> None:
    """Thresholds rho1, rho2, rho3 of equation 10, where OUT is lost more than IN."""
    with np.errstate(all="ignore"):
        for rho, sigma, low, high in zip(*at_random(4000), strict=True):
            p_in, p_out = sorted((low, high))
            delta = p_out - p_in
            rho1 = np.sqrt(2 * sigma) * (2 * p_out + p_in)
            rho1 += np.sqrt(2 * sigma * delta**2 + 2 * (2 * p_in + p_out))
            rho1 /= 2 * p_in + p_out
            rho2 = np.sqrt(8 / (3 * p_in)) - np.sqrt(2 * sigma)
            rho3 = np.sqrt(3 / (2 * p_in))
            window = float(period(np.array([rho]), np.array([sigma]), p_in, p_out).window[0])
            if rho >= max(rho2, rho3):
                expected = np.sqrt(8 / (3 * p_in))
            elif rho <= min(rho1, rho3):
                expected = rho * delta + np.sqrt(rho**2 * delta**2 + 6 * p_out)
                expected /= 1.5 * p_out
            else:
                assert rho1 < rho < rho2
                inner = (sigma - rho**2 / 2) * delta + 1
                expected = 4 * rho * delta
                expected += 2 * np.sqrt(4 * rho**2 * delta**2 + 2 * (4 * p_out - p_in) * inner)
                expected /= 4 * p_out - p_in
            assert window == pytest.approx(expected, rel=1e-6)


def test_period_after_a_timeout_has_no_jump_in_the_bucket_rate() -> None:
    rho = np.linspace(0.1, 80, 20_000)
    with np.errstate(all="ignore"):
        one = period_with_full_bucket(rho, np.full_like(rho, 20.0), 0.002, 0.02)
    for numbers in (one.window, one.sent_in, one.sent_out):
        assert np.abs(np.diff(numbers)).max() < 0.01 * np.ptp(numbers)
