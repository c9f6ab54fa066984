"""A page of a report on one paper or workload: text, tables, drawings and judged sentences."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import RenderableType
from rich.text import Text as Said

from tcpf_lab.base.errors import LabError
from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.report import table
from tcpf_lab.report.claims.papers import (
    Measured,
    PaperClaim,
    counted,
    judged_rows,
    paired,
    source_of,
)
from tcpf_lab.report.export.tidy import base_value
from tcpf_lab.report.section import SUFFIXES, Cell, Document, Section
from tcpf_lab.report.style import CASES
from tcpf_lab.report.table import (
    MINUS,
    NOTHING,
    Column,
    Group,
    as_markdown,
    boxed,
    fixed,
    for_markdown,
    rows_of,
    significant,
)
from tcpf_lab.results.layout import FIGURES, RunFiles, read_json

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


class Table(table.Table):
    """A table of texts; the first ``left`` columns are aligned to the left.

    ``name`` is the part of the file's name that tells it from the page's other tables.
    """

    def __init__(
        self,
        name: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        caption: str,
        left: int = 1,
    ) -> None:
        every = (
            Column(heading, "text" if place < left else "number", fit="folded")
            for place, heading in enumerate(columns)
        )
        super().__init__(name, caption, tuple(every), (Group("", rows_of(rows)),))

    @property
    def left(self) -> int:
        """Number of the first columns that are aligned to the left."""
        return sum(column.kind == "text" for column in self.columns)


@dataclass(frozen=True)
class Point:
    """What a drawing shows at one place: a value per seed, or a single one."""

    series: str
    x: float
    values: tuple[float, ...]
    panel: str = ""


class Frame(Protocol):
    """What a figure is besides its points; of a page that is kept, a dataclass of plain data."""

    def draw(self, points: Sequence[Point], /) -> Figure:
        """Draw the points; called within ``house_style``, and not without points."""

    def place(self, point: Point) -> str:
        """Say where a point is, for who cannot see it: ``at 4 ms``, ``for 2 bottlenecks``."""


def at_units(point: Point, unit: str = "", scale: float = 1, before: str = "at") -> str:
    """Say where a point is: ``at 4 ms``; ``scale`` is that of the unit."""
    return f"{before} {significant(scale * point.x)} {unit}".rstrip()


@dataclass(frozen=True)
class Drawn:
    """A frame that is not data: its figure is made of a file that is kept besides, or worked out.

    ``build`` draws it, ``where`` names the place of a point.
    """

    build: Callable[[], Figure]
    where: Callable[[Point], str] = at_units

    def draw(self, _: Sequence[Point], /) -> Figure:
        """Draw what it knows: the points are of the same."""
        return self.build()

    def place(self, point: Point) -> str:
        """Say where a point is."""
        return self.where(point)


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
    frame : Frame
        How they are drawn.
    missing : tuple of str
        What was not measured.
    axis : str
        Name of the y axis with its unit, for who cannot see it; empty where panels have it.
    """

    name: str
    title: str
    caption: str
    points: tuple[Point, ...]
    frame: Frame
    missing: tuple[str, ...] = ()
    axis: str = ""


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

    A report begins with what an ``opening`` page says: its texts are the report's answer. A run's
    output ends with the tables of a ``printed`` page.
    """

    name: str
    title: str
    blocks: tuple[Block, ...] = field(default=())
    opening: bool = False
    printed: bool = False

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


def suffixes_of(formats: Collection[str], *, stored: bool = False) -> tuple[str, ...]:
    """Give the formats that figures are needed in: reports embed SVG, stored pages have PNG too."""
    if "figures" in formats:
        return SUFFIXES
    return ("svg",) * (stored or bool({"html", "pdf"} & set(formats))) + ("png",) * stored


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
        return render(drawing.frame.draw(drawing.points), tuple(suffixes))


def for_terminal(page: Page) -> Iterator[RenderableType]:
    """Yield the texts and tables of a page as a terminal shows them."""
    for block in page.blocks:
        if isinstance(block, Text):
            yield Said.assemble((block.heading, "bold"), "\n" * bool(block.heading), block.text)
        elif isinstance(block, Table):
            yield boxed(block, "", block.caption)


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
            yield for_markdown(block)
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
    columns = ["claim", "sentence", "what must be true", "number", "required", "verdict"]
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
    yield [claim.id, source_of(claim), claim.statement, own.number, own.required, own.verdict]
    for check in checks:
        yield ["", "", "", f"{check.label}: {check.number}", check.required, check.verdict]


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
            yield path, _lines(block.headings, block.rows).replace(MINUS, "-")
    if page.claims:
        yield root / f"{page.name}-claims.csv", _lines(_CLAIM_COLUMNS, _claims(page))


_CLAIM_COLUMNS = (
    *("claim", "document", "section", "sentence", "statement", "verdict", "check", "mean"),
    *("half_width_95", "seeds", "unit", "low", "high", "check_verdict", "missing"),
)


def _claims(page: Page) -> Iterator[tuple[object, ...]]:
    for claim in page.claims:
        source = claim.sources[0]
        fixed_part = (claim.id, source.document, source.section, source.sentence, claim.statement)
        for check in claim.checks:
            measured = check.measured
            yield (
                *(*fixed_part, claim.judgement.verdict, check.label),
                *("" if one is None else one for one in (measured.mean, measured.half)),
                *(measured.seeds, check.unit, check.low, check.high, check.verdict),
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


_SEED = re.compile(r"-seed(\d+)$")
#: What rounding alone leaves of the spread of equal numbers, as a share of them.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Numbers(Mapping[int, float]):
    """One number of a cell, by the seed of its run; runs that lack it are absent."""

    by_seed: Mapping[int, float]

    def __getitem__(self, seed: int) -> float:
        """Give the number of the run of a seed."""
        return self.by_seed[seed]

    def __iter__(self) -> Iterator[int]:
        """Give the seeds."""
        return iter(self.by_seed)

    def __len__(self) -> int:
        """Count the runs that have it."""
        return len(self.by_seed)

    @property
    def values_by_seed(self) -> tuple[float, ...]:
        """The numbers in the order of their seeds."""
        return tuple(self.by_seed[seed] for seed in sorted(self.by_seed))

    @cached_property
    def mean_ci(self) -> tuple[float | None, float | None]:
        """Mean over the runs and half width of its 95 % interval (Student's t), None without."""
        return mean_ci(self.values_by_seed) if self.by_seed else (None, None)

    @property
    def mean(self) -> float | None:
        """Mean over the runs, None without any."""
        return self.mean_ci[0]

    def per(self, other: Mapping[int, float]) -> Numbers:
        """Give the ratio to another number, seed by seed; 0 / 0 is left out."""
        both = {seed: (self[seed], other[seed]) for seed in self if seed in other}
        return Numbers({seed: ratio(*sides) for seed, sides in both.items() if any(sides)})

    def printed(self, decimals: int, scale: float = 1) -> str:
        """Give ``1532 ± 21``, the mean alone for one run, an en dash for none."""
        mean, half = self.mean_ci
        if mean is None:
            return NOTHING
        text = fixed(scale * mean, decimals)
        if half is None or not math.isfinite(half):
            return text
        spread = fixed(scale * half, decimals)
        if half > _ROUNDING * abs(mean) and float(spread) == 0:
            spread = f"<{10.0**-decimals:.{decimals}f}"
        return f"{text} ± {spread}"


def ratio(above: float, below: float) -> float:
    """Divide; what is over nothing is infinite, and nothing over nothing is not a number.

    Examples
    --------
    >>> ratio(3, 2), ratio(3, 0), ratio(0, 0)
    (1.5, inf, nan)
    """
    if below:
        return above / below
    return math.inf if above else math.nan


def ratio_of(sides: Mapping[str, Numbers]) -> Measured:
    """Give the first of two numbers over the second, seed by seed; their names tell what lacks."""
    lacking = [name for name, one in sides.items() if not one]
    return paired(ratio, *sides.values(), missing=lacking)


def scaled(numbers: Numbers, factor: float = 1) -> Measured:
    """Give a number times a factor, seed by seed."""
    return paired(lambda value: factor * value, numbers)


@dataclass(frozen=True, eq=False)
class PaperRun:
    """A run that is part of its cell's means: its files, and its ``metrics.json``."""

    seed: int
    files: RunFiles
    found: Mapping[str, Any]

    def number(self, path: str) -> float | None:
        """Give a number by its keys, ``metrics.utilisation``; None where there is none.

        A list's entries are counted from 0, or known by their names: ``cross.0.timeouts``,
        ``groups.cubic.share``.
        """
        at: Any = self.found
        for key in path.split("."):
            if isinstance(at, list) and key.isdigit():
                at = at[int(key)] if int(key) < len(at) else None
            elif isinstance(at, list):
                at = next((one for one in at if _is_called(one, key)), None)
            else:
                at = at.get(key) if isinstance(at, Mapping) else None
        if isinstance(at, bool) or not isinstance(at, int | float) or not math.isfinite(at):
            return None
        return float(at)


def _is_called(one: Any, name: str) -> bool:
    return isinstance(one, Mapping) and one.get("name") == name


@dataclass(frozen=True, eq=False)
class CellRuns:
    """One cell of one experiment with the runs that its means are made of."""

    section: Section
    cell: Cell
    runs: tuple[PaperRun, ...]

    @property
    def case(self) -> str:
        """Name of the case."""
        return self.cell.case

    @property
    def flows(self) -> int:
        """Number of flows, or of users."""
        return self.cell.flows

    def setting(self, key: str) -> float | None:
        """Give the value of an axis in base units; None where the cell has none, or a word."""
        text = dict(self.cell.settings).get(key)
        value = None if text is None else base_value(text)[0]
        return value if isinstance(value, float) else None

    def number(self, path: str) -> Numbers:
        """Give a number of ``metrics.json`` by its keys, for each seed that has it."""
        return self.each(lambda run: run.number(path))

    def each(self, of: Callable[[PaperRun], float | None]) -> Numbers:
        """Give what a function makes of each run, for each seed of which it makes something."""
        found = {run.seed: of(run) for run in self.runs}
        return Numbers({seed: value for seed, value in found.items() if value is not None})


def cells_of(section: Section) -> tuple[CellRuns, ...]:
    """Read the runs behind the cells of an experiment; a cell without any is there, and empty."""
    return tuple(
        CellRuns(section, result.cell, tuple(_runs(section, result.used_runs)))
        for result in section.results
    )


def _runs(section: Section, names: Sequence[str]) -> Iterator[PaperRun]:
    for name in names:
        seed, files = _SEED.search(name), section.source.files.run(name)
        if seed is None:
            raise LabError("a run id must end in -seedN", where=name)
        if files.metrics.exists():
            yield PaperRun(int(seed[1]), files, read_json(files.metrics))


FRIO, RIO, OLD, TB, FRED, TAIL_DROP, RED = CASES
#: The new marker, with either queue.
NEW = (FRIO, RIO)


@dataclass(frozen=True, eq=False)
class GainBlock:
    """The cells that differ in nothing but their case: ``label`` says what they share."""

    label: str
    cells: tuple[CellRuns, ...]

    @property
    def cases(self) -> tuple[str, ...]:
        """Names of the cases, in order."""
        return tuple(cell.case for cell in self.cells)

    def number(self, case: str, path: str) -> Numbers:
        """Give a number of a case, empty where the case or its runs are not there."""
        cell = next((one for one in self.cells if one.case == case), None)
        return cell.number(path) if cell else Numbers({})

    def ratio(self, case: str, other: str, path: str) -> Measured:
        """Give a case's number over another's, seed by seed."""
        return ratio_of({f"{one}, {self.label}": self.number(one, path) for one in (case, other)})


def blocks_of(cells: Sequence[CellRuns], noun: str) -> tuple[GainBlock, ...]:
    """Group cells by their number of flows and axes: a block for each, ``50 users``."""
    found: dict[tuple[int, tuple[tuple[str, str], ...]], list[CellRuns]] = {}
    for cell in cells:
        found.setdefault((cell.flows, cell.cell.settings), []).append(cell)
    return tuple(
        GainBlock(", ".join((f"{flows} {noun}", *(f"{k} = {v}" for k, v in settings))), tuple(own))
        for (flows, settings), own in found.items()
    )


def with_interval(measured: Measured, decimals: int = 2) -> str:
    """Write a ratio for a table: ``0.41 ± 0.03``, an en dash where there is none."""
    if measured.mean is None:
        return NOTHING
    half = "" if measured.half is None else f" ± {measured.half:.{decimals}f}"
    return f"{measured.mean:.{decimals}f}{half}"
