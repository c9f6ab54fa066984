"""An axis of the matrix: a key of the experiment and its values.

Every value has one canonical form, so that ``0.1 MB`` and ``100 kB`` are one value wherever
values are compared, and part of one run id. Ranges are counted in exact fractions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pydantic.config import JsonDict

from tcpf_lab.base.units import (
    DURATION,
    RATE,
    SIZE,
    Quantity,
    format_duration,
    format_rate,
    format_size,
    parse_duration,
    parse_rate,
    parse_size,
)
from tcpf_lab.spec.words import KeyPath

#: Most values of one axis, and most combinations of all axes' values that one case may have.
MOST_VALUES = 1000
#: A value of an axis, as YAML has it.
Value = str | int | float | bool
#: The same in JSON Schema.
SCALAR: JsonDict = {"type": ["string", "number", "boolean"]}

_NUMBER = r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?"
_AMOUNT = re.compile(rf"({_NUMBER})\s*([A-Za-z/]*)", flags=re.ASCII)
_RANGE = re.compile(r"(.+?)\.\.(.+?)(?::(.+))?", flags=re.DOTALL)
_HOW = "write FIRST..LAST:STEP, such as 100 kB..300 kB:50 kB or 0.01..0.05:0.01, or a list"
_WRITTEN: tuple[tuple[Quantity, Callable[[str], str]], ...] = (
    (RATE, lambda text: format_rate(parse_rate(text))),
    (SIZE, lambda text: format_size(parse_size(text))),
    (DURATION, lambda text: format_duration(parse_duration(text))),
)


def spread(value: Any) -> Any:
    """Give the values that a file means: of a list, of a range, or the one there is.

    Raises
    ------
    ValueError
        If a range is malformed, does not go upwards, does not end at its last value, or has more
        than `MOST_VALUES` values; or a list has.
    """
    if isinstance(value, list | tuple):
        if len(value) > MOST_VALUES:
            raise ValueError(f"has {len(value)} values; an axis has at most {MOST_VALUES}")
        return tuple(value)
    return _range(value) if is_range(value) else (value,)


def is_range(value: Any) -> bool:
    """Tell whether a value is written as a range."""
    return isinstance(value, str) and ".." in value


def plain(value: Any) -> Value:
    """Return the canonical form of a value.

    Examples
    --------
    >>> plain("0.10 MB"), plain("10mbit/s"), plain(0.5), plain("cubic")
    ('100 kB', '10 Mbit', 0.5, 'cubic')

    Raises
    ------
    ValueError
        If it is no single value.
    """
    if isinstance(value, bool | int | float):
        return value
    if not isinstance(value, str):
        what = "empty" if value is None else f"a {'mapping' if isinstance(value, dict) else 'list'}"
        raise ValueError(  # noqa: TRY004 - the model reports it as a wrong value
            f"a value of an axis is a number, a word, or true or false; this is {what}"
        )
    if is_range(value):
        raise ValueError(f"{value!r} is a range inside a list; write a range or a list, not both")
    found = _AMOUNT.fullmatch(value.strip())
    for quantity, written in _WRITTEN:
        if found and found[2] and quantity.factor(found[2]) is not None:
            return written(value)
    return value


def shown(value: Value) -> str:
    """Write a value as text.

    Examples
    --------
    >>> shown(True), shown(1e-05), shown(2.0), shown("100 kB")
    ('true', '0.00001', '2', '100 kB')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{Decimal(repr(value)):f}".removesuffix(".0")
    return str(value)


def word(text: str) -> str:
    """Return the text that a value of the command line is compared by.

    Examples
    --------
    >>> word("0.1 MB") == word(shown("100 kB")), word("0.050") == word("0.05")
    (True, True)
    """
    found = _AMOUNT.fullmatch(text.strip())
    if found and not found[2]:
        return shown(float(found[1])) if "." in found[1] else found[1]
    return shown(plain(text.strip())).replace(" ", "")


