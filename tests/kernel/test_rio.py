"""RIO's integers beside a floating-point model of the papers' formulas."""

from __future__ import annotations

import ctypes
from collections import Counter
from decimal import Decimal, localcontext

import numpy as np
import pytest
from harness import DEPARTURE, STEPS, CurveConfig, random_curves, swelling
from models.rio import ENQUEUE, JUDGED_BY, Curve, Rio, SpreadDrop

EPISODES = 34  # per mode: a million steps in all
NOTHING = 4  # the verdict of a departure
STEP = np.dtype([("now", "u8"), ("len", "u4"), ("rnd", "u4"), ("class", "u4"), ("kind", "u4")])
OUTCOME = np.dtype(
    [("scaled", "u8", 3), ("backlog", "u4", 2), ("count", "i4", 2), ("verdict", "u4"), ("", "u4")]
)


class Config(ctypes.Structure):
    _fields_ = [
        ("curve", CurveConfig * 2),
        ("limit", ctypes.c_uint32),
        ("avpkt", ctypes.c_uint32),
        ("bandwidth", ctypes.c_uint64),
        ("ewma", ctypes.c_uint8),
        ("mode", ctypes.c_uint8),
        ("uniformize", ctypes.c_uint8),
    ]


def random_config(rng: np.random.Generator, mode: str) -> Config:
    """Thresholds that the load of `swelling` lies below, between and above."""
    limit = int(rng.integers(20_000, 400_000))
    return Config(
        curve=random_curves(rng, limit, least=0),
        limit=limit,
        avpkt=int(rng.integers(40, 1500)),
        bandwidth=int(10 ** rng.uniform(3, 9)),
        ewma=int(rng.choice([0, 1, int(rng.integers(0, 13)), int(rng.integers(0, 32))])),
        mode=list(JUDGED_BY).index(mode),
        uniformize=int(rng.integers(0, 2)),
    )


def model_of(config: Config) -> Rio:
    in_curve, out_curve = (
        Curve(c.min, c.max, min(1.0, c.probability / 2**32)) for c in config.curve
    )
    return Rio(
        mode=list(JUDGED_BY)[config.mode],
        curves=(in_curve, out_curve),
        limit=config.limit,
        weight=2.0**-config.ewma,
        packet_ns=config.avpkt * 1e9 / config.bandwidth,
        uniformize=bool(config.uniformize),
    )


def step_beside(model: Rio, ewma: int, step: tuple, outcome: tuple) -> tuple[int, bool]:
    """Let the model take ``step`` and hold it against ``outcome``; return the verdict, and whether
    the kernel decided otherwise where that is allowed."""
    now, length, rnd, packet, kind = step
    scaled, backlog, count, verdict, _ = outcome
    differs = False
    if kind == DEPARTURE:
        model.departure(now)
    else:
        said, close = model.arrival(packet, length, now, rnd / 2**32)
        drop = model.drop[packet]
        differs = said != verdict
        if isinstance(drop, SpreadDrop):
            differs |= drop.count != count[packet]
            drop.count = count[packet]
        assert close or not differs, (step, outcome, said, drop)
        if verdict == ENQUEUE:
            model.enqueue(packet, length)
    assert list(backlog) == model.backlog
    for mine, average in zip(scaled, model.average, strict=True):
        assert abs(mine / 2**ewma - average.value) <= average.error
    return verdict, differs


@pytest.mark.parametrize("episodes", [5, pytest.param(EPISODES, marks=pytest.mark.full)])
@pytest.mark.parametrize("mode", JUDGED_BY)
def test_each_mode_beside_the_model(mode, episodes, drive):
    """Wherever the kernel decides otherwise, the model is within the proven error of both."""
    library = drive("rio")
    rng = np.random.default_rng(list(JUDGED_BY).index(mode) + 1998)
    seen: Counter[int] = Counter()
    differing = 0
    for _ in range(episodes):
        config = random_config(rng, mode)
        steps = swelling(rng, STEP, config.avpkt * 1e9 / config.bandwidth)
        outcomes = np.zeros(STEPS, OUTCOME)
        status = library.drive_rio(
            ctypes.byref(config),
            ctypes.c_size_t(STEPS),
            ctypes.c_void_p(steps.ctypes.data),
            ctypes.c_void_p(outcomes.ctypes.data),
        )
        assert status == 0
        model = model_of(config)
        for step, outcome in zip(steps.tolist(), outcomes.tolist(), strict=True):
            verdict, differs = step_beside(model, config.ewma, step, outcome)
            seen[verdict] += 1
            differing += differs
    assert sum(seen.values()) == episodes * STEPS
    assert min(seen[verdict] for verdict in range(NOTHING)) > 30 * episodes, seen
    assert differing <= 10


def halvings(ewma: int, avpkt: int, bandwidth: int, idle: int) -> Decimal:
    """Return how often the average halves in ``idle`` ns."""
    with localcontext(prec=60):
        weight = Decimal(2) ** -ewma
        each = -(1 - weight).ln() / Decimal(2).ln()
        return each * idle * bandwidth / (avpkt * Decimal(10) ** 9)


def test_the_exponent_of_ageing_is_within_its_bound(drive):
    library = drive("rio")
    library.drive_idle.restype = ctypes.c_uint64
    library.drive_idle.argtypes = [
        ctypes.c_uint8,
        ctypes.c_uint32,
        ctypes.c_uint64,
        ctypes.c_uint64,
    ]
    rng = np.random.default_rng(1993)
    for ewma in 50 * list(range(1, 32)):
        avpkt = int(2 ** rng.uniform(0, 32))
        bandwidth = int(10 ** rng.uniform(0, 12))
        aim = 10 ** rng.uniform(-6, 2)
        idle = min(int(Decimal(aim) / halvings(ewma, avpkt, bandwidth, 1)), 2**63)
        exact = halvings(ewma, avpkt, bandwidth, idle)
        got = library.drive_idle(ewma, avpkt, bandwidth, idle)
        if got == 2**64 - 1:
            assert exact > 64 - Decimal(2) ** -22
        else:
            error = Decimal(got) / 2**58 - exact
            assert abs(error) <= exact * Decimal(2) ** -29 + Decimal(2) ** -25


def test_powers_of_one_half_are_within_their_bound(drive):
    library = drive("rio")
    library.drive_exp2.restype = ctypes.c_uint32
    x = np.random.default_rng(2).integers(0, 2**32, size=200_000)
    got = np.array([library.drive_exp2(ctypes.c_uint32(each)) for each in x.tolist()])
    assert np.abs(got / 2**32 / np.exp2(-x / 2**32) - 1).max() < 2**-28.6
