"""The RIO model against its worked values, the printed tables, and what must hold anywhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcpf_lab.base.errors import RequestError
from tcpf_lab.papers.rio.router import (
    NoSolutionError,
    Period,
    Scenario,
    Solution,
    drop_curve,
    paper_scenarios,
    period,
    period_with_full_bucket,
    rio_tables,
    router,
    solve,
)

FULL, NONE, PART = paper_scenarios().values()
LONG = (0.4, 0.5, 0.6, 0.7, 0.8)

#: T, T_in, p_in, p_out and q of the three tables, worked out independently, by reading.
WORKED = {
    "corrected": (
        {},
        (5946.53, 3736.18, 0.004741, 0.016682, 35.72),
        (5875.17, 3725.71, 0.000006, 0.025985, 22.63),
        (5954.20, 3737.88, 0.003699, 0.018303, 37.53),
    ),
    "8 ms longer": (
        {"extra_rtt": 0.008},
        (5937.37, 3756.75, 0.004438, 0.015894, 34.77),
        (5864.56, 3747.05, 0.000006, 0.024816, 22.16),
        (5945.60, 3758.33, 0.003422, 0.017508, 36.60),
    ),
    "16 ms longer": (
        {"extra_rtt": 0.016},
        (5928.44, 3775.34, 0.004157, 0.015153, 33.85),
        (5854.23, 3766.37, 0.000006, 0.023701, 21.71),
        (5937.24, 3776.82, 0.003167, 0.016756, 35.71),
    ),
    "16.64 ms longer": (
        {"extra_rtt": 0.01664},
        (5927.74, 3776.75, 0.004136, 0.015095, 33.78),
        (5853.42, 3767.84, 0.000006, 0.023614, 21.68),
        (5936.58, 3778.23, 0.003148, 0.016697, 35.64),
    ),
    "shorter timeouts": (
        {"rto_margin": 0.2},
        (5975.54, 4067.94, 0.006280, 0.020236, 39.59),
        (5914.39, 4085.59, 0.000012, 0.036516, 24.89),
        (5982.51, 4069.56, 0.005286, 0.022180, 41.60),
    ),
}
PRINTED = (
    (5937.89, 3715.11, 0.004422, 0.015874, 34.76),
    (5851.01, 3731.06, 0.000005, 0.023032, 21.56),
    (5943.82, 3725.07, 0.003331, 0.017270, 36.34),
)


def numbers(solution: Solution) -> tuple[float, ...]:
    return (solution.T, solution.T_in, solution.p_in, solution.p_out, solution.q)


def rounded(solution: Solution) -> tuple[float, ...]:
    return tuple(
        round(value, places)
        for value, places in zip(numbers(solution), (2, 2, 6, 6, 2), strict=True)
    )


@pytest.mark.parametrize("reading", WORKED)
@pytest.mark.parametrize("table", [1, 2, 3])
def test_model_gives_the_worked_values_to_the_digit(reading: str, table: int) -> None:
    changes, *expected = WORKED[reading]
    scenario = replace((FULL, NONE, PART)[table - 1], **changes)
    assert rounded(solve(scenario)) == expected[table - 1]


@pytest.mark.parametrize("table", [1, 2, 3])
def test_formulas_as_printed_give_what_they_gave(table: int) -> None:
    assert rounded(solve((FULL, NONE, PART)[table - 1], printed=True)) == PRINTED[table - 1]


@pytest.mark.parametrize("table", [1, 2, 3])
@pytest.mark.parametrize(
    ("extra_rtt", "tolerance"),
    [
        (0.016, {"T": 0.0005, "T_in": 0.004, "q": 0.003, "p_out": 0.005, "p_in": 0.01}),
        (0.0, {"T": 0.005, "T_in": 0.01, "q": 0.06, "p_out": 0.11, "p_in": 0.20}),
    ],
)
def test_model_is_as_near_to_the_printed_tables_as_it_was(
    table: int, extra_rtt: float, tolerance: dict[str, float]
) -> None:
    printed = rio_tables()[table].analytical
    solution = solve(replace((FULL, NONE, PART)[table - 1], extra_rtt=extra_rtt))
    for name, relative in tolerance.items():
        if (name, table) == ("p_in", 2):  # printed with one digit
            assert abs(solution.p_in - printed["p_in"]) < (1.5e-6 if extra_rtt == 0 else 1e-6)
        else:
            assert getattr(solution, name) == pytest.approx(printed[name], rel=relative), name


@pytest.mark.parametrize("table", [1, 2, 3])
def test_router_alone_gives_the_printed_losses_and_queue(table: int) -> None:
    printed = rio_tables()[table].analytical
    state = router((FULL, NONE, PART)[table - 1], printed["T"], printed["T_in"])
    assert round(state.p_in, 6) == printed["p_in"]
    assert round(state.p_out, 6) == printed["p_out"]
    assert round(state.q, 2) == printed["q"]


@pytest.mark.parametrize(
    ("out_probability", "throughput"),
    [
        (0.06, (39.54, 32.84, 27.53, 23.69, 20.79)),
        (0.2, (44.26, 42.15, 39.99, 37.97, 36.33)),
        (1.0, (44.88, 43.15, 41.64, 39.95, 38.65)),
    ],
)
def test_flows_with_long_round_trips(out_probability: float, throughput: tuple[float, ...]) -> None:
    scenario = replace(FULL, delay=FULL.delay + LONG, out_probability=out_probability)
    last = solve(scenario).per_flow.throughput[-5:]
    assert tuple(np.round(last, 2)) == throughput


@pytest.mark.parametrize(
    ("in_probability", "out_probability", "q"),
    [
        *((0, 0.06, 38.1), (0.01, 0.06, 35.7), (0.1, 0.06, 23.4)),
        *((0.01, 0.01, 43.5), (0.01, 0.5, 16.8), (0, 1, 13.5)),
    ],
)
def test_mean_queue_over_both_probabilities(
    in_probability: float, out_probability: float, q: float
) -> None:
    scenario = replace(FULL, in_probability=in_probability, out_probability=out_probability)
    assert round(solve(scenario).q, 1) == q


@pytest.mark.parametrize(("in_min", "q"), [(20, 35.7), (60, 37.5), (99, 38.1)])
def test_mean_queue_over_the_lower_threshold_of_in(in_min: int, q: float) -> None:
    assert round(solve(replace(FULL, in_min=in_min)).q, 1) == q


def test_flows_add_up_and_the_nearest_are_the_fastest() -> None:
    solution = solve(FULL)
    flow = solution.per_flow
    assert np.sum(flow.throughput) == pytest.approx(solution.T)
    assert np.sum(flow.throughput_in) == pytest.approx(solution.T_in)
    assert (np.diff(flow.throughput) < 0).all()
    np.testing.assert_allclose(flow.rtt, np.array(FULL.delay) + (solution.q + 1) / 6000)
    assert (flow.timeout_share == np.minimum(1, 3 / flow.window)).all()


def test_buckets_of_different_flows_may_differ() -> None:
    rates = tuple(20.0 if k < 50 else 60.0 for k in range(100))
    flow = solve(replace(FULL, token_rate=rates)).per_flow
    assert flow.throughput_in[50] > flow.throughput_in[49]


def test_one_flow_that_cannot_fill_the_router_is_an_error() -> None:
    with pytest.raises(NoSolutionError, match="1 flow cannot fill 1e\\+16 packets/s") as caught:
        solve(replace(FULL, delay=(0.1,), capacity=1e16))
    assert caught.value.where == "capacity"
    assert caught.value.hint


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("out_max", {"out_max": 101}),
        ("in_min", {"in_min": 101}),
        ("out_min", {"out_min": 30, "out_max": 29}),
        ("out_probability", {"out_probability": 1.1}),
        ("in_probability", {"in_probability": -0.1}),
        ("capacity", {"capacity": 0.0}),
        ("delay", {"delay": ()}),
        ("delay", {"delay": (0.0,)}),
        ("token_rate", {"token_rate": (1.0, 2.0)}),
        ("token_rate", {"token_rate": float("nan")}),
        ("in_max", {"in_max": 100.5}),
        ("in_max", {"in_max": 10_000_000}),
    ],
)
def test_scenarios_that_make_no_sense_are_refused(name: str, changes: dict[str, object]) -> None:
    with pytest.raises(RequestError) as caught:
        replace(FULL, **changes)  # type: ignore[arg-type]
    assert caught.value.where == name


@st.composite
def sensible(draw: st.DrawFn) -> Scenario:
    """Draw a router between 0.5 Mbit/s and 10 Gbit/s, flows from around the corner or the world."""

    def between(low: float, high: float) -> float:
        return float(np.exp(draw(st.floats(np.log(low), np.log(high)))))

    count = draw(st.integers(1, 300))
    nearest = between(0.001, 0.5)
    delay = tuple(np.linspace(nearest, nearest * draw(st.floats(1, 10)), count))
    capacity = between(60, 1e6)
    in_max = round(between(5, 1500))
    out_max = draw(st.integers(1, in_max))
    return Scenario(
        delay=delay,
        capacity=capacity,
        token_rate=capacity / count * draw(st.floats(0, 2)),
        bucket=draw(st.floats(0, 100)),
        in_min=draw(st.integers(0, in_max)),
        in_max=in_max,
        in_probability=draw(st.sampled_from([0.0, 0.01, 0.1, 1.0])),
        out_min=draw(st.integers(0, out_max)),
        out_max=out_max,
        out_probability=between(1e-3, 1),
        rto_margin=draw(st.sampled_from([0.2, 1.0])),
    )


@settings(max_examples=150, deadline=None, derandomize=True)
@given(sensible())
def test_every_sensible_scenario_has_a_solution_that_is_consistent(scenario: Scenario) -> None:
    from tcpf_lab.papers.rio.router import flows, router

    solution = solve(scenario)
    state = router(scenario, solution.T, solution.T_in)
    again = flows(scenario, state.p_in, state.p_out, state.q)
    assert np.sum(again.throughput) == pytest.approx(solution.T, rel=1e-5)
    assert np.sum(again.throughput_in) == pytest.approx(solution.T_in, rel=1e-5)
    assert 0 <= solution.p_in <= 1
    assert 0 < solution.p_out <= 1
    assert 0 < solution.q <= scenario.in_max
    assert (solution.per_flow.throughput > 0).all()
    assert (solution.per_flow.throughput_in <= solution.per_flow.throughput * (1 + 1e-9)).all()
    assert np.sum(solution.occupancy) == pytest.approx(1)
    # What the router lets through, it can carry.
    passed = solution.T_in * (1 - solution.p_in)
    passed += (solution.T - solution.T_in) * (1 - solution.p_out)
    assert passed == pytest.approx(scenario.capacity * (1 - solution.occupancy[0]), rel=1e-6)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(10, 90), st.floats(0.005, 0.9), st.floats(0, 0.1))
def test_dropping_more_out_packets_protects_in_packets_and_shortens_the_queue(
    out_min: int, out_probability: float, in_probability: float
) -> None:
    scenario = replace(FULL, out_min=out_min, in_probability=in_probability)
    low, high = (
        solve(replace(scenario, out_probability=p))
        for p in (out_probability, 1.1 * out_probability)
    )
    assert high.p_in < low.p_in
    assert high.q < low.q
    assert high.T < low.T


# The halves of the RIO model, each against another way to the same numbers.


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
