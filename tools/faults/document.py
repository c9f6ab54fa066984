"""What the suite found: counts by kind, as a table for people, as Markdown and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.table import Table

from tools.faults.kinds import KINDS
from tools.faults.verdict import Outcome

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
    """Give the counts as a section of `docs/faults.md`."""
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
