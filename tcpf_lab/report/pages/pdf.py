"""The report as PDF: a template and the contents become Typst source, which is compiled.

What a report says can come from anywhere, so it enters the source as data alone: every value that
the template inserts becomes a Typst literal whose text holds nothing but letters, digits and
escapes. Such text is data wherever it stands, in code and in running text. The compiler works in
an empty directory, has no other files than the pictures handed to it, and no fonts but its own and
DejaVu, unless a letter is in neither.
"""

from __future__ import annotations

import logging
import math
import re
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib import get_data_path
from matplotlib.font_manager import fontManager, get_font

from tcpf_lab.base.errors import LabError
from tcpf_lab.report.contents.model import Contents, Figures
from tcpf_lab.report.pages.html import REPLACEMENT, printable

if TYPE_CHECKING:
    from typst import Fonts


#: The font of every figure, and what the PDF falls back to.
FONT = "DejaVu Sans"
#: A font of boxes that name the block of a letter.
_OF_BOXES = "Last Resort"
_WIDE_SPACE = "\u3000"


@dataclass(frozen=True)
class Glyphs:
    """What shows a text: ``fonts`` besides our own, ``absent`` is what none of them has."""

    fonts: tuple[str, ...]
    absent: frozenset[str]

    def shown(self, text: str) -> str:
        """Put a sign in the place of what cannot be shown."""
        return "".join(REPLACEMENT if letter in self.absent else letter for letter in text)


#: Letters that were warned of: one line for all figures of a report.
_warned: set[str] = set()


def glyphs(text: str) -> Glyphs:
    """Find what shows a text; a letter that no font has is warned of once."""
    seen = (letter for letter in text if letter.isprintable() or letter == _WIDE_SPACE)
    left = frozenset(seen) - _own()
    fonts = []
    for font in sorted(fontManager.ttflist, key=lambda font: font.name) if left else ():
        if not font.name.startswith(_OF_BOXES) and (found := left & _letters(font.fname)):
            fonts.append(font.name)
            left -= found
    if left - _warned:
        _warned.update(left)
        warnings.warn(
            f"no font here has {' '.join(sorted(left))}: figures and PDFs show {REPLACEMENT} "
            "instead; install one that has, such as Noto Sans CJK",
            stacklevel=2,
        )
    if fonts:  # one without bold letters is no fault
        logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    return Glyphs(tuple(fonts), left)


@cache
def _own() -> frozenset[str]:
    folder = Path(get_data_path()) / "fonts" / "ttf"
    return _letters(folder / "DejaVuSans.ttf") & _letters(folder / "DejaVuSans-Bold.ttf")


@cache
def _letters(path: str | Path) -> frozenset[str]:
    return frozenset(map(chr, get_font(path).get_charmap()))


#: What may stand in a Typst string as it is; letters of other scripts may as well.
_HARMLESS = re.compile(r"[^A-Za-z0-9 ]")
#: How all other characters are written.
_ESCAPE = re.compile(r"\\u\{([0-9a-f]+)\}")
#: A key with its default, which poppler takes for an error; what stands there keeps its place.
_DEFAULT = b"/Suspects false"
_MARKED = b"/MarkInfo<</Marked true" + _DEFAULT
#: A name as Typst can have it for a key of a dictionary.
_KEY = re.compile(r"[a-z][a-z0-9_]*")


def typeset(contents: Contents, figures: Figures) -> bytes:
    """Typeset a report.

    Parameters
    ----------
    contents : Contents
        What it says.
    figures : mapping of str to str
        Its pictures: SVG text by the name of each figure of the contents.

    Returns
    -------
    bytes
        The PDF: the same bytes from the same contents, figures and version of Typst.

    Raises
    ------
    LabError
        If a figure is missing, or the compiler refuses something.
    """
    contents.need(figures)
    (content,) = compiled(source(contents), figures, "pdf")
    return content.replace(_MARKED, _MARKED.replace(_DEFAULT, b" " * len(_DEFAULT)))


