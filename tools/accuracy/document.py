"""Outcomes for people: a Markdown text."""

from __future__ import annotations

import os.path
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tcpf_lab.report.table import Column, TerminalTable, boxed, table_of
from tcpf_lab.trace.analysis import SPURIOUS
from tools.accuracy.compare import Outcome
from tools.accuracy.matrix import (
    Total,
    disorder,
    exceptions,
    explained,
    marks,
    merged,
    not_judged,
    shares_right,
    totals,
)
from tools.accuracy.needless import Sum

_INTRODUCTION = """\
# How often the analysis of captures is right

Made by `{command}`.

Every scenario is drawn from its seed: TCP profile, SACK, congestion control, timestamps, window
scaling, delayed acknowledgements, flows, round-trip time, segment size, the queue at the
bottleneck, and what the path loses, duplicates and reorders. `tools/accuracy/scenario.py` says how.
It runs in the virtual-time kernel; the capture at its sender is analysed like any capture, and the
result is held against what that kernel itself recorded.

`timeouts` are expiries of the retransmission timer, those in a row and those of SYNs included.
`missed` and `invented` add up what single flows have too few and too many, so that they do not
cancel. `unknown` is the share of the retransmissions that no rule explains. `explained` counts, of
the flows that are not exact, those of which the first event is known that only one side calls a
timeout: what the kernel did, what the capture makes of it, and by which rule.

`./lab accuracy --seeds N --keep-pcaps` repeats scenario N to the byte and keeps its captures.
[{output}]({link}) is the JSON of what is told here.
"""
_NEEDLESS = """\
## Needless retransmissions

A retransmission of data is needless if an earlier copy of all its bytes passed the bottleneck, then
or later: captures on both sides of it say so. `precision` is the share of the marks (`spurious`)
that are right, `recall` that of the needless retransmissions that are marked. Below an evidence
stand its marks, right/wrong. `after a timeout` counts the missed ones of the kinds `rto` and
`post_rto`. The last second of each capture does not count: what tells may not have come back yet.
What is `reordered` or `duplicated` behind the bottleneck arrives all the same.
"""
#: Flows that differ are listed one by one up to so many; the JSON has all.
LISTED = 20

_TOTALS = (
    *("group", "scenarios", "flows exact", "timeouts, kernel", "timeouts, capture", "error"),
    *("missed", "invented", "retransmissions", "unknown"),
)
_MARKS = (
    *("group", "scenarios", "retransmissions", "needless", "precision", "recall"),
    *(evidence for evidence in SPURIOUS if evidence),
    *("missed", "after a timeout"),
)
_SCENARIOS = (
    *("seed", "profile", "SACK", "control", "flows", "RTT", "MSS", "rate", "loss aimed at"),
    *("path", "packets", "timeouts, kernel", "error", "flows exact", "explained"),
    "unknown",
)


def markdown(outcomes: Sequence[Outcome], seconds: float, output: Path, written: Path) -> str:
    """Write everything as Markdown.

    Parameters
    ----------
    outcomes : sequence of Outcome
        In any order.
    seconds : float
        Virtual length of each scenario.
    output : Path
        The JSON, which the text has a link to.
    written : Path
        Where the text is kept.
    """
    ordered = sorted(outcomes, key=lambda each: each.seed)
    packets = sum(each.packets for each in ordered)
    parts = [
        _INTRODUCTION.format(
            command=_command(ordered, seconds, output, written),
            output=output.as_posix(),
            link=Path(os.path.relpath(output.resolve(), written.parent.resolve())).as_posix(),
        ),
        f"{len(ordered)} scenarios of {seconds:g} s, {packets} packets at their senders.\n",
        *_section("Totals", _TOTALS, (total_row(each) for each in totals(ordered))),
        *_section("Causes", ("kernel", "packets", "named rightly"), _cause_rows(ordered)),
        *_confusion(ordered),
        *_needless(ordered),
        *_section("Scenarios", _SCENARIOS, (_scenario_row(each) for each in _compared(ordered))),
        *_section("First events that differ", ("kernel", "capture", "flows"), _why_rows(ordered)),
        *_section(
            "Flows that differ",
            ("seed", "flow", "kernel", "capture", "first event that differs"),
            difference_rows(ordered),
        ),
        *_rest(ordered),
    ]
    return "\n".join(parts)


