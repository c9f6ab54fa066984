"""The page on a bisection: what each measured commit does to a metric, and the first bad one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from tcpf_lab.papers.sides import Paired
from tcpf_lab.report import table
from tcpf_lab.report.claims.page import Block, Drawing, Page, Point, Table, Text
from tcpf_lab.report.compare.paired import heading
from tcpf_lab.report.compare.scoreboard import number_text
from tcpf_lab.report.table import NOTHING, Column, Entry

#: What `git bisect` records of a commit.
Word = Literal["good", "bad", "skip"]
VERDICTS: dict[Word, str] = {"good": "not worse", "bad": "worse", "skip": "skipped"}
_COLOURS: dict[Word, str] = {"good": "green", "bad": "red", "skip": "yellow"}
_SUBJECT = 32  #: letters of one in a figure


@dataclass(frozen=True)
class Commit:
    """A commit; ``date`` is its author's, in ISO 8601."""

    hash: str
    subject: str
    author: str
    date: str

    def __str__(self) -> str:
        """Give the short hash with the subject."""
        return f"{self.hash[:12]} {self.subject}"


@dataclass(frozen=True)
class Revision:
    """A commit with its verdict.

    ``values`` are the metric by seed, ``changes`` those minus GOOD's, ``half`` the half width of
    the interval of their mean. ``remark`` says why it is skipped, or whose kernel it has. Seconds
    are those that build and runs took.
    """

    commit: Commit
    word: Word
    values: tuple[float, ...] = ()
    changes: tuple[float, ...] = ()
    half: float | None = None
    remark: str = ""
    build_seconds: float = 0.0
    run_seconds: float = 0.0

    @property
    def change(self) -> Entry:
        """Give the mean change, with its interval."""
        half = "" if self.half is None else number_text(self.half)
        return Entry(number_text(fmean(self.changes)) if self.changes else NOTHING, half=half)


@dataclass(frozen=True)
class Bisection:
    """What ``tcpf-lab bisect`` reports.

    ``revisions`` are in the order of history, GOOD the first and BAD the last of them, of
    ``commits`` after GOOD. Several ``first_bad`` are those that skipped ones leave. ``worse_by`` is
    relative to GOOD's mean, ``confidence`` that of each interval.
    """

    metric: str
    worse_by: float
    confidence: float
    commits: int
    first_bad: tuple[Commit, ...]
    revisions: tuple[Revision, ...]
    log: str

    @property
    def threshold(self) -> float:
        """The smallest change that is worse, in the metric's unit, with its sign."""
        share = self.worse_by * abs(fmean(self.revisions[0].values))
        return share if fmean(self.revisions[-1].changes) > 0 else -share

    @property
    def answer(self) -> str:
        """Name the first bad commit, or those among which it is."""
        named = [f"{one} ({one.author}, {one.date})" for one in self.first_bad]
        return named[0] if len(named) == 1 else f"one of {len(named)}: {'; '.join(named)}"


def revision_table(found: Bisection) -> table.Table:
    """Give a row for each revision, in the order of history."""
    numbers = (heading(found.metric), "minus GOOD", "seeds", "build (s)", "runs (s)")
    rows: list[tuple[str | Entry, ...]] = [
        (
            *(str(one.commit), Entry(VERDICTS[one.word], style=_COLOURS[one.word])),
            number_text(fmean(one.values)) if one.values else NOTHING,
            *(one.change, str(len(one.changes))),
            *(f"{one.build_seconds:.1f}", f"{one.run_seconds:.1f}", one.remark),
        )
        for one in found.revisions
    ]
    return table.table_of(
        *("revisions", f"{heading(found.metric)}, commit by commit"),
        (
            *(Column(name, fit="folded") for name in ("commit", "verdict")),
            *(Column(name, "number") for name in numbers),
            Column("remark", fit="folded"),
        ),
        rows,
        f"worse: the whole {100 * found.confidence:.4g} % interval of the differences of equal "
        f"seeds is beyond {number_text(found.threshold)}, {100 * found.worse_by:g} % of GOOD's "
        "mean; not worse: all of it is short of that.",
        close=True,
    )


def page_of_bisection(title: str, found: Bisection) -> Page:
    """Give the page on a bisection."""
    return Page("bisection", f"First bad commit: {title}", tuple(_blocks(found)))


def _blocks(found: Bisection) -> Iterator[Block]:
    yield _figure(found)
    yield Text(f"{found.answer}.", "First bad commit")  # a text before a table is the answer
    revisions = revision_table(found)
    rows = [[entry.in_line for entry in row[:-1]] for row in revisions.groups[0].rows]
    yield Table("revisions", revisions.headings[:-1], rows, revisions.note, 2)
    lines = [(line,) for line in found.log.splitlines()]
    yield Table("log", ("log",), lines, "What git bisect log prints, and git bisect replay reads.")
    remarks = [f"{one.commit}: {one.remark}" for one in found.revisions if one.remark]
    if remarks:
        yield Text(". ".join(remarks) + ".", "Skipped or not measured again")


def _figure(found: Bisection) -> Drawing:
    drawn, first = found.revisions, {one.hash for one in found.first_bad}
    commits = []
    for one in drawn:
        subject = one.commit.subject
        short = subject if len(subject) <= _SUBJECT else f"{subject[:_SUBJECT]} …"
        skipped = "skipped: " if one.word == "skip" else ""
        sign = "→ " if one.commit.hash in first else ""
        commits.append(f"{sign}{skipped}{short}  {one.commit.hash[:8]}")
    axis = f"{heading(found.metric)}; GOOD has {number_text(fmean(drawn[0].values))}"
    frame = Paired(
        f"{found.commits} commits from GOOD to BAD",
        ("A: GOOD", "B: each commit", "→ first bad commit"),
        tuple(commits),
        (axis,),
        found.threshold,
        found.confidence,
    )
    points = tuple(
        Point(str(one.commit), float(place), one.changes, axis)
        for place, one in enumerate(drawn)
        if one.changes
    )
    caption = "The commits that were measured or skipped, from top to bottom in order of history."
    return Drawing("fig-bisection", frame.title, caption, points, frame)
