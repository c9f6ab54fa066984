"""A calibration: what is searched for in experiments, and held against what numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from tcpf_lab.base.errors import RequestError
from tcpf_lab.base.units import DURATION, Quantity
from tcpf_lab.spec.axis import SCALAR, Value, measured, meet, path_of, plain, shown, written
from tcpf_lab.spec.model import NAME, PATTERNS, Name, Title
from tcpf_lab.spec.words import LISTED, ONE_OR_LISTED, KeyPath, SpecModel, unknown

#: A drawn number is kept to so many significant digits: more would tell runs apart that are alike.
_DIGITS = 4
#: Fewer levels leave nothing to choose, more leave no points for each.
_FEWEST_LEVELS, _MOST_LEVELS = 2, 20
_MILLISECOND = Fraction(1, 1000)


def _levels(given: Any) -> Any:
    """Take a list of levels as levels that set nothing by themselves."""
    if not isinstance(given, list):
        return given
    names = [shown(plain(level)) for level in given]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"the level {twice} is listed twice")
    return dict.fromkeys(names, ())


class Unknown(SpecModel):
    """An unpublished parameter: a number in a range, or one of several levels.

    A number has the unit of `from` and four significant digits; a duration is rounded to
    milliseconds, a size to bytes, unless `round` is given.
    """

    paths: Annotated[tuple[str, ...], ONE_OR_LISTED] = Field(default=(), alias="set")
    """Key that gets the value, as for `--set`, or a list of keys that all get it."""
    times: str | None = None
    """Key whose value in the unchanged experiment multiplies the number: a rule that carries over
    to experiments with other values."""
    low: str | int | float | None = Field(default=None, alias="from")
    """Minimum of a number."""
    high: str | int | float | None = Field(default=None, alias="to")
    """Maximum of a number."""
    scale: Literal["linear", "log"] = "linear"
    """Spacing of values between the two."""
    integer: bool = False
    """Only whole numbers."""
    step: str | int | float | None = Field(default=None, alias="round")
    """Only whole multiples of this."""
    levels: Annotated[dict[str, Annotated[tuple[str, ...], LISTED]], BeforeValidator(_levels)] = (
        Field(default={})
    )
    """Instead of a number: a list of values for `set`, or a mapping of names to lists of
    `PATH=VALUE`, where a level changes several keys."""
    default: str | int | float | bool | None = None
    """Uncalibrated value. Default: the experiments'."""

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
        mapping["anyOf"] = [{"type": "array", "items": SCALAR, "minItems": 2}, kind]
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
    def _ends(self) -> tuple[Fraction, Fraction]:
        assert self.low is not None
        assert self.high is not None
        return measured(self.low)[0], measured(self.high)[0]

    @property
    def ends(self) -> tuple[float, float]:
        """Least and greatest value in base units, of a number."""
        low, high = self._ends
        return float(low), float(high)

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
        low, high = self._ends
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
        low, high = self._ends
        return round(high / grid) - round(low / grid) + 1

    def why_not(self, number: Fraction) -> str | None:
        """Say why a number in base units is none of the values; None if it is one."""
        low, high = self._ends
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


def _popped(mapping: dict[str, Any], key: str) -> dict[str, Any]:
    return {key: mapping.pop(key)} if key in mapping else {}


def scalar(text: str) -> Value:
    """Read a value as it is set: a number, or text with a unit."""
    try:
        return float(text)
    except ValueError:
        return text


#: Metrics of the published tables.
METRICS = ("timeouts", "loss_percent", "goodput_bytes_per_s", "goodput_cov")
#: Letters of a point's id, which stands behind the names in its experiments' name.
ID_LENGTH = 8
#: Columns of a table of points that no unknown has, and what its place in the unit interval is
#: called by: these words stand before its name.
ID, ROUND, UNIT = "id", "round", "unit of "
#: What `only` restricts. Seeds have keys of their own, and a matrix with axes is refused.
_RESTRICTED = ("case", "flows")
#: An emulator is not fitted to fewer points.
FEWEST_POINTS = 4
_PER_CENT = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)\s*%", flags=re.ASCII)


def _share(value: Any) -> float:
    found = _PER_CENT.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        shown = repr(value) if isinstance(value, str | int | float) else "this"
        raise ValueError(f"{shown} is not a percentage; write a number and %, as 25 %")
    return float(found[1]) / 100


#: A share, written in per cent.
Share = Annotated[
    float,
    BeforeValidator(_share),
    Field(gt=0),
    WithJsonSchema({"type": "string", "pattern": r"^\s*[0-9]{1,6}(\.[0-9]{1,6})?\s*%\s*$"}),
]
Only = str | int | float | bool


def _joined(wanted: Any) -> Any:
    """Write a list as `--only` takes it."""
    if wanted == []:
        raise ValueError("name one at least")
    scalars = isinstance(wanted, list) and all(isinstance(item, Only) for item in wanted)
    return ",".join(str(item) for item in wanted) if scalars else wanted


