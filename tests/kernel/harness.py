"""What tests of the headers share: ``kernel/tests`` by make, and a load for the queues."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
from models.rio import IN, OUT

import tcpf_lab

KERNEL_TESTS = Path(tcpf_lab.__file__).parent.parent / "kernel" / "tests"


def make(
    products: Path, *targets: str, sources: Path = KERNEL_TESTS
) -> subprocess.CompletedProcess[str]:
    """Run make in ``sources``; what it says comes in one text, in its order."""
    return subprocess.run(
        ["make", "--no-print-directory", "-C", str(sources), f"O={products}", *targets],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


# Thresholds and loads for the queues' integers and their models.

ARRIVAL, DEPARTURE = 0, 1
STEPS = 10_000


class CurveConfig(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("min", "max", "probability")]


def random_curves(rng: np.random.Generator, limit: int, least: int) -> Any:
    """Draw thresholds that the load of `swelling` lies below, between and above."""
    curves = []
    for _ in (IN, OUT):
        low, high = sorted(rng.integers(least, limit, size=2).tolist())
        probability = rng.choice([0, 2**32 - 1, int(2**32 * rng.uniform(0.001, 1) ** 3)])
        curves.append(CurveConfig(low, high + 1, int(probability)))
    return (CurveConfig * 2)(*curves)


def swelling(rng: np.random.Generator, step: np.dtype[Any], packet_ns: float) -> np.ndarray:
    """Give a load that swells and ebbs, with pauses from nothing to days where it has ebbed."""
    steps = np.zeros(STEPS, step)
    swell = 0.5 + 0.35 * np.sin(np.arange(STEPS) * 2 * np.pi / rng.integers(500, 5000))
    steps["kind"] = np.where(rng.random(STEPS) < swell, ARRIVAL, DEPARTURE)
    steps["len"] = rng.choice([40, 576, 1000, 1500], size=STEPS)
    steps["class"] = np.where(rng.random(STEPS) < rng.uniform(0.05, 0.95), IN, OUT)
    rnd = rng.integers(0, 2**32, size=STEPS, dtype=np.uint64)
    edge = rng.random(STEPS)
    steps["rnd"] = np.where(edge < 0.01, 0, np.where(edge > 0.99, 2**32 - 1, rnd))
    pause = packet_ns * rng.exponential(size=STEPS)
    longer = rng.random(STEPS) < 0.02
    pause[longer] *= 10 ** rng.uniform(0, 6, size=longer.sum())
    pause[rng.random(STEPS) < 0.001] = 86400e9
    steps["now"] = np.cumsum(pause).astype(np.uint64)
    return steps
