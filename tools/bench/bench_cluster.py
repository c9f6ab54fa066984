"""Runs per hour on a cluster of this machine's own processes, and what a run costs everybody.

``python -m tools.bench.bench_cluster [--spec SPEC] [--only KEY=VALUE] [--seeds N] SCENARIO...``
prints one JSON object.  A scenario is ``1`` (one worker), ``2`` (two), or ``2-killed``: one of two
is killed when a third of the runs has arrived, and not replaced.  Before the clock starts every
worker has made runs: it has its kernel and has compiled what it needs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from distributed import Client

from tcpf_lab.results import storage
from tcpf_lab.results.layout import ExperimentFiles
from tcpf_lab.run.cluster.executor import ClusterExecutor, cluster_executor
from tcpf_lab.run.runner import Event, run_all
from tcpf_lab.run.selection import RunRequest, choose
from tcpf_lab.spec.load import parse
from tcpf_lab.spec.sweep import Run, expand
from tcpf_lab.testbed.registry import testbed
from tcpf_lab.testbed.uml import package
from tcpf_lab.testbed.uml.guest import UmlTestbed
from tools.bench.local_cluster import LocalCluster

#: 60 runs of half a minute of virtual time.
SHORT = """
name: short
topology: {chain: {access: 100 Mbit, bottleneck: 10 Mbit, delay: 200 ms}}
tcp: {profile: sysctl-2.2, sack: true}
traffic: {start_spread: 2 s, warmup: 5 s, duration: 25 s}
cases:
  TCPF+RIO:
    marker: {kind: tcpf, interval: 400 ms, tokens: 296 kB}
    queue: {kind: rio, limit: 500 kB, in_min: 50 kB, in_max: 490 kB, in_probability: 0.005,
      out_min: 10 kB, out_max: 200 kB, out_probability: 0.25}
  NoMark+RED:
    marker: none
    queue: {kind: red, limit: 500 kB, min: 10 kB, max: 200 kB, probability: 0.25}
