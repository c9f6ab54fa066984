"""The token bucket's integers beside a model of the papers' formulas."""

from __future__ import annotations

import ctypes
from fractions import Fraction

import numpy as np
import pytest
from models.markers import MODES, TokenMarker

STEPS = 10_000
EPISODES = 34  # per mode: a million steps in all
T0 = 10**18
STEP = np.dtype([("now", "u8"), ("len", "u4"), ("flow", "u4")])
OUTCOME = np.dtype([("evicted", "u8"), ("in", "u4"), ("flows", "u4")])


def random_config(rng, flows):
    """Give an interval (ns), tokens and room for flows, with the smallest and the largest."""
    interval = int(rng.choice([10 ** rng.uniform(3, 9.6), 4e8, 4e9, 1000]))
    tokens = int(rng.choice([10 ** rng.uniform(0, 9), 296_000, 2**31 - 1, 1]))
    return interval, tokens, int(rng.integers(1, 2 * flows))


def random_steps(rng, interval, tokens, flows, count):
    """Give packets that come faster or slower than tokens do, with pauses of many ticks."""
    steps = np.zeros(count, STEP)
    longest = min(2 * tokens, 65_535)
    steps["len"] = rng.choice([rng.integers(0, longest + 1), min(40, longest), longest], size=count)
    steps["flow"] = (flows * rng.random(count) ** 2).astype(int)
    mean = max(1, steps["len"].mean()) * interval / tokens * 10 ** rng.uniform(-1, 1)
    gaps = rng.exponential(mean, size=count)
    gaps[rng.random(count) < 0.3] = 0
    pause = rng.random(count) < 0.01
    gaps[pause] = rng.choice([0.5, 1, 2, 7.3, 1e4], size=pause.sum()) * interval
    steps["now"] = T0 + np.minimum(np.cumsum(gaps), 8e18).astype(np.uint64)
    steps["now"][0] = T0
    return steps


def run(drive, mode, config, steps):
    outcomes = np.zeros(len(steps), OUTCOME)
    status = drive("token_marker").drive_token_marker(
        MODES.index(mode),
        *config,
        ctypes.c_size_t(len(steps)),
        ctypes.c_void_p(steps.ctypes.data),
        ctypes.c_void_p(outcomes.ctypes.data),
    )
    assert status == 0
    return outcomes


def beside(model, steps, outcomes):
    """Hold the model against all outcomes; return how many were IN, and differ within rounding."""
    inside = differing = 0
    for step, outcome in zip(steps.tolist(), outcomes.tolist(), strict=True):
        now, length, flow = step
        evicted, verdict, flows = outcome
        said, close = model.packet(now, length, flow)
        if said != bool(verdict):
            assert close, (step, outcome)
            differing += 1
        if verdict:
            model.take(length, flow)
            inside += 1
        assert abs(evicted - model.evicted) <= model.unsure
        assert flows == len(model.flows)
    return inside, differing


@pytest.mark.parametrize("episodes", [5, pytest.param(EPISODES, marks=pytest.mark.full)])
@pytest.mark.parametrize("mode", MODES)
def test_each_mode_beside_the_model(mode, episodes, drive):
    rng = np.random.default_rng(MODES.index(mode) + 2001)
    inside = differing = 0
    for _ in range(episodes):
        flows = int(rng.choice([1, 10, 1000]))
        config = random_config(rng, flows)
        steps = random_steps(rng, config[0], config[1], flows, STEPS)
        model = TokenMarker(mode, *config, t0=T0)
        counts = beside(model, steps, run(drive, mode, config, steps))
        inside += counts[0]
        differing += counts[1]
    assert episodes * STEPS * 0.1 < inside < episodes * STEPS * 0.9
    assert differing <= episodes


@pytest.mark.parametrize("mode", MODES)
def test_exact_arithmetic_agrees_in_every_step(mode, drive):
    """Nothing is lost between packets: fractions, which round nothing, say the same."""
    rng = np.random.default_rng(MODES.index(mode) + 4469)
    for _ in range(10):
        config = random_config(rng, 10)
        steps = random_steps(rng, config[0], config[1], 10, 2000)
        model = TokenMarker(mode, *config, t0=T0, number=Fraction)
        _, differing = beside(model, steps, run(drive, mode, config, steps))
        assert differing == model.unsure == 0


def test_the_rate_of_the_contract_is_kept_over_a_day(drive):
    """740 kB/s of the 868 kB/s offered, to the last packet."""
    steps = np.zeros(3_000_000, STEP)
    steps["now"] = T0 + np.arange(len(steps)) * 28_800_001
    steps["len"] = 25_000
    outcomes = run(drive, "continuous", (400_000_000, 296_000, 1), steps)
    seconds = int(steps["now"][-1] - steps["now"][0]) / 1e9
    granted = 296_000 + seconds * 740_000
    assert 0 <= granted - int(outcomes["in"].sum()) * 25_000 < 25_000


def test_a_reset_bucket_grants_its_tokens_in_every_interval(drive):
    """At 10 Mbit/s offered, 296 kB in of each 500 kB: a run of IN, then a run of OUT."""
    steps = np.zeros(50_000, STEP)
    steps["now"] = T0 + np.arange(len(steps)) * 800_000
    steps["len"] = 1000
    outcomes = run(drive, "reset", (400_000_000, 296_000, 1), steps)
    intervals = outcomes["in"].reshape(100, 500)
    assert (intervals[:, :296] == 1).all()
    assert (intervals[:, 296:] == 0).all()
