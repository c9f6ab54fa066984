"""The report on a choice of runs, in every format that was asked for."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tcpf_lab.campaign import sources
from tcpf_lab.errors import LabError, RequestError
from tcpf_lab.report.compare.published import Comparison, compare
from tcpf_lab.report.compare.sensitivity import Sensitivity, sensitivity
from tcpf_lab.report.contents.subject import Member, Subject
from tcpf_lab.report.document import Report, write_document, write_report
from tcpf_lab.report.reproduction import write_reproduction
from tcpf_lab.report.section import Document, Section
from tcpf_lab.selection import Choice
from tcpf_lab.spec.suggest import unknown

#: Everything that a report can be written as: ``table`` is ``table.csv`` alone, ``csv`` the tidy
#: tables too; ``figures`` are PNG, PDF and SVG.
FORMATS: tuple[str, ...] = ("md", "table", "csv", "figures", "parquet", "flent", "html", "pdf")
#: What it is written as unless something else is asked for.
USUAL: tuple[str, ...] = ("md", "table", "figures", "pdf")


def formats_of(words: str | None) -> tuple[str, ...]:
    """Read a list of formats, separated by commas; the usual ones without it.

    Raises
    ------
    RequestError
        If there is no such format.
    """
    if words is None:
        return USUAL
    wanted = [word.strip() for word in words.split(",")]
    for word in wanted:
        if word not in FORMATS:
            message = unknown(f"unknown format '{word}'", word, FORMATS)
            raise RequestError(message, where=f"--format {words}")
    return tuple(name for name in FORMATS if name in wanted)


def report(
    choice: Choice, *, include_invalid: bool = False, formats: Collection[str] = USUAL
) -> Report:
    """Write a report from the runs that are there.

    Parameters
    ----------
    choice : Choice
        The runs.
    include_invalid : bool
        Let runs that failed a check into the means.
    formats : collection of str
        Of ``FORMATS``.

    Returns
    -------
    Report
        What was written; the PDF, if it was asked for, is the last.

    Raises
    ------
    LabError
        If there is not a single usable run, or a file cannot be written.
    """
    implied = {"table"} if "csv" in formats else set()
    implied |= {"svg"} if {"html", "pdf"} & set(formats) else set()
    written = write_report(
        choice.files,
        sources(choice),
        choice.title or choice.name,
        collection=choice.collection,
        include_invalid=include_invalid,
        formats={*formats, *implied},
    )
    paths = list(written.written)
    for path, content in _more(choice, written, formats, include_invalid):
        write_document(path, content)
        paths.append(path)
    return replace(written, written=tuple(paths))


def reproduction(
    choice: Choice, written: Report, directory: Path, *, include_invalid: bool = False
) -> Report:
    """Write a report's numbers, figures and texts as a reproduction to keep, besides the report."""
    reference = ("--reference", str(directory))
    kept = list(
        write_reproduction(written, directory, _commands(choice, include_invalid, reference))
    )
    for suffix, content in _texts(choice, written, ("html", "pdf"), include_invalid, reference):
        write_document(directory / f"{choice.name}.{suffix}", content)
        kept.append(directory / f"{choice.name}.{suffix}")
    return replace(written, written=(*written.written, *kept))


def _more(
    choice: Choice, written: Report, formats: Collection[str], include_invalid: bool
) -> Iterator[Document]:
    """Yield what the tables and figures are not: tidy data, files for other programs, the texts."""
    if "csv" in formats:
        from tcpf_lab.report.export.to_csv import csv_files  # here: pandas takes a while to load

        yield from csv_files(choice.files, written.sections)
    if "parquet" in formats:
        from tcpf_lab.report.export.to_parquet import parquet_files

        yield from parquet_files(choice.files, written.sections)
    if "flent" in formats:
        from tcpf_lab.report.export.to_flent import flent_files

        yield from flent_files(choice.files, written.sections)
    for suffix, content in _texts(choice, written, formats, include_invalid):
        yield choice.files.report(suffix), content


def _texts(
    choice: Choice,
    written: Report,
    formats: Collection[str],
    include_invalid: bool,
    more: Sequence[str] = (),
) -> Iterator[tuple[str, str | bytes]]:
    """Yield the report to read, by the suffix of its file."""
    if not {"html", "pdf"} & set(formats):
        return
    from tcpf_lab.report.contents.assemble import contents_of, figures_of  # here: it draws

    subject = _subject(choice, written.sections, _commands(choice, include_invalid, more))
    contents, figures = contents_of(subject), figures_of(subject, written.drawings)
    if "html" in formats:
        from tcpf_lab.report.pages.html import render

        yield "html", render(contents, figures)
    if "pdf" in formats:
        from tcpf_lab.report.pages.pdf import typeset

        yield "pdf", typeset(contents, figures)


def _subject(choice: Choice, sections: Sequence[Section], commands: Sequence[str]) -> Subject:
    return Subject(
        title=choice.title or choice.name,
        members=tuple(
            Member(part.experiment, section)
            for part, section in zip(choice.parts, sections, strict=True)
        ),
        collection=choice.collection,
        comparison=_comparison(sections),
        sensitivity=_sensitivity(sections),
        commands=tuple(commands),
    )


def _comparison(sections: Sequence[Section]) -> Comparison | None:
    """Hold the cells of published configurations against the published ones, if any were run."""
    results = [result for section in sections if section.published for result in section.results]
    if not any(result.used and result.cell.known for result in results):
        return None
    return compare(results)


def _sensitivity(sections: Sequence[Section]) -> Sensitivity | None:
    """Rank what varies by what it moves; None where nothing varies, or nothing can be compared."""
    if not any(section.source.factor or section.swept for section in sections):
        return None
    try:
        return sensitivity(sections)
    except LabError:
        return None  # no level can be compared with anything: the tables tell what there is


def _commands(choice: Choice, include_invalid: bool, more: Sequence[str] = ()) -> tuple[str, ...]:
    last = (*("--include-invalid",) * include_invalid, *more)
    return (
        shlex.join(("tcpf-lab", "run", *choice.words())),
        shlex.join(("tcpf-lab", "report", *choice.words(), *last)),
    )
