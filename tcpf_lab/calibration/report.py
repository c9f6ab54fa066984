"""The report on a calibration, from what its directory has: no run is read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import tcpf_lab
from tcpf_lab.base.errors import RequestError
from tcpf_lab.calibration.figures import drawings
from tcpf_lab.calibration.frames import Calibrated
from tcpf_lab.calibration.ledger import CalibrationFiles, behind
from tcpf_lab.calibration.page import blocks, build, cell_entries, paragraph
from tcpf_lab.calibration.record import COST, PARTS, VARIANTS, Record, read_record
from tcpf_lab.report.claims.page import Page, Pictures, Text, drawn, pictures, suffixes_of, write
from tcpf_lab.report.contents.assemble import CHECKS, numbered
from tcpf_lab.report.contents.model import (
    Contents,
    Fact,
    LeftOut,
    Limitation,
    Part,
    Reproduce,
    Validity,
    Verdicts,
    count,
)
from tcpf_lab.report.contents.papers import page_parts
from tcpf_lab.report.document import write_document
from tcpf_lab.report.pages import rendered
from tcpf_lab.report.section import Document
from tcpf_lab.report.style import METRICS
from tcpf_lab.report.table import NOTHING, Column, Entry, Group, Headings, Row, Table, table_of
from tcpf_lab.results.command import command, lines
from tcpf_lab.results.layout import FIGURES, OUTCOME, PACKED, as_lines, packed, read_json
from tcpf_lab.spec.calibration import Calibration
from tcpf_lab.spec.load import find, load_any
from tcpf_lab.testbed import registry

#: What it can be written as, and what else reports can be.
FORMATS: tuple[str, ...] = ("md", "table", "csv", "figures", "html", "pdf")
#: In what the figures are that `tcpf-lab calibrate` writes.
_LOOKED_AT = ("svg", "png")
_TABLE = "calibration-cells.csv"


def write_figures(files: CalibrationFiles) -> list[Path]:
    """Draw profiles, influence and the way of the search from ``calibration.json``.

    Returns
    -------
    list of Path
        What was written; the same bytes from the same file.
    """
    written = []
    for drawing in drawings(read_record(files.root)):
        for suffix, content in drawn(drawing, _LOOKED_AT).items():
            path = files.root / FIGURES / f"{drawing.name}.{suffix}"
            write_document(path, content)
            written.append(path)
    return written


def write_report(
    calibration: Calibration,
    source: Path,
    files: CalibrationFiles,
    formats: Collection[str],
    reference: Path | None = None,
) -> list[Path]:
    """Write the report on a calibration into its directory.

    Parameters
    ----------
    calibration : Calibration
        What its file says now.
    source : Path
        That file.
    files : CalibrationFiles
        Where the outcome is.
    formats : collection of str
        Of ``FORMATS``.
    reference : Path, optional
        Where it is kept besides: page, tables, figures, PDF, HTML, and the outcome itself.

    Returns
    -------
    list of Path
        What was written; a PDF, if one was requested, is the last.

    Raises
    ------
    LabError
        If there is no outcome, a format is not one of a calibration's, or a file cannot be written.
    """
    _check(formats, files, source)
    record = read_record(files.root)
    words = files.words(source)
    again = command("calibrate", *words, "--only-report")
    page = build(record, tuple(behind(calibration, source, files, record.data)), again)
    made = command("calibrate", *words)
    commands = [made, command("report", *words)]
    kept = [made, command("report", *words, "--reference", reference or "")]
    drawn_once = pictures((page,), suffixes_of(formats, stored=reference is not None))
    written = []
    for path, content in (
        *_own(record, page, files.root, formats, drawn_once, commands),
        *_kept(record, page, reference, drawn_once, kept),
    ):
        write_document(path, content)
        written.append(path)
    return written


def redraw(path: Path, root: Path, formats: Collection[str]) -> Iterator[Document]:
    """Yield the report on an outcome that was kept, for another directory.

    Parameters
    ----------
    path : Path
        Its ``calibration.json``.
    root : Path
        Where the report goes.
    formats : collection of str
        Of ``FORMATS``.

    Raises
    ------
    LabError
        If it is not one.
    """
    record = read_record(path)
    search = command("calibrate", Path(f"{record.name}.yaml"))
    page = build(record, (), search)
    commands = [search, command("report", Path(path.name))]
    yield from _own(record, page, root, formats, pictures((page,), suffixes_of(formats)), commands)


def _check(formats: Collection[str], files: CalibrationFiles, source: Path) -> None:
    other = [one for one in formats if one not in FORMATS]
    if other:
        message = f"a calibration is not written as {', '.join(other)}"
        raise RequestError(
            message, where=f"--format {','.join(formats)}", hint=f"of {', '.join(FORMATS)}"
        )
    if not files.outcome.exists():
        raise RequestError(
            "has no outcome yet",
            where=str(source),
            hint=f"`{command('calibrate', *files.words(source))}`; of an interrupted one, "
            "`--only-report` concludes from the runs there are",
        )


def _own(
    record: Record,
    page: Page,
    root: Path,
    formats: Collection[str],
    figures: Pictures,
    commands: list[str],
) -> Iterator[Document]:
    """Yield what stands in the calibration's directory."""
    yield from write(page, root, [f for f in formats if f in ("md", "csv", "figures")], figures)
    if "table" in formats and "csv" not in formats:
        yield from (one for one in write(page, root, ("csv",), figures) if one[0].name == _TABLE)
    for suffix, content in _texts(record, page, figures, commands, formats):
        yield root / f"report.{suffix}", content


