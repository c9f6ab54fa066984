"""Carry out the runs of an experiment: skip what is complete, do the rest, in parallel.

The runner takes any ``concurrent.futures.Executor`` and yields events; whoever called it draws
them.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import tcpf_lab
from tcpf_lab import captures, checksums
from tcpf_lab.errors import LabError, RequestError
from tcpf_lab.metrics import summary
from tcpf_lab.plan.compose import Plan, compose
from tcpf_lab.results import (
    FORMAT,
    ExperimentFiles,
    RunFiles,
    as_json,
    complete,
    read_json,
    write_json,
)
from tcpf_lab.spec.load import dump
from tcpf_lab.spec.model import to_data
from tcpf_lab.spec.sweep import Run
from tcpf_lab.testbed.base import Testbed


class State(Enum):
    """What is known about one run in a results directory."""

    COMPLETE = "complete"
    STALE = "stale"  #: of another spec, plan or kernel, analysed by other code, or damaged
    OUTDATED = "outdated"  #: analysed by other code, and all that the analysis needs is there
    FAILED = "failed"  #: begun and not finished; its log is still there
    MISSING = "missing"


@dataclass(frozen=True)
class Task:
    """Everything a worker needs for one run; goes to another process whole."""

    run: Run
    testbed: Testbed
    files: ExperimentFiles
    keep_pcaps: bool
    commit: str


@dataclass(frozen=True)
class Event:
    """Something that happened to one run."""

    run: Run
    kind: str  #: ``skipped``, ``analysed`` (nothing else was to be done), ``finished``, ``failed``
    seconds: float = 0.0
    valid: bool = True
    detail: str = ""


def run_all(
    runs: Sequence[Run],
    testbed: Testbed,
    results: Path,
    executor: Executor,
    *,
    keep_pcaps: bool = False,
    force: bool = False,
) -> Iterator[Event]:
    """Carry ``runs`` of any experiments out and yield an event for each as it ends.

    Those that take long begin first, so that no worker is left with one at the end.  A run that is
    complete and was made from the same spec, plan and kernel is skipped.  One that was analysed by
    other code and made without captures is analysed again, from the counters that it has.  A run
    that fails does not stop the others; its event says why.

    Raises
    ------
    RequestError
        If another program is at work on the same runs, or the directory cannot be used.
    """
    commit = git_commit()
    futures: dict[Future[Event], Run] = {}
    names = dict.fromkeys(run.experiment.name for run in runs)
    directories = {name: ExperimentFiles(results, name, testbed.name) for name in names}
    with ExitStack() as locks:
        for files in directories.values():
            locks.enter_context(files.locked())
        for run in sorted(runs, key=_expense, reverse=True):
            files = directories[run.experiment.name]
            now = state(run, files, testbed.identity, need_pcaps=keep_pcaps)
            if now is State.COMPLETE and not force:
                files.discard(run.id)
                yield _skipped(run, files.run(run.id))
                continue
            task = Task(run, testbed, files, keep_pcaps, commit)
            outdated = now is State.OUTDATED and not force
            futures[executor.submit(analyse_again if outdated else carry_out, task)] = run
        for future in as_completed(futures):
            yield _outcome(future, futures[future])


def _expense(run: Run) -> tuple[float, int]:
    """What a run's time grows with, the most important first."""
    return run.experiment.traffic.end, run.flows


def _skipped(run: Run, done: RunFiles) -> Event:
    verdict = read_json(done.metrics).get("validity", {})
    reasons = "; ".join(verdict.get("reasons", ()))
    return Event(run, "skipped", valid=bool(verdict.get("valid")), detail=reasons)


def _outcome(future: Future[Event], run: Run) -> Event:
    try:
        return future.result()
    except BrokenExecutor:
        detail = (
            f"run {run.id}: a worker process was killed\n"
            "  try: look for the host's out-of-memory killer (dmesg), or --jobs 1"
        )
        return Event(run, "failed", valid=False, detail=detail)


def state(
    run: Run,
    files: ExperimentFiles,
    identity: Callable[[Plan], str] | None,
    *,
    need_pcaps: bool = False,
) -> State:
    """Tell whether ``run`` has to be made (again).

    Parameters
    ----------
    run : Run
        The run as it is wanted now.
    files : ExperimentFiles
        Where it would be.
    identity : callable or None
        Identity of the testbed as it is now for a plan; None if it cannot be told (then it is not
        compared).
    need_pcaps : bool
        A run whose captures were not kept does not do, unless it is to have none.
    """
    done = files.run(run.id)
    if not done.root.exists():
        return State.FAILED if files.partial(run.id).root.exists() else State.MISSING
    manifest, metrics = _record(done.manifest), _record(done.metrics)
    if manifest is None or metrics is None or checksums.damaged(done, captures=need_pcaps):
        return State.STALE
    captured = run.experiment.traffic.captured
    analysed = metrics.get("analysis") == summary.analysis_identity()
    if captured and not analysed:
        return State.STALE
    plan = compose(run)
    if manifest.get("digest") != digest(run, plan):
        return State.STALE
    if identity is not None and manifest.get("testbed_identity") != identity(plan):
        return State.STALE
    if captured and need_pcaps and not any(done.pcap.glob("*.pcap*")):
        return State.STALE
    return State.COMPLETE if analysed else State.OUTDATED


