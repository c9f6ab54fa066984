"""Carry out the runs of an experiment: skip what is complete, do the rest, in parallel.

The runner takes any ``concurrent.futures.Executor`` and yields events; whoever called it draws
them.
"""

from __future__ import annotations

import shutil
import time
import traceback
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    as_completed,
    wait,
)
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tcpf_lab import captures, checked_analysis, checksums, storage
from tcpf_lab.command import command, options
from tcpf_lab.disk_budget import DiskBudget, DiskBudgetError, kept_to
from tcpf_lab.errors import DiskFullError, LabError
from tcpf_lab.making import is_disk_full
from tcpf_lab.manifest import git_commit, manifest_of
from tcpf_lab.metrics import summary
from tcpf_lab.plan.compose import compose
from tcpf_lab.results import (
    ExperimentFiles,
    RunFiles,
    complete,
    read_json,
    write_json,
    write_text,
)
from tcpf_lab.run_state import State, state
from tcpf_lab.spec.load import dump
from tcpf_lab.spec.sweep import Run
from tcpf_lab.testbed.base import Testbed

#: Nothing has to be made of a run, unless by force.
_DONE = (State.COMPLETE, State.OUTDATED)


@dataclass(frozen=True)
class Task:
    """Everything a worker needs for one run; goes to another process whole."""

    run: Run
    testbed: Testbed
    files: ExperimentFiles
    keep_pcaps: bool
    commit: str
    allowance: int | None = None  #: bytes on disk while it is made
    captures_dropped: bool = False  #: they were to be kept, and the disk budget has no room


@dataclass(frozen=True)
class Event:
    """Something that happened to one run."""

    run: Run
    kind: str  #: ``skipped``, ``analysed`` (nothing else was to be done), ``finished``, ``failed``
    seconds: float = 0.0
    valid: bool = True
    detail: str = ""
    peak: int = 0  #: bytes on disk while it was made; 0: not known
    captures_dropped: bool = False  #: they were to be kept, and the disk budget has no room
    disk_full: bool = False  #: of the machine that keeps the results: no other run would fit


def run_all(
    runs: Sequence[Run],
    testbed: Testbed,
    results: Path,
    executor: Executor,
    *,
    keep_pcaps: bool = False,
    force: bool = False,
    budget: DiskBudget | None = None,
) -> Iterator[Event]:
    """Carry ``runs`` of any experiments out and yield an event for each as it ends.

    Those that take long begin first, so that no worker is left with one at the end.  A run that is
    complete and was made from the same spec, plan and kernel is skipped.  One that was analysed by
    other code and made without captures is analysed again, from the counters that it has.  A run
    that fails does not stop the others, unless the disk is full; its event says why.  With a
    ``budget`` a run begins when there is room for it, and fails where there will be none.

    Raises
    ------
    RequestError
        If another program is at work on the same runs, or the directory cannot be used.
    DiskFullError
        Behind the event of the first run that did not fit on the disk.
    """
    done, happening = 0, _events(runs, testbed, results, executor, keep_pcaps, force, budget)
    with closing(happening):
        for event in happening:
            yield event
            done += event.kind != "failed"
            if event.disk_full:
                raise DiskFullError(
                    f"stopped: the disk is full; {done} of {len(runs)} runs are complete",
                    where=str(results),
                    hint=f"`{command('status', *options(results=results))}` says what takes the "
                    "room; free some, and the same command goes on from there; or give "
                    "--results DIR on another disk",
                )


