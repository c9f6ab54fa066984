"""Numbers and lists as sentences have them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

#: Keeps what it stands between on one line.
NO_BREAK_SPACE = "\u00a0"


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


def significant(value: float) -> str:
    """Give three significant digits, whole numbers from 1000 on, without an exponent.

    Examples
    --------
    >>> significant(0.98765), significant(12345.6), significant(math.inf)
    ('0.988', '12346', 'infinitely many')
    """
    if math.isinf(value):
        return "infinitely many"
    if abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:.3g}" if abs(value) >= 1e-4 or value == 0 else f"{value:.2g}"


def spread(values: Sequence[float]) -> str:
    """Give the smallest and the largest of some values, ``1.02 to 1.95``, or the only one."""
    low, high = significant(min(values)), significant(max(values))
    return low if low == high else f"{low} to {high}"


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
