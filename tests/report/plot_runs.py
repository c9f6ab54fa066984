"""Runs to draw, with numbers that a test makes up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tcpf_lab.report.plots.runs import DrawnRun
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.spec.load import apply_overrides, load, parse
from tcpf_lab.spec.sweep import Run, expand

EXPERIMENTS = Path(__file__).parents[2] / "experiments"

TINY = """\
name: tiny
title: Tiny
topology: {chain: {access: 10 Mbit, bottleneck: 1 Mbit, delay: 100 ms}}
tcp: {profile: sysctl-2.2, sack: true}
traffic: {start_spread: 500 ms, warmup: 1 s, duration: 4 s}
cases:
  First: {queue: {kind: bfifo, limit: 60 kB}}
  Second: {queue: {kind: bfifo, limit: 30 kB}}
matrix: {case: all, flows: [2, 4], seed: 1..3}
"""

#: What a run found: goodput of each flow, and metrics besides.
Found = Callable[[Run], tuple[Sequence[float], dict[str, float]]]


def usual(run: Run) -> tuple[Sequence[float], dict[str, float]]:
    """Flows that get 1000, 2000, ... bytes/s; timeouts are 10 times the seed, more with flows."""
    goodput = [1000.0 * (flow + 1) for flow in range(run.flows)]
    delay = 0.010 * run.flows + 0.001 * run.seed**2
    return goodput, {
        "timeouts": 10.0 * run.seed + run.flows,
        "queueing_delay_mean_s": delay,
        "queueing_delay_p95_s": 2 * delay,
    }


def drawn(run: Run, found: Found = usual, *, valid: bool = True, root: Path | None = None) -> Any:
    goodput, metrics = found(run)
    mean = float(np.mean(goodput))
    metrics = {
        "goodput_bytes_per_s": mean,
        "goodput_cov": float(np.std(goodput)) / mean if mean else 0.0,
        **metrics,
    }
    flows = [
        {"flow": flow, "goodput_bytes_per_s": value, "timeouts": 0, "retransmissions": 0}
        for flow, value in enumerate(goodput)
    ]
    content = {
        "format": 2,
        "config": "A",
        "metrics": metrics,
        "per_flow": flows,
        "validity": {"valid": valid, "reasons": [], "checks": []},
    }
    return DrawnRun(RunFiles((root or Path("made-up")) / run.id), run.experiment, content)


def tiny(*settings: str, found: Found = usual, text: str = TINY, **only: str) -> list[DrawnRun]:
    """The runs of a small experiment, with some of its values changed."""
    experiment = apply_overrides(parse(text, "tiny.yaml"), settings)
    return [drawn(run, found) for run in expand(experiment, only)]


def shipped(name: str, found: Found = usual, **only: str) -> list[DrawnRun]:
    """The runs of an experiment that comes with tcpf-lab."""
    return [drawn(run, found) for run in expand(load(EXPERIMENTS / name), only)]
