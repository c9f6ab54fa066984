"""After a fault: what must hold of the results, of the processes, and of a rerun."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.table import Table

from tcpf_lab.results import checksums
from tcpf_lab.results.layout import REPLACED
from tools.faults import processes
from tools.faults.kinds import KINDS
from tools.faults.stage import (
    DONE,
    Fault,
    Injected,
    Stage,
    answer,
    fingerprint,
    guest_memory,
    run_ids,
)

#: Longest that processes may take to end after their command, s: killing them takes a moment.
_PATIENCE_S = 20.0


@dataclass(frozen=True)
class Outcome:
    """How one fault ended; ``state`` is passed, failed, missed (it met nothing) or not run."""

    number: int
    kind: str
    what: str
    state: str
    problems: tuple[str, ...]
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Give what the suite writes down."""
        return {**asdict(self), "problems": list(self.problems)}


def after(stage: Stage, fault: Fault, injected: Injected) -> Iterator[str]:
    """Yield what is wrong after a fault, and after the rerun that must fix it."""
    left = processes.remaining(_PATIENCE_S)
    yield from (f"a process remains: {p.pid} {' '.join(p.words)[:100]}" for p in left)
    processes.end(left)
    yield from (f"a guest's memory remains: {path}" for path in guest_memory(stage))
    yield from _kept(stage, fault, injected)
    rerun = stage.command("rerun").fork()
    yield from answer(rerun, (DONE,), "")
    left = processes.remaining(_PATIENCE_S)
    yield from (f"after the rerun a process remains: {p.pid}" for p in left)
    processes.end(left)
    yield from _mended(stage)


def _kept(stage: Stage, fault: Fault, injected: Injected) -> Iterator[str]:
    """Whatever claims to be whole is so, and finished runs are as they were."""
    names = {run.root.name for run in stage.complete()}
    for name in fault.finished:
        if name not in names and name not in injected.spoiled and not _being_replaced(stage, name):
            yield f"finished run {name} is gone"
    for name in sorted(names - set(injected.spoiled)):
        if fingerprint(stage.files.run(name).root, whole=False) != stage.reference.prints[name]:
            yield f"run {name} is not what it is without the fault"


def _being_replaced(stage: Stage, name: str) -> bool:
    """Between two renames a run that is made again is there whole, by another name."""
    old = stage.files.run(name + REPLACED).root
    return old.is_dir() and fingerprint(old, whole=False) == stage.reference.prints[name]


def _mended(stage: Stage) -> Iterator[str]:
    """Every run is complete and has the bytes that it always has."""
    if partial := stage.partial():
        yield f"left after the rerun: {', '.join(partial)}"
    for name in run_ids():
        run = stage.files.run(name)
        if not run.root.is_dir():
            yield f"run {name} is missing after the rerun"
            continue
        found, usual = fingerprint(run.root, whole=False), stage.reference.prints[name]
        if found != usual:
            other = sorted(file for file in {*found, *usual} if found.get(file) != usual.get(file))
            yield f"run {name} differs after the rerun: {', '.join(other)}"
        if wrong := checksums.damaged(run, captures=True):
            yield f"run {name} does not match its checksums: {', '.join(wrong)}"
    for table, usual_table in stage.reference.tables.items():
        path = stage.files.root / table
        if not path.exists() or path.read_bytes() != usual_table:
            yield f"another {table} after the rerun"


# What the suite found: counts by kind, as a table for people, as Markdown and as JSON.

STATES = ("passed", "failed", "missed", "not run")
_COLUMNS = ("kind", "fault", "planted", *STATES)


def rows(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    """Give a row for each kind that was drawn, and one for all of them."""
    counts = {kind: Counter(o.state for o in outcomes if o.kind == kind) for kind in KINDS}
    every: Counter[str] = sum(counts.values(), Counter())
    named = [(kind, KINDS[kind].about, count) for kind, count in counts.items() if count]
    return [
        (name, about, str(count["passed"] + count["failed"]), *(str(count[s]) for s in STATES))
        for name, about, count in [*named, ("all", "", every)]
    ]


def table(outcomes: Sequence[Outcome]) -> Table:
    """Give the counts for a terminal."""
    shown = Table(box=box.SIMPLE_HEAD)
    for column in _COLUMNS:
        shown.add_column(column, justify="left" if column in ("kind", "fault") else "right")
    for row in rows(outcomes):
        shown.add_row(*row)
    return shown


def markdown(outcomes: Sequence[Outcome], command: str, seconds: float) -> str:
    """Give the counts as a section of `docs/reference/crash-tests.md`."""
    lines = [
        f"Made by `{command}` in {seconds / 60:.0f} minutes; `missed` met nothing any more.",
        "",
        "| " + " | ".join(_COLUMNS) + " |",
        "|---|---|" + "---:|" * (len(_COLUMNS) - 2),
        *("| " + " | ".join(row) + " |" for row in rows(outcomes)),
    ]
    return "\n".join(lines) + "\n"


def as_json(outcomes: Sequence[Outcome], seed: int, seconds: float) -> dict[str, Any]:
    """Give everything that was found."""
    return {
        "format": 1,
        "seed": seed,
        "seconds": round(seconds, 1),
        "faults": [each.as_json() for each in sorted(outcomes, key=lambda each: each.number)],
    }
