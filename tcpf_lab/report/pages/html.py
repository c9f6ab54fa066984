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
import tomllib
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from xml.etree import ElementTree

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tcpf_lab.base.errors import LabError
from tcpf_lab.report.contents.model import Contents, Figure, Figures
from tcpf_lab.report.export import glossary
from tcpf_lab.report.table import Column, Entry, Group, Row, Table

#: The names that a page keeps of an SVG file.
_NAMES = tomllib.loads(files("tcpf_lab.report.pages").joinpath("svg.toml").read_text("utf-8"))
_ELEMENTS, _GEOMETRY = frozenset(_NAMES["elements"]), frozenset(_NAMES["geometry"])
_LOOK, _LENGTHS = frozenset(_NAMES["look"]), frozenset(_NAMES["lengths"])
_LONG_NUMBER = re.compile(r"-?\d*\.\d{3,}(?![\d.]*e)")
_LOCAL = re.compile(r"""url\(\s*['"]?#([^'")\s]+)['"]?\s*\)""")
_EVERYTHING = re.compile(r"\*\s*\{([^}]*)\}")
_REFERENCE = re.compile(r"""#([^"')\s;]+)""")
#: Terms of the glossary that a report explains.
_TERMS = (
    *("case", "cell", "run", "seed", "valid", "confidence interval", "timeout", "loss", "goodput"),
    *("CoV", "configuration", "claim", "verdict"),
)
_MARK = re.compile(r"mark-(\d+)")


class Pictures:
    """The pictures of one page.

    Glyphs and hatches that several of them define alike are written once: they are most of a
    picture's size.
    """

    def __init__(self) -> None:
        self._number = 0
        self._defined: dict[str, str] = {}

    def inline(self, svg: str, label: str, marks: Sequence[str] = ()) -> Markup:
        """Give the next picture as an element of the page.

        Parameters
        ----------
        svg : str
            An SVG document.
        label : str
            What the picture shows, in words.
        marks : sequence of str
            Tooltips: the text at place k is for the element with the id ``mark-k``.

        Returns
        -------
        Markup
            The element ``svg``, without namespaces and style attributes. Scripts, links,
            animations, images, foreign objects, handlers of events, comments and references to
            anything outside are left out.

        Raises
        ------
        LabError
            If it is no SVG document.
        """
        root = _parsed(svg, label)
        self._number += 1
        named = set(_REFERENCE.findall(svg))
        picture = _Picture(f"p{self._number}", marks, self._known(root), named)
        role = {"role": "group" if marks else "img", "aria-label": label}
        return picture.element(root, {**role, **_sheet(root)})

    def _known(self, root: ElementTree.Element) -> dict[str, str]:
        """Give ids of definitions that the page has already, and where; remember the others."""
        known = {}
        for definition in (child for element in root.iter() if _name(element.tag) == "defs"
                           for child in element):  # fmt: skip
            name = definition.get("id")
            text = _content(definition)
            if name and "href" not in text and "url(" not in text:
                here = f"p{self._number}-{name}"
                if (there := self._defined.setdefault(text, here)) != here:
                    known[name] = there
        return known


def _parsed(svg: str, label: str) -> ElementTree.Element:
    try:
        root = ElementTree.fromstring(svg)
    except ElementTree.ParseError as error:
        raise LabError(f"a figure is not well-formed SVG: {error}", where=label) from error
    if _name(root.tag) != "svg":
        raise LabError(f"a figure is not SVG: its root is {_name(root.tag)!r}", where=label)
    return root


def _content(definition: ElementTree.Element) -> str:
    """Give what a definition is, whatever it is called."""
    anonymous = ElementTree.Element(definition.tag, {**definition.attrib, "id": ""})
    anonymous.extend(definition)
    return ElementTree.tostring(anonymous, encoding="unicode")


def _name(tag: object) -> str:
    """Give a name without its namespace; comments and instructions have none."""
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def _sheet(root: ElementTree.Element) -> dict[str, str]:
    """Give what the picture's style sheet says of every element: the root hands it down."""
    texts = (element.text or "" for element in root.iter() if _name(element.tag) == "style")
    return {
        name: value
        for text in texts
        for rule in _EVERYTHING.findall(text)
        for name, value in _declarations(rule)
    }


def _declarations(style: str) -> Iterator[tuple[str, str]]:
    for declaration in style.split(";"):
        name, _, value = declaration.partition(":")
        if name.strip() in _LOOK:
            yield name.strip(), value.strip()


