"""Carry out the runs of an experiment: skip what is complete, do the rest, in parallel.

The runner takes any ``concurrent.futures.Executor`` and yields events; whoever called it draws
them. Nothing is begun for which the disk has no room, by what the plans say that runs write.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import tcpf_lab
from tcpf_lab.base.errors import DiskFullError, LabError, RequestError, TraceError
from tcpf_lab.base.making import free_bytes, is_disk_full
from tcpf_lab.metrics import summary
from tcpf_lab.metrics.record import Clocks, UnreadableError
from tcpf_lab.metrics.transfers import read_transfers
from tcpf_lab.plan.compose import Plan, compose
from tcpf_lab.results import checksums, storage
from tcpf_lab.results.command import command, options
from tcpf_lab.results.layout import (
    FORMAT,
    ExperimentFiles,
    FormatError,
    RunFiles,
    as_json,
    complete,
    read_json,
    write_json,
    write_text,
)
from tcpf_lab.spec.load import dump
from tcpf_lab.spec.model import to_data
from tcpf_lab.spec.sweep import Run
from tcpf_lab.testbed.base import Testbed


def manifest_of(run: Run, plan: Plan, testbed: Testbed, commit: str) -> dict[str, Any]:
    """Give a run's manifest: what it is, what it was made with, what has to hold of it."""
    parts = testbed.identity(plan)
    return {
        "format": FORMAT,
        "tcpf_lab": tcpf_lab.__version__,
        "git_commit": commit,
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
        "made_from": made_from(run, plan, parts),
        "testbed_identity": _hash(as_json(parts)),
        "expect": plan.expect,
        "facts": testbed.facts(plan),
    }


def made_from(run: Run, plan: Plan, testbed: Mapping[str, str]) -> dict[str, str]:
    """Hash, by name, what a run is made from: it is stale if one differs.

    Parameters
    ----------
    run : Run
        Its resolved spec counts, without title and question.
    plan : Plan
        What is carried out.
    testbed : mapping of str to str
        `Testbed.identity` for the plan; empty if it is unknown.
    """
    untitled = run.experiment.model_copy(update={"title": "", "question": None})
    parts = {"spec": as_json(to_data(untitled)), "plan": str(plan), **testbed}
    return {name: _hash(content) for name, content in parts.items()}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def git_commit() -> str:
    """Name the commit of a checkout (with ``+changes`` if it was edited), or say ``release``."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return "release"
    command = ["git", "-C", str(root), "describe", "--always", "--abbrev=12", "--dirty=+changes"]
    try:
        reply = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return reply.stdout.strip()


Identity = Callable[[Plan], dict[str, str]]


class State(Enum):
    """What is known about one run in a results directory."""

    COMPLETE = "complete"
    STALE = "stale"  #: of another spec, plan or kernel, analysed by other code, or damaged
    OUTDATED = "outdated"  #: analysed by other code, and all that the analysis needs is there
    FAILED = "failed"  #: begun and not finished; its log is still there
    MISSING = "missing"


@dataclass(frozen=True)
class RunState:
    """The state of a run, and what makes it stale: ``plan``, ``kernel``, ``sch_rio``, a file."""

    state: State
    causes: tuple[str, ...] = ()

    @property
    def is_stale(self) -> bool:
        """Whether the numbers are not those of the present spec, kernel and analysis."""
        return self.state in (State.STALE, State.OUTDATED)


def stale_runs(states: Iterable[tuple[Run, RunState]]) -> dict[str, str]:
    """Give the ids of stale runs, with what makes them so."""
    return {run.id: ", ".join(now.causes) for run, now in states if now.is_stale}


def state(
    run: Run, files: ExperimentFiles, identity: Identity | None, *, need_pcaps: bool = False
) -> State:
    """Tell whether ``run`` has to be made (again), as `examine` does."""
    return examine(run, files, identity, need_pcaps=need_pcaps).state


def examine(
    run: Run, files: ExperimentFiles, identity: Identity | None, *, need_pcaps: bool = False
) -> RunState:
    """Tell whether ``run`` has to be made (again), and why.

    Parameters
    ----------
    run : Run
        The run as it is wanted now.
    files : ExperimentFiles
        Where it would be.
    identity : callable or None
        `Testbed.identity` of the testbed as it is now; None if it is unknown (then it is not
        compared).
    need_pcaps : bool
        Count a run without stored captures as stale, unless it is to have none.
    """
    done = files.run(run.id)
    if not done.root.exists():
        begun = files.partial(run.id).root.exists()
        return RunState(State.FAILED if begun else State.MISSING)
    manifest, metrics = _record(done.manifest), _record(done.metrics)
    if manifest is None or metrics is None:
        return RunState(State.STALE, ("manifest.json or metrics.json is damaged",))
    if damaged := checksums.damaged(done, captures=need_pcaps):
        return RunState(State.STALE, tuple(f"{name} is damaged" for name in damaged))
    changed = _changed(manifest, run, identity)
    captured = run.experiment.traffic.captured
    if captured and need_pcaps and not any(done.pcap.glob("*.pcap*")):
        changed.append("no captures stored")
    analysed = metrics.get("analysis") == summary.ANALYSIS
    if captured and not analysed:
        changed.append("analysis")
    if changed:
        return RunState(State.STALE, tuple(changed))
    return RunState(State.COMPLETE) if analysed else RunState(State.OUTDATED, ("analysis",))


def _changed(manifest: dict[str, Any], run: Run, identity: Identity | None) -> list[str]:
    """Name what has changed since a run was made."""
    then = manifest.get("made_from")
    if not isinstance(then, dict):
        return ["made by an earlier version"]
    plan = compose(run)
    parts = identity(plan) if identity else {}
    now = made_from(run, plan, parts)
    compared = now | then if parts else now
    return [name for name in compared if now.get(name) != then.get(name)]


def _record(path: Path) -> dict[str, Any] | None:
    """Read one of a run's records; None if it is missing or damaged: then the run is made again."""
    try:
        value = read_json(path)
    except FormatError:  # nothing is wrong with that run
        raise
    except RequestError:
        return None
    return value if isinstance(value, dict) else None


