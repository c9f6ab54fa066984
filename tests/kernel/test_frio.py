"""FRIO's integers beside a floating-point model of the papers' formulas."""

from __future__ import annotations

import ctypes
from collections import Counter

import numpy as np
import pytest
from harness import ARRIVAL, STEPS, CurveConfig, random_curves, swelling
from models.frio import EARLY, ENQUEUE, FORCED, IN, OUT, PDROP, STRIKE, Frio, View
from models.rio import Average, EarlyDrop

EPISODES = 25  # per combination of the switches: a million steps in all for the two of mode
MODE = 2
NOTHING = 6  # the verdict of a step that is no arrival
STEP = np.dtype(
    [("now", "u8")] + [(name, "u4") for name in ("len", "rnd", "class", "flow", "kind", "record")]
)
PAIRS = [("backlog", "u4", 2), ("flows", "u4", 2), ("count", "i4", 2), ("qlen", "u4", 2)]
OUTCOME = np.dtype(
    [
        *(("scaled", "u8", 2), ("overflowed", "u8")),
        *(*PAIRS, ("strikes", "u4", 2)),
        *(("records", "u4"), ("verdict", "u4")),
    ]
)
SWITCHES = [(share, many) for share in ("instant", "average") for many in ("off", "on")]


class Config(ctypes.Structure):
    _fields_ = [
        ("curve", CurveConfig * 2),
        *((name, ctypes.c_uint32) for name in ("limit", "minq", "flows", "avpkt")),
        ("bandwidth", ctypes.c_uint64),
        *((name, ctypes.c_uint8) for name in ("ewma", "mode", "share", "many_flows", "in")),
    ]


def random_config(
    rng: np.random.Generator, coupled: bool, average: bool, many_flows: bool
) -> Config:
    """Thresholds that the load of `random_steps` lies below, between and above."""
    limit = int(rng.integers(20_000, 400_000))
    return Config(
        curve=random_curves(rng, limit, least=1),
        limit=limit,
        minq=int(rng.choice([0, 1, 2, 4])),
        flows=int(rng.choice([1, 5, 50, 1000])),
        avpkt=int(rng.integers(40, 1500)),
        bandwidth=int(10 ** rng.uniform(3, 9)),
        ewma=int(rng.choice([0, 1, int(rng.integers(0, 13)), int(rng.integers(0, 32))])),
        mode=not coupled,
        share=average,
        many_flows=many_flows,
    )


def random_steps(rng: np.random.Generator, config: Config, mode_changes: bool) -> np.ndarray:
    """Give a load of up to hundreds of flows, few of them heavy."""
    steps = swelling(rng, STEP, config.avpkt * 1e9 / config.bandwidth)
    if mode_changes:
        steps["kind"][rng.random(STEPS) < 0.005] = MODE
    flows = 10 ** rng.uniform(0, 2.8)
    steps["flow"] = (flows * rng.random(STEPS) ** rng.uniform(1, 4)).astype(int)
    return steps


def view_of(config: Config, packet: int) -> View:
    curve = config.curve[packet]
    probability = min(1.0, curve.probability / 2**32)
    return View(
        average=Average(2.0**-config.ewma, config.avpkt * 1e9 / config.bandwidth),
        drop=EarlyDrop(curve.min, curve.max, probability, uniformize=True),
        packet=config.avpkt,
        minq=config.minq * config.avpkt,
        share_average=bool(config.share),
        many_flows=bool(config.many_flows),
    )


def model_of(config: Config) -> Frio:
    views = view_of(config, IN), view_of(config, OUT)
    return Frio(views, config.limit, coupled=not config.mode, bound=config.flows)


def arrive_beside(model: Frio, step: tuple, outcome: tuple) -> bool:
    """Let the model judge an arrival, and go on from what the kernel did; return whether that was
    something else, where that is allowed."""
    now, length, rnd, packet, number, _, _ = step
    *_, count, _, strikes, _, verdict = outcome
    flow = model.flow(number)
    said, close = model.arrival(flow, packet, length, now, rnd / 2**32)
    share, drop = flow.views[packet], model.views[packet].drop
    differs = (said, drop.count, share.strikes) != (verdict, count[packet], strikes[packet])
    assert close or not differs, (step, outcome, said, drop, share)
    drop.count, share.strikes = int(count[packet]), int(strikes[packet])
    if verdict == ENQUEUE:
        model.enqueue(number, flow, packet, length)
    assert [share.qlen for share in flow.views] == outcome[5].tolist()
    assert [share.strikes for share in flow.views] == strikes.tolist()
    return differs


