"""Quantities, code points and optional keys as experiments write them, for hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tcpf_lab.base.units import format_duration, format_rate, format_size
from tcpf_lab.spec.words import NAMES

Data = dict[str, Any]

CODE_POINTS = st.one_of(st.sampled_from(sorted(NAMES)), st.integers(0, 63))
#: A share of packets, and a probability that no queue takes for nothing.
SHARES = st.floats(0.001, 0.5)
#: The largest frame of any topology here, bytes.
LARGEST_FRAME = 9014
#: More than any threshold here, bytes: an axis of limits begins with it.
ABOVE_THRESHOLDS = 3_000_000


def sizes(least: int, most: int) -> st.SearchStrategy[str]:
    return st.integers(least, most).map(format_size)


def durations(least_us: int, most_us: int) -> st.SearchStrategy[str]:
    return st.integers(least_us, most_us).map(lambda number: format_duration(number / 1e6))


def rates(least: int, most: int) -> st.SearchStrategy[str]:
    return st.integers(least, most).map(format_rate)


def code(value: str | int) -> int:
    return NAMES[value] if isinstance(value, str) else value


def some(draw: st.DrawFn, optional: dict[str, st.SearchStrategy[Any]]) -> Data:
    """Draw some of the keys that may be left out."""
    return {key: draw(values) for key, values in optional.items() if draw(st.booleans())}
