"""Delays of several pairs of hosts: one for all, one for each, or spread evenly over them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from tcpf_lab.spec.base import RefusedError
from tcpf_lab.units import DURATION, UnitError, format_duration, parse_duration

_RANGE = re.compile(r"(.+?)\.\.(.+)", flags=re.DOTALL)
_FORMS = "write one duration, a list with one for each pair, or FIRST..LAST, as 12 ms..26 ms"


@dataclass(frozen=True)
class Delays:
    """What a file says of the delays; `of` gives them.

    Parameters
    ----------
    values : tuple of float
        Seconds: one for all, one for each pair, or the first and the last.
    even : bool
        Whether the two values are the ends of a range.
    """

    values: tuple[float, ...]
    even: bool = False

    def of(self, pairs: int) -> tuple[float, ...]:
        """Give the delay of each pair, in seconds, to the microsecond, which is netem's grain."""
        if self.even:
            first, last = self.values
            step = (last - first) / (pairs - 1)
            return tuple(round(first + k * step, 6) for k in range(pairs))
        return self.values * pairs if len(self.values) == 1 else self.values

    def problems(self, pairs: int) -> Iterator[str]:
        """Yield why these cannot be the delays of so many pairs."""
        if self.even and pairs == 1:
            yield "is a range for one pair; write one duration"
        elif not self.even and len(self.values) not in (1, pairs):
            yield f"has {len(self.values)} delays for {pairs} pairs; {_FORMS}"


def parse_delays(value: Any) -> Delays:
    """Read delays.

    Raises
    ------
    UnitError
        If it is none of the three forms, or a range does not go upwards.
    RefusedError
        If items of a list are no durations.

    Examples
    --------
    >>> parse_delays("12 ms..26 ms").of(8)[:3]
    (0.012, 0.014, 0.016)
    """
    if isinstance(value, Delays):
        return value
    if isinstance(value, list | tuple):
        return _listed(value)
    ends = _RANGE.fullmatch(value.strip()) if isinstance(value, str) else None
    if ends is None:
        return Delays((parse_duration(value),))
    if ".." in ends[2] or ":" in ends[2]:
        raise UnitError(f"{value!r} is not a range of delays; {_FORMS}")
    first, last = (parse_duration(end.strip()) for end in ends.groups())
    if not first < last:
        raise UnitError(f"{value!r} must go upwards, from the least delay to the greatest")
    return Delays((first, last), even=True)


def _listed(values: list[Any] | tuple[Any, ...]) -> Delays:
    if not values:
        raise UnitError(f"an empty list holds no delay; {_FORMS}")
    read, wrong = [], []
    for index, item in enumerate(values):
        try:
            read.append(parse_duration(item))
        except UnitError as error:
            wrong.append(((index,), error.message))
    if wrong:
        raise RefusedError(tuple(wrong))
    return Delays(tuple(read))


def format_delays(delays: Delays) -> str | list[str]:
    """Write delays as a file has them; `parse_delays` gives back the same.

    Examples
    --------
    >>> format_delays(parse_delays("0.012 s..26 ms"))
    '12 ms..26 ms'
    """
    written = [format_duration(value) for value in delays.values]
    if delays.even:
        return "..".join(written)
    return written if len(written) > 1 else written[0]


_ONE = {"type": "string", "pattern": DURATION.pattern, "examples": [DURATION.example]}
_RANGE_PATTERN = DURATION.pattern.removesuffix("$") + r"\.\." + DURATION.pattern.removeprefix("^")

#: One duration, a list, or a range, as `Delays`.
AnyDelays = Annotated[
    Delays,
    PlainValidator(parse_delays),
    PlainSerializer(format_delays),
    WithJsonSchema(
        {
            "anyOf": [
                _ONE,
                {"type": "string", "pattern": _RANGE_PATTERN, "examples": ["12 ms..26 ms"]},
                {"type": "array", "items": _ONE, "minItems": 1},
            ]
        }
    ),
]