def _events(
    runs: Sequence[Run],
    testbed: Testbed,
    results: Path,
    executor: Executor,
    keep_pcaps: bool,
    force: bool,
    budget: DiskBudget | None,
) -> Generator[Event]:
    commit = git_commit()
    futures: dict[Future[Any], Task] = {}
    unread: list[Task] = []  # to be made once all others are: their counters cannot be read
    names = dict.fromkeys(run.experiment.name for run in runs)
    directories = {name: ExperimentFiles(results, name, testbed.name) for name in names}
    with ExitStack() as stack:
        for files in directories.values():
            stack.enter_context(files.locked())
        stack.callback(lambda: [future.cancel() for future in futures])  # if nobody waits for them
        tasks = (
            Task(run, testbed, directories[run.experiment.name], keep_pcaps, commit)
            for run in sorted(runs, key=_expense, reverse=True)
        )
        for task, now in _with_states(tasks, budget, force=force):
            if now is State.COMPLETE:
                task.files.discard(task.run.id)
                yield _skipped(task.run, task.files.run(task.run.id))
            elif now is State.OUTDATED:
                futures[executor.submit(analysed if budget else analyse_again, task)] = task
            elif given := (yield from _given(task, futures, unread, budget, force=force)):
                futures[executor.submit(carry_out, given)] = given
        yield from _ends(as_completed(tuple(futures)), futures, unread, budget)
        for task in unread:
            if given := (yield from _given(task, futures, unread, budget, force=force)):
                futures[executor.submit(carry_out, given)] = given
        yield from _ends(as_completed(tuple(futures)), futures, unread, budget)


def _with_states(
    tasks: Iterable[Task], budget: DiskBudget | None, *, force: bool
) -> Iterable[tuple[Task, State]]:
    """Say what is there of each run; what is to be made again by force is stale."""

    def now(task: Task) -> State:
        identity = task.testbed.identity
        found = state(task.run, task.files, identity, need_pcaps=task.keep_pcaps)
        return State.STALE if force and found in _DONE else found

    if budget is None:
        return ((task, now(task)) for task in tasks)
    # The first run's captures may be kept only if all that are to come find room.
    known = [(task, now(task)) for task in tasks]
    made = (task for task, found in known if found not in _DONE)
    budget.expect(task.files.run(task.run.id).root for task in made)
    return known


def _given(
    task: Task,
    futures: dict[Future[Any], Task],
    unread: list[Task],
    budget: DiskBudget | None,
    *,
    force: bool,
) -> Generator[Event, None, Task | None]:
    """Wait until there is room for a run; yield what ends meanwhile, and why it is not begun."""
    if budget is None:
        return task
    run, files = task.run, task.files
    wanted = task.keep_pcaps and run.experiment.traffic.captured
    as_it_is = None  # how it ends if there is no room for the captures that it lacks
    if wanted and not force and state(run, files, task.testbed.identity) is State.COMPLETE:
        as_it_is = replace(_skipped(run, files.run(run.id)), captures_dropped=True)
    while not (share := budget.share(run, files, keep_pcaps=wanted)):
        if not futures:
            budget.not_needed(files.run(run.id).root)
            yield as_it_is or Event(run, "failed", valid=False, detail=str(budget.refusal(run)))
            return None
        done = wait(futures, return_when=FIRST_COMPLETED).done
        yield from _ends(done, futures, unread, budget)
    if as_it_is and not share.keep_pcaps:
        budget.ended(run, files, 0, finished=False)
        yield as_it_is
        return None
    dropped = wanted and not share.keep_pcaps
    return replace(
        task, keep_pcaps=share.keep_pcaps, allowance=share.allowance, captures_dropped=dropped
    )


def _ends(
    done: Iterable[Future[Any]],
    futures: dict[Future[Any], Task],
    unread: list[Task],
    budget: DiskBudget | None,
) -> Iterator[Event]:
    """Yield how runs ended; those whose counters cannot be read any more are yet to be made."""
    for future in done:
        task = futures.pop(future)
        event = _outcome(future, task, budget)
        if event:
            yield event
        else:
            unread.append(task)


def _expense(run: Run) -> tuple[float, int]:
    """What a run's time grows with, the most important first."""
    return run.experiment.traffic.end, run.flows


def _skipped(run: Run, done: RunFiles) -> Event:
    verdict = read_json(done.metrics).get("validity", {})
    reasons = "; ".join(verdict.get("reasons", ()))
    return Event(run, "skipped", valid=bool(verdict.get("valid")), detail=reasons)


