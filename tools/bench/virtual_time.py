"""How many virtual seconds one core does in a real second, with everything that a run takes."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tcpf_lab.base.errors import LabError
from tcpf_lab.base.shipped import directory
from tcpf_lab.plan.compose import compose
from tcpf_lab.results.layout import ExperimentFiles, RunFiles
from tcpf_lab.run.runner import Task, carry_out
from tcpf_lab.spec.load import apply_overrides, load
from tcpf_lab.spec.sweep import Run, expand
from tcpf_lab.testbed.base import Testbed

#: The long run of the benchmark: 300 s of 100 flows through RED.
LONG_S = 300
CHAPTER_S = 70


def chapter_run(seconds: int, *settings: str, flows: int = 100) -> Run:
    """Return configuration A, RED, with traffic for ``seconds``."""
    experiment = load(directory("experiments") / "configA.yaml")
    size = f"traffic.duration={seconds - 10} s", f"matrix.flows=[{flows}]"
    experiment = apply_overrides(experiment, [*size, *settings])
    return expand(experiment, {"case": "NoMark+RED", "flows": str(flows), "seed": "1"})[0]


def measure(testbed: Testbed, repetitions: int) -> dict[str, Any]:
    """Time long runs without and with captures, and the chapter's run with its analysis."""
    with one_core():
        return _measure(testbed, repetitions)


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this process, and the guests it starts, on the last core: the first has interrupts."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _measure(testbed: Testbed, repetitions: int) -> dict[str, Any]:
    return {
        "without_captures_300s": _summary(
            LONG_S, [_guest(testbed, captures=False) for _ in range(repetitions)]
        ),
        "with_captures_300s": _summary(
            LONG_S, [_guest(testbed, captures=True) for _ in range(repetitions)]
        ),
        "chapter_70s_with_analysis": _summary(
            CHAPTER_S, [_whole_run(testbed) for _ in range(repetitions)]
        ),
    }


def _guest(testbed: Testbed, *, captures: bool) -> float:
    """Boot, set up, run, tear down."""
    run = chapter_run(LONG_S, *(() if captures else ("traffic.captures=false",)))
    with TemporaryDirectory(prefix="tcpf-bench-") as directory_name:
        files = RunFiles(Path(directory_name) / "run")
        files.create()
        started = time.perf_counter()
        testbed.execute(compose(run), files, run.seed)
        return time.perf_counter() - started


def _whole_run(testbed: Testbed) -> float:
    """What a worker does for one run: guest, captures, analysis, results."""
    with TemporaryDirectory(prefix="tcpf-bench-") as directory_name:
        files = ExperimentFiles(Path(directory_name), "bench", testbed.name)
        task = Task(chapter_run(CHAPTER_S), testbed, files, keep_pcaps=False, commit="bench")
        started = time.perf_counter()
        event = carry_out(task)
        elapsed = time.perf_counter() - started
    if event.kind != "finished":
        raise LabError(event.detail)
    return elapsed


def _summary(virtual: int, seconds: list[float]) -> dict[str, Any]:
    rates = sorted(virtual / s for s in seconds)
    return {
        "virtual_seconds": virtual,
        "wall_seconds": [round(s, 3) for s in seconds],
        "virtual_per_wall_second": {
            "median": round(statistics.median(rates), 1),
            "min": round(rates[0], 1),
            "max": round(rates[-1], 1),
        },
    }