def _kept(
    record: Record, page: Page, reference: Path | None, figures: Pictures, commands: list[str]
) -> Iterator[Document]:
    """Yield what is kept: figures once, as they are looked at, and what all of it is made from."""
    if reference is None:
        return
    seen = {name: {"png": found["png"]} for name, found in figures.items()}
    yield from write(page, reference, ("md", "csv", "figures"), seen)
    yield reference / f"{OUTCOME}{PACKED}", packed(as_lines(record.data))
    costs = record.source.with_name(COST)
    if costs.exists():
        yield reference / COST, as_lines(read_json(costs))
    if record.variants:
        yield reference / VARIANTS, packed(as_lines(record.variants))
    for suffix, content in _texts(record, page, figures, commands, ("html", "pdf")):
        yield reference / f"{record.name}.{suffix}", content


def _texts(
    record: Record, page: Page, figures: Pictures, commands: list[str], formats: Collection[str]
) -> Iterator[tuple[str, str | bytes]]:
    if not {"html", "pdf"} & set(formats):
        return
    contents = contents_of(record, page, tuple(commands))
    drawings: Mapping[str, Any] = {n: str(found["svg"], "utf-8") for n, found in figures.items()}
    yield from rendered(contents, drawings, formats)


def load_calibration(
    what: str | Path, testbed: str = "uml", results: str | Path = "results"
) -> Calibrated:
    """Load what a calibration has concluded.

    Parameters
    ----------
    what : str or Path
        A calibration as ``tcpf-lab calibrate`` takes it (``my_table.yaml``), whose results are
        looked for in `results`; or a directory with its ``calibration.json``, which may be packed
        by zstd, such as ``results/reference/lost_testbed``; or that file.
    testbed : str
        Name of the testbed, or the path of an inventory.
    results : str or Path
        The results directory.

    Returns
    -------
    Calibrated
        With frames `Calibrated.unknowns`, `Calibrated.cells`, `Calibrated.held_out` and more.

    Raises
    ------
    RequestError
        If it is no calibration, or has concluded nothing yet.
    """
    path = Path(what)
    if not path.is_dir() and path.suffix not in (".json", PACKED):
        read = load_any(find(str(what)))
        if not isinstance(read, Calibration):
            raise RequestError(
                f"is {read.noun}, not a calibration", where=str(what), hint="`tcpf_lab.load`"
            )
        path = CalibrationFiles(Path(results), read.name, registry.require(testbed)).root
    return Calibrated(read_record(path))


#: Heading above the commands: a fit is never called a reproduction.
_AGAIN = "Run it again"


