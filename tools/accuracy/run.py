"""Carry scenarios out side by side, each compared by the worker that ran it; resume where left."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tcpf_lab.base.errors import LabError, RequestError, TestbedError
from tcpf_lab.base.making import make_directory
from tcpf_lab.metrics import summary
from tcpf_lab.plan.compose import compose
from tcpf_lab.results import checksums
from tcpf_lab.results.layout import ExperimentFiles, RunFiles, as_json, read_json, write_json
from tcpf_lab.run import runner
from tcpf_lab.run.runner import Task, git_commit, made_from
from tcpf_lab.testbed.base import Testbed
from tools.accuracy.compare import Difference, Outcome, compare
from tools.accuracy.scenario import Scenario
from tools.accuracy.spurious import Spurious

#: Beside the run's directory: its outcome, and what that was made from.
OUTCOME = "outcome.json"


@dataclass(frozen=True)
class Job:
    """A scenario with everything a worker needs; goes to another process whole."""

    scenario: Scenario
    task: Task

    @property
    def outcome(self) -> Path:
        """File of its outcome."""
        return self.task.files.root / OUTCOME


def prepare(
    scenarios: Sequence[Scenario], testbed: Testbed, results: Path, *, keep_pcaps: bool
) -> list[Job]:
    """Make the jobs, the longest first, having looked whether the testbed can do them.

    Raises
    ------
    TestbedError
        Listing everything that is in the way.
    """
    kinds = {(s.run.case.marker.kind, s.run.case.queue.kind): s.run for s in scenarios}
    problems = [problem for run in kinds.values() for problem in testbed.check(compose(run))]
    if problems:
        listed = "".join(f"\n  - {problem}" for problem in dict.fromkeys(problems))
        raise TestbedError(f"not ready:{listed}", where=f"testbed {testbed.name}")
    commit = git_commit()
    jobs = [
        Job(
            scenario,
            Task(
                scenario.run,
                testbed,
                ExperimentFiles(results, scenario.experiment.name, testbed.name),
                keep_pcaps,
                commit,
            ),
        )
        for scenario in scenarios
    ]
    return sorted(jobs, key=_expense, reverse=True)


def _expense(job: Job) -> float:
    """What a scenario's time grows with: packets, about."""
    link = job.scenario.experiment.graph.bottleneck
    return link.rate / link.mtu


def run_all(
    jobs: Sequence[Job],
    executor: Executor,
    *,
    seconds: float | None = None,
    now: Callable[[], float] = time.monotonic,
) -> Iterator[Outcome]:
    """Yield the outcome of each job as it ends.

    Parameters
    ----------
    jobs : sequence of Job
        Of `prepare`.
    executor : Executor
        Whose workers do them.
    seconds : float, optional
        After so long no further one is begun; those are not in what is yielded.
    now : callable
        A clock, in seconds.
    """
    started = now()
    futures: dict[Future[Outcome], Job] = {executor.submit(carry_out, job): job for job in jobs}
    for future in as_completed(futures):
        if future.cancelled():
            continue
        yield _result(future, futures[future])
        if seconds is not None and now() - started > seconds:
            for waiting in futures:
                waiting.cancel()


def _result(future: Future[Outcome], job: Job) -> Outcome:
    try:
        return future.result()
    except BrokenExecutor:
        return _failed(job, "a worker process was killed; look at dmesg, or try --jobs 1")


def carry_out(job: Job) -> Outcome:
    """Run one scenario and compare it, unless that was done before (in a worker process)."""
    make_directory(job.task.files.root)
    with job.task.files.locked():
        identity = _identity(job)
        stored = _stored(job.outcome, identity)
        if stored is not None:
            return stored
        try:
            outcome = _made(job)
        except LabError as error:
            outcome = _failed(job, str(error))
        except Exception as error:  # noqa: BLE001 - a fault here must not cost the other scenarios
            outcome = _failed(job, f"{type(error).__name__}: {error}")
        if outcome.state != "failed":
            write_json(job.outcome, {"identity": identity, "outcome": to_data(outcome)})
        return outcome


def _made(job: Job) -> Outcome:
    """Run the scenario, or only analyse it again if its captures are stored."""
    done = job.task.files.run(job.task.run.id)
    if _same_run(job, done):
        summary.analyse(done)
        checksums.renew(done)
    else:
        event = runner.carry_out(replace(job.task, keep_pcaps=True))
        if event.kind == "failed":
            return _failed(job, event.detail)
    outcome = compare(done, job.scenario)
    if not job.task.keep_pcaps:
        for capture in done.pcap.glob("*.pcap*"):
            capture.unlink()
    return outcome


def _failed(job: Job, detail: str) -> Outcome:
    return Outcome(job.scenario.seed, job.scenario.settings(), "failed", (detail,))


def _same_run(job: Job, done: RunFiles) -> bool:
    """Whether a run of the same spec, plan and kernel is there with its captures."""
    try:
        manifest = read_json(done.manifest)
    except RequestError:
        return False
    plan = compose(job.task.run)
    now = made_from(job.task.run, plan, job.task.testbed.identity(plan))
    return manifest.get("made_from") == now and any(done.pcap.glob("*.pcap*"))


def _identity(job: Job) -> str:
    """Identify everything that an outcome is made from: scenario, testbed, analysis, comparison."""
    plan = compose(job.task.run)
    here = Path(__file__)
    sources = (here.with_name(name).read_text("utf-8") for name in ("compare.py", "spurious.py"))
    parts = (
        as_json(made_from(job.task.run, plan, job.task.testbed.identity(plan))),
        summary.ANALYSIS,
        *sources,
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _stored(path: Path, identity: str) -> Outcome | None:
    """Read an outcome that was made before from the same things."""
    try:
        stored = read_json(path)
    except RequestError:
        return None
    if not isinstance(stored, dict) or stored.get("identity") != identity:
        return None
    return from_data(stored["outcome"])


def from_data(data: dict[str, Any]) -> Outcome:
    """Give the outcome of an entry of the JSON."""
    differences = tuple(Difference(**each) for each in data["differences"])
    data = dict(data)
    marks = data.pop("spurious")
    changed = {"differences": differences, "reasons": tuple(data["reasons"])}
    return Outcome(**{**data, **changed}, spurious=marks and Spurious(**marks))


def to_data(outcome: Outcome) -> dict[str, Any]:
    """Give the outcome as an entry of the JSON."""
    return asdict(outcome)


def to_json(outcomes: Sequence[Outcome], seconds: float) -> str:
    """Write outcomes, each with its seed, as JSON."""
    rows = [to_data(each) for each in sorted(outcomes, key=lambda each: each.seed)]
    return as_json({"format": 1, "seconds": seconds, "scenarios": rows})
