"""Letters that the house's font lacks: an installed font that has them, else a sign in their place.

Which fonts a machine has changes nothing about text that DejaVu has all letters of.
"""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from matplotlib import get_data_path
from matplotlib.font_manager import fontManager, get_font

from tcpf_lab.report.pages.plain_text import REPLACEMENT

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
_told: set[str] = set()


def glyphs(text: str) -> Glyphs:
    """Find what shows a text; a letter that no font has is warned of once."""
    seen = (letter for letter in text if letter.isprintable() or letter == _WIDE_SPACE)
    left = frozenset(seen) - _own()
    fonts = []
    for font in sorted(fontManager.ttflist, key=lambda font: font.name) if left else ():
        if not font.name.startswith(_OF_BOXES) and (found := left & _letters(font.fname)):
            fonts.append(font.name)
            left -= found
    if left - _told:
        _told.update(left)
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