def contents_of(record: Record, page: Page, commands: tuple[str, ...]) -> Contents:
    """Give the contents of the report.

    Parameters
    ----------
    record : Record
        What was concluded.
    page : Page
        The page on it.
    commands : tuple of str
        What makes runs and report again.
    """
    contents = Contents(
        title=record.title,
        subtitle=_subtitle(record),
        question=paragraph("question.j2", record),
        answer=tuple(block.text for block in _blocks("answer.j2", record)),
        topologies=(),
        parameters=tuple(_parameters(record)),
        results=tuple(_parts(record, page)),
        claims=Verdicts((), ()),
        validity=_validity(record),
        reproduce=Reproduce(tuple(map(lines, commands)), tuple(_facts(record)), _AGAIN),
        limitations=tuple(
            Limitation(one.heading, one.text) for one in _blocks("limitations.md.j2", record)
        ),
        program=f"tcpf-lab {tcpf_lab.__version__}",
        keywords=record.unknowns,
    )
    return numbered(contents)


def _blocks(template: str, record: Record) -> Iterator[Text]:
    return blocks(template, record=record, data=record.data)


def _subtitle(record: Record) -> str:
    conditions = record.best.get("conditions", {})
    data = "; ".join(dict.fromkeys(conditions.values()))
    return f"Best setting: {data}" if data else f"Calibration {record.name}"


def _parts(record: Record, page: Page) -> Iterator[Part]:
    """Yield the parts of the page; the first is the answer already."""
    own = {"cells": _cells, "claims": _grouped, "errors": _grouped, "orders": _grouped}
    first, *others = page_parts((page,))
    for part in ([first] if len(first.paragraphs) > 1 else []) + others:
        built = tuple(
            own[key](record, one) if (key := one.name.removeprefix(f"{page.name}-")) in own else one
            for one in part.tables
        )
        yield replace(part, tables=built)


def _grouped(_: Record, table: Table) -> Table:
    """Give a table whose first column is the heading of its rows."""
    groups: dict[str, list[Row]] = {}
    for group in table.groups:
        for first, *others in group.rows:
            groups.setdefault(first.text, []).append(tuple(others))
    made = tuple(Group(f"{heading} ({len(r)})", tuple(r)) for heading, r in groups.items())
    return replace(table, columns=table.columns[1:], groups=made)


def _cells(record: Record, table: Table) -> Table:
    """Give every cell in groups, the published number beside ours."""
    groups: dict[str, list[Row]] = {}
    for where, case, numbers in cell_entries(record):
        row = [Entry(case)]
        for known, before, after in numbers:
            published = "" if known == NOTHING else known
            row += [
                replace(after, value=_value(after.text), published=published),
                Entry(before, _value(before)),
            ]
        groups.setdefault(where, []).append(tuple(row))
    columns = [Column("case")]
    for metric in record.metrics:
        style = METRICS[metric]
        unit = style.unit
        data = f"{style.word} under the best setting"
        columns += [
            Column(style.word, "estimate", unit, f"{data}, and as it was published."),
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
    rows = [
        (
            one["title"] or one["name"],
            PARTS[one["part"]],
            record.default.get("conditions", {}).get(one["name"], NOTHING),
            record.best.get("conditions", {}).get(one["name"], NOTHING),
        )
        for one in record.data.get("experiments", ())
    ]
    if rows:
        columns = ("experiment", "numbers", "uncalibrated", "best setting")
        caption = "The experiments, and the conditions of their runs."
        yield table_of("experiments", caption, columns, rows)


def _validity(record: Record) -> Validity:
    found = record.data.get("validity")
    if found is None:
        return Validity(("The file does not state which runs are valid.",), (), ())
    runs = found["runs"]
    summary = (
        f"Of {count(runs['requested'], 'run')} of the final check, {runs['complete']} finished, "
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
    columns: Headings = ("check", "makes sure that", *numbers)
    caption = "Validity checks of the runs of the final check."
    checks = table_of("checks", caption, columns, rows)
    left_out = tuple(LeftOut(**one) for one in found["left_out"])
    return Validity(summary, (checks,) if rows else (), left_out)


def _facts(record: Record) -> Iterator[Fact]:
    seeds = record.data["seeds"]
    yield Fact("runs", (str(record.data.get("runs", NOTHING)),))
    yield Fact("seeds of a point", (str(seeds["points"]),))
    yield Fact("seeds of the final check", (str(seeds["check"]),))
    for name, values in record.data.get("validity", {}).get("made_with", {}).items():
        texts = tuple(map(str, values))
        yield Fact(name, texts, all(len(text) >= 12 and " " not in text for text in texts))
