"""What changes at instants of a run: schedules of a value, and traces of delivery opportunities."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from tcpf_lab.base import shipped
from tcpf_lab.base.units import (
    DURATION,
    RATE,
    UnitError,
    format_duration,
    format_rate,
    parse_duration,
    parse_probability,
    parse_rate,
)

#: Changes of one value, at most: each is an instruction of the plan.
MOST_STEPS = 100
#: A trace's milliseconds, at most, and its opportunities in one of them: a digit of base 36.
MOST_MS, MOST_AT_ONCE = 3_600_000, 35
#: Bits that an opportunity carries: 1500 bytes of IP, as `tc` counts them.
OPPORTUNITY_BITS = 8 * 1514
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_ZERO = re.compile(r"0(\.0*)?\s*[kMG]?bit(/s)?", flags=re.ASCII | re.IGNORECASE)
_STEPS = "write TIME: VALUE for each change, such as {0 s: 20 Mbit, 10 s: 2 Mbit}"
_TRACE = "trace"

T = TypeVar("T", int, float)


@dataclass(frozen=True)
class Schedule(Generic[T]):
    """A value over time: ``steps`` are instants, seconds, the first at 0, and what holds then."""

    steps: tuple[tuple[float, T], ...]

    @property
    def highest(self) -> T:
        """The highest value."""
        return max(value for _, value in self.steps)

    def at(self, time: float) -> T:
        """Give the value at an instant, seconds."""
        return next(value for start, value in reversed(self.steps) if start <= time)


@dataclass(frozen=True)
class Trace:
    """Delivery opportunities of a link: ``digits`` has how many each millisecond begins with.

    ``name`` is the file's. The trace repeats from its end.

    Notes
    -----
    R. Netravali et al., "Mahimahi: Accurate Record-and-Replay for HTTP", USENIX ATC 2015.
    """

    name: str
    digits: str

    @cached_property
    def mean(self) -> int:
        """Mean rate, bit/s."""
        total = sum(opportunities(self.digits))
        return round(total * OPPORTUNITY_BITS * 1000 / len(self.digits))

    @property
    def highest(self) -> int:
        """The highest rate of a millisecond, bit/s."""
        return max(opportunities(self.digits)) * OPPORTUNITY_BITS * 1000


def opportunities(digits: str) -> list[int]:
    """Give the opportunities of each millisecond of a trace: digits of base 36."""
    return [int(digit, 36) for digit in digits]


def value_at(value: T | Schedule[T], time: float) -> T:
    """Give what a value that may change is at an instant, seconds."""
    return value.at(time) if isinstance(value, Schedule) else value


def highest(value: T | Schedule[T]) -> T:
    """Give the most that a value is."""
    return value.highest if isinstance(value, Schedule) else value


def changes_of(*values: Any) -> tuple[float, ...]:
    """Give the instants behind 0 at which any of the values changes, in order."""
    found = {time for one in values if isinstance(one, Schedule) for time, _ in one.steps}
    return tuple(sorted(found - {0.0}))


def _items(value: Any) -> list[tuple[Any, Any]] | None:
    """Pairs of a mapping, or of a text that would be one in braces; None of anything else."""
    if isinstance(value, Mapping):
        return list(value.items())
    if not isinstance(value, str) or ":" not in value:
        return None
    pairs = (part.partition(":") for part in value.strip().strip("{}").split(","))
    return [(time.strip(), item.strip()) for time, _, item in pairs]


def _schedule(items: list[tuple[Any, Any]], parse: Callable[[Any], Any]) -> Schedule[Any]:
    if not items:
        raise UnitError(f"a schedule is empty; {_STEPS}")
    if len(items) > MOST_STEPS:
        raise UnitError(f"a schedule has {len(items)} steps; at most {MOST_STEPS}")
    steps = tuple((parse_duration(time), parse(value)) for time, value in items)
    if steps[0][0] != 0:
        raise UnitError(f"a schedule must begin at 0 s, not {format_duration(steps[0][0])}")
    for (before, _), (after, _) in pairwise(steps):
        if after <= before:
            times = f"{format_duration(after)} follows {format_duration(before)}"
            raise UnitError(f"times of a schedule must go upwards: {times}")
    return Schedule(steps) if len(steps) > 1 else steps[0][1]


def _parser(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if isinstance(value, Schedule):
            return value
        items = _items(value)
        return parse(value) if items is None else _schedule(items, parse)

    return read


def _writer(write: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def written(value: Any) -> Any:
        if isinstance(value, Trace):
            return f"{_TRACE}: {value.name}, opportunities: {value.digits}"
        if not isinstance(value, Schedule):
            return write(value)
        return ", ".join(f"{format_duration(time)}: {write(one)}" for time, one in value.steps)

    return written


def _rate_or_outage(value: Any) -> int:
    return 0 if isinstance(value, str) and _ZERO.fullmatch(value.strip()) else parse_rate(value)


def parse_link_rate(value: Any) -> int | Schedule[int] | Trace:
    """Read a rate, a schedule of rates, or a trace.

    Raises
    ------
    UnitError
        If it is none of them, its times do not go upwards from 0, or the trace cannot be read.

    Examples
    --------
    >>> parse_link_rate("10 Mbit"), parse_link_rate("0 s: 2 Mbit, 1 s: 0 bit")
    (10000000, Schedule(steps=((0.0, 2000000), (1.0, 0))))
    """
    if isinstance(value, Schedule | Trace):
        return value
    items = _items(value)
    if items is None:
        return parse_rate(value)
    given = dict(items)
    if _TRACE not in given:
        return _schedule(items, _rate_or_outage if len(items) > 1 else parse_rate)
    if wrong := sorted(set(given) - {_TRACE, "opportunities"}):
        raise UnitError(f"a trace has no '{wrong[0]}'; write {{trace: FILE}}")
    name, digits = given[_TRACE], given.get("opportunities", "")
    if not (isinstance(name, str) and isinstance(digits, str)):
        raise UnitError("a trace is a file's name; its opportunities are digits in quotes")
    return _checked(name, digits) if digits else read_trace(name)


def read_trace(name: str) -> Trace:
    """Read a trace in mahimahi's format: for each opportunity a line with its millisecond.

    A file that comes with the program is found by its name alone.

    Raises
    ------
    UnitError
        If there is no such file, a line is no number or earlier than the one before, or there are
        too many in a millisecond.
    """
    with_it = shipped.directory("experiments") / "traces"
    try:
        ours = not Path(name).exists() and Path(name).name == name
        lines = (with_it / name if ours else Path(name)).read_text(encoding="ascii").split("\n")
    except (OSError, ValueError) as error:
        there = ", ".join(sorted(one.name for one in with_it.glob("*")))
        why = getattr(error, "strerror", None) or "is no text"
        raise UnitError(f"trace {name[:80]}: {why}; traces that come with it: {there}") from None
    counts: list[int] = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text and number == len(lines):
            break
        if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) > MOST_MS:
            allowed = f"a line is a millisecond, 0 to {MOST_MS}"
            raise UnitError(f"trace {name}, line {number}: {text[:20]!r}: {allowed}")
        time = int(text)
        if time < len(counts) - 1:
            order = f"{time} ms follows {len(counts) - 1} ms"
            raise UnitError(f"trace {name}, line {number}: {order}; times must not go back")
        counts += [0] * (time + 1 - len(counts))
        counts[time] += 1
        if counts[time] > MOST_AT_ONCE:
            most = f"at most {MOST_AT_ONCE} opportunities in a millisecond"
            raise UnitError(f"trace {name}, line {number}: {most} ({time} ms has more)")
    if len(counts) < 2:
        raise UnitError(f"trace {name}: has no opportunity after 0 ms")
    # The last millisecond is the first of the next round, as mahimahi has it.
    counts[0] += counts.pop()
    if counts[0] > MOST_AT_ONCE:
        most = f"at most {MOST_AT_ONCE} opportunities in a millisecond"
        raise UnitError(f"trace {name}: {most}; the first and the last, which are one, have more")
    return _checked(name, "".join(_DIGITS[count] for count in counts))


def _checked(name: str, digits: str) -> Trace:
    if set(name) & set(",:{}"):
        raise UnitError(f"trace {name}: a file's name has none of , : {{ }} here; rename it")
    if not re.fullmatch(r"[0-9a-z]+", digits) or not digits.strip("0"):
        raise UnitError(f"trace {name}: opportunities are digits 0 to 9 and a to z, not all 0")
    if len(digits) > MOST_MS:
        raise UnitError(f"trace {name}: has {len(digits)} ms; at most {MOST_MS}")
    return Trace(name, digits)


def _with_schedule(one: dict[str, Any], *others: dict[str, Any]) -> WithJsonSchema:
    times = {
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"pattern": DURATION.pattern},
        "additionalProperties": one,
    }
    return WithJsonSchema({"anyOf": [one, _PAIRS, *others, times]})


#: A schedule or a trace as text, which the value of an axis is.
_PAIRS: dict[str, Any] = {
    "type": "string",
    "pattern": ":",
    "examples": ["0 s: 20 Mbit, 10 s: 2 Mbit"],
}
_TRACES: dict[str, Any] = {
    "type": "object",
    "properties": {_TRACE: {"type": "string"}, "opportunities": {"type": "string"}},
    "required": [_TRACE],
    "additionalProperties": False,
}
#: bit/s, a schedule of it, or a trace.
LinkRate = Annotated[
    int | Schedule[int] | Trace,
    PlainValidator(parse_link_rate),
    PlainSerializer(_writer(format_rate)),
    _with_schedule(RATE.json_schema, _TRACES),
    RATE,
]
#: Seconds, or a schedule of them.
Delay = Annotated[
    float | Schedule[float],
    PlainValidator(_parser(parse_duration)),
    PlainSerializer(_writer(format_duration)),
    _with_schedule(DURATION.json_schema),
    DURATION,
]
#: 0 to 1, or a schedule of it.
Share = Annotated[
    float | Schedule[float],
    PlainValidator(_parser(parse_probability)),
    PlainSerializer(_writer(lambda value: value)),
    _with_schedule({"type": "number", "minimum": 0, "maximum": 1}),
]
