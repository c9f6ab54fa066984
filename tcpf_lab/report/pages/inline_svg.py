"""Pictures for a page: the drawing of an SVG file, and nothing else that may be in it.

Several pictures in one document share its ids, its style sheets and its scripts. What gets in is a
short list of elements and attributes, every id gets the picture's prefix, and a reference may lead
to what the page's pictures define only.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from xml.etree import ElementTree

from markupsafe import Markup

from tcpf_lab.errors import LabError


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ELEMENTS = _words(
    "svg g defs use path rect circle ellipse line polyline polygon text tspan clipPath pattern "
    "linearGradient radialGradient stop marker"
)
#: Attributes of shapes and text.
_GEOMETRY = _words(
    "viewBox width height x y x1 y1 x2 y2 cx cy r rx ry dx dy d points transform offset "
    "patternUnits patternContentUnits patternTransform clipPathUnits gradientUnits "
    "gradientTransform markerWidth markerHeight markerUnits refX refY orient "
    "preserveAspectRatio"
)
#: Properties that can stand in an attribute of their own as well as in ``style``.
_LOOK = _words(
    "fill fill-opacity fill-rule stroke stroke-width stroke-opacity stroke-linecap stroke-linejoin "
    "stroke-dasharray stroke-dashoffset stroke-miterlimit opacity clip-path clip-rule stop-color "
    "stop-opacity marker-start marker-mid marker-end font-family font-size font-style font-weight "
    "text-anchor dominant-baseline paint-order vector-effect letter-spacing"
)
#: Numbers in these attributes are lengths; a hundredth of a point is finer than any screen.
_LENGTHS = _words("d points x y x1 y1 x2 y2 cx cy r width height")
_LONG_NUMBER = re.compile(r"-?\d*\.\d{3,}(?![\d.]*e)")
_LOCAL = re.compile(r"""url\(\s*['"]?#([^'")\s]+)['"]?\s*\)""")
_EVERYTHING = re.compile(r"\*\s*\{([^}]*)\}")
_REFERENCE = re.compile(r"""#([^"')\s;]+)""")
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
        """Yield what may be kept; ``style`` wins over attributes, so it is told last."""
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
