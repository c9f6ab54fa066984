"""Numbers as tables and sentences print them: with a minus sign, and never with an exponent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

#: Stands before a negative number; a hyphen is narrower, and a line may be broken behind it.
MINUS = "\u2212"
#: Whole numbers from here on have more than three digits.
_WHOLE_FROM = 1000


def fixed(value: float, places: int) -> str:
    """Give a number with so many decimals; what rounds to zero has no sign.

    Examples
    --------
    >>> fixed(-0.333, 2), fixed(-0.001, 2)
    ('−0.33', '0.00')
    """
    return f"{value:z.{places}f}".replace("-", MINUS)


def significant(value: float) -> str:
    """Give three significant digits, whole numbers from 1000 on, without an exponent.

    Examples
    --------
    >>> significant(0.98765), significant(999.9), significant(12345.6), significant(-0.00002)
    ('0.988', '1000', '12346', '−0.00002')
    """
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    if abs(value) >= _WHOLE_FROM:
        return fixed(value, 0)
    rounded = Decimal(f"{value:z.2e}").normalize()
    return f"{rounded:f}".replace("-", MINUS)


def spread(values: Sequence[float]) -> str:
    """Give the smallest and the largest of some values, ``1.02 to 1.95``, or the only one."""
    low, high = significant(min(values)), significant(max(values))
    return low if low == high else f"{low} to {high}"


def ratios(*values: float) -> tuple[str, ...]:
    """Give ratios, those below 10 with three decimals, more where one would pass for 1.

    What a ratio says is on which side of 1 it is: an end of an interval must not seem to be 1.

    Examples
    --------
    >>> ratios(0.5, 0.49312, 12.0)
    ('0.500', '0.493', '12')
    >>> ratios(1.00031, 1.00012, 1.0005)
    ('1.0003', '1.0001', '1.0005')
    """
    places = next((p for p in range(3, 6) if not any(_passes_for_1(v, p) for v in values)), 6)
    return tuple(fixed(v, places) if abs(v) < 10 else significant(v) for v in values)


def _passes_for_1(value: float, places: int) -> bool:
    return float(fixed(abs(value), places)) == 1 and not math.isclose(value, 1, rel_tol=1e-9)
