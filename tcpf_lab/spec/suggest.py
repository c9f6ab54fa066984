"""The sentence for a word that is not in a list."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def unknown(what: str, word: str, allowed: Iterable[str]) -> str:
    """Say that ``what`` is unknown, what is allowed, and which of it was probably meant.

    Examples
    --------
    >>> unknown("unknown key", "mim", ["min", "max"])
    "unknown key; allowed: min, max. Did you mean 'min'?"
    >>> unknown("unknown case 'x'", "x", ["A", "B"])
    "unknown case 'x'; allowed: A, B"
    """
    words = list(allowed)
    text = f"{what}; allowed: {', '.join(words)}"
    meant = closest(word, words)
    return f"{text}. Did you mean '{meant}'?" if meant is not None else text


def closest(word: str, allowed: Iterable[str]) -> str | None:
    """Give the allowed word that ``word`` was probably meant to be, whatever its case."""
    folded = {candidate.lower(): candidate for candidate in reversed(list(allowed))}
    close = difflib.get_close_matches(word.lower(), list(folded), n=1)
    return folded[close[0]] if close else None
