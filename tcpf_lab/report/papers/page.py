"""A page of a report on one paper or workload: text, tables, drawings and judged sentences."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import JustifyMethod, RenderableType
from rich.text import Text as Said

from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.report.numerals import MINUS, significant
from tcpf_lab.report.papers.claim import PaperClaim, counted, judged_rows, source_of
from tcpf_lab.report.section import Document
from tcpf_lab.report.table import aligned, as_markdown, plain_table
from tcpf_lab.results import FIGURES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The content of figures by their names, and by the suffix of its format.
Pictures = Mapping[str, Mapping[str, bytes]]
#: What encloses the judged sentences of a page's Markdown, so that they can be quoted elsewhere.
BEGIN, END = "<!-- claims {name} -->", "<!-- end of claims -->"


@dataclass(frozen=True)
class Text:
    """A paragraph, under a heading if it has one. Plain text."""

    text: str
    heading: str = ""


@dataclass(frozen=True)
class Table:
    """A table of texts; the first ``left`` columns are aligned to the left.

    ``name`` is the part of the file's name that tells it from the page's other tables.
    """

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str
    left: int = 1


@dataclass(frozen=True)
class Point:
    """What a drawing shows at one place: a value per seed, or a single one."""

    series: str
    x: float
    values: tuple[float, ...]
    panel: str = ""


def in_units(unit: str = "", scale: float = 1) -> Callable[[Point], str]:
    """Give a function that says where a point is: ``at 4 ms``; ``scale`` is that of the unit."""
    return lambda point: f"at {significant(scale * point.x)} {unit}".rstrip()


@dataclass(frozen=True)
class Drawing:
    """A figure.

    Parameters
    ----------
    name : str
        Its file, ``fig-ef-2a``.
    title : str
        ``Figure 2(a) of paper 001: ...``.
    caption : str
        What it shows, and what is missing of it.
    points : tuple of Point
        What is drawn; without any there is no file, and the page says why.
    build : callable
        Draws it; called within ``house_style``, and not without points.
    missing : tuple of str
        What was not measured.
    axis : str
        Name of the y axis with its unit, for who cannot see it; empty where panels have it.
    place : callable
        Says where a point is, for the same: ``at 4 ms``, ``for 2 bottlenecks``.
    """

    name: str
    title: str
    caption: str
    points: tuple[Point, ...]
    build: Callable[[], Figure]
    missing: tuple[str, ...] = ()
    axis: str = ""
    place: Callable[[Point], str] = field(default=in_units())


@dataclass(frozen=True)
class Claims:
    """Sentences with their verdicts; ``command`` measures what is missing."""

    claims: tuple[PaperClaim, ...]
    command: str = ""

    @property
    def making(self) -> tuple[str, ...]:
        """Give the command, if any run is missing."""
        missing = self.command and any(claim.missing for claim in self.claims)
        return (self.command,) if missing else ()


Block = Text | Table | Drawing | Claims


@dataclass(frozen=True)
class Page:
    """Everything that a page says; ``name`` is its file's.

    A report begins with what an ``opening`` page says: its texts are the report's answer.
    """

    name: str
    title: str
    blocks: tuple[Block, ...] = field(default=())
    opening: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts."""
        return tuple(b.text for b in self.blocks if isinstance(b, Text))

    @property
    def drawings(self) -> tuple[Drawing, ...]:
        """The figures that can be made."""
        return tuple(b for b in self.blocks if isinstance(b, Drawing) and b.points)

    @property
    def claims(self) -> tuple[PaperClaim, ...]:
        """Every sentence that is judged."""
        return tuple(c for b in self.blocks if isinstance(b, Claims) for c in b.claims)


def write(
    page: Page, root: Path, formats: Collection[str], pictures: Pictures
) -> Iterator[Document]:
    """Yield the files of a page.

    Parameters
    ----------
    page : Page
        What it says.
    root : Path
        Directory of the page; its figures are in ``figures/`` there.
    formats : collection of str
        ``md``: the page; ``csv``: what its figures, tables and sentences are made of; ``figures``:
        the ``pictures``.
    pictures : mapping of str to mapping
        Its figures as ``pictures`` made them.
    """
    if "md" in formats:
        yield root / f"{page.name}.md", markdown(page)
    if "csv" in formats:
        yield from _csv(page, root)
    if "figures" in formats:
        for drawing in page.drawings:
            for suffix, content in pictures[drawing.name].items():
                yield root / FIGURES / f"{drawing.name}.{suffix}", content


def pictures(pages: Iterable[Page], suffixes: Collection[str]) -> Pictures:
    """Draw the figures of pages, each once, in formats by their suffixes."""
    if not suffixes:
        return {}
    return {d.name: drawn(d, suffixes) for page in pages for d in page.drawings}


def drawn(drawing: Drawing, suffixes: Collection[str]) -> dict[str, bytes]:
    """Give a drawing's content in some formats."""
    from tcpf_lab.report.plots.canvas import render  # here: matplotlib takes a second
    from tcpf_lab.report.style import house_style

    with house_style():
        return render(drawing.build(), tuple(suffixes))