def _outcome(future: Future[Any], task: Task, budget: DiskBudget | None) -> Event | None:
    try:
        event: Event | None = future.result()
    except BrokenExecutor:
        detail = (
            f"run {task.run.id}: a worker process was killed\n"
            "  try: look for the host's out-of-memory killer (dmesg), or --jobs 1"
        )
        event = Event(task.run, "failed", valid=False, detail=detail)
    if budget and event:
        budget.ended(task.run, task.files, event.peak, finished=event.kind == "finished")
    return event


def carry_out(task: Task) -> Event:
    """Do one run from an empty directory to complete results (in a worker process)."""
    started = time.monotonic()
    partial = task.files.partial(task.run.id)
    try:
        metrics, peak = _make(task, partial)
    except LabError as error:
        return _failed(task, started, str(error), error)
    except KeyboardInterrupt:
        shutil.rmtree(partial.root, ignore_errors=True)
        raise
    except OSError as error:
        where = error.filename or partial.root
        detail = f"run {task.run.id}: {where}: {error.strerror}"
        return _failed(task, started, detail, error)
    except MemoryError:
        detail = f"run {task.run.id}: the host has no memory left for it\n  try: fewer --jobs"
        return _failed(task, started, detail)
    except Exception as error:  # noqa: BLE001 - a fault here must not cost the other runs
        saved = partial.log / "traceback.txt"
        with suppress(OSError):
            saved.parent.mkdir(parents=True, exist_ok=True)
            saved.write_text(traceback.format_exc(), encoding="utf-8")
        detail = (
            f"run {task.run.id}: {type(error).__name__}: {error}\n"
            f"  try: this is a fault of tcpf-lab; keep {saved} for a report"
        )
        return _failed(task, started, detail)
    event = _ended(task.run, "finished", started, metrics)
    return replace(event, peak=peak, captures_dropped=task.captures_dropped)


def _failed(task: Task, started: float, detail: str, error: Exception | None = None) -> Event:
    """Say why a run failed; where it was for want of room, what it wrote makes room for others."""
    partial = task.files.partial(task.run.id)
    peak = storage.occupied(partial.root)
    full = is_disk_full(error) or storage.is_full(task.files.results)
    if full:
        shutil.rmtree(partial.root, ignore_errors=True)
    elif isinstance(error, DiskBudgetError):
        shutil.rmtree(partial.pcap, ignore_errors=True)
    seconds = time.monotonic() - started
    return Event(task.run, "failed", seconds, False, detail, peak, disk_full=full)


def analyse_again(task: Task) -> Event:
    """Bring the numbers of a complete run without captures up to date (in a worker process).

    Where its counters cannot be read any more the run is made again at once: with a disk budget
    it has to be given room first.
    """
    return analysed(task) or carry_out(task)


def analysed(task: Task) -> Event | None:
    """Analyse a complete run again where it is; None if its counters cannot be read any more."""
    started = time.monotonic()
    files = task.files.run(task.run.id)
    try:
        checksums.forget_derived(files)
        metrics = checked_analysis.analyse(files)
        checksums.renew(files)
    except LabError:
        return None
    return _ended(task.run, "analysed", started, metrics)


def _ended(run: Run, kind: str, started: float, metrics: dict[str, Any]) -> Event:
    verdict, seconds = metrics["validity"], time.monotonic() - started
    return Event(run, kind, seconds, bool(verdict["valid"]), "; ".join(verdict["reasons"]))


def _make(task: Task, partial: RunFiles) -> tuple[dict[str, Any], int]:
    """Return the metrics, and the bytes on disk before the captures are packed or dropped."""
    run, testbed = task.run, task.testbed
    plan = compose(run)
    task.files.discard(run.id)
    partial.create()
    write_text(partial.spec, dump(run.experiment))
    write_text(partial.plan, str(plan))
    with kept_to(task.allowance, partial):
        testbed.execute(plan, partial, run.seed)
    captures.compress_lists(partial)
    write_json(partial.manifest, manifest_of(run, plan, testbed, task.commit))
    metrics = summary.analyse(partial)
    peak = storage.occupied(partial.root)
    if task.keep_pcaps:
        captures.compress(partial)
    else:
        shutil.rmtree(partial.pcap)
    checksums.write(partial)
    complete(partial, task.files.run(run.id))
    return metrics, peak
