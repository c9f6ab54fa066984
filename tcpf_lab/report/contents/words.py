"""Lists and counts as sentences have them."""

from __future__ import annotations

from collections.abc import Iterable


def listed(items: Iterable[str], conjunction: str = "and") -> str:
    """Give ``a, b and c``.

    Examples
    --------
    >>> listed(["a", "b", "c"], "or")
    'a, b or c'
    """
    *first, last = items
    return f"{', '.join(first)} {conjunction} {last}" if first else last


def count(number: int, noun: str) -> str:
    """Give a number with its noun: ``1 run``, ``10 runs``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def seeds_told(seeds: Iterable[int]) -> str:
    """Give seeds with ranges for neighbours: ``1 to 10, 12``.

    Examples
    --------
    >>> seeds_told([3, 1, 2, 7, 9, 10])
    '1 to 3, 7, 9, 10'
    """
    ranges: list[list[int]] = []
    for seed in sorted(set(seeds)):
        if ranges and seed == ranges[-1][-1] + 1:
            ranges[-1].append(seed)
        else:
            ranges.append([seed])
    parts = (f"{r[0]} to {r[-1]}" if len(r) > 2 else ", ".join(map(str, r)) for r in ranges)
    return ", ".join(parts)


def bare(heading: str) -> str:
    """Give the heading of a metric without its unit: ``goodput`` of ``goodput (bytes/s)``."""
    return heading.partition(" (")[0]


def sentence(text: str) -> str:
    """Give a note as a sentence.

    Examples
    --------
    >>> sentence("one seed: no interval")
    'One seed: no interval.'
    """
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "?")) else f"{text}."
