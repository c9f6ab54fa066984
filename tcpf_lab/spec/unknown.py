"""An unknown of a calibration: what it sets, and which values it may take."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from tcpf_lab.base.units import DURATION, Quantity
from tcpf_lab.spec.axis import path_of
from tcpf_lab.spec.values import Value, measured, plain, shown, written
from tcpf_lab.spec.words import KeyPath, RefusedError, SpecModel

#: A drawn number is kept to so many significant digits: more would tell runs apart that are alike.
_DIGITS = 4
#: Fewer levels leave nothing to choose, more leave no points for each.
_FEWEST_LEVELS, _MOST_LEVELS = 2, 20
_MILLISECOND = Fraction(1, 1000)


class Unknown(SpecModel):
    """Something that was not published: a number between two ends, or one of several levels.

    A number is written into the experiments in the unit of `from`, to four significant digits; a
    duration to the millisecond, a size to the byte, unless `round` says otherwise.
    """

    paths: tuple[str, ...] = Field(default=(), alias="set")
    """Key that gets the value, as for `--set`, or a list of keys that all get it."""
    times: str | None = None
    """Key whose value in the unchanged experiment the number is multiplied with: a rule, which
    carries over to experiments with other values there."""
    low: str | int | float | None = Field(default=None, alias="from")
    """Least value of a number."""
    high: str | int | float | None = Field(default=None, alias="to")
    """Greatest value of a number."""
    scale: Literal["linear", "log"] = "linear"
    """How values are spread between the two."""
    integer: bool = False
    """Whether only whole numbers are drawn."""
    step: str | int | float | None = Field(default=None, alias="round")
    """Values are whole multiples of this."""
    levels: dict[str, tuple[str, ...]] = Field(default={})
    """Instead of a number: a list of values for what `set` names; or a mapping of names to lists of
    `PATH=VALUE`, where a level changes several things."""
    default: str | int | float | bool | None = None
    """The uncalibrated value; left out: the one that the experiments have."""

    @model_validator(mode="before")
    @classmethod
    def _in_one_form(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        changed = dict(value)
        if isinstance(changed.get("set"), str):
            changed["set"] = (changed["set"],)
        elif isinstance(changed.get("set"), list):
            changed["set"] = tuple(changed["set"])
        levels = changed.get("levels")
        if isinstance(levels, list):
            changed["levels"] = _listed(levels)
        elif isinstance(levels, dict):
            changed["levels"] = {
                name: tuple(settings) if isinstance(settings, list) else settings
                for name, settings in levels.items()
            }
        return changed

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe the shorter forms too."""
        made = handler.resolve_ref_schema(handler(schema))
        described = made["properties"]
        text, mapping = described["set"].pop("items"), described["levels"]
        described["set"].pop("type")
        described["set"]["anyOf"] = [text, {"type": "array", "items": text}]
        kind = {"type": mapping.pop("type"), **_popped(mapping, "additionalProperties")}
        scalar = {"type": ["string", "number", "boolean"]}
        mapping["anyOf"] = [{"type": "array", "items": scalar, "minItems": 2}, kind]
        return made

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield what is neither a number nor levels, and ends that are none."""
        ends = self.low is not None, self.high is not None
        if bool(self.levels) == any(ends):
            yield (), "needs either from and to, or levels"
        elif self.levels:
            yield from self._level_problems()
        elif not all(ends):
            yield (), "needs both from and to"
        else:
            yield from self._number_problems()

    def _level_problems(self) -> Iterator[tuple[KeyPath, str]]:
        for key, given in (("times", self.times), ("round", self.step)):
            if given is not None:
                yield (key,), "is for a number between from and to"
        if self.integer:
            yield ("integer",), "is for a number between from and to"
        if not _FEWEST_LEVELS <= len(self.levels) <= _MOST_LEVELS:
            yield ("levels",), f"must be {_FEWEST_LEVELS} to {_MOST_LEVELS} different ones"
        changing = any(self.levels.values())
        if self.paths and changing:
            yield ("set",), "goes with a list of levels; these say themselves what they set"
        if not self.paths and not changing:
            yield (), "sets nothing: name a key with set, or give each level what it sets"
        if self.default is not None and shown(plain(self.default)) not in self.levels:
            yield ("default",), f"must be one of the levels: {', '.join(self.levels)}"

    def _number_problems(self) -> Iterator[tuple[KeyPath, str]]:
        if not self.paths:
            yield (), "sets nothing: name a key with set"
        found = {}
        for key, value in self._numbers().items():
            try:
                found[key] = measured(value)
            except ValueError as error:
                yield (key,), str(error)
        nouns = {quantity.noun if quantity else "plain number" for _, quantity in found.values()}
        if len(nouns) > 1:
            yield (), f"mixes {' and '.join(sorted(nouns))}"
        elif len(found) == len(self._numbers()):
            yield from self._range_problems({key: number for key, (number, _) in found.items()})

    def _numbers(self) -> dict[str, Any]:
        given = {"from": self.low, "to": self.high, "round": self.step, "default": self.default}
        return {key: value for key, value in given.items() if value is not None}

    def _range_problems(self, number: dict[str, Fraction]) -> Iterator[tuple[KeyPath, str]]:
        low, high = number["from"], number["to"]
        if not low < high:
            yield ("to",), "must be above from"
        elif self.scale == "log" and low <= 0:
            yield ("from",), "must be above 0 with scale: log"
        elif not low <= number.get("default", low) <= high:
            yield ("default",), "must lie between from and to"
        if number.get("round", Fraction(1)) <= 0:
            yield ("round",), "must be above 0"
        if self.times is not None and self.quantity is not None:
            yield ("from",), "multiplies what times names: a number without a unit"
        if self.integer and any(number[key].denominator != 1 for key in ("from", "to")):
            yield ("integer",), "needs whole numbers in from and to"

    @property
    def ends(self) -> tuple[float, float]:
        """Least and greatest value in base units, of a number."""
        assert self.low is not None
        assert self.high is not None
        return float(measured(self.low)[0]), float(measured(self.high)[0])

    @property
    def quantity(self) -> Quantity | None:
        """What kind of unit a number has; None for a plain one, or for levels."""
        return measured(self.low)[1] if self.low is not None else None

    @property
    def choices(self) -> tuple[str, ...]:
        """Give the levels, or both ends of the range, as `text` writes them."""
        return tuple(self.levels) or tuple(self.text(end) for end in self.ends)

    def text(self, number: float) -> str:
        """Write a number of the range as the value that is set: rounded, with its unit."""
        low, high = (measured(end)[0] for end in (self.low, self.high) if end is not None)
        value = min(max(self._rounded(number), low), high)
        return shown(written(value, self.quantity))

    @property
    def grid(self) -> Fraction | None:
        """What the values of a number are whole multiples of, in base units; None of nothing."""
        if self.step is not None:
            return measured(self.step)[0]
        if self.integer:
            return Fraction(1)
        return None if self.quantity is None else grain(self.quantity)

    @property
    def most(self) -> float:
        """How many values there are at most; infinitely many of a number without a grid."""
        grid = self.grid
        if self.levels:
            return len(self.levels)
        if grid is None:
            return math.inf
        low, high = (measured(end)[0] for end in (self.low, self.high) if end is not None)
        return round(high / grid) - round(low / grid) + 1

    def why_not(self, number: Fraction) -> str | None:
        """Say why a number in base units is none of the values; None if it is one."""
        low, high = (measured(end)[0] for end in (self.low, self.high) if end is not None)
        grid = self.grid
        if not low <= number <= high:
            return "is not in the range"
        if measured(scalar(self.text(float(number))))[0] == number:
            return None
        if grid is not None and number % grid:
            return f"is no multiple of {shown(written(grid, self.quantity))}"
        return f"has more than {_DIGITS} significant digits"

    def _rounded(self, number: float) -> Fraction:
        value, grid = significant(number), self.grid
        return value if grid is None else round(value / grid) * grid

    def number(self, text: str) -> float:
        """Read a number that `text` has written.

        Raises
        ------
        ValueError
            If it is none, or has another unit.
        """
        number, quantity = measured(scalar(text))
        if quantity is not self.quantity:
            raise ValueError(f"{text!r} has another unit than the range")
        return float(number)

    def lines(self, value: str) -> tuple[str, ...]:
        """Give what a value sets, ``PATH=VALUE`` each; a factor is not yet worked out."""
        if self.levels.get(value):
            return self.levels[value]
        return tuple(f"{path}={value}" for path in self.paths)

    @property
    def keys(self) -> tuple[str, ...]:
        """Give every key that it sets."""
        named = [line.partition("=")[0] for lines in self.levels.values() for line in lines]
        return tuple(dict.fromkeys((*self.paths, *named)))


def significant(number: float) -> Fraction:
    """Round to the significant digits that are kept of a drawn number.

    Examples
    --------
    >>> float(significant(0.4373921)), float(significant(1234567.0))
    (0.4374, 1235000.0)
    """
    return Fraction(Decimal(f"{number:.{_DIGITS}g}"))


def grain(quantity: Quantity) -> Fraction:
    """Give what values of a kind are whole multiples of: milliseconds, bytes, bits per second."""
    return _MILLISECOND if quantity is DURATION else quantity.resolution


def well_formed(key: str) -> bool:
    """Tell whether a key is steps joined by dots."""
    return "=" not in key and all(path_of(key))


def _listed(levels: list[Any]) -> dict[str, tuple[str, ...]]:
    names = [shown(plain(level)) for level in levels]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise RefusedError(((("levels",), f"the level {twice} is listed twice"),))
    return dict.fromkeys(names, ())


def _popped(mapping: dict[str, Any], key: str) -> dict[str, Any]:
    return {key: mapping.pop(key)} if key in mapping else {}


def scalar(text: str) -> Value:
    """Read a value as it is set: a number, or text with a unit."""
    try:
        return float(text)
    except ValueError:
        return text
