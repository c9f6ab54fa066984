"""The page on the parking lot: goodput and timeouts of main flows and of cross traffic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from tcpf_lab.papers.figures import BarPanel, draw_bars, groups_of
from tcpf_lab.report.claims.judge import Measured, PaperCheck, PaperClaim, Sentences, paired
from tcpf_lab.report.claims.page import (
    RIO,
    TB,
    Block,
    CellRuns,
    Claims,
    Drawing,
    Numbers,
    Page,
    PaperRun,
    Table,
    Text,
    cells_of,
    ratio,
    told,
)
from tcpf_lab.report.contents.subject import Member

_say = Sentences(Path(__file__).with_name("tcpf.toml")).claim

#: Last part of the key of the axis that says how many bottlenecks the main flows pass.
AXIS = "bottlenecks"
_INTRODUCTION = (
    "The main flows pass every bottleneck; over each of them alone go cross flows with the shorter "
    "round-trip time. Each bottleneck has the case's queue, and each source of packets a marker of "
    "its own. Goodput is the mean of the flows; timeouts are those of all flows in the measured "
    "window, of cross flows together over the bottlenecks. The papers name several bottlenecks as "
    "their open question, so there is nothing published to put beside these numbers."
)

Of = Callable[[PaperRun], float | None]


def _metric(path: str) -> Of:
    return lambda run: run.number(path)


def _over(section: str, name: str, combine: Callable[[Sequence[float]], float]) -> Of:
    """Combine a number over the entries of a list; None unless all of them have it."""

    def of(run: PaperRun) -> float | None:
        entries = run.found.get(section)
        values = [run.number(f"{section}.{at}.{name}") for at in range(len(entries or ()))]
        known = [value for value in values if value is not None]
        return float(combine(known)) if known and len(known) == len(values) else None

    return of


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


#: What is told of a run: heading, decimals, how it is read.
COLUMNS: dict[str, tuple[str, int, Of]] = {
    "main_goodput": ("main: goodput (bytes/s)", 0, _metric("metrics.goodput_bytes_per_s")),
    "main_timeouts": ("main: timeouts", 1, _metric("metrics.timeouts")),
    "main_cov": ("main: goodput CoV", 3, _metric("metrics.goodput_cov")),
    "cross_goodput": (
        "cross: goodput (bytes/s)",
        0,
        _over("cross", "goodput_bytes_per_s", _mean),
    ),
    "cross_timeouts": ("cross: timeouts", 1, _over("cross", "timeouts", sum)),
    "use": ("use of the bottlenecks", 3, _over("bottlenecks", "utilisation", _mean)),
    "loss": ("packet loss (%)", 2, _over("bottlenecks", "packet_loss_percent", _mean)),
}
_COMPARED = ("main_goodput", "main_timeouts", "cross_goodput", "cross_timeouts")


def build(members: Sequence[Member], command: str) -> Page | None:
    """Give the page on experiments with several bottlenecks; None where none of them varies."""
    cells = [cell for one in members for cell in cells_of(one.section)]
    found = [cell for cell in cells if bottlenecks(cell) is not None]
    blocks = tuple(blocks_of(found, command)) if found else ()
    return Page("parking-lot", "One to three bottlenecks", blocks) if blocks else None


def bottlenecks(cell: CellRuns) -> int | None:
    """Give how many bottlenecks a cell's main flows pass; None if it does not vary."""
    for key, text in cell.cell.settings:
        if key.rpartition(".")[2] == AXIS:
            return int(text)
    return None


def blocks_of(cells: Sequence[CellRuns], command: str) -> Iterator[Block]:
    """Yield what is told of the cells."""
    ordered = sorted(cells, key=lambda cell: bottlenecks(cell) or 0)
    yield Text(_INTRODUCTION)
    yield _numbers(ordered)
    yield _ratios(ordered)
    yield _figure(ordered)
    yield Text("", "What the paper says")
    yield Claims(claims(ordered), command)


def _numbers(cells: Sequence[CellRuns]) -> Table:
    rows = [
        (
            *(str(bottlenecks(cell)), cell.case),
            *(cell.each(of).printed(digits) for _, digits, of in COLUMNS.values()),
            str(len(cell.runs)),
        )
        for cell in cells
    ]
    headings = (heading for heading, _, _ in COLUMNS.values())
    return Table(
        "numbers",
        ("bottlenecks", "case", *headings, "runs"),
        tuple(rows),
        "Means over seeds and half widths of 95 % intervals; use and loss are means over the "
        "bottlenecks.",
        left=2,
    )


def _ratios(cells: Sequence[CellRuns]) -> Table:
    rows = [
        (str(count), *(told(against(cells, count, name)) for name in _COMPARED))
        for count in counts(cells)
    ]
    headings = (COLUMNS[name][0].partition(" (")[0] for name in _COMPARED)
    return Table(
        "ratios",
        ("bottlenecks", *headings),
        tuple(rows),
        f"{RIO} over {TB}, seed by seed.",
    )


def counts(cells: Sequence[CellRuns]) -> tuple[int, ...]:
    """Give the numbers of bottlenecks there are, ascending."""
    return tuple(sorted({count for cell in cells if (count := bottlenecks(cell)) is not None}))


def against(cells: Sequence[CellRuns], count: int, name: str) -> Measured:
    """Give TCPF+RIO's number over TB+RIO's with so many bottlenecks, seed by seed."""
    sides = [_of(cells, count, case, name) for case in (RIO, TB)]
    lacking = [
        f"{case}, {_words(count)}" for case, one in zip((RIO, TB), sides, strict=True) if not one
    ]
    return paired(ratio, *sides, missing=lacking)


def _of(cells: Sequence[CellRuns], count: int, case: str, name: str) -> Numbers:
    same = (cell for cell in cells if cell.case == case and bottlenecks(cell) == count)
    cell = next(same, None)
    return cell.each(COLUMNS[name][2]) if cell else Numbers({})


def _words(count: int) -> str:
    return f"{count} bottleneck" + "s" * (count > 1)


def _figure(cells: Sequence[CellRuns]) -> Drawing:
    groups = tuple(map(_words, counts(cells)))
    cases = tuple(dict.fromkeys(cell.case for cell in cells))
    parts = [
        BarPanel(
            axis,
            groups,
            {
                (case, _words(count)): _of(cells, count, case, name)
                for case in cases
                for count in counts(cells)
            },
        )
        for name, axis in (
            ("main_timeouts", "Timeouts, main"),
            ("cross_timeouts", "Timeouts, cross"),
            ("main_goodput", "Goodput, main (bytes/s)"),
        )
    ]
    points = tuple(point for part in parts for point in part.points)
    return Drawing(
        "fig-parking-lot",
        "Timeouts and goodput over one to three bottlenecks",
        "Means over seeds with 95 % intervals: timeouts of all main flows, of all cross flows over "
        "all bottlenecks, and the main flows' mean goodput.",
        points,
        lambda: draw_bars(parts, "One to three bottlenecks", "Means over seeds, 95 % intervals"),
        () if points else ("no run",),
        place=groups_of(parts),
    )


def claims(cells: Sequence[CellRuns]) -> tuple[PaperClaim, ...]:
    """Give section 6.1's sentence on several bottlenecks."""
    return tuple(
        _say(
            f"parking-{side}",
            [
                PaperCheck(_words(n), against(cells, n, f"{side}_timeouts"), high=1, strict=True)
                for n in counts(cells)
            ],
        )
        for side in ("main", "cross")
    )