def step_beside(model: Frio, ewma: int, step: tuple, outcome: tuple) -> bool:
    """Let the model take ``step`` and hold all of it against ``outcome``."""
    scaled, overflowed, backlog, flows, count, qlen, _, records, _ = outcome
    differs = False
    kind = step[5]
    if kind == ARRIVAL:
        differs = arrive_beside(model, step, outcome)
    elif kind == MODE:
        model.change_mode(step[0])
    else:
        flow = model.departure(step[0])
        assert flow is None or [share.qlen for share in flow.views] == qlen.tolist()
    assert (overflowed, records) == (model.overflowed, len(model.flows))
    for mine, view in enumerate(model.views):
        assert (backlog[mine], flows[mine]) == (view.queue, len(view.flows))
        assert count[mine] == view.drop.count
        assert abs(int(scaled[mine]) / 2**ewma - view.average.value) <= view.average.error
    return differs


def drive_beside(drive, config: Config, steps: np.ndarray, seen: Counter[int]) -> int:
    """Count verdicts in ``seen``; return how many were other than the model's."""
    outcomes = np.zeros(len(steps), OUTCOME)
    status = drive("frio").drive_frio(
        ctypes.byref(config),
        ctypes.c_uint64(1997),
        ctypes.c_size_t(len(steps)),
        ctypes.c_void_p(steps.ctypes.data),
        ctypes.c_void_p(outcomes.ctypes.data),
    )
    assert status == 0
    model = model_of(config)
    differing = 0
    columns = [outcomes[name] for name in OUTCOME.names]
    columns = [list(column) if column.ndim > 1 else column.tolist() for column in columns]
    for step, outcome in zip(steps.tolist(), zip(*columns, strict=True), strict=True):
        differing += step_beside(model, config.ewma, step, outcome)
    seen.update(outcomes["verdict"].tolist())
    return differing


@pytest.mark.parametrize("episodes", [5, pytest.param(EPISODES, marks=pytest.mark.full)])
@pytest.mark.parametrize("mode", ["coupled", "decoupled"])
@pytest.mark.parametrize(("share", "many_flows"), SWITCHES)
def test_each_switch_beside_the_model(share, many_flows, mode, episodes, drive):
    """Wherever the kernel decides otherwise, the model is within the proven error of both."""
    switches = mode == "coupled", share == "average", many_flows == "on"
    rng = np.random.default_rng([2001, *map(int, switches)])
    seen: Counter[int] = Counter()
    differing = 0
    for _ in range(episodes):
        config = random_config(rng, *switches)
        steps = random_steps(rng, config, mode_changes=False)
        differing += drive_beside(drive, config, steps, seen)
    assert sum(seen.values()) == episodes * STEPS
    expected = [ENQUEUE, EARLY, STRIKE, PDROP, *([] if many_flows == "on" else [FORCED])]
    if episodes == EPISODES:
        assert min(seen[verdict] for verdict in expected) > 100, seen
    assert many_flows == "off" or not seen[FORCED]
    assert differing <= 10


@pytest.mark.parametrize(("share", "many_flows"), SWITCHES)
def test_the_mode_changes_under_load(share, many_flows, drive):
    switches = share == "average", many_flows == "on"
    rng = np.random.default_rng([2002, *map(int, switches)])
    seen: Counter[int] = Counter()
    differing = 0
    for episode in range(5):
        config = random_config(rng, episode % 2 == 0, *switches)
        steps = random_steps(rng, config, mode_changes=True)
        differing += drive_beside(drive, config, steps, seen)
    assert seen[ENQUEUE] > 1000, seen
    assert differing <= 2


def test_without_in_packets_frio_is_fred_in_either_mode(drive):
    """NoMark+FRED: the view of all packets and that of OUT are the same."""
    rng = np.random.default_rng(2003)
    config = random_config(rng, coupled=True, average=False, many_flows=False)
    steps = random_steps(rng, config, mode_changes=False)
    steps["class"] = OUT
    seen = []
    for mode in (0, 1):
        config.mode = mode
        counted: Counter[int] = Counter()
        drive_beside(drive, config, steps.copy(), counted)
        seen.append(counted)
    assert seen[0] == seen[1]
    assert seen[0][ENQUEUE] > 1000
