"""Rates, sizes, durations and probabilities: read from text with a unit, written back exactly.

Decimal arithmetic throughout: ``"0.1 s"`` is the float 0.1 and ``"1.5 Gbit/s"`` is 1500000000, with
no rounding on the way.  ``kB`` is 1000 bytes and ``KiB`` 1024; ``tc`` would read ``kb`` as 1024
bytes and ``kbps`` as bytes per second, which is why neither is accepted here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from tcpf_lab.base.errors import SpecError

_NUMBER = r"[0-9]{1,15}(?:\.[0-9]{1,15})?"


class UnitError(SpecError, ValueError):
    """A value without a unit, with an unknown one, or out of range."""


@dataclass(frozen=True, eq=False)  # hashable whatever it holds: annotations are hashed
class Quantity:
    """How one kind of value is written.

    Parameters
    ----------
    noun : str
        Its name in messages.
    units : mapping of str to Fraction
        Every accepted unit and its size in the base unit; the base unit is the one of size 1.
    example : str
        A well-formed value, quoted in messages.
    resolution : Fraction
        Values are whole multiples of this, in base units.
    smallest, largest : str
        Inclusive bounds, as text.
    any_case : bool
        Whether ``mbit`` and ``Mbit`` mean the same.
    suffix : str
        What may follow the unit without changing its meaning.
    """

    noun: str
    units: Mapping[str, Fraction]
    example: str
    smallest: str
    largest: str
    resolution: Fraction = Fraction(1)
    any_case: bool = False
    suffix: str = ""

    @property
    def allowed(self) -> str:
        """The units, as a message lists them."""
        return ", ".join(self.units)

    @property
    def pattern(self) -> str:
        """Regular expression (ECMA-262) of the accepted forms, for the JSON Schema."""
        units = "|".join(self._spelling(unit) for unit in self.units)
        suffix = f"(?:{re.escape(self.suffix)})?" if self.suffix else ""
        return rf"^\s*{_NUMBER}\s*(?:{units}){suffix}\s*$"

    @property
    def json_schema(self) -> dict[str, Any]:
        """What a value is as JSON Schema."""
        return {"type": "string", "pattern": self.pattern, "examples": [self.example]}

    def _spelling(self, unit: str) -> str:
        if not self.any_case:
            return unit
        return "".join(f"[{letter.lower()}{letter.upper()}]" for letter in unit)

    def factor(self, unit: str) -> Fraction | None:
        """Size of ``unit`` in base units, or None if there is no such unit."""
        plain = unit.removesuffix(self.suffix) if self.suffix else unit
        if not self.any_case:
            return self.units.get(plain)
        return {name.lower(): size for name, size in self.units.items()}.get(plain.lower())


RATE = Quantity(
    noun="rate",
    units={
        unit: Fraction(10**n) for unit, n in (("bit", 0), ("kbit", 3), ("Mbit", 6), ("Gbit", 9))
    },
    example="10 Mbit",
    smallest="1 bit",
    largest="1000 Gbit",
    any_case=True,
    suffix="/s",
)
SIZE = Quantity(
    noun="size",
    units={
        "B": Fraction(1),
        "kB": Fraction(10**3),
        "MB": Fraction(10**6),
        "GB": Fraction(10**9),
        "KiB": Fraction(2**10),
        "MiB": Fraction(2**20),
        "GiB": Fraction(2**30),
    },
    example="500 kB",
    smallest="1 B",
    largest="4294967295 B",  # tc hands sizes to the kernel in 32 bits
)
DURATION = Quantity(
    noun="duration",
    units={
        "us": Fraction(1, 10**6),
        "ms": Fraction(1, 10**3),
        "s": Fraction(1),
        "min": Fraction(60),
        "h": Fraction(3600),
    },
    example="200 ms",
    smallest="0 s",
    largest="1000000 s",
    resolution=Fraction(1, 10**9),
)


def parse_rate(value: object) -> int:
    """Read a rate such as ``"100 Mbit"``, ``"10mbit"`` or ``"1.5 Gbit/s"``, in bit/s.

    Raises
    ------
    UnitError
        If it is no text of that form, the unit is unknown or missing, or it is out of range.
    """
    return int(_parse(value, RATE))


def parse_size(value: object, quantity: Quantity = SIZE) -> int:
    """Read a size such as ``"500 kB"`` (500 000) or ``"64 KiB"`` (65 536), in bytes.

    Raises
    ------
    UnitError
        As `parse_rate`.
    """
    return int(_parse(value, quantity))


def parse_duration(value: object) -> float:
    """Read a duration such as ``"200 ms"`` or ``"1 min"``, in seconds, to the nanosecond.

    Raises
    ------
    UnitError
        As `parse_rate`.
    """
    return float(_parse(value, DURATION))


def parse_probability(value: object) -> float:
    """Read a probability: a number from 0 to 1, or the same as text.

    Raises
    ------
    UnitError
        If it is not a number or not from 0 to 1.
    """
    number: object = value
    if isinstance(value, str) and re.fullmatch(r"[0-9.]+(?:[eE]-?[0-9]+)?", value):
        try:
            number = float(value)
        except ValueError:
            number = None
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= 1:
        raise UnitError(
            f"{_shown(value)} is not a probability; write a number from 0 to 1, such as 0.25"
        )
    return float(number)


def format_rate(value: int) -> str:
    """Write a rate in bit/s as text; `parse_rate` gives back the same number."""
    return _format(Fraction(value), RATE, ("Gbit", "Mbit", "kbit", "bit"))


def format_size(value: int) -> str:
    """Write a size in bytes as text (decimal units); `parse_size` gives back the same number."""
    return _format(Fraction(value), SIZE, ("GB", "MB", "kB", "B"))


def format_duration(value: float) -> str:
    """Write a duration in seconds as text; `parse_duration` gives back the same number.

    A sum of two may differ from a whole number of nanoseconds by what a float cannot hold.

    Examples
    --------
    >>> format_duration(0.1 + 0.02)
    '120 ms'
    """
    exact = Fraction(repr(float(value)))
    whole = round(exact / DURATION.resolution) * DURATION.resolution
    near = math.isclose(whole, exact, rel_tol=1e-14)
    return _format(whole if near else exact, DURATION, ("s", "ms", "us"))


def format_probability(value: float) -> str:
    """Write a probability without exponent; `parse_probability` gives back the same number."""
    return f"{Decimal(repr(float(value))):f}"


def _parse(value: object, quantity: Quantity) -> Fraction:
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise UnitError(f"{_shown(value)} is not a {quantity.noun}; {_advice(quantity)}")
    match = re.fullmatch(rf"({_NUMBER})\s*(\S*)", value.strip(), flags=re.ASCII)
    if match is None:
        raise UnitError(f"{_shown(value)} is not a {quantity.noun}; {_advice(quantity)}")
    number, unit = match.groups()
    if not unit:
        raise UnitError(f"{number} has no unit; {_advice(quantity)}")
    factor = quantity.factor(unit)
    if factor is None:
        raise UnitError(f"unknown unit {_shown(unit)}; {_advice(quantity)}")
    return _checked(Fraction(number) * factor, value.strip(), quantity)


def _checked(result: Fraction, text: str, quantity: Quantity) -> Fraction:
    if (result / quantity.resolution).denominator != 1:
        grain = "nanoseconds" if quantity is DURATION else f"{_base(quantity)}s"
        raise UnitError(f"{_shown(text)} is not a whole number of {grain.replace('Bs', 'bytes')}")
    if not _bound(quantity.smallest, quantity) <= result <= _bound(quantity.largest, quantity):
        raise UnitError(
            f"{_shown(text)} is out of range; "
            f"a {quantity.noun} must be from {quantity.smallest} to {quantity.largest}"
        )
    return result


def _bound(text: str, quantity: Quantity) -> Fraction:
    number, unit = text.split()
    return Fraction(number) * quantity.units[unit]


def _base(quantity: Quantity) -> str:
    return next(unit for unit, size in quantity.units.items() if size == 1)


def _advice(quantity: Quantity) -> str:
    return f"write a number and a unit, such as '{quantity.example}' (units: {quantity.allowed})"


def _shown(value: Any) -> str:
    if value is None:
        return "an empty value"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = repr(value)
    return text if len(text) <= 42 else f"{text[:36]}...'"


def _format(value: Fraction, quantity: Quantity, units: tuple[str, ...]) -> str:
    """Use the largest unit in which the value is at least 1 and has at most three decimals."""
    for unit in units:
        thousandths = value / quantity.units[unit] * 1000
        if thousandths.denominator == 1 and (thousandths >= 1000 or unit == units[-1]):
            return f"{_decimal(int(thousandths))} {unit}"
        if value == 0:
            return f"0 {unit}"
    raise UnitError(f"{float(value)!r} {_base(quantity)} cannot be written as a {quantity.noun}")


def _decimal(thousandths: int) -> str:
    whole, rest = divmod(thousandths, 1000)
    return f"{whole}.{rest:03d}".rstrip("0").rstrip(".")


#: bit/s, as an int.
Rate = Annotated[
    int,
    BeforeValidator(parse_rate),
    PlainSerializer(format_rate),
    WithJsonSchema(RATE.json_schema),
    RATE,
]
#: bytes, as an int.
Size = Annotated[
    int,
    BeforeValidator(parse_size),
    PlainSerializer(format_size),
    WithJsonSchema(SIZE.json_schema),
    SIZE,
]
#: seconds, as a float.
Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration),
    WithJsonSchema(DURATION.json_schema),
    DURATION,
]
#: 0 to 1, as a float; a plain number in YAML.
Probability = Annotated[
    float,
    BeforeValidator(parse_probability),
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1}),
]
