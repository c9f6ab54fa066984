"""The pages on papers and workloads as parts of the report: the same words, tables and figures."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.report.claims import page as papers
from tcpf_lab.report.claims.judge import PaperClaim, counted, judged_rows, source_of
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
_VERDICTS = "Verdicts: noise decides nothing; what stands on one run has no noise to show."


def page_parts(pages: Sequence[papers.Page]) -> Iterator[Part]:
    """Yield the parts of a report that pages are, a new one at each of their headings."""
    for page in pages:
        parts: list[Part] = []
        for block in page.blocks:
            heading = block.heading if isinstance(block, papers.Text) else ""
            if heading or not parts:
                parts.append(_begun(page, heading, len(parts)))
            parts[-1] = _with(parts[-1], page, block)
        yield from parts


def told_of_claims(pages: Sequence[papers.Page]) -> Iterator[str]:
    """Yield a sentence for each page that judges: how many of the paper's sentences hold."""
    for page in pages:
        if page.claims:
            yield f"{page.title}. {counted(page.claims)}"


def opening_parts(pages: Sequence[papers.Page]) -> tuple[Part, ...]:
    """Give the parts that a report opens with, without their texts, which are its answer."""
    parts = page_parts([page for page in pages if page.opening])
    return tuple(replace(part, paragraphs=()) for part in parts)


def _begun(page: papers.Page, heading: str, place: int) -> Part:
    above = "" if page.opening else f"{page.title}: "
    title = f"{above}{heading}" if heading else page.title
    return Part(f"paper-{page.name}-{place + 1}", title)


def _with(part: Part, page: papers.Page, block: papers.Block) -> Part:
    """Give a part with one block more."""
    match block:
        case papers.Text(text):
            return replace(part, paragraphs=(*part.paragraphs, *filter(None, (text,))))
        case papers.Table():
            return replace(part, tables=(*part.tables, _table(page, block)))
        case papers.Drawing() if not block.points:
            lacking = "; ".join(block.missing)
            told = f"{block.title}. Not made: {lacking}."
            return replace(part, paragraphs=(*part.paragraphs, told))
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
    """Give a table with its numbers told from words."""
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
    """Tell a chart to who cannot see it: what each series reaches, and where."""
    series: dict[tuple[str, ...], list[papers.Point]] = {}
    for point in drawing.points:
        names = tuple(filter(None, (point.panel, point.series)))
        series.setdefault(names, []).append(point)
    told = [f"{', '.join(names)}: {_ends(drawing, own)}" for names, own in series.items()]
    axis = f" {drawing.axis}." if drawing.axis else ""
    return f"Chart. {drawing.title}.{axis} {'; '.join(told)}."


def _ends(drawing: papers.Drawing, points: Sequence[papers.Point]) -> str:
    """Tell the first and the last place of a series, and its highest; or its level."""
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
    """Give the table of sentences: a group for each, with a row for each check of several."""
    columns = tuple(map(Column, ("what must be true", "number", "verdict")))
    groups = tuple(
        Group(f"{claim.id}: {source_of(claim)}", rows_of(_rows(claim))) for claim in claims
    )
    caption = f"Sentences of the paper, judged: {page.title}."
    return Table(f"{page.name}-claims", caption, columns, groups, _VERDICTS)


def _rows(claim: PaperClaim) -> Iterator[tuple[str, ...]]:
    """Yield what must be true, and below it each of several checks; a note is read there too."""
    said = " ".join((claim.statement, *(sentence(note) for note in (claim.note,) if note)))
    own, *checks = judged_rows(claim)
    for row in (own._replace(label=said), *checks):
        yield row.label, f"{row.number} (asked for: {row.asked})", row.verdict