matrix: {case: all, flows: 20, seed: 1..30}
"""
SCENARIOS = ("1", "2", "2-killed")
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
#: Tasks that do nothing, for what the scheduler takes; each brings this many bytes back.
TASKS, TASK_BYTES = 500, 50_000


def main() -> None:
    """Measure, and print what was found."""
    words = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    words.add_argument("--spec", help="an experiment; by default one of 60 short runs")
    words.add_argument("--only", action="append")
    words.add_argument("--seeds", type=int)
    words.add_argument("scenario", nargs="*", default=list(SCENARIOS))
    asked = words.parse_args()
    bed = testbed("uml")
    assert isinstance(bed, UmlTestbed)
    runs: Sequence[Run] = expand(parse(SHORT, "short").on(bed.generator))
    if asked.spec:
        wanted = RunRequest(asked.spec, only=tuple(asked.only or ()), seeds=asked.seeds)
        runs = choose(wanted).runs
    elif asked.seeds:
        runs = [run for run in runs if run.seed <= asked.seeds]
    found: dict[str, Any] = {
        "runs": len(runs),
        "kernel_package_bytes": len(package.pack(bed.kernel).packed),
    }
    for scenario in asked.scenario:
        found[scenario] = _scenario(scenario, runs, bed)
    json.dump(found, sys.stdout, indent=1)
    sys.stdout.write("\n")


def _scenario(scenario: str, runs: Sequence[Run], bed: UmlTestbed) -> dict[str, Any]:
    with TemporaryDirectory(prefix="bench-cluster-") as directory:
        root = Path(directory)
        with _cluster(root, 2 if scenario.startswith("2") else 1) as cluster:
            samples = list({run.case_name: run for run in runs}.values())
            with cluster_executor(cluster.address, bed, samples, _say) as executor:
                _warm(executor, runs[-1], bed, root / "warm", 2 * len(cluster.workers))
                found = _timed(scenario, runs, bed, root / "results", executor, cluster)
            if scenario == "1":
                found["task"] = _task(cluster)
        found |= _sizes(ExperimentFiles(root / "results", runs[0].experiment.name, "uml"))
        return found


@contextmanager
def _cluster(root: Path, workers: int) -> Iterator[LocalCluster]:
    cluster = LocalCluster(root / "cluster")
    try:
        cluster.start_scheduler()
        for number in range(workers):
            cluster.start_worker(f"worker{number}")
        with Client(cluster.address, set_as_default=False) as client:  # type: ignore[no-untyped-call]
            client.wait_for_workers(workers)
        yield cluster
    finally:
        cluster.stop()


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _warm(executor: ClusterExecutor, run: Run, bed: UmlTestbed, results: Path, number: int) -> None:
    seeds = [replace(run, seed=1000 + index) for index in range(number)]
    events = list(run_all(seeds, bed, results, executor))
    assert {event.kind for event in events} == {"finished"}, events


def _timed(
    scenario: str,
    runs: Sequence[Run],
    bed: UmlTestbed,
    results: Path,
    executor: ClusterExecutor,
    cluster: LocalCluster,
) -> dict[str, Any]:
    assert cluster.scheduler
    pids = {name: process.pid for name, process in cluster.workers.items()}
    pids["scheduler"] = cluster.scheduler.pid
    before = {name: _cpu_s(pid) for name, pid in pids.items()}
    started, own = time.monotonic(), time.process_time()
    events: list[Event] = []
    for event in run_all(runs, bed, results, executor):
        events.append(event)
        if scenario == "2-killed" and len(events) == len(runs) // 3:
            cluster.kill_worker("worker1")
            del pids["worker1"]
    seconds = time.monotonic() - started
    assert [event.kind for event in events] == ["finished"] * len(runs)
    assert len({(event.run.experiment.name, event.run.id) for event in events}) == len(runs)
    cpu = {name: _cpu_s(pid) - before[name] for name, pid in pids.items()}
    found = {
        "seconds": round(seconds, 2),
        "runs_per_hour": round(len(runs) / seconds * 3600),
        "controller_cpu_s_per_run": round((time.process_time() - own) / len(runs), 4),
        "scheduler_cpu_s_per_run": round(cpu.pop("scheduler") / len(runs), 4),
        "run_s": round(statistics.mean(event.seconds for event in events), 3),
    }
    if scenario != "2-killed":
        found["worker_cpu_s_per_run"] = round(sum(cpu.values()) / len(runs), 3)
    return found


def _cpu_s(pid: int) -> float:
    """Processor time of a process and of its children that have ended, guests among them."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) * TICK_S


def _sizes(files: ExperimentFiles) -> dict[str, Any]:
    """Give bytes of a run as it travels and as it stays, and the time to unpack it, means."""
    packed, kept, seconds = [], [], []
    for run in files.runs():
        names = storage.contents(run.root)
        packed.append(storage.pack(run.root, names))
        kept.append(sum((run.root / name).stat().st_blocks * 512 for name in names))
        with TemporaryDirectory(prefix="bench-unpack-") as target:
            started = time.process_time()
            storage.sha256(packed[-1])
            storage.unpack(packed[-1], Path(target))
            seconds.append(time.process_time() - started)
    return {
        "archive_bytes": round(statistics.mean(map(len, packed))),
        "kept_bytes": round(statistics.mean(kept)),
        "unpack_cpu_s": round(statistics.mean(seconds), 4),
    }


def _task(cluster: LocalCluster) -> dict[str, float]:
    """Measure what a task costs that does nothing: one after another, and as fast as they go."""
    assert cluster.scheduler
    with Client(cluster.address, set_as_default=False) as client:  # type: ignore[no-untyped-call]
        started = time.monotonic()
        for _ in range(TASKS // 10):
            client.submit(os.urandom, TASK_BYTES, pure=False).result()
        one = (time.monotonic() - started) / (TASKS // 10)
        before, started = _cpu_s(cluster.scheduler.pid), time.monotonic()
        for future in [client.submit(os.urandom, TASK_BYTES, pure=False) for _ in range(TASKS)]:
            future.result()
        seconds = time.monotonic() - started
        return {
            "round_trip_s": round(one, 4),
            "per_s": round(TASKS / seconds),
            "scheduler_cpu_s": round((_cpu_s(cluster.scheduler.pid) - before) / TASKS, 5),
        }


if __name__ == "__main__":
    main()