def _command(ordered: Sequence[Outcome], seconds: float, output: Path, written: Path) -> str:
    """Give the command that makes the document: the seeds from the first to the last."""
    seeds = [each.seed for each in ordered]
    chosen = f" --seeds {seeds[0]}..{seeds[-1]}" if seeds else ""
    files = f"--output {output.as_posix()} --markdown {written.as_posix()}"
    return f"./lab accuracy{chosen} --seconds {seconds:g} {files}"


def without_truth(outcomes: Sequence[Outcome]) -> str:
    """Say which scenarios were compared, but not their needless retransmissions; or nothing."""
    seeds = not_judged(outcomes)
    if not seeds:
        return ""
    listed = ", ".join(str(seed) for seed in seeds)
    which = f"the path of {len(seeds)} of the scenarios loses data behind the bottleneck"
    return f"Not counted: {which}, so that what passed is not what arrived. Seeds: {listed}."


def _compared(outcomes: Sequence[Outcome]) -> list[Outcome]:
    return [each for each in outcomes if each.state == "compared"]


def _section(heading: str, columns: Sequence[str], rows: Iterator[Sequence[str]]) -> Iterator[str]:
    """Yield a heading and a table; nothing if the table were empty."""
    table = list(_table(columns, rows))
    if table:
        yield from (f"## {heading}\n", *table)


def _table(columns: Sequence[str], rows: Iterator[Sequence[str]]) -> Iterator[str]:
    listed = [f"| {' | '.join(row)} |" for row in rows]
    if listed:
        yield f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"
        yield "\n".join(listed) + "\n"


def total_row(each: Total) -> tuple[str, ...]:
    """Write a total, a text for each column of `_TOTALS`."""
    return (
        each.name,
        str(each.scenarios),
        f"{each.flows_exact}/{each.flows}",
        str(each.timeouts_kernel),
        str(each.timeouts),
        _percent(each.error_percent, signed=True),
        str(each.missed),
        str(each.invented),
        str(each.retransmissions),
        _percent(each.unknown_percent),
    )


def _scenario_row(each: Outcome) -> tuple[str, ...]:
    s = each.settings
    options = [word for word in ("timestamps", "window_scaling", "quickack") if s[word]]
    control = f"{s['congestion']} ({', '.join(options).replace('_', ' ')})"
    path = f"{s['cause']}, {disorder(s)}"
    error = each.timeouts - each.timeouts_kernel
    return (
        str(each.seed),
        s["profile"],
        "on" if s["sack"] else "off",
        control.removesuffix(" ()"),
        str(s["flows"]),
        f"{1000 * s['round_trip_s']:g} ms",
        str(s["mss"]),
        f"{s['rate_bits_per_s'] / 1e6:.2f} Mbit",
        f"{100 * s['loss']:.3g} %",
        path,
        str(each.packets),
        str(each.timeouts_kernel),
        f"{error:+d}" if error else "0",
        f"{each.flows_exact}/{each.flows}",
        f"{explained(each)}/{len(each.differences)}",
        str(each.unknown),
    )


def _cause_rows(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, ...]]:
    for cause, (right, every) in shares_right(outcomes).items():
        yield cause, str(every), f"{right} ({_percent(100 * right / every)})"


