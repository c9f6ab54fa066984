"""The pages on papers and workloads as parts of the report: the same words, tables and figures."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.report.claims import page as papers
from tcpf_lab.report.claims.papers import PaperClaim, counted, judged_rows
from tcpf_lab.report.contents.answers import Answer, of_claims
from tcpf_lab.report.contents.model import Figure, Part, sentence
from tcpf_lab.report.table import (
    MINUS,
    NOTHING,
    Column,
    Entry,
    Group,
    Table,
    rows_of,
    significant,
    table_of,
)
from tcpf_lab.results.command import lines

#: A number as tables of pages have it, alone or with the half width of its interval.
_NUMBER = re.compile(rf"([+{MINUS}-]?\d[\d ]*(?:\.\d+)?(?:e[+-]?\d+)?)(?: ± (<?\d+(?:\.\d+)?))?")
_VERDICTS = "An interval across a bound decides nothing; a single run has no interval."


def page_parts(pages: Sequence[papers.Page]) -> Iterator[Part]:
    """Yield the parts of a report that pages are, a new one at each of their headings."""
    for page in pages:
        parts: list[Part] = []
        for block in page.blocks:
            heading = block.heading if isinstance(block, papers.Text) else ""
            if heading or not parts:
                above = "" if page.opening or len(pages) == 1 else f"{page.title}: "
                title = f"{above}{heading}" if heading else page.title
                parts.append(Part(f"paper-{page.name}-{len(parts) + 1}", title))
            parts[-1] = _with(parts[-1], page, block)
        yield from parts
        if page.claims:
            yield _checks(page)


def answer_of(page: papers.Page) -> Answer:
    """Give the answer of a page alone: its claims counted, or the texts that introduce tables."""
    if page.claims:
        return of_claims(page.claims)
    lines = []
    for text, block in pairwise(page.blocks):
        if isinstance(text, papers.Text) and text.text and isinstance(block, papers.Table):
            lines.append(f"{text.heading}: {text.text}" if text.heading else text.text)
    return Answer("", tuple(line.replace("?:", "?") for line in lines))


def _with(part: Part, page: papers.Page, block: papers.Block) -> Part:
    """Give a part with one block more."""
    match block:
        case papers.Text(text):
            return replace(part, paragraphs=(*part.paragraphs, *filter(None, (text,))))
        case papers.Table():
            return replace(part, tables=(*part.tables, _table(page, block)))
        case papers.Drawing() if not block.points:
            lacking = "; ".join(block.missing)
            message = f"{block.title}. Not made: {lacking}."
            return replace(part, paragraphs=(*part.paragraphs, message))
        case papers.Drawing():
            return replace(part, figures=(*part.figures, _figure(block)))
        case papers.Claims():
            return replace(
                part,
                paragraphs=(*part.paragraphs, *_counted(block)),
                commands=(*part.commands, *map(lines, block.making)),
                tables=(*part.tables, _judged(page, block.claims)),
            )


def _table(page: papers.Page, table: papers.Table) -> Table:
    """Give a table with typed numbers."""
    columns = [
        Column(heading, "estimate" if _numeric(row[place] for row in table.rows) else "text")
        for place, heading in enumerate(table.headings)
    ]
    rows = (
        [
            _estimate(text) if column.kind == "estimate" else text
            for column, text in zip(columns, row, strict=True)
        ]
        for row in table.rows
    )
    return table_of(f"{page.name}-{table.name}", table.caption, columns, rows)


def _numeric(texts: Iterable[str]) -> bool:
    """Tell a column of numbers; some may be missing."""
    known = [text for text in texts if text not in {"", NOTHING}]
    return bool(known) and all(map(_NUMBER.fullmatch, known))


def _estimate(text: str) -> Entry:
    found = _NUMBER.fullmatch(text)
    if found is None:
        return Entry(text)
    return Entry(found[1], float(found[1].replace(" ", "").replace(MINUS, "-")), found[2] or "")


def _figure(drawing: papers.Drawing) -> Figure:
    lacking = f" Not all of it was measured: {'; '.join(drawing.missing)}." * bool(drawing.missing)
    return Figure(
        name=drawing.name,
        caption=f"{drawing.title}. {drawing.caption}{lacking}",
        alternative=_in_words(drawing),
    )


def _in_words(drawing: papers.Drawing) -> str:
    """Describe a chart in words: what each series reaches, and where."""
    series: dict[tuple[str, ...], list[papers.Point]] = {}
    for point in drawing.points:
        names = tuple(filter(None, (point.panel, point.series)))
        series.setdefault(names, []).append(point)
    series_in_words = [
        f"{', '.join(names)}: {_ends(drawing, own)}" for names, own in series.items()
    ]
    axis = f" {drawing.axis}." if drawing.axis else ""
    return f"Chart. {drawing.title}.{axis} {'; '.join(series_in_words)}."


def _ends(drawing: papers.Drawing, points: Sequence[papers.Point]) -> str:
    """Give the first and the last place of a series, and its highest; or its level."""
    if math.isnan(points[0].x):
        return f"{significant(mean_ci(points[0].values)[0])} throughout"
    heights = {point: mean_ci(point.values)[0] for point in points}
    ordered = sorted(points, key=lambda point: point.x)
    highest = max(ordered, key=lambda point: heights[point])
    chosen = sorted({ordered[0], highest, ordered[-1]}, key=lambda point: point.x)
    return ", ".join(
        f"{significant(heights[point])} {drawing.frame.place(point)}" for point in chosen
    )


def _counted(block: papers.Claims) -> Iterator[str]:
    yield counted(block.claims)
    if block.making:
        yield "Runs that are missing are made by:"


def _judged(page: papers.Page, claims: Sequence[PaperClaim]) -> Table:
    """Give a row for each claim: its sentence, what was measured, the verdict."""
    columns = ("sentence of the paper", "measured", "verdict")
    rows = ((_source(claim), _measured(claim), _verdict(claim)) for claim in claims)
    return table_of(f"{page.name}-claims", f"Claims: {page.title}.", columns, rows)


def _source(claim: PaperClaim) -> str:
    """Give the sentence, the section of the paper that has it, and the claim's id."""
    source = claim.sources[0]
    return f"{source.sentence} ({source.section}; {claim.id})"


