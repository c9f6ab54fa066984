"""The report on a choice of runs, in every requested format."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path

from tcpf_lab.base.errors import LabError, RequestError
from tcpf_lab.papers.registry import pages_of
from tcpf_lab.papers.sides import page_of_sides
from tcpf_lab.papers.stored import as_text, is_stored, read_page
from tcpf_lab.papers.thesis.compare import compare
from tcpf_lab.papers.thesis.page import build as published
from tcpf_lab.papers.thesis.page import other_testbeds
from tcpf_lab.report.claims.page import Page, Pictures, suffixes_of, write
from tcpf_lab.report.claims.page import pictures as papers_drawn
from tcpf_lab.report.compare.paired import Against
from tcpf_lab.report.compare.published import Comparison
from tcpf_lab.report.compare.sensitivity import Sensitivity, sensitivity
from tcpf_lab.report.contents.model import Figures
from tcpf_lab.report.contents.subject import Member, Subject
from tcpf_lab.report.document import Report, numbered, reproduction, write_document, write_report
from tcpf_lab.report.pages import rendered
from tcpf_lab.report.section import CellResult, Document, Section, gather
from tcpf_lab.results.command import command
from tcpf_lab.results.layout import OUTCOME, PACKED
from tcpf_lab.run.campaign import sources
from tcpf_lab.run.runner import Event
from tcpf_lab.run.selection import Choice, choose
from tcpf_lab.run.sides import Sides
from tcpf_lab.spec.words import one_of

#: Everything that a report can be written as: ``table`` is ``table.csv`` alone, ``csv`` the tidy
#: tables too; ``figures`` are PNG, PDF and SVG.
FORMATS: tuple[str, ...] = ("md", "table", "csv", "figures", "parquet", "flent", "html", "pdf")
#: The collection with the published configurations on other testbeds.
OTHER_TESTBEDS = "full_duplex.yaml"
#: Default formats.
USUAL: tuple[str, ...] = ("md", "table", "figures", "pdf")


def formats_of(words: str) -> tuple[str, ...]:
    """Read a list of formats, separated by commas.

    Raises
    ------
    RequestError
        If there is no such format.
    """
    wanted = [word.strip() for word in words.split(",")]
    for word in wanted:
        one_of(word, FORMATS, "format", f"--format {words}")
    return tuple(name for name in FORMATS if name in wanted)


def report(
    choice: Choice,
    *,
    events: Iterable[Event] = (),
    include_invalid: bool = False,
    formats: Collection[str] = USUAL,
    reference: Path | None = None,
) -> Report:
    """Write a report from the runs that are there.

    Parameters
    ----------
    choice : Choice
        The runs.
    events : iterable of Event
        What has just been done: these runs are not examined again.
    include_invalid : bool
        Let runs that failed a check into the means.
    formats : collection of str
        Of ``FORMATS``.
    reference : Path, optional
        Where a reproduction to keep goes besides: tables, figures, pages on papers, PDF
        and HTML.

    Returns
    -------
    Report
        The files written; a PDF, if requested, is the last.

    Raises
    ------
    LabError
        If there is not a single usable run, or a file cannot be written.
    """
    implied = {"table"} if "csv" in formats else set()
    implied |= {"svg"} if {"html", "pdf"} & set(formats) or reference is not None else set()
    written = write_report(
        choice.files,
        sources(choice, events),
        choice.title or choice.name,
        again=command("run", *choice.words()),
        collection=choice.collection,
        include_invalid=include_invalid,
        formats={*formats, *implied},
    )
    made = _Made(choice, include_invalid, written.sections)
    pictures = papers_drawn(made.papers, suffixes_of(formats, stored=reference is not None))
    drawn = {n: str(found["svg"], "utf-8") for n, found in pictures.items() if "svg" in found}
    opening = next((page for page in made.papers if page.opening), None)
    written = replace(
        written,
        drawings={**written.drawings, **drawn},
        opening=opening,
        printed=tuple(page for page in made.papers if page.printed),
    )
    paths = list(written.written)
    for path, content in chain(
        _exports(choice, written, formats),
        *(write(page, choice.files.root, formats, pictures) for page in made.papers),
        *(_kept(page, reference, pictures) for page in made.papers),
        _pages(made, written.drawings, formats, reference),
    ):
        write_document(path, content)
        paths.append(path)
    return replace(written, written=tuple(paths))


@dataclass(frozen=True)
class _Made:
    """What a report says besides its tables and figures, each made once and where it is needed."""

    choice: Choice
    include_invalid: bool
    sections: Sequence[Section]

    def commands(self, reference: Path | None = None) -> tuple[str, str]:
        """Give the command lines that make the runs, and this report on them."""
        words = self.choice.words()
        last = ("--include-invalid",) * self.include_invalid
        kept = ("--reference", reference) if reference is not None else ()
        return command("run", *words), command("report", *words, *last, *kept)

    @cached_property
    def members(self) -> tuple[Member, ...]:
        """The experiments, each with what came of it."""
        pairs = zip(self.choice.parts, self.sections, strict=True)
        return tuple(Member(part.experiment, section) for part, section in pairs)

    @cached_property
    def comparison(self) -> Comparison | None:
        """The cells of published configurations with the published ones, if any were run."""
        results = _as_published(self.sections)
        known = any(result.used and result.cell.known for result in results)
        return compare(results) if known else None

    @cached_property
    def papers(self) -> tuple[Page, ...]:
        """The pages on papers and workloads that the experiments are of."""
        pages = pages_of(self.members, self.commands()[0])
        return (*filter(None, (self._opening(),)), *pages)

    def _opening(self) -> Page | None:
        """Give the page on the published tables; none where something else is varied."""
        if self.comparison is None:
            return None
        request, others, needed = self.choice.request, other_testbeds(self.sections), ""
        if not others and self._varied:
            return None
        if not others and not request.overrides:
            same = choose(replace(request, spec=OTHER_TESTBEDS, only=()))
            levels = [source for source in sources(same) if source.factor]
            others = other_testbeds(gather(levels, self.include_invalid))
            needed = "" if others else command("run", *same.words())
        return published(self.comparison, _as_published(self.sections), others, needed)

    @property
    def _varied(self) -> bool:
        return any(section.source.factor or section.swept for section in self.sections)

    @property
    def sensitivity(self) -> Sensitivity | None:
        """What varies, ranked by what it moves; None if nothing does, or is not comparable."""
        try:
            return sensitivity(self.sections) if self._varied else None
        except LabError:
            return None  # no level can be compared with anything: the tables tell what there is

    @property
    def _question(self) -> str:
        """The file's question, unless the command line makes another experiment of it."""
        request = self.choice.request
        return "" if request.overrides or request.only else self.choice.question

    def subject(self) -> Subject:
        """Give what the report to read is of."""
        return Subject(
            title=self.choice.title or self.choice.name,
            members=self.members,
            collection=self.choice.collection,
            comparison=self.comparison,
            sensitivity=self.sensitivity,
            commands=self.commands(),
            pages=self.papers,
            question=self._question,
        )


