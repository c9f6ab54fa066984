"""The page on a bisection: what each measured commit does to a metric, and the first bad one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Literal

from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.report import table
from tcpf_lab.report.claims.page import Block, Drawing, Page, Point, Table, Text
from tcpf_lab.report.compare.paired import heading
from tcpf_lab.report.compare.scoreboard import number_text
from tcpf_lab.report.table import NOTHING, Column, Entry

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: What `git bisect` records of a commit.
Word = Literal["good", "bad", "skip"]
VERDICTS: dict[Word, str] = {"good": "not worse", "bad": "worse", "skip": "skipped"}
_COLOURS: dict[Word, str] = {"good": "green", "bad": "red", "skip": "yellow"}


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
        if len(self.first_bad) == 1:
            (one,) = self.first_bad
            return f"first bad commit: {one} ({one.author}, {one.date})"
        return f"one of {len(self.first_bad)} commits: {'; '.join(map(str, self.first_bad))}"


def revision_table(found: Bisection) -> table.Table:
    """Give a row for each revision, in the order of history."""
    numbers = ("minus GOOD", "seeds", "build (s)", "runs (s)")
    return table.table_of(
        "revisions",
        f"{heading(found.metric)}, commit by commit",
        (
            *(Column("commit", fit="whole"), Column("subject", fit="folded")),
            *(Column(name, "number") for name in (heading(found.metric), *numbers)),
            *(Column("verdict", fit="whole"), Column("remark", fit="folded")),
        ),
        map(_row, found.revisions),
        f"worse: {number_text(found.threshold)} or more from GOOD, {100 * found.worse_by:g} % of "
        f"its mean, by the whole {100 * found.confidence:.4g} % interval of the differences of "
        "equal seeds; not worse: the whole interval is below.",
        close=True,
    )


def _row(one: Revision) -> tuple[str | Entry, ...]:
    half = "" if one.half is None else number_text(one.half)
    return (
        *(one.commit.hash[:12], one.commit.subject),
        number_text(fmean(one.values)) if one.values else NOTHING,
        Entry(number_text(fmean(one.changes)), half=half) if one.changes else NOTHING,
        *(str(len(one.changes)), f"{one.build_seconds:.1f}", f"{one.run_seconds:.1f}"),
        *(Entry(VERDICTS[one.word], style=_COLOURS[one.word]), one.remark),
    )


def page_of_bisection(title: str, found: Bisection) -> Page:
    """Give the page on a bisection."""
    return Page("bisection", f"First bad commit: {title}", tuple(_blocks(found)))


def _blocks(found: Bisection) -> Iterator[Block]:
    yield _figure(found)
    yield Text(f"{found.answer}.", "First bad commit")  # a text before a table is the answer
    revisions = revision_table(found)
    rows = [[entry.in_line for entry in row] for group in revisions.groups for row in group.rows]
    yield Table("revisions", revisions.headings, rows, revisions.note, 2)
    lines = [(line,) for line in found.log.splitlines()]
    yield Table("log", ("git bisect log",), lines, "`git bisect replay FILE` reads these lines.")


def _figure(found: Bisection) -> Drawing:
    drawn = found.revisions
    first = {one.hash for one in found.first_bad}
    frame = OverHistory(
        f"{heading(found.metric)} over {found.commits} commits",
        f"minus that of GOOD ({number_text(fmean(drawn[0].values))}), seed by seed",
        tuple(f"{one.commit.subject[:44]}  {one.commit.hash[:8]}" for one in drawn),
        tuple(one.remark if one.word == "skip" else "" for one in drawn),
        tuple(place for place, one in enumerate(drawn) if one.commit.hash in first),
        found.threshold,
        found.confidence,
    )
    points = tuple(
        Point(VERDICTS[one.word], float(place), one.changes)
        for place, one in enumerate(drawn)
        if one.changes
    )
    caption = (
        "A dot for each seed, the mean and its interval; dashed: the threshold. "
        "From top to bottom: measured commits from GOOD to BAD."
    )
    return Drawing("fig-bisection", frame.title, caption, points, frame, axis=heading(found.metric))


#: Colour and marker of a mean.
_LOOKS = {"not worse": ("#0b2f66", "o"), "worse": ("#d2702f", "D"), "skipped": ("#8c8c8c", "s")}
_ROW, _AROUND = 0.26, 0.5  # inches: of a commit, and around all of them
_REMARK = 60  # letters


@dataclass(frozen=True)
class OverHistory:
    """Changes of a metric, a row for each commit with a dot for each seed.

    Parameters
    ----------
    title, subtitle : str
        What stands above.
    commits : tuple of str
        The rows, from top to bottom; a point's x is the place of its own.
    remarks : tuple of str
        What stands in the row of a commit without points.
    first_bad : tuple of int
        The rows in bold.
    threshold : float
        Of what is worse.
    confidence : float
        Of the intervals.
    """

    title: str
    subtitle: str
    commits: tuple[str, ...]
    remarks: tuple[str, ...]
    first_bad: tuple[int, ...]
    threshold: float
    confidence: float

    def place(self, point: Point) -> str:
        """Say of which commit a point is."""
        return f"at {self.commits[round(point.x)]}"

    def draw(self, points: Sequence[Point]) -> Figure:
        """Draw the rows; within ``house_style``."""
        from matplotlib.lines import Line2D

        from tcpf_lab.report.plots.canvas import Entry as Sign
        from tcpf_lab.report.plots.canvas import head, legend, panels

        figure, (axes,) = panels(1, _AROUND + _ROW * len(self.commits))
        for point in points:
            self._revision(axes, point)
        axes.axvline(0, color="#111111", linewidth=0.8, zorder=1)
        axes.axvline(self.threshold, color="#6f6f6f", linewidth=0.8, linestyle="--", zorder=1)
        self._rows(axes, {round(point.x) for point in points})
        head(axes, self.title, self.subtitle)
        words = [word for word in _LOOKS if any(point.series == word for point in points)]
        looks = {f"{word}, {100 * self.confidence:.4g} % interval": _LOOKS[word] for word in words}
        legend(
            figure,
            [
                Sign(name, Line2D([], [], linestyle="none", color=colour, marker=marker))
                for name, (colour, marker) in looks.items()
            ],
        )
        return figure

    def _revision(self, axes: Axes, point: Point) -> None:
        colour, marker = _LOOKS[point.series]
        mean, half = mean_ci(point.values, self.confidence)
        at = [point.x] * len(point.values)
        axes.plot(point.values, at, "o", ms=3.6, mfc="none", mec="#6f6f6f", zorder=2)
        axes.errorbar(
            *(mean, point.x), xerr=half, color=colour, marker=marker, markersize=5, capsize=2.6
        )

    def _rows(self, axes: Axes, drawn: set[int]) -> None:
        for place, remark in enumerate(self.remarks):
            if place not in drawn:
                text = f"skipped: {remark}"
                short = text if len(text) <= _REMARK else f"{text[:_REMARK]} …"
                where = axes.get_yaxis_transform()
                axes.text(0.01, place, short, transform=where, va="center", color="#6f6f6f")
        axes.set_yticks(range(len(self.commits)), list(self.commits))
        for place in self.first_bad:
            axes.get_yticklabels()[place].set_fontweight("bold")
        axes.set_ylim(len(self.commits) - 0.5, -0.5)
        axes.tick_params(axis="x", bottom=True)
        axes.grid(visible=False, axis="y")