def _confusion(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Rows are the kernel's causes, columns the analysis's kinds."""
    table = merged(each.confusion for each in _compared(outcomes))
    kinds = list(dict.fromkeys(kind for row in table.values() for kind in row))
    rows = ((cause, *(str(row.get(kind, "")) for kind in kinds)) for cause, row in table.items())
    yield from _section("Kernel's cause (rows) and kind by the capture", ("", *kinds), rows)


def _needless(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Marks against what passed the bottleneck, and where that is not known."""
    if any(each.state == "compared" for each in outcomes):
        yield _NEEDLESS
        yield from _table(_MARKS, map(mark_row, marks(outcomes)))
    if missing := without_truth(outcomes):
        yield f"{missing}\n"


def mark_row(each: Sum) -> tuple[str, ...]:
    """Write a sum of marks, a text for each column of `_MARKS`."""
    of, missed = each.of, each.of.missed
    told = [(of.right.get(name, 0), of.wrong.get(name, 0)) for name in SPURIOUS if name]
    return (
        each.name,
        str(each.scenarios),
        str(of.retransmissions),
        str(of.needless),
        _percent(each.precision_percent),
        _percent(each.recall_percent),
        *(f"{right}/{wrong}" if right or wrong else "" for right, wrong in told),
        str(sum(missed.values())),
        str(missed.get("rto", 0) + missed.get("post_rto", 0)),
    )


def _why_rows(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, ...]]:
    for why, flows in exceptions(_compared(outcomes)).items():
        kernel, _, capture = why.partition(", ")
        yield kernel.removeprefix("kernel "), capture.removeprefix("capture "), str(flows)


def difference_rows(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, ...]]:
    """Write the flows that differ, up to `LISTED`: seed, flow, kernel, capture and first event."""
    rows: list[tuple[Any, ...]] = [
        (each.seed, flow.flow, flow.kernel, flow.capture, flow.first)
        for each in outcomes
        for flow in each.differences
    ]
    for row in rows[:LISTED]:
        yield tuple(str(value) for value in row)
    if len(rows) > LISTED:
        yield "", "", "", "", f"and {len(rows) - LISTED} more, in the JSON"


def _rest(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """What could not be compared, and why."""
    rows = (
        (str(each.seed), each.state, "; ".join(each.reasons).replace("\n", " ").replace("|", "/"))
        for each in outcomes
        if each.state != "compared"
    )
    yield from _section("Not compared", ("seed", "state", "why"), rows)


def _percent(value: float | None, *, signed: bool = False) -> str:
    if value is None:
        return "-"
    return f"{value:+.3f} %" if signed else f"{value:.3f} %"


# Outcomes on a terminal: the tables that answer at a glance.

#: The columns of the document would be too long for a terminal.
_SHORT = ("group", "runs", "exact", "kernel", "capture", "error", "missed", "invented", "unknown")
_SHORT_MARKS = ("group", "runs", "spurious", "wrong", "precision", "recall")
_DIFFERENCES = ("seed", "flow", "kernel", "capture", "first event that differs")


def totals_table(outcomes: Sequence[Outcome]) -> TerminalTable:
    """Give the totals for a terminal."""
    rows = []
    for each in totals(outcomes):
        *row, _, unknown = total_row(each)
        rows.append((*row, unknown))
    return _by_group("timeouts: flows exact, and sums by kernel and by capture", _SHORT, rows)


def needless_table(outcomes: Sequence[Outcome]) -> TerminalTable:
    """Give the marks of spurious retransmissions for a terminal."""
    rows = []
    for each in marks(outcomes):
        name, scenarios, _, spurious, *shares = mark_row(each)[:6]
        rows.append((name, scenarios, spurious, str(sum(each.of.wrong.values())), *shares))
    title = "spurious retransmissions by what passed the bottleneck, and wrong marks"
    return _by_group(title, _SHORT_MARKS, rows)


def _by_group(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> TerminalTable:
    """Give a table of numbers by group."""
    columns = [Column(name, "text" if name == "group" else "number") for name in headings]
    return boxed(table_of("", "", columns, rows), title, "")


def differences_table(outcomes: Sequence[Outcome]) -> TerminalTable:
    """Give the flows that differ for a terminal."""
    rows = difference_rows(sorted(outcomes, key=lambda each: each.seed))
    return boxed(table_of("", "", _DIFFERENCES, rows), "flows whose timeouts differ", "")
