"""A report as one HTML file: it loads nothing, and reads on paper and on a telephone too.

Texts of a report can come from an experiment file or from a host. The environment escapes every one
of them; beyond that, the page's policy (CSP) lets run only the script, and apply only the style
sheet, whose hashes it names.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Iterable, Iterator
from functools import cache, partial
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tcpf_lab.errors import LabError
from tcpf_lab.report.contents.model import Column, Contents, Entry, Figure, Figures, Group, Table
from tcpf_lab.report.pages.inline_svg import Pictures
from tcpf_lab.report.pages.plain_text import printable

#: Verdicts in the order that the claims are sorted by.
VERDICTS: tuple[str, ...] = (
    "holds",
    "within noise",
    "too few seeds",
    "refuted",
    "not decidable",
)
#: Characters of an entry that stays on one line, and of one that needs a wide column.
_SHORT, _LONG = 18, 40
#: What an attribute can hold besides text.
_Value = str | int | float | bool | None


def render(contents: Contents, figures: Figures) -> str:
    """Give the report as an HTML document.

    Parameters
    ----------
    contents : Contents
        What it says.
    figures : mapping of str to str
        The SVG text of every figure of the contents, by ``Figure.name``.

    Returns
    -------
    str
        One self-contained document; the same for the same arguments.

    Raises
    ------
    LabError
        If a figure of the contents is missing, or is not SVG.
    """
    missing = [figure.name for figure in contents.figures if figure.name not in figures]
    if missing:
        raise LabError(f"no picture for {', '.join(missing)}", where=contents.title)
    css, js = _asset("report.css"), _asset("report.js")
    page = _environment().get_template("report.html.j2")
    return page.render(
        it=contents,
        drawing=partial(_drawing, Pictures(), figures),
        css=Markup(css),
        js=Markup(js),
        csp=_policy(css, js),
    ).lstrip()


def _asset(name: str) -> str:
    """Give a file that stands beside the template, as it goes between two tags."""
    return files("tcpf_lab.report.pages").joinpath("templates", name).read_text("utf-8")


def _policy(css: str, js: str) -> str:
    """Give the page's content security policy: nothing but its own script and style sheet."""
    return "; ".join(
        (
            "default-src 'none'",
            f"style-src '{_hash(css)}'",
            f"script-src '{_hash(js)}'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def _environment() -> Environment:
    """Give an environment that escapes every value, whatever the template says of it."""
    environment = Environment(
        loader=PackageLoader("tcpf_lab.report.pages"),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    own = (anchor, heading_attributes, entry_attributes, verdict_class, verdict_order)
    environment.filters |= {function.__name__: function for function in own}
    return environment


def _finalize(value: object) -> object:
    """Clean text that comes from the contents; what the template made is clean already."""
    return printable(value) if type(value) is str else value


def _drawing(pictures: Pictures, figures: Figures, figure: Figure) -> Markup:
    marks = tuple(_lines(mark.splitlines()) for mark in figure.marks)
    return pictures.inline(figures[figure.name], printable(figure.alternative), marks)


def anchor(name: str, kind: str) -> str:
    """Give an id for something with a name: ``figure-4-1-1``; no name can make another kind's."""
    return f"{kind}-{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}"


def heading_attributes(column: Column) -> dict[str, _Value]:
    """Give the attributes of a column's heading: ``data-sort`` says what it is sorted by."""
    numeric = column.kind != "text"
    return {
        "scope": "col",
        "class": "numeric" if numeric else None,
        "data-sort": "number" if numeric else None,
        "data-tip": printable(column.explanation) or None,
    }


def entry_attributes(
    table: Table, group: Group, row: tuple[Entry, ...], place: int
) -> dict[str, _Value]:
    """Give the attributes of an entry: its tooltip, and the number that it is sorted by."""
    column, entry = table.columns[place], row[place]
    tipped = column.kind != "text" or entry.note
    return {
        "scope": None if place else "row",
        "class": _entry_class(column, entry),
        "data-value": _sortable(entry.value),
        "data-tip": _lines(_tip(column, group, row, place)) if tipped else None,
    }


def _entry_class(column: Column, entry: Entry) -> str | None:
    """Tell numbers, words that are better not broken, and running text."""
    if column.kind != "text":
        return "numeric"
    return "short" if len(entry.text) <= _SHORT else "long" if len(entry.text) > _LONG else None


def _sortable(value: float | None) -> str | None:
    return repr(value) if value is not None and math.isfinite(value) else None


def _tip(column: Column, group: Group, row: tuple[Entry, ...], place: int) -> Iterator[str]:
    """Yield a tooltip line by line: where the entry stands, its numbers in words, its note."""
    entry = row[place]
    yield ", ".join(filter(None, (row[0].text if place else "", group.heading)))
    if column.kind != "text":
        half = f" ± {entry.half} (95 % confidence interval)" if entry.half else ""
        yield f"{column.heading}: {entry.text}{half}"
    if entry.published:
        yield f"published: {entry.published}"
    yield entry.note


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(printable(line) for line in lines if line)


def verdict_class(verdict: str) -> str:
    """Give the class of a verdict in the style sheet; what is not judged is not decidable."""
    return (verdict if verdict in VERDICTS else VERDICTS[-1]).replace(" ", "-")


def verdict_order(verdict: str) -> int:
    """Give the place of a verdict among ``VERDICTS``; what is not judged comes last."""
    return VERDICTS.index(verdict) if verdict in VERDICTS else len(VERDICTS)