#: No run has more flows, cross traffic included.
_MOST_FLOWS = 10_000
#: No run is longer, s.
_LONGEST_S = 3e6
#: What arithmetic on entries that are missing, of another type or out of all range raises.
_DAMAGE = (
    *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError),
    *(MemoryError, RecursionError),
)


def analyse(files: RunFiles) -> dict[str, Any]:
    """Analyse a run as `tcpf_lab.metrics.summary.analyse` does.

    Parameters
    ----------
    files : RunFiles
        A run directory, complete or partial.

    Returns
    -------
    dict
        What was written to ``metrics.json``.

    Raises
    ------
    LabError
        If a record of the run is missing or damaged, whichever it is; ``metrics.json`` is as it
        was then.
    """
    _refuse_sizes(files)
    try:
        return summary.analyse(files)
    except LabError:
        raise
    except OSError as error:
        reason = f"cannot be read or written: {error.strerror or error}"
        raise TraceError(reason, where=str(error.filename or files.root)) from None
    except _DAMAGE as error:
        raise TraceError(
            f"the run's files contradict each other: {type(error).__name__} {error}"[:300],
            where=str(files.root),
            hint="a file is damaged: repeat the run",
        ) from error


def _refuse_sizes(files: RunFiles) -> None:
    """Refuse a manifest that asks for more flows, or more time, than a run can have."""
    manifest = read_json(files.manifest)
    if not isinstance(manifest, dict):
        return  # the analysis says so
    expect = manifest.get("expect")
    transit = expect.get("cross") if isinstance(expect, dict) else None
    shares = [manifest, *(transit if isinstance(transit, list) else ())]
    flows = [share["flows"] for share in shares if isinstance(share, dict) and "flows" in share]
    window = manifest.get("window_s", [])
    if not all(isinstance(count, int) and 0 <= count <= _MOST_FLOWS for count in flows):
        message = f"is damaged: flows must be from 0 to {_MOST_FLOWS}"
        raise TraceError(message, where=str(files.manifest))
    if not isinstance(window, list) or not all(_is_instant(at) for at in window):
        message = "is damaged: window_s must be two times in seconds"
        raise TraceError(message, where=str(files.manifest))
    users = expect.get("users") if isinstance(expect, dict) else None
    if isinstance(users, dict) and not _are_users(files, users):
        message = f"is damaged: transfers of more than {_MOST_FLOWS} users"
        raise TraceError(message, where=str(files.stats))


def _are_users(files: RunFiles, users: dict[str, Any]) -> bool:
    """Tell whether the numbers of users are such as a run has; True if they cannot be read."""
    try:
        number = read_transfers(files, users, Clocks(0, {}))["user"]
    except (UnreadableError, *_DAMAGE):
        return True  # the analysis says what is wrong
    return bool(number.size == 0 or number.max() < _MOST_FLOWS)


