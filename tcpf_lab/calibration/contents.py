"""The report on a calibration as every format of reports has it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import tcpf_lab
from tcpf_lab.calibration import page as said
from tcpf_lab.calibration import tables
from tcpf_lab.calibration.record import Record
from tcpf_lab.report.claims.page import Page
from tcpf_lab.report.contents.assemble import CHECKS, numbered
from tcpf_lab.report.contents.model import (
    Column,
    Contents,
    Entry,
    Fact,
    Group,
    LeftOut,
    Limitation,
    Part,
    Reproduce,
    Table,
    Validity,
    Verdicts,
    count,
)
from tcpf_lab.report.contents.papers import page_parts
from tcpf_lab.report.style import METRICS
from tcpf_lab.report.table import NOTHING
from tcpf_lab.results.command import lines

#: Heading above the commands: a fit is never called a reproduction.
_AGAIN = "Run it again"
_LIMITS = (
    (
        "Not the old machines.",
        "The settings found are those of this model that come closest to the published numbers; "
        "unknowns that are not in the file may do the same.",
    ),
    (
        "The ranges.",
        "Nothing is said of values outside of the ranges, nor of what no unknown can mend.",
    ),
    (
        "The published numbers.",
        "How noisy they are is not known; one run is assumed, as noisy as ours.",
    ),
)


def contents_of(record: Record, page: Page, commands: tuple[str, ...]) -> Contents:
    """Give everything that the report says.

    Parameters
    ----------
    record : Record
        What was concluded.
    page : Page
        The page on it.
    commands : tuple of str
        What makes runs and report again.
    """
    answer = (*said.introduction(record), said.in_short(record), *_told(record))
    contents = Contents(
        title=record.title,
        subtitle=_subtitle(record),
        question=_question(record),
        answer=tuple(filter(None, answer)),
        topologies=(),
        parameters=tuple(_parameters(record)),
        results=tuple(_parts(record, page)),
        claims=Verdicts((), ()),
        validity=_validity(record),
        reproduce=Reproduce(tuple(map(lines, commands)), tuple(_facts(record)), _AGAIN),
        limitations=tuple(_limitations(record)),
        program=f"tcpf-lab {tcpf_lab.__version__}",
        keywords=record.unknowns,
    )
    return numbered(contents)


def _told(record: Record) -> Iterator[str]:
    yield " ".join(filter(None, said.told_of_errors(record)))
    yield said.told_of_claims(record)


def _subtitle(record: Record) -> str:
    conditions = record.best.get("conditions", {})
    told = "; ".join(dict.fromkeys(conditions.values()))
    return f"Best setting: {told}" if told else f"Calibration {record.name}"


def _question(record: Record) -> str:
    asked = f"Which settings give the published numbers of {record.labels(record.told['fit'])}"
    if not record.told["test"]:
        return f"{asked}?"
    return f"{asked}, and do they carry over to {record.labels(record.told['test'])}?"


def _parts(record: Record, page: Page) -> Iterator[Part]:
    """Yield the parts of the page under their headings alone; the first is the answer already."""
    own = {"cells": _cells, "claims": _grouped, "errors": _grouped, "orders": _grouped}
    first, *others = page_parts((page,))
    for part in ([first] if len(first.paragraphs) > 1 else []) + others:
        heading = part.heading.removeprefix(f"{page.title}: ")
        built = tuple(
            own[key](record, one) if (key := one.name.removeprefix(f"{page.name}-")) in own else one
            for one in part.tables
        )
        yield replace(part, heading=heading, tables=built)


def _grouped(_: Record, table: Table) -> Table:
    """Give a table whose first column is the heading of its rows."""
    groups: dict[str, list[tuple[Entry, ...]]] = {}
    for group in table.groups:
        for first, *others in group.rows:
            groups.setdefault(first.text, []).append(tuple(others))
    made = tuple(Group(f"{heading} ({len(r)})", tuple(r)) for heading, r in groups.items())
    return replace(table, columns=table.columns[1:], groups=made)


def _cells(record: Record, table: Table) -> Table:
    """Give every cell in groups, the published number beside ours."""
    groups: dict[str, list[tuple[Entry, ...]]] = {}
    for where, case, numbers in tables.cell_entries(record):
        row = [Entry(case)]
        for known, before, after in numbers:
            published = "" if known == NOTHING else known
            row += [
                Entry(after.mean, _value(after.mean), after.half, published),
                Entry(before, _value(before)),
            ]
        groups.setdefault(where, []).append(tuple(row))
    columns = [Column("case")]
    for metric in record.metrics:
        style = METRICS[metric]
        unit = style.unit
        told = f"{style.word} under the best setting"
        columns += [
            Column(style.word, "estimate", unit, f"{told}, and as it was published."),
            Column("before", "estimate", "", f"{style.word} of the uncalibrated setting."),
        ]
    return replace(
        table,
        columns=tuple(columns),
        groups=tuple(Group(where, tuple(rows)) for where, rows in groups.items()),
        note="Published numbers in italics; before: uncalibrated.",
    )


def _value(text: str) -> float | None:
    return None if text == NOTHING else float(text)


def _parameters(record: Record) -> Iterator[Table]:
    """Yield what the experiments are, and what each unknown sets."""
    rows = tuple(
        tuple(
            Entry(text)
            for text in (
                one["title"] or one["name"],
                tables.PARTS[one["part"]],
                record.default.get("conditions", {}).get(one["name"], NOTHING),
                record.best.get("conditions", {}).get(one["name"], NOTHING),
            )
        )
        for one in record.told.get("experiments", ())
    )
    if rows:
        columns = tuple(map(Column, ("experiment", "numbers", "uncalibrated", "best setting")))
        caption = "The experiments, and the conditions of their runs."
        yield Table("experiments", caption, columns, (Group("", rows),))


def _validity(record: Record) -> Validity:
    found = record.told.get("validity")
    if found is None:
        return Validity(("The file does not say which runs are valid.",), (), ())
    runs = found["runs"]
    told = (
        f"Of {count(runs['asked'], 'run')} of the close look, {runs['complete']} finished, "
        f"{runs['valid']} passed every check, and {runs['used']} are in the means.",
    )
    rows = tuple(
        (
            Entry(one["name"]),
            Entry(CHECKS.get(one["name"], "")),
            *(Entry(str(one[k]), one[k]) for k in ("passed", "failed", "not_applicable")),
        )
        for one in found["checks"]
    )
    numbers = (Column(word, "number") for word in ("passed", "failed", "does not apply"))
    columns = (Column("check"), Column("makes sure that"), *numbers)
    caption = "The checks that every run of the close look went through."
    checks = Table("checks", caption, columns, (Group("", rows),))
    left_out = tuple(LeftOut(**one) for one in found["left_out"])
    return Validity(told, (checks,) if rows else (), left_out)


def _facts(record: Record) -> Iterator[Fact]:
    seeds = record.told["seeds"]
    yield Fact("runs", (str(record.told.get("runs", NOTHING)),))
    yield Fact("seeds of a point", (str(seeds["points"]),))
    yield Fact("seeds of the close look", (str(seeds["check"]),))
    for name, values in record.told.get("validity", {}).get("made_with", {}).items():
        texts = tuple(map(str, values))
        yield Fact(name, texts, all(len(text) >= 12 and " " not in text for text in texts))


def _limitations(record: Record) -> Iterator[Limitation]:
    for heading, text in _LIMITS:
        yield Limitation(heading, text)
    if record.told["test"]:
        yield Limitation("Held out.", said.HELD_OUT)
    yield Limitation("The intervals.", f"Profiles are an emulator's. {_independence(record)}")
    clocks = record.told.get("validity", {}).get("made_with", {}).get("clock", [])
    if clocks == ["virtual"]:
        yield Limitation("Virtual time.", "Computing costs no time in these runs.")


def _independence(record: Record) -> str:
    """Say how many independent residuals the intervals rest on."""
    threshold = record.told["threshold"]
    residuals = threshold["residuals"]
    effective = threshold.get("effective", residuals)
    if effective < residuals:
        return (
            f"The {residuals} residuals are taken for {effective:g} independent ones; nobody knows "
            "the right number, and with fewer the intervals would be wider."
        )
    return (
        f"The {residuals} residuals are taken as independent although cells of one case miss "
        "together, so intervals are rather too narrow than too wide."
    )