def _exports(choice: Choice, written: Report, formats: Collection[str]) -> Iterator[Document]:
    """Yield tidy tables and the files for other programs."""
    if {"csv", "parquet"} & set(formats):
        from tcpf_lab.report.export import tidy  # here: pandas takes a while to load

        found = tidy.tables(written.sections)
        if "csv" in formats:
            yield from tidy.csv_files(choice.files, found)
        if "parquet" in formats:
            yield from tidy.parquet_files(choice.files, found)
    if "flent" in formats:
        from tcpf_lab.report.export.flent import flent_files

        yield from flent_files(choice.files, written.sections)


def _kept(page: Page, reference: Path | None, pictures: Pictures) -> Iterator[Document]:
    """Yield a page as a reproduction to keep has it, and the file that all of it is made from.

    Its figures are there once, in the formats that documents show.
    """
    if reference is not None:
        yield reference / f"{page.name}.json", as_text(page)
        seen = {name: {"png": found["png"]} for name, found in pictures.items()}
        yield from write(page, reference, ("md", "csv", "figures"), seen)


#: Formats of a stored page; the first three are the default.
OF_STORED: tuple[str, ...] = ("md", "csv", "figures", "html", "pdf")
#: Where it is written, in the results directory.
PAGES = "pages"


def stored_pages(words: str) -> tuple[Path, ...]:
    """Return the stored pages: a file, or all of a directory and of those in it."""
    place = Path(words)
    if place.is_file() and place.suffix in (".json", PACKED):
        return (place,) if is_outcome(place) or is_stored(place) else ()
    if not place.is_dir():
        return ()
    every = (f"{below}*.json{end}" for below in ("", "*/") for end in ("", PACKED))
    found = (path for pattern in every for path in sorted(place.glob(pattern)))
    return tuple(path for path in found if is_outcome(path) or is_stored(path))