def page_images(contents: Contents, figures: Figures, pixels_per_inch: float = 100) -> list[bytes]:
    """Give every page of the same report as PNG."""
    return compiled(source(contents), figures, "png", pixels_per_inch)


def source(contents: Contents) -> str:
    """Give the Typst source of a report, without its pictures."""
    return _environment().get_template("report.typ.j2").render(contents=contents)


def literal(value: Any) -> str:
    r"""Write a value as a Typst literal that is data in any place of a source.

    Parameters
    ----------
    value : str, bool, int, float, None, tuple, mapping or dataclass
        Text is cleaned of what cannot be printed; keys of mappings are plain words.

    Raises
    ------
    TypeError
        For any other value: a template inserts nothing else.

    Examples
    --------
    >>> print(literal("#read"))
    "\u{23}read"
    >>> literal((1, None))
    '(1, none, )'
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if type(value) is int or type(value) is float:
        return _number(value)
    if type(value) is str:
        return f'"{_HARMLESS.sub(_escaped, printable(value))}"'
    if isinstance(value, tuple):
        return f"({''.join(f'{literal(item)}, ' for item in value)})"
    if is_dataclass(value):
        return literal({field.name: getattr(value, field.name) for field in fields(value)})
    if isinstance(value, Mapping):
        pairs = (f"{_key(key)}: {literal(item)}, " for key, item in value.items())
        return f"({''.join(pairs)})" if value else "(:)"
    raise TypeError(f"{type(value).__name__} cannot be inserted into a report")


def _number(value: float) -> str:
    """Write a number; parentheses keep the sign of a negative one with it."""
    if not math.isfinite(value):
        return {math.inf: "float.inf", -math.inf: "(-float.inf)"}.get(value, "float.nan")
    return repr(value) if value >= 0 else f"({value!r})"


def _escaped(character: re.Match[str]) -> str:
    return f"\\u{{{ord(character[0]):x}}}"


def _key(key: Any) -> str:
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise TypeError(f"{key!r} cannot be a key in a report")
    return key


@cache
def _environment() -> Environment:
    """Give an environment in which every inserted value is a literal, whatever the template says.

    Typst is not HTML: markup-safe strings, which HTML's escaping would let through, are refused.
    """
    environment = Environment(
        loader=PackageLoader("tcpf_lab.report.pages"),
        finalize=literal,
        undefined=StrictUndefined,
        autoescape=False,  # finalize escapes every value, for Typst
        keep_trailing_newline=True,
    )
    environment.filters.clear()
    return environment


def _letter(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16))


def compiled(
    text: str, figures: Figures, kind: Literal["pdf", "png"], pixels_per_inch: float = 100
) -> list[bytes]:
    """Compile Typst source that has ``sys.inputs`` for pictures and nothing to read.

    Raises
    ------
    LabError
        If the compiler refuses it.
    """
    import typst  # here: loading the compiler takes a moment that other formats do not need

    found = glyphs("".join(map(_letter, _ESCAPE.finditer(text))))
    text = _ESCAPE.sub(lambda code: _HARMLESS.sub(_escaped, found.shown(_letter(code))), text)
    with tempfile.TemporaryDirectory(prefix="tcpf-lab-report-") as nothing:
        try:
            compiler = typst.Compiler(
                root=nothing,
                font_paths=_fonts(bool(found.fonts)),
                ignore_system_fonts=not found.fonts,
                sys_inputs=dict(figures),
                package_path=nothing,
                package_cache_path=nothing,
            )
            result: Any = compiler.compile(
                text.encode(), format=kind, ppi=pixels_per_inch, timestamp=0
            )
        except typst.TypstError as error:
            raise LabError(f"Typst refuses the report: {error.message}") from error
    return result if isinstance(result, list) else [result]


@cache
def _fonts(of_system: bool) -> Fonts:
    """Give Typst's own fonts, DejaVu for letters they lack, and installed ones if requested."""
    import matplotlib as mpl  # here: it takes a moment
    import typst

    folder = Path(mpl.get_data_path()) / "fonts" / "ttf"
    return typst.Fonts(
        include_system_fonts=of_system, include_embedded_fonts=True, font_paths=[folder]
    )