def measured(value: Any) -> tuple[Fraction, Quantity | None]:
    """Give the number that a value stands for, in base units, and the kind of its unit.

    Examples
    --------
    >>> measured("200 ms")[0], measured(3)
    (Fraction(1, 5), (Fraction(3, 1), None))

    Raises
    ------
    ValueError
        If it is no number, or its unit is unknown.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    found = _AMOUNT.fullmatch(shown(value).strip()) if number or isinstance(value, str) else None
    amount = _measured(found) if found else None
    if amount is None:
        shape = shown(value) if isinstance(value, Value) else "this"
        raise ValueError(f"{shape!r} is not a number; a value with a unit is such as '200 ms'")
    return amount


def written(number: Fraction, quantity: Quantity | None) -> Value:
    """Write a number in base units as a value; `measured` gives back the same number.

    Examples
    --------
    >>> written(Fraction(437, 1000), DURATION), written(Fraction(5, 2), None)
    ('437 ms', 2.5)
    """
    return _value(number, quantity, whole=number.denominator == 1)


def _measured(found: re.Match[str]) -> tuple[Fraction, Quantity | None] | None:
    """Number and kind of unit of an amount; None if the unit is unknown."""
    if not found[2]:
        return Fraction(found[1]), None
    for quantity, _ in _WRITTEN:
        factor = quantity.factor(found[2])
        if factor is not None:
            return Fraction(found[1]) * factor, quantity
    return None


def _range(text: str) -> tuple[Value, ...]:
    found = _RANGE.fullmatch(text.strip())
    parts = [part.strip() if part else None for part in found.groups()] if found else []
    if not parts or any(part and ".." in part for part in parts):
        raise ValueError(f"{text!r} is not a range; {_HOW}")
    first, last = _end(parts[0], text), _end(parts[1], text)
    if parts[2] is None and (first[1] or last[1] or "." in f"{parts[0]}{parts[1]}"):
        raise ValueError(f"{text!r} needs a step; {_HOW}")
    step = _end(parts[2] or "1", text)
    kinds = {quantity.noun if quantity else "plain number" for _, quantity in (first, last, step)}
    if len(kinds) > 1:
        raise ValueError(f"{text!r} mixes {' and '.join(sorted(kinds))}; {_HOW}")
    values = _counted(first[0], last[0], step[0], text)
    return tuple(
        _value(value, first[1], whole="." not in text.replace("..", "")) for value in values
    )


def _end(part: str | None, text: str) -> tuple[Fraction, Quantity | None]:
    found = _AMOUNT.fullmatch(part or "")
    measured = _measured(found) if found else None
    if measured is None:
        raise ValueError(f"{text!r} is not a range: {part!r} is not a number; {_HOW}")
    return measured


def _counted(first: Fraction, last: Fraction, step: Fraction, text: str) -> list[Fraction]:
    if step <= 0:
        raise ValueError(f"the step of {text!r} must be more than 0")
    if last < first:
        raise ValueError(f"{text!r} runs downwards; write the smaller value first")
    steps = (last - first) / step
    if steps.denominator != 1:
        below = first + int(steps) * step
        raise ValueError(
            f"the steps of {text!r} miss its last value; end the range at {_near(below, text)} "
            f"or {_near(below + step, text)}"
        )
    if steps >= MOST_VALUES:
        raise ValueError(f"{text!r} has {steps + 1} values; an axis has at most {MOST_VALUES}")
    return [first + step * index for index in range(int(steps) + 1)]


def _near(value: Fraction, text: str) -> str:
    """Write an end that a range should have had, in the unit of its first value."""
    return shown(_value(value, _end(text.partition("..")[0].strip(), text)[1], whole=False))


def _value(value: Fraction, quantity: Quantity | None, *, whole: bool) -> Value:
    exact = Decimal(value.numerator) / Decimal(value.denominator)
    if quantity is None:
        return int(value) if whole else float(exact)
    base = next(unit for unit, size in quantity.units.items() if size == 1)
    return plain(f"{exact:f} {base}")


#: Stands for every case in a key.
ANY = "*"
#: Sections of a case: a key that begins with one of them is meant for every case.
CASE_SECTIONS = ("queue", "marker", "background")
#: What a key can begin with, if it is to be an axis.
HEADS = ("topology", "tcp", "traffic", "cases", *CASE_SECTIONS)
#: The one key without a section that can be an axis.
KERNEL = "kernel"


@dataclass(frozen=True)
class Axis:
    """A key of the experiment, as the matrix has it, and its values in order."""

    written: str
    values: tuple[Value, ...]

    @property
    def path(self) -> KeyPath:
        """The steps to the value; ``*`` stands for every case."""
        return path_of(self.written)

    @property
    def key(self) -> str:
        """The key as a single case's run has it: without ``cases`` and the case's name."""
        return key_of(self.path)

    def touches(self, name: str, case: Mapping[str, Any]) -> bool:
        """Tell whether a case has the key: any has what belongs to no case.

        Parameters
        ----------
        name : str
            Of the case.
        case : mapping
            The case as plain data, defaults included.
        """
        if self.path[0] != "cases":
            return True
        if self.path[1] != ANY:
            return self.path[1] == name
        return has(case, self.path[2:])


def path_of(key: str) -> KeyPath:
    """Give the steps of a key; ``queue``, ``marker``, ``background``: those of every case.

    Examples
    --------
    >>> path_of("queue.max"), path_of("tcp.sack")
    (('cases', '*', 'queue', 'max'), ('tcp', 'sack'))
    """
    steps = tuple(step.strip() for step in key.split("."))
    return ("cases", ANY, *steps) if steps[0] in CASE_SECTIONS and len(steps) > 1 else steps


def key_of(path: KeyPath) -> str:
    """Give the short form of a key.

    Examples
    --------
    >>> key_of(("cases", "NoMark+RED", "queue", "max")), key_of(("tcp", "sack"))
    ('queue.max', 'tcp.sack')
    """
    return ".".join(map(str, path[2:] if path[0] == "cases" and len(path) > 2 else path))


def may_be_axis(path: KeyPath) -> bool:
    """Tell whether a path leads into a section that is measured under: not a name, not a case."""
    within = path[0] in HEADS and len(path) >= (4 if path[0] == "cases" else 2)
    return within or path == (KERNEL,)


def has(section: Any, path: KeyPath) -> bool:
    """Tell whether plain data has every key of a path."""
    for key in path:
        if not isinstance(section, dict) or key not in section:
            return False
        section = section[key]
    return True


def meet(one: KeyPath, other: KeyPath) -> bool:
    """Tell whether two paths lead to the same value, or one to a section with the other's.

    Examples
    --------
    >>> meet(path_of("queue.ewma"), path_of("cases.NoMark+FRED.queue"))
    True
    >>> meet(path_of("tcp.sack"), path_of("tcp.rto_min"))
    False
    """
    steps = enumerate(zip(one, other, strict=False))
    return all(a == b or (at == 1 and ANY in (a, b)) for at, (a, b) in steps)


def shared(one: KeyPath, other: KeyPath) -> int:
    """Give how many steps two key paths have in common, from the start."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((depth for depth, (a, b) in pairs if a != b), min(len(one), len(other)))