def no_stored_page(directory: Path) -> RequestError:
    """Give the error of a directory without stored pages: what is allowed, and what to try."""
    above = directory.parent
    return RequestError(
        "has no stored page (*.json); an experiment, a calibration, a stored page or a directory "
        "of them is needed",
        where=str(directory),
        hint=f"`{command('report', above)}`" if stored_pages(str(above)) else "",
    )


def is_outcome(path: Path) -> bool:
    """Say whether a file is that of a calibration, as it was written or packed."""
    return path.name.removesuffix(PACKED) == OUTCOME


def redraw(path: Path, root: Path, formats: Collection[str]) -> tuple[Document, ...]:
    """Render a stored page in formats of ``OF_STORED``, for a directory: no run is read.

    Raises
    ------
    RequestError
        If the file is no such page, or what it says does not go together.
    """
    page = read_page(path)
    again = command("report", Path(path.name), "--format", ",".join(formats))
    try:
        return tuple(_drawn(page, again, root, formats))
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__} {error}"
        raise RequestError(f"is a damaged page: {reason}", where=str(path)) from None


def _drawn(page: Page, again: str, root: Path, formats: Collection[str]) -> Iterator[Document]:
    """Yield a page in formats of ``OF_STORED``; a command makes it again."""
    pictures = papers_drawn((page,), suffixes_of(formats))
    yield from write(page, root, formats, pictures)
    if not {"html", "pdf"} & set(formats):
        return
    from tcpf_lab.report.contents.assemble import page_alone  # here: it draws

    drawings = {name: str(found["svg"], "utf-8") for name, found in pictures.items()}
    for suffix, content in rendered(page_alone(page, again), drawings, formats):
        yield root / f"{page.name}.{suffix}", content


def sides_page(
    sides: Sides, found: Against, root: Path, words: Sequence[str]
) -> Iterator[Document]:
    """Yield the page on two sides in every format, and the file that `redraw` makes it of.

    Parameters
    ----------
    sides, found
        Both sides, and what their runs say.
    root : Path
        Where it goes.
    words : sequence of str
        Options of the command line besides those that choose the runs.
    """
    page = page_of_sides(sides.first.title or sides.first.name, found)
    yield from page_files(page, command("compare", *sides.words(), *words), root)


def page_files(page: Page, again: str, root: Path) -> Iterator[Document]:
    """Yield a page in every format, and the file that `redraw` makes it of."""
    yield root / f"{page.name}.json", as_text(page)
    yield from _drawn(page, again, root, OF_STORED)


def _pages(
    made: _Made, drawings: Figures, formats: Collection[str], reference: Path | None
) -> Iterator[Document]:
    """Yield the report to read, and the reproduction to keep, which has it too."""
    if not {"html", "pdf"} & set(formats) and reference is None:
        return
    subject = made.subject()
    for suffix, content in _texts(subject, drawings, formats):
        yield made.choice.files.report(suffix), content
    if reference is not None:
        commands = made.commands(reference)
        yield from reproduction(made.sections, reference, commands)
        for suffix, content in _texts(replace(subject, commands=commands), drawings):
            yield reference / f"{made.choice.name}.{suffix}", content


def _texts(
    subject: Subject, drawings: Figures, formats: Collection[str] = ("html", "pdf")
) -> Iterator[tuple[str, str | bytes]]:
    """Yield the report to read, by the suffix of its file."""
    if not {"html", "pdf"} & set(formats):
        return
    from tcpf_lab.report.contents.assemble import contents_of, figures_of  # here: it draws

    contents = contents_of(subject)
    if "md" in formats:  # beside a PDF or a page: table.md is the table alone
        from tcpf_lab.report.pages.markdown import render

        yield "md", render(contents, drawings if "figures" in formats else ())
    yield from rendered(contents, figures_of(subject, drawings), formats)


def _as_published(sections: Sequence[Section]) -> list[CellResult]:
    return [r for section in sections if numbered(section, sections) for r in section.results]