def _record(path: Path) -> dict[str, Any] | None:
    """Read one of a run's records; None if it is missing or damaged: then the run is made again."""
    try:
        value = read_json(path)
    except RequestError:
        return None
    return value if isinstance(value, dict) else None


def digest(run: Run, plan: Plan) -> str:
    """Identify what a run is made from: its resolved spec (without the title) and its plan."""
    untitled = run.experiment.model_copy(update={"title": ""})
    return hashlib.sha256(f"{as_json(to_data(untitled))}\0{plan}".encode()).hexdigest()


def carry_out(task: Task) -> Event:
    """Do one run from an empty directory to complete results (in a worker process)."""
    started = time.monotonic()
    partial = task.files.partial(task.run.id)
    try:
        metrics = _make(task, partial)
    except LabError as error:
        return Event(task.run, "failed", time.monotonic() - started, False, str(error))
    except KeyboardInterrupt:
        shutil.rmtree(partial.root, ignore_errors=True)
        raise
    except OSError as error:
        where = error.filename or partial.root
        detail = f"run {task.run.id}: {where}: {error.strerror}"
        return Event(task.run, "failed", time.monotonic() - started, False, detail)
    except MemoryError:
        detail = f"run {task.run.id}: the host has no memory left for it\n  try: fewer --jobs"
        return Event(task.run, "failed", time.monotonic() - started, False, detail)
    except Exception as error:  # noqa: BLE001 - a fault here must not cost the other runs
        saved = partial.log / "traceback.txt"
        saved.parent.mkdir(parents=True, exist_ok=True)
        saved.write_text(traceback.format_exc(), encoding="utf-8")
        detail = (
            f"run {task.run.id}: {type(error).__name__}: {error}\n"
            f"  try: this is a fault of tcpf-lab; keep {saved} for a report"
        )
        return Event(task.run, "failed", time.monotonic() - started, False, detail)
    return _ended(task.run, "finished", started, metrics)


def analyse_again(task: Task) -> Event:
    """Bring the numbers of a complete run without captures up to date (in a worker process).

    Where its counters cannot be read any more the run is made again.
    """
    started = time.monotonic()
    try:
        metrics = summary.analyse(task.files.run(task.run.id))
        checksums.renew(task.files.run(task.run.id))
    except (LabError, OSError):
        return carry_out(task)
    return _ended(task.run, "analysed", started, metrics)


def _ended(run: Run, kind: str, started: float, metrics: dict[str, Any]) -> Event:
    verdict, seconds = metrics["validity"], time.monotonic() - started
    return Event(run, kind, seconds, bool(verdict["valid"]), "; ".join(verdict["reasons"]))


def _make(task: Task, partial: RunFiles) -> dict[str, Any]:
    run, testbed = task.run, task.testbed
    plan = compose(run)
    task.files.discard(run.id)
    partial.create()
    partial.spec.write_text(dump(run.experiment), encoding="utf-8")
    partial.plan.write_text(str(plan), encoding="utf-8")
    testbed.execute(plan, partial, run.seed)
    captures.compress_lists(partial)
    write_json(partial.manifest, _manifest(task, plan))
    metrics = summary.analyse(partial)
    if task.keep_pcaps:
        captures.compress(partial)
    else:
        shutil.rmtree(partial.pcap)
    checksums.write(partial)
    complete(partial, task.files.run(run.id))
    return metrics


def _manifest(task: Task, plan: Plan) -> dict[str, Any]:
    run, testbed = task.run, task.testbed
    return {
        "format": FORMAT,
        "tcpf_lab": tcpf_lab.__version__,
        "git_commit": task.commit,
        "experiment": run.experiment.name,
        "testbed": testbed.name,
        "run": run.id,
        "config": run.experiment.config or run.experiment.name,
        "case": run.case_name,
        "flows": run.flows,
        "seed": run.seed,
        **({"settings": dict(run.settings)} if run.settings else {}),
        "clock": testbed.clock,
        "window_s": list(plan.window),
        "digest": digest(run, plan),
        "testbed_identity": testbed.identity(plan),
        "expect": plan.expect,
        "facts": testbed.facts(plan),
    }


def git_commit() -> str:
    """Name the commit of a checkout (with ``+changes`` if it was edited), or say ``release``."""
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return "release"
    command = ["git", "-C", str(root), "describe", "--always", "--abbrev=12", "--dirty=+changes"]
    try:
        reply = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return reply.stdout.strip()