def for_terminal(page: Page) -> Iterator[RenderableType]:
    """Yield the texts and tables of a page as a terminal shows them."""
    for block in page.blocks:
        if isinstance(block, Text):
            yield Said.assemble((block.heading, "bold"), "\n" * bool(block.heading), block.text)
        elif isinstance(block, Table):
            yield terminal_table(block)


def terminal_table(table: Table) -> RenderableType:
    """Give a table of a page as a terminal shows it."""
    shown = plain_table("", table.caption)
    for place, heading in enumerate(table.columns):
        side: JustifyMethod = "left" if place < table.left else "right"
        shown.add_column(heading, justify=side, overflow="fold")
    for row in table.rows:
        shown.add_row(*map(Said, row))
    return shown


def markdown(page: Page) -> str:
    """Give a page as Markdown; figures are named, and linked as PNG."""
    parts = [f"# {as_markdown(page.title)}"]
    for block in page.blocks:
        parts += _markdown(page, block)
    return "\n\n".join(parts) + "\n"


def _markdown(page: Page, block: Block) -> Iterator[str]:
    match block:
        case Text(text, heading):
            yield from (f"## {as_markdown(heading)}",) * bool(heading)
            yield from (as_markdown(text),) * bool(text)
        case Table():
            yield as_markdown(block.caption)
            yield "\n".join(aligned([list(block.columns), *map(list, block.rows)], block.left))
        case Drawing():
            yield from _figure(block)
        case Claims():
            yield BEGIN.format(name=page.name)
            yield from _sentences(block)
            yield END


def _figure(drawing: Drawing) -> Iterator[str]:
    yield f"### {as_markdown(drawing.title)}"
    if drawing.points:
        yield f"![{drawing.name}]({FIGURES}/{drawing.name}.png)"
        yield as_markdown(drawing.caption)
    missing = as_markdown("; ".join(drawing.missing))
    if missing:
        yield f"{'Not all of it was measured' if drawing.points else 'Not made'}: {missing}."


def _sentences(block: Claims) -> Iterator[str]:
    """Yield the table of sentences, one row per check, and how to get what is missing."""
    columns = ["claim", "sentence", "what must be true", "number", "asked for", "verdict"]
    rows = [row for claim in block.claims for row in _claim_rows(claim)]
    yield as_markdown(counted(block.claims))
    yield "\n".join(_compact([columns, ["---"] * len(columns), *rows]))
    notes = [f"- {c.id}: {as_markdown(c.note)}" for c in block.claims if c.note]
    yield from ("\n".join(notes),) * bool(notes)
    yield from (f"Runs that are missing are made by `{line}`." for line in block.making)


def _compact(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield rows without padding: with sentences in them, lines would be a thousand wide."""
    for row in rows:
        yield f"| {' | '.join(as_markdown(text).replace('|', chr(92) + '|') for text in row)} |"


def _claim_rows(claim: PaperClaim) -> Iterator[list[str]]:
    own, *checks = judged_rows(claim)
    yield [claim.id, source_of(claim), claim.statement, own.number, own.asked, own.verdict]
    for check in checks:
        yield ["", "", "", f"{check.label}: {check.number}", check.asked, check.verdict]


def _csv(page: Page, root: Path) -> Iterator[Document]:
    points = [
        (drawing.name, point.panel, point.series, point.x, *_estimate(point.values))
        for drawing in page.drawings
        for point in drawing.points
    ]
    heading = ("figure", "panel", "series", "x", "mean", "half_width_95", "seeds", "values")
    yield root / f"{page.name}.csv", _lines(heading, points)
    for block in page.blocks:
        if isinstance(block, Table):
            path = root / f"{page.name}-{block.name}.csv"
            yield path, _lines(block.columns, block.rows).replace(MINUS, "-")
    if page.claims:
        yield root / f"{page.name}-claims.csv", _lines(_CLAIM_COLUMNS, _claims(page))


_CLAIM_COLUMNS = (
    *("claim", "document", "section", "sentence", "statement", "verdict", "check", "mean"),
    *("half_width_95", "seeds", "unit", "low", "high", "check_verdict", "missing"),
)


def _claims(page: Page) -> Iterator[tuple[object, ...]]:
    for claim in page.claims:
        said = (claim.id, claim.document, claim.section, claim.sentence, claim.statement)
        for check in claim.checks:
            measured = check.measured
            yield (
                *(*said, claim.judgement.verdict, check.label),
                *("" if one is None else one for one in (measured.mean, measured.half)),
                *(len(measured.values), check.unit, check.low, check.high, check.verdict),
                "; ".join(measured.missing),
            )


def _estimate(values: tuple[float, ...]) -> tuple[object, ...]:
    mean, half = mean_ci(values)
    return mean, "" if half is None else half, len(values), " ".join(map(repr, values))


def _lines(heading: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(list(heading))
    writer.writerows(rows)
    return text.getvalue()
