"""What a report says, free of any markup: the one thing that every format of it is made from.

Every string is plain text. It can come from an experiment file or from a host, so whoever writes a
format escapes it, always and everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from tcpf_lab.base.errors import LabError
from tcpf_lab.report.results_table import printed
from tcpf_lab.report.section import CellResult
from tcpf_lab.report.style import METRICS
from tcpf_lab.report.table import Table, significant, spread

if TYPE_CHECKING:
    from jinja2 import Environment

#: The pictures of a report: SVG text by `Figure.name`. Every figure of the contents is in it.
Figures = Mapping[str, str]


@dataclass(frozen=True)
class Figure:
    """A picture; ``name`` is its key in `Figures`, ``alternative`` says what it shows.

    ``marks`` are tooltips: the text at place k belongs to the element of the picture with the id
    ``mark-k``. A text without such an element is not shown (a cell without runs has no bar).
    """

    name: str
    label: str = field(default="", kw_only=True)
    caption: str
    alternative: str
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """A part of the report under a heading: sentences, commands, tables, figures.

    Each of ``paragraphs`` is a paragraph, each of ``commands`` the lines of a command. A ``detail``
    belongs to the appendix.
    """

    name: str
    heading: str
    paragraphs: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()
    detail: bool = False

    @property
    def empty(self) -> bool:
        """Whether there is nothing below the heading."""
        return not (self.paragraphs or self.tables or self.figures or self.commands)


@dataclass(frozen=True)
class CheckRow:
    """One check of a claim: what must lie in which range, the published number and ours.

    ``published`` and ``ours`` are a number with its unit, ``–`` where there is none;
    ``interval`` is the 95 % interval of ours, or empty; the verdicts are the words of `Claim`.
    """

    label: str
    range: str
    published: str
    published_verdict: str
    ours: str
    interval: str
    ours_verdict: str
    note: str = ""


@dataclass(frozen=True)
class Claim:
    """A claim of the papers: held against their own tables, and against our numbers.

    A verdict is one of :class:`~tcpf_lab.report.claims.judge.Verdict`; ``*_count`` says how many of
    its measured checks hold, ``5 of 16``. ``telling`` is the check that decides.
    """

    name: str
    source: str
    sentences: tuple[str, ...]
    statement: str
    published_verdict: str
    published_count: str
    ours_verdict: str
    ours_count: str
    telling: CheckRow
    findings: tuple[CheckRow, ...]


@dataclass(frozen=True)
class Verdicts:
    """The claims, and a sentence that counts their verdicts; both are empty if none was judged."""

    summary: tuple[str, ...]
    claims: tuple[Claim, ...]


@dataclass(frozen=True)
class LeftOut:
    """Runs of a cell with the same remark: ``state`` is one of ``STATES``.

    ``named`` tells which, ``nomark+red-flows100, seeds 2 to 9``, and ``runs`` how many; ``used``
    says that they are part of the means all the same.
    """

    named: str
    runs: int
    state: str
    reasons: str
    used: bool


@dataclass(frozen=True)
class Validity:
    """Which runs the numbers are made of, and which they are not."""

    summary: tuple[str, ...]
    tables: tuple[Table, ...]
    left_out: tuple[LeftOut, ...]


@dataclass(frozen=True)
class Fact:
    """Something the runs were made with; several values where the runs differ in it.

    ``code`` says that the values are identifiers (hashes, names of files) rather than words.
    """

    name: str
    values: tuple[str, ...]
    code: bool = False


@dataclass(frozen=True)
class Reproduce:
    """How to get the same numbers: commands, each as its lines, and what they were made with."""

    commands: tuple[tuple[str, ...], ...]
    facts: tuple[Fact, ...]
    heading: str = "How to reproduce"


@dataclass(frozen=True)
class Limitation:
    """What the numbers do not say: a heading in a few words, and the sentences."""

    heading: str
    text: str


@dataclass(frozen=True)
class Contents:
    """A report.

    Page one has the ``question``, the ``verdict`` (Yes, Partly, No, Undecided, or empty), the
    ``answer`` in at most three sentences, and ``front``: one figure and one table of the results.
    The results follow, the claims, the limitations, and the appendix: topologies, parameters,
    details, validity, how to reproduce.

    ``subtitle`` has the conditions of the runs; ``topologies`` are drawn, one for each kind of path
    in the experiments; ``results`` has the pages on papers and one part per experiment;
    ``keywords`` are for the document's metadata; ``elsewhere`` names what another document has.
    """

    title: str
    subtitle: str
    question: str
    answer: tuple[str, ...]
    topologies: tuple[Figure, ...]
    parameters: tuple[Table, ...]
    results: tuple[Part, ...]
    claims: Verdicts
    validity: Validity
    reproduce: Reproduce
    limitations: tuple[Limitation, ...]
    program: str
    keywords: tuple[str, ...] = ()
    verdict: str = ""
    front: Part | None = None
    elsewhere: str = ""

    @property
    def main(self) -> tuple[Part, ...]:
        """The results that come before the limitations."""
        return tuple(part for part in self.results if not part.detail)

    @property
    def details(self) -> tuple[Part, ...]:
        """The results in the appendix."""
        return tuple(part for part in self.results if part.detail)

    @property
    def figures(self) -> tuple[Figure, ...]:
        """Every figure, in the order of the report."""
        front = () if self.front is None else (self.front,)
        first, last = (
            [figure for part in parts for figure in part.figures]
            for parts in ((*front, *self.main), self.details)
        )
        return (*first, *last, *self.topologies)

    def need(self, figures: Figures) -> None:
        """Refuse pictures that are not all.

        Raises
        ------
        LabError
            If one of the contents' figures is missing.
        """
        missing = [figure.name for figure in self.figures if figure.name not in figures]
        if missing:
            raise LabError(f"no picture for {', '.join(missing)}", where=self.title)


#: A report with more figures, or more rows of tables behind the limitations, is two documents.
_FIGURES, _ROWS = 12, 150
#: Rows of a table in the first of two documents.
_LONG = 40


def split(contents: Contents) -> tuple[Contents, Contents | None]:
    """Divide a long report, numbered already: what a person reads, and the appendix, or None."""
    shown = [figure for part in contents.main for figure in part.figures]
    tables = [*contents.parameters, *(table for part in contents.details for table in part.tables)]
    long = [table for part in contents.main for table in part.tables if len(table.rows) > _LONG]
    if len(shown) <= _FIGURES and sum(len(table.rows) for table in (*tables, *long)) <= _ROWS:
        return contents, None
    first = {figure.name for figure in shown[:_FIGURES]}
    main, others = [], []
    for part in contents.main:
        own = tuple(table for table in part.tables if table not in long)
        figures = tuple(figure for figure in part.figures if figure.name in first)
        main.append(replace(part, tables=own, figures=figures))
        left = replace(
            part,
            paragraphs=(),
            commands=(),
            tables=tuple(table for table in part.tables if table in long),
            figures=tuple(figure for figure in part.figures if figure.name not in first),
        )
        others += [left] if not left.empty else []
    short = replace(
        contents,
        results=tuple(part for part in main if not part.empty),
        parameters=(),
        validity=replace(contents.validity, tables=(), left_out=()),
        reproduce=replace(contents.reproduce, facts=()),
        elsewhere="The appendix is a PDF of its own (.appendix.pdf): parameters, the other tables "
        "and figures, every check, the runs left out, versions and hashes.",
    )
    rest = replace(
        contents,
        title=f"{contents.title}: appendix",
        question="",
        verdict="",
        answer=(),
        front=None,
        topologies=(),
        results=(*others, *contents.details),
        claims=Verdicts((), ()),
        limitations=(),
    )
    return short, replace(rest, results=tuple(replace(part, detail=True) for part in rest.results))


def filled(template: str, **values: Any) -> str:
    """Give the text of a template of ``report/templates``; a value stays on its line."""
    return _templates().get_template(f"{template}.j2").render(values)


def sentences(template: str, **values: Any) -> list[str]:
    """Give the lines of a template's text: each is a sentence or a note."""
    return filled(template, **values).split("\n")[:-1]


@cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # here: not for every command

    environment = Environment(
        loader=PackageLoader("tcpf_lab.report"),
        finalize=lambda value: value.replace("\n", " ") if isinstance(value, str) else value,
        undefined=StrictUndefined,
        autoescape=False,  # plain text, which whoever writes a format escapes
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    own = (listed, count, significant, spread)
    environment.filters |= {function.__name__: function for function in own}
    return environment


def listed(items: Iterable[object], conjunction: str = "and") -> str:
    """Give ``a, b and c``.

    Examples
    --------
    >>> listed(["a", "b", "c"], "or")
    'a, b or c'
    """
    *first, last = map(str, items)
    return f"{', '.join(first)} {conjunction} {last}" if first else last


def count(number: int, noun: str) -> str:
    """Give a number with its noun: ``1 run``, ``10 runs``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def seeds_text(seeds: Iterable[int]) -> str:
    """Give seeds with ranges for neighbours: ``1 to 10, 12``.

    Examples
    --------
    >>> seeds_text([3, 1, 2, 7, 9, 10])
    '1 to 3, 7, 9, 10'
    """
    ranges: list[list[int]] = []
    for seed in sorted(set(seeds)):
        if ranges and seed == ranges[-1][-1] + 1:
            ranges[-1].append(seed)
        else:
            ranges.append([seed])
    parts = (f"{r[0]} to {r[-1]}" if len(r) > 2 else ", ".join(map(str, r)) for r in ranges)
    return ", ".join(parts)


def bare(heading: str) -> str:
    """Give the heading of a metric without its unit: ``goodput`` of ``goodput (bytes/s)``."""
    return heading.partition(" (")[0]


def sentence(text: str) -> str:
    """Give a note as a sentence.

    Examples
    --------
    >>> sentence("one seed: no interval")
    'One seed: no interval.'
    """
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "?")) else f"{text}."


def mark_id(place: int) -> str:
    """Give the id, in a picture, of what belongs to the tooltip at this place."""
    return f"mark-{place}"


def bar_marks(results: Sequence[CellResult], metric: str) -> tuple[str, ...]:
    """Say what each bar of ``figure.bar_chart`` shows, a text of several lines per result.

    Parameters
    ----------
    results : sequence of CellResult
        The cells of the chart, in its order.
    metric : str
        A name of ``style.METRICS``.
    """
    return tuple("\n".join(_lines(result, metric)) for result in results)


def _lines(result: CellResult, metric: str) -> Iterator[str]:
    style, estimate = METRICS[metric], result.metrics[metric]
    shown = printed(estimate, style)
    unit = f" {style.unit}" if style.unit else ""
    yield f"{result.cell.label}, {count(result.cell.flows, 'flow')}"
    if estimate.mean is None:
        yield f"{style.word}: {'not measured' if result.used else 'no usable run'}"
    else:
        sure = ", 95 % confidence interval" if estimate.ci95 is not None else ""
        yield f"{style.word}: {shown}{unit}{sure}, n\u00a0=\u00a0{result.used}"
    if shown.published:
        yield f"published: {shown.published}{unit}"
