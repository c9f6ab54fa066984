"""Outcomes on a terminal: the tables that answer at a glance, in its width."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table

from tools.accuracy.compare import Outcome
from tools.accuracy.document import difference_rows, mark_row, total_row
from tools.accuracy.matrix import marks, totals

#: The columns of the document would be too long for a terminal.
_SHORT = ("group", "runs", "exact", "kernel", "capture", "error", "missed", "invented", "unknown")
_SHORT_MARKS = ("group", "runs", "needless", "wrong", "precision", "recall")


def totals_table(outcomes: Sequence[Outcome]) -> Table:
    """Give the totals for a terminal."""
    shown = _empty("timeouts: flows exact, and sums by kernel and by capture", _SHORT)
    for each in totals(outcomes):
        *row, _, unknown = total_row(each)
        shown.add_row(*row, unknown)
    return shown


def needless_table(outcomes: Sequence[Outcome]) -> Table:
    """Give the marks of needless retransmissions for a terminal."""
    title = "needless retransmissions by what passed the bottleneck, and wrong marks"
    shown = _empty(title, _SHORT_MARKS)
    for each in marks(outcomes):
        name, scenarios, _, needless, *shares = mark_row(each)[:6]
        wrong = sum(each.of.wrong.values())
        shown.add_row(name, scenarios, needless, str(wrong), *shares)
    return shown


def _empty(title: str, columns: Sequence[str]) -> Table:
    """Begin a table of numbers by group."""
    shown = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in columns:
        shown.add_column(column, justify="left" if column == "group" else "right", no_wrap=True)
    return shown


def differences_table(outcomes: Sequence[Outcome]) -> Table:
    """Give the flows that differ for a terminal."""
    title = "flows whose timeouts differ"
    shown = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("seed", "flow", "kernel", "capture", "first event that differs"):
        shown.add_column(column)
    for row in difference_rows(sorted(outcomes, key=lambda each: each.seed)):
        shown.add_row(*row)
    return shown