def _is_instant(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value <= _LONGEST_S


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


@dataclass(frozen=True)
class Event:
    """Something that happened to one run."""

    run: Run
    kind: str  #: ``skipped``, ``analysed`` (nothing else was to be done), ``finished``, ``failed``
    seconds: float = 0.0
    valid: bool = True
    detail: str = ""
    disk_full: bool = False  #: of the machine that keeps the results: no other run would fit


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
    that fails does not stop the others, unless the disk is full; its event says why.

    Raises
    ------
    RequestError
        If another program is at work on the same runs, or the directory cannot be used.
    DiskFullError
        Before the first run is made if they will not all find room, behind the events of those
        that are skipped; behind the event of the first one that did not fit on the disk.
    """
    done, happening = 0, _events(runs, testbed, results, executor, keep_pcaps, force)
    with closing(happening):
        for event in happening:
            yield event
            done += event.kind != "failed"
            if event.disk_full:
                raise DiskFullError(
                    f"stopped: the disk is full; {done} of {len(runs)} runs are complete",
                    where=str(results),
                    hint=f"`{command('status', *options(results=results))}` lists what uses the "
                    "space; free some and repeat the command, which continues; or use "
                    "--results DIR on another disk",
                )


def _events(
    runs: Sequence[Run],
    testbed: Testbed,
    results: Path,
    executor: Executor,
    keep_pcaps: bool,
    force: bool,
) -> Generator[Event]:
    commit = git_commit()
    futures: dict[Future[Any], Task] = {}
    names = dict.fromkeys(run.experiment.name for run in runs)
    directories = {name: ExperimentFiles(results, name, testbed.name) for name in names}
    with ExitStack() as stack:
        for files in directories.values():
            stack.enter_context(files.locked())
        stack.callback(lambda: [future.cancel() for future in futures])  # if nobody waits for them
        tasks = [
            Task(run, testbed, directories[run.experiment.name], keep_pcaps, commit)
            for run in sorted(runs, key=_expense, reverse=True)
        ]
        to_do = []
        for task in tasks:
            found = _state(task, force=force)
            if found is State.COMPLETE:
                task.files.discard(task.run.id)
                yield _skipped(task.run, task.files.run(task.run.id))
            else:
                to_do.append((task, analyse_again if found is State.OUTDATED else carry_out))
        made = (task.run for task, work in to_do if work is carry_out)
        require_room(_needs(made, keep_pcaps), results, keep_pcaps=keep_pcaps)
        for task, work in to_do:
            futures[executor.submit(work, task)] = task
        for future in as_completed(tuple(futures)):
            yield _outcome(future, futures.pop(future))


def _state(task: Task, *, force: bool) -> State:
    """Say what is there of a run; what is to be made again by force is stale."""
    found = state(task.run, task.files, task.testbed.identity, need_pcaps=task.keep_pcaps)
    return State.STALE if force and found in _DONE else found


def _expense(run: Run) -> tuple[float, int]:
    """What a run's time grows with, the most important first."""
    return run.experiment.traffic.end, run.flows


def _skipped(run: Run, done: RunFiles) -> Event:
    verdict = read_json(done.metrics).get("validity", {})
    reasons = "; ".join(verdict.get("reasons", ()))
    return Event(run, "skipped", valid=bool(verdict.get("valid")), detail=reasons)


def _outcome(future: Future[Any], task: Task) -> Event:
    try:
        event: Event = future.result()
    except BrokenExecutor:
        detail = (
            f"run {task.run.id}: a worker process was killed\n"
            "  try: check `dmesg` for the out-of-memory killer, or use --jobs 1"
        )
        return Event(task.run, "failed", valid=False, detail=detail)
    return event


def carry_out(task: Task) -> Event:
    """Do one run from an empty directory to complete results (in a worker process)."""
    started = time.monotonic()
    partial = task.files.partial(task.run.id)
    try:
        metrics = _make(task, partial)
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
        detail = f"run {task.run.id}: the host is out of memory\n  try: fewer --jobs"
        return _failed(task, started, detail)
    except Exception as error:  # noqa: BLE001 - a fault here must not cost the other runs
        saved = partial.log / "traceback.txt"
        with suppress(OSError):
            saved.parent.mkdir(parents=True, exist_ok=True)
            saved.write_text(traceback.format_exc(), encoding="utf-8")
        detail = (
            f"run {task.run.id}: {type(error).__name__}: {error}\n"
            f"  try: this is a bug in tcpf-lab: report it with {saved}"
        )
        return _failed(task, started, detail)
    return _ended(task.run, "finished", started, metrics)


def _failed(task: Task, started: float, detail: str, error: Exception | None = None) -> Event:
    """Say why a run failed; where it was for want of room, what it wrote makes room for others."""
    partial = task.files.partial(task.run.id)
    full = is_disk_full(error) or storage.is_full(task.files.results)
    if full:
        shutil.rmtree(partial.root, ignore_errors=True)
    return Event(task.run, "failed", time.monotonic() - started, False, detail, disk_full=full)


def analyse_again(task: Task) -> Event:
    """Bring the numbers of a complete run without captures up to date (in a worker process).

    Where its counters cannot be read any more the run is made again.
    """
    return analysed(task) or carry_out(task)


def analysed(task: Task) -> Event | None:
    """Analyse a complete run again where it is; None if its counters cannot be read any more."""
    started = time.monotonic()
    files = task.files.run(task.run.id)
    try:
        checksums.forget_derived(files)
        metrics = analyse(files)
        checksums.renew(files)
    except LabError:
        return None
    return _ended(task.run, "analysed", started, metrics)


def _ended(run: Run, kind: str, started: float, metrics: dict[str, Any]) -> Event:
    verdict, seconds = metrics["validity"], time.monotonic() - started
    return Event(run, kind, seconds, bool(verdict["valid"]), "; ".join(verdict["reasons"]))


def _make(task: Task, partial: RunFiles) -> dict[str, Any]:
    """Make a run and give its metrics."""
    run, testbed = task.run, task.testbed
    plan = compose(run)
    task.files.discard(run.id)
    need = planned(plan, keep_pcaps=task.keep_pcaps)
    require_room([need], task.files.results, keep_pcaps=task.keep_pcaps)
    partial.create()
    write_text(partial.spec, dump(run.experiment))
    write_text(partial.plan, str(plan))
    testbed.execute(plan, partial, run.seed)
    storage.compress_lists(partial)
    write_json(partial.manifest, manifest_of(run, plan, testbed, task.commit))
    metrics = summary.analyse(partial)
    if task.keep_pcaps:
        storage.compress(partial)
    else:
        shutil.rmtree(partial.pcap)
    checksums.write(partial)
    complete(partial, task.files.run(run.id))
    return metrics


#: Everything of a run but its captures, and the report of all runs.
_BARE, _REPORT = 1_000_000, 10_000_000
#: What a capture adds to a packet, the headers of a full packet, and how often each packet across
#: the bottleneck is captured: at the sender with its acknowledgement, before the queue with what
#: the queue drops.
_RECORD, _HEADERS = 16, 14 + 40
_PACKETS = {"sender": 2.1, "egress": 1.0}
_ENTERING = 1.1
#: What captures shrink by when they are compressed, at the least.
_PACKED = 3


@dataclass(frozen=True)
class Need:
    """What a run takes on disk, in bytes: at most while it is made, and afterwards."""

    peak: int
    after: int


def planned(plan: Plan, *, keep_pcaps: bool) -> Need:
    """Give what a run takes if its bottleneck is busy from beginning to end."""
    rate, mss = plan.expect["bottleneck"]["rate_bits_per_s"], plan.expect["mss"]
    packets = plan.virtual_seconds * rate / 8 / (mss + _HEADERS)
    points = sum(_PACKETS.get(role, _ENTERING) for role in plan.expect.get("captures", ()))
    captured = round(packets * points * (_RECORD + plan.snaplen))
    return Need(captured + _BARE, _BARE + (captured // _PACKED if keep_pcaps else 0))


def _needs(runs: Iterable[Run], keep_pcaps: bool) -> Iterator[Need]:
    """Yield what each run takes; those that differ only in their seed take the same."""
    known: dict[object, Need] = {}
    for run in runs:
        kind = (run.experiment.name, run.case_name, run.settings, run.flows)
        if kind not in known:
            known[kind] = planned(compose(run), keep_pcaps=keep_pcaps)
        yield known[kind]


def require_room(needs: Iterable[Need], directory: Path, *, keep_pcaps: bool) -> None:
    """Refuse to begin runs, made one at a time, that would not all find room.

    Raises
    ------
    DiskFullError
        With what they take and what is free.
    """
    taken = peak = 0
    for need in needs:
        taken += need.after
        peak = max(peak, need.peak)
    needed, free = taken + peak + _REPORT, free_bytes(directory)
    if taken and needed > free:
        raise DiskFullError(
            f"not enough space: the runs need about {storage.readable(needed)}, "
            f"{storage.readable(free)} are free",
            where=str(directory),
            hint="free some space, use --results DIR on another disk, or omit --keep-pcaps"
            if keep_pcaps
            else "free some space, or use --results DIR on another disk",
        )
