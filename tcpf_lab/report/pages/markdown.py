"""The report as Markdown: the order of the PDF and the page, figures as links to their PNG."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from tcpf_lab.report.contents.model import Contents, Figure, LeftOut, Part
from tcpf_lab.report.table import Group, Table, as_markdown, for_markdown
from tcpf_lab.results.layout import FIGURES


def render(contents: Contents, linked: Collection[str]) -> str:
    """Write a report.

    Parameters
    ----------
    contents : Contents
        The numbered report.
    linked : collection of str
        Names of the figures that are in ``figures/`` as PNG; the others are described in words.
    """
    return "\n\n".join(filter(None, _report(contents, linked))) + "\n"


def _report(it: Contents, linked: Collection[str]) -> Iterator[str]:
    yield f"# {as_markdown(it.title)}"
    yield as_markdown(it.subtitle)
    if it.question:
        yield f"**{as_markdown(it.question)}**"
        verdict = f"**{it.verdict}.** " if it.verdict else ""
        yield verdict + "  \n".join(map(as_markdown, it.answer))
    if it.front is not None:
        yield from _body(replace(it.front, figures=()), it.front.figures, linked)
    yield from _parts("Results", it.main, linked)
    yield from _claims(it)
    if it.limitations:
        yield "## Limitations"
        yield from (f"**{as_markdown(o.heading)}** {as_markdown(o.text)}" for o in it.limitations)
    if it.topologies:
        yield "## The path"
        yield from (_figure(figure, linked) for figure in it.topologies)
    if it.parameters:
        yield "## Parameters"
        yield from (text for table in it.parameters for text in _table(table))
    yield from _parts("Details", it.details, linked)
    yield from _validity(it)
    yield f"## {as_markdown(it.reproduce.heading)}"
    yield from map(_typed, it.reproduce.commands)
    yield "\n".join(
        f"- {as_markdown(fact.name)}: {', '.join(map(as_markdown, fact.values))}"
        for fact in it.reproduce.facts
    )


def _parts(heading: str, parts: Iterable[Part], linked: Collection[str]) -> Iterator[str]:
    for place, part in enumerate(parts):
        if not place:
            yield f"## {heading}"
        yield f"### {as_markdown(part.heading)}"
        yield from _body(replace(part, figures=()), (), linked)
        yield from (_figure(figure, linked) for figure in part.figures)


def _body(part: Part, figures: Iterable[Figure], linked: Collection[str]) -> Iterator[str]:
    """Yield figures, sentences, commands and tables."""
    yield from (_figure(figure, linked) for figure in figures)
    yield from map(as_markdown, part.paragraphs)
    yield from map(_typed, part.commands)
    yield from (text for table in part.tables for text in _table(table))


def _typed(lines: Iterable[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)


def _figure(figure: Figure, linked: Collection[str]) -> str:
    caption = f"**{figure.label}.** {as_markdown(figure.caption)}"
    if figure.name in linked:
        return f"![{figure.label}]({FIGURES}/{figure.name}.png)\n\n{caption}"
    return f"{caption} {as_markdown(figure.alternative)}"


def _table(table: Table) -> Iterator[str]:
    yield f"**{table.label}.** {as_markdown(table.caption)}"
    columns = tuple(
        replace(column, heading=f"{column.heading}{_unit(column.unit)}{_published(table, place)}")
        for place, column in enumerate(table.columns)
    )
    for group in table.groups:
        yield f"*{as_markdown(group.heading)}*" if group.heading else ""
        yield for_markdown(replace(table, columns=columns, groups=(Group("", group.rows),)))
    yield as_markdown(table.note)


def _unit(unit: str) -> str:
    return f", {unit}" if unit else ""


def _published(table: Table, place: int) -> str:
    known = any(row[place].published for group in table.groups for row in group.rows)
    return ", measured (published)" if known else ""


def _claims(it: Contents) -> Iterator[str]:
    if not it.claims.claims:
        return
    yield "## Claims of the papers"
    yield " ".join(map(as_markdown, it.claims.summary))
    rows = [("sentence of the paper", "measured", "verdict"), ("---",) * 3]
    for claim in it.claims.claims:
        check = claim.telling
        spread = f" ({check.interval})" if check.interval else ""
        measured = f"{check.label}: {check.ours}{spread}; published {check.published}"
        rows.append(
            (
                f"{' '.join(claim.sentences)} ({claim.source})",
                f"{measured}; claimed: {check.range}",
                f"{claim.ours_verdict} ({claim.ours_count})",
            )
        )
    yield "\n".join(f"| {' | '.join(map(_cell, row))} |" for row in rows)


def _cell(text: str) -> str:
    return as_markdown(text).replace("|", "\\|")


def _validity(it: Contents) -> Iterator[str]:
    valid = it.validity
    if not (valid.summary or valid.tables or valid.left_out):
        return
    yield "## Validity of the runs"
    yield " ".join(map(as_markdown, valid.summary))
    yield from (text for table in valid.tables for text in _table(table))
    yield "\n".join(map(_left_out, valid.left_out))


def _left_out(one: LeftOut) -> str:
    reasons = f": {one.reasons}" if one.reasons else ""
    return as_markdown(f"- {one.named}: {one.state}{' (used)' * one.used}{reasons}")