class Design(SpecModel):
    """Points that are run first; the first one is the uncalibrated experiment."""

    points: int = Field(default=64, ge=FEWEST_POINTS, le=10_000)
    """Number of points; they fill the ranges."""
    seed: int = Field(default=1, ge=0, le=2**31 - 1)
    """Random seed of the search."""


class Search(SpecModel):
    """Points that an emulator of the runs proposes next."""

    rounds: int = Field(default=6, ge=0, le=1000)
    """Number of rounds."""
    batch: int = Field(default=12, ge=1, le=1000)
    """Points per round."""


class Check(SpecModel):
    """Runs after the search, of the experiments of `fit` and `test`."""

    seeds: int = Field(default=5, ge=2)
    """Seeds of each setting, the uncalibrated one included; more than `seeds`."""
    settings: int = Field(default=8, ge=2, le=100)
    """Maximum number of settings: the best, the uncalibrated one, and others that the published
    numbers do not exclude."""


class Calibration(SpecModel):
    """A file that names experiments, and unknown parameters to fit to published numbers."""

    noun: ClassVar[str] = "a calibration"

    name: Name
    """Directory of the results: letters, digits, `_`, `+` and `-`, at most 60."""
    title: Title = ""
    """One line for the report."""
    fit: Annotated[tuple[str, ...], ONE_OR_LISTED] = Field(min_length=1)
    """Experiments whose published numbers the search uses: files beside this one, or names as
    `tcpf-lab run` takes them."""
    test: Annotated[tuple[str, ...], ONE_OR_LISTED] = ()
    """Held-out experiments: they only judge the result."""
    seen: dict[str, str] = Field(default={})
    """Cases of `test` whose published numbers were known when the unknowns were chosen, each with a
    sentence on what was taken from them; held-out errors are given without them too."""
    base: Annotated[tuple[str, ...], LISTED] = ()
    """`PATH=VALUE` each, applied to every experiment first: the uncalibrated setting, where it
    differs from the experiment."""
    only: dict[str, Annotated[Only, BeforeValidator(_joined)]] = Field(
        default={},
        json_schema_extra={
            "propertyNames": {"enum": list(_RESTRICTED)},
            "additionalProperties": {
                "anyOf": [SCALAR, {"type": "array", "items": SCALAR, "minItems": 1}]
            },
        },
    )
    """Restricts `case` or `flows` of every experiment to one value or a list."""
    published: str | None = Field(default=None, min_length=1)
    """CSV file beside this one with the published numbers: columns `experiment`, `case`, `flows`,
    and one for each metric. Default: the published tables, by the experiments' `reference`."""
    seeds: int = Field(default=1, ge=1)
    """Seeds of each point: the first N."""
    design: Design = Design()
    """Points that are run first."""
    search: Search = Search()
    """Points that follow."""
    check_: Check = Field(default=Check(), alias="check")
    """Runs after the search."""
    tolerance: dict[str, Share] = Field(min_length=1)
    """Metrics of the fit, and the error that the right setting may have beside noise, as `timeouts:
    25 %`."""
    independent: int | None = Field(default=None, ge=1)
    """Number of published values that the intervals take as independent; fewer make them wider.
    Default: all."""
    unknowns: dict[str, Unknown] = Field(min_length=1)
    """Unpublished parameters by a name in words: not `id` or `round`, nor one that begins with
    `unit of`, which are columns of the table of points."""

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield unknown words, experiments named twice, unknowns that set the same."""
        seen: set[str] = set()
        for key, names in (("fit", self.fit), ("test", self.test)):
            for index, name in enumerate(names):
                if name in seen:
                    yield (key, index), f"'{name}' is named twice"
                seen.add(name)
        for key in self.only:
            if key not in _RESTRICTED:
                yield ("only", key), unknown("unknown key", key, _RESTRICTED)
        if self.check_.seeds <= self.seeds:
            message = f"must be below check.seeds ({self.check_.seeds}): new ones judge settings"
            yield ("seeds",), message
        for metric in self.tolerance:
            if metric not in METRICS:
                yield ("tolerance", metric), unknown("unknown metric", metric, METRICS)
        yield from _unknown_problems(self.unknowns)


def _unknown_problems(unknowns: Mapping[str, Unknown]) -> Iterator[tuple[KeyPath, str]]:
    for name, one in unknowns.items():
        sentence = _misnamed(name)
        if sentence:
            yield ("unknowns", name), sentence
        for key in one.paths:
            if not well_formed(key):
                yield ("unknowns", name, "set"), f"'{key}' is no key: steps joined by dots"
        for level, lines in one.levels.items():
            for line in lines:
                if "=" not in line:
                    yield ("unknowns", name, "levels", level), f"'{line}': write PATH=VALUE"
    for (name, one), (other, two) in combinations(unknowns.items(), 2):
        pairs = ((a, b) for a in one.keys for b in two.keys)
        both = next((b for a, b in pairs if meet(path_of(a), path_of(b))), None)
        if both is not None:
            yield ("unknowns", other), f"sets {both}, which '{name}' sets too"


def _misnamed(name: str) -> str | None:
    """Say why an unknown cannot be called that."""
    if not re.fullmatch(r"[^\x00-\x1f\x7f-\x9f,\"]{1,60}", name):
        return "a name is 1 to 60 characters without commas and quotation marks"
    if name in (ID, ROUND) or name.startswith(UNIT):
        return (
            f"'{name}' is a column of the table of points; a name is other than {ID} and {ROUND}, "
            f"and does not begin with '{UNIT.rstrip()}'"
        )
    return None


def name_problem(calibration: str, experiment: str) -> str | None:
    """Say whether the experiments of points would have a name that is not allowed."""
    name = f"{calibration}-{experiment}-{'0' * ID_LENGTH}"
    if re.fullmatch(NAME, name):
        return None
    return f"its points would be called '{name}'; a name must be {PATTERNS[NAME]}"


@dataclass(frozen=True)
class Variant:
    """In what a search differs from that of its file.

    Parameters
    ----------
    without : str, optional
        An experiment of `fit` that is held out instead.
    hold : tuple of str
        Unknowns that are held at a value, ``NAME=VALUE`` each.
    permuted : int, optional
        Seed by which the published rows are shuffled among the cells: what a search finds in
        numbers that mean nothing.
    """

    without: str | None = None
    hold: tuple[str, ...] = ()
    permuted: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What its results are told by from those of the file's search and of other variants."""
        parts = [f"without-{self.without}"] if self.without else []
        parts += sorted(self.hold)
        parts += [f"permuted-{self.permuted}"] if self.permuted is not None else []
        return tuple(re.sub(r"[^A-Za-z0-9_.=]+", "-", part) for part in parts)

    def __str__(self) -> str:
        """Say it in words, empty of the file's own search."""
        parts = [f"without {self.without}"] if self.without else []
        parts += sorted(self.hold)
        parts += [f"published rows permuted, seed {self.permuted}"] * (self.permuted is not None)
        return ", ".join(parts)

    @property
    def options(self) -> tuple[str, ...]:
        """Give the options of ``tcpf-lab calibrate`` that mean it."""
        words = ["--without", self.without] if self.without else []
        for one in self.hold:
            words += ["--hold", one]
        words += ["--permuted", str(self.permuted)] if self.permuted is not None else []
        return tuple(words)

    def of(self, calibration: Calibration) -> tuple[Calibration, Mapping[str, tuple[Unknown, str]]]:
        """Give the calibration of the variant, and what is held in it.

        Raises
        ------
        RequestError
            If it names an experiment, an unknown or a value that the file has not got, or leaves
            nothing to fit or to search for.
        """
        changed = self._left_out(calibration)
        held: dict[str, tuple[Unknown, str]] = {}
        for text in self.hold:
            name, value = _held(calibration.unknowns, text)
            if name in held:
                raise RequestError(f"{name} is held already", where=f"--hold {text}")
            held[name] = value
        unknowns = {n: one for n, one in calibration.unknowns.items() if n not in held}
        if not unknowns:
            raise RequestError("holds every unknown: nothing is left to search", where="--hold")
        return changed.model_copy(update={"unknowns": unknowns}), held

    def _left_out(self, calibration: Calibration) -> Calibration:
        if self.without is None:
            return calibration
        if self.without not in calibration.fit:
            message = unknown("is not in `fit`", self.without, calibration.fit)
            raise RequestError(message, where=f"--without {self.without}")
        left = tuple(name for name in calibration.fit if name != self.without)
        if not left:
            raise RequestError("leaves nothing to fit", where=f"--without {self.without}")
        test = (*calibration.test, self.without)
        return calibration.model_copy(update={"fit": left, "test": test})


def _held(unknowns: Mapping[str, Unknown], text: str) -> tuple[str, tuple[Unknown, str]]:
    name, equals, value = text.partition("=")
    if not equals:
        raise RequestError("is not NAME=VALUE", where=f"--hold {text}")
    if name not in unknowns:
        raise RequestError(unknown("unknown unknown", name, unknowns), where=f"--hold {text}")
    one = unknowns[name]
    if one.levels:
        if value not in one.levels:
            raise RequestError(unknown("unknown level", value, one.levels), where=f"--hold {text}")
        return name, (one, value)
    try:
        number = one.number(value)
        problem = one.why_not(measured(scalar(value))[0])
    except ValueError as error:
        raise RequestError(str(error), where=f"--hold {text}") from None
    if problem:
        raise RequestError(problem, where=f"--hold {text}", hint=f"{one.low} to {one.high}")
    return name, (one, one.text(number))