def _measured(claim: PaperClaim) -> str:
    """Give the number of the check that decides, and the range that holds."""
    decided = claim.judgement.verdict, claim.seeds_needed
    alike = (one for one in claim.checks if (one.verdict, one.seeds_needed) == decided)
    check = next(alike, claim.checks[0])
    return f"{check.label}: {check.number}; claimed: {check.range}"


def _verdict(claim: PaperClaim) -> str:
    found = claim.judgement
    return (
        claim.verdict_text
        if found.checks == 1
        else f"{claim.verdict_text} ({found.counted('checks')})"
    )


def _checks(page: papers.Page) -> Part:
    """Give every check of every claim, for the appendix."""
    columns = tuple(map(Column, ("what must be true", "number", "verdict")))
    groups = tuple(Group(_source(claim), rows_of(_rows(claim))) for claim in page.claims)
    caption = f"Every check of the claims: {page.title}."
    table = Table(f"{page.name}-checks", caption, columns, groups, _VERDICTS)
    heading = f"Checks of the claims: {page.title}"
    return Part(f"paper-{page.name}-checks", heading, tables=(table,), detail=True)


def _rows(claim: PaperClaim) -> Iterator[tuple[str, ...]]:
    """Yield what must be true, and below it each of several checks; a note is read there too."""
    words = " ".join((claim.statement, *(sentence(note) for note in (claim.note,) if note)))
    own, *checks = judged_rows(claim)
    for row in (own._replace(label=words), *checks):
        yield row.label, f"{row.number} (claimed: {row.required})", row.verdict