class _Picture:
    """Writes the elements of one picture.

    ``known`` are definitions that stand elsewhere, ``named`` the ids that anything refers to.
    """

    def __init__(
        self, prefix: str, marks: Sequence[str], known: Mapping[str, str], named: Collection[str]
    ) -> None:
        self.prefix = prefix
        self.marks = marks
        self.known = known
        self.named = named

    def element(
        self, element: ElementTree.Element, more: Mapping[str, str] | None = None
    ) -> Markup:
        """Give an element with all that is in it; nothing if it has no place in a page."""
        name = _name(element.tag)
        if name not in _ELEMENTS or element.get("id") in self.known:
            return Markup("")
        inside = self._inside(element, texts=name in ("text", "tspan"))
        if name == "defs" and not inside:
            return inside
        attributes = {**(more or {}), **dict(self._attributes(element))}
        written = Markup("").join(
            Markup(' {}="{}"').format(key, value) for key, value in attributes.items()
        )
        return Markup("<{0}{1}>{2}</{0}>").format(name, written, inside)

    def _inside(self, element: ElementTree.Element, texts: bool) -> Markup:
        parts = [Markup.escape(element.text or "")] if texts else []
        for child in element:
            parts.append(self.element(child))
            parts += [Markup.escape(child.tail or "")] if texts else []
        return Markup("").join(parts)

    def _attributes(self, element: ElementTree.Element) -> Iterator[tuple[str, str]]:
        """Yield what may be kept; ``style`` wins over attributes, so it comes last."""
        for key, value in element.attrib.items():
            name = _name(key)
            if name == "id":
                yield from self._identity(value)
            elif name == "href" and value.startswith("#"):
                yield name, f"#{self._id(value[1:])}"
            elif name in _GEOMETRY | _LOOK:
                yield from self._safe(name, value)
        for name, value in _declarations(element.get("style", "")):
            yield from self._safe(name, value)

    def _id(self, own: str) -> str:
        return self.known.get(own, f"{self.prefix}-{own}")

    def _identity(self, own: str) -> Iterator[tuple[str, str]]:
        if own in self.named:
            yield "id", self._id(own)
        found = _MARK.fullmatch(own)
        if found and int(found[1]) < len(self.marks):
            text = self.marks[int(found[1])]
            yield from {"role": "img", "aria-label": text, "data-tip": text}.items()

    def _safe(self, name: str, value: str) -> Iterator[tuple[str, str]]:
        """Yield an attribute unless it refers to anything outside."""
        if "url(" in _LOCAL.sub("", value):
            return
        value = _LOCAL.sub(lambda found: f"url(#{self._id(found[1])})", value)
        if name in _LENGTHS:
            value = _LONG_NUMBER.sub(lambda found: f"{float(found[0]):.2f}", value)
        yield name, " ".join(value.split())


#: Stands for what cannot be printed.
REPLACEMENT = "\ufffd"
#: Categories of Unicode whose characters show nothing or change how others are shown.
_UNPRINTABLE = frozenset(("Cc", "Cf", "Cs", "Co", "Cn"))


def printable(text: str) -> str:
    r"""Replace every character that would not show, such as one that reverses the text after it.

    Line breaks and tabs become spaces.

    Examples
    --------
    >>> printable("a\tb\u202ec") == f"a b{REPLACEMENT}c"
    True
    """
    return "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character in "\t\n\r\u2028\u2029":
        return " "
    return REPLACEMENT if unicodedata.category(character) in _UNPRINTABLE else character


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
    contents.need(figures)
    css, js = _asset("report.css"), _asset("report.js")
    page = _environment().get_template("report.html.j2")
    return page.render(
        it=contents,
        drawing=partial(_drawing, Pictures(), figures),
        css=Markup(css),
        js=Markup(js),
        csp=_policy(css, js),
        terms=[found for name, found in glossary.terms().items() if name in _TERMS],
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
    own = (
        *(anchor, heading_attributes, entry_attributes),
        *(has_published, verdict_class, verdict_order),
    )
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
    return f"{kind}-{glossary.anchor(name)}"


def heading_attributes(column: Column) -> dict[str, _Value]:
    """Give the attributes of a column's heading: ``data-sort`` says what it is sorted by."""
    numeric = column.kind != "text"
    return {
        "scope": "col",
        "class": "numeric" if numeric else None,
        "data-sort": "number" if numeric else None,
        "data-tip": printable(column.explanation) or None,
    }


def has_published(table: Table, place: int) -> bool:
    """Tell whether a column has published values beside the measured ones."""
    return any(row[place].published for group in table.groups for row in group.rows if row[place:])


def entry_attributes(table: Table, group: Group, row: Row, place: int) -> dict[str, _Value]:
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


def _tip(column: Column, group: Group, row: Row, place: int) -> Iterator[str]:
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
