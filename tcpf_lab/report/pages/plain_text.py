"""Text of unknown origin, made fit to print: no control characters, nothing invisible."""

from __future__ import annotations

import unicodedata

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
