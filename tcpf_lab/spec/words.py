"""Words of experiment files: base of every part, code points, values of ``tc``, suggestions."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from tcpf_lab.base.errors import RequestError
from tcpf_lab.base.units import format_probability


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _as_tuple_of_one(value: Any) -> Any:
    return (value,) if isinstance(value, str) else _as_tuple(value)


#: Annotations of a tuple: a file has a list there; or one word, which stands for a list of it.
LISTED, ONE_OR_LISTED = BeforeValidator(_as_tuple), BeforeValidator(_as_tuple_of_one)


def tc_value(value: int | float | str | bool) -> str:
    """Write a parameter as ``tc`` reads it: switches as on and off, fractions without exponent.

    Examples
    --------
    >>> [tc_value(value) for value in (True, 500_000, 1e-05, "red")]
    ['on', '500000', '0.00001', 'red']
    """
    if isinstance(value, bool):
        return "on" if value else "off"
    return format_probability(value) if isinstance(value, float) else str(value)


def tc_time(seconds: float) -> str:
    """Write a duration in whole microseconds, the finest that ``tc`` reads everywhere.

    Examples
    --------
    >>> tc_time(0.4)
    '400000us'
    """
    return f"{round(seconds * 1e6)}us"


def unknown(what: str, word: str, allowed: Iterable[str]) -> str:
    """Say that ``what`` is unknown, what is allowed, and which of it was probably meant.

    Examples
    --------
    >>> unknown("unknown key", "mim", ["min", "max"])
    "unknown key; allowed: min, max. Did you mean 'min'?"
    >>> unknown("unknown case 'x'", "x", ["A", "B"])
    "unknown case 'x'; allowed: A, B"
    """
    words = list(allowed)
    text = f"{what}; allowed: {', '.join(words)}"
    meant = closest(word, words)
    return f"{text}. Did you mean '{meant}'?" if meant is not None else text


def one_of(word: str, allowed: Collection[str], what: str, where: str = "") -> str:
    """Give a word of a request, if it is allowed.

    Raises
    ------
    RequestError
        If it is not; ``what`` says what it should have been: ``column``.
    """
    if word not in allowed:
        raise RequestError(unknown(f"unknown {what} '{word}'", word, allowed), where=where)
    return word


def closest(word: str, allowed: Iterable[str]) -> str | None:
    """Give the allowed word that ``word`` was probably meant to be, whatever its case."""
    folded = {candidate.lower(): candidate for candidate in reversed(list(allowed))}
    close = difflib.get_close_matches(word.lower(), list(folded), n=1)
    return folded[close[0]] if close else None


#: RFC 2474 (class selectors), RFC 2597 (assured forwarding), RFC 3246 (expedited forwarding).
NAMES: dict[str, int] = {
    **{f"CS{group}": 8 * group for group in range(8)},
    **{
        f"AF{group}{precedence}": 8 * group + 2 * precedence
        for group in range(1, 5)
        for precedence in range(1, 4)
    },
    "EF": 46,
}
_LARGEST = 63


def parse_dscp(value: Any) -> int:
    """Read a code point: a name such as ``AF11``, in any case, or a number from 0 to 63.

    Raises
    ------
    ValueError
        If it is neither.

    Examples
    --------
    >>> parse_dscp("af11"), parse_dscp(10)
    (10, 10)
    """
    if isinstance(value, str):
        if value.upper() not in NAMES:
            sentence = f"unknown code point {value!r}; a number from 0 to {_LARGEST}, or a name"
            raise ValueError(unknown(sentence, value.upper(), NAMES))
        return NAMES[value.upper()]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST:
        raise ValueError(f"must be a name such as AF11 or a number from 0 to {_LARGEST}")
    return value


def format_dscp(value: int) -> str | int:
    """Write a code point: its name if it has one."""
    return next((name for name, number in NAMES.items() if number == value), value)


#: A code point, as an int.
Dscp = Annotated[
    int,
    BeforeValidator(parse_dscp),
    PlainSerializer(format_dscp),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "examples": ["AF11"]},
                {"type": "integer", "minimum": 0, "maximum": _LARGEST},
            ]
        }
    ),
]
AF11, AF12 = NAMES["AF11"], NAMES["AF12"]


#: Keys and list positions that lead from a mapping to a value.
KeyPath = tuple[str | int, ...]


class RefusedError(ValueError):
    """Values that are fine each and wrong together; ``found`` holds (key path, sentence)."""

    def __init__(self, found: tuple[tuple[KeyPath, str], ...]) -> None:
        super().__init__("; ".join(sentence for _, sentence in found))
        self.found = found


class SpecModel(BaseModel):
    """A mapping of an experiment file: immutable, no unknown keys, no silent conversion.

    The text below a key is its description in the reference and the JSON Schema (`descriptions`).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    #: What messages call a file that this describes as a whole.
    noun: ClassVar[str] = "an experiment"

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield (key path, sentence) for every rule between keys that does not hold."""
        yield from ()

    def values(self) -> dict[str, Any]:
        """Give every key and its value in base units, in the model's order."""
        fields = type(self).model_fields.items()
        return {field.alias or name: getattr(self, name) for name, field in fields}

    @model_validator(mode="after")
    def _refuse_problems(self) -> Self:
        found = tuple(self.problems())
        if found:
            raise RefusedError(found)
        return self


def keys(model: type[SpecModel]) -> dict[str, FieldInfo]:
    """Give the keys of a mapping as a file writes them; a word of Python has another name here."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


@dataclass(frozen=True)
class OneOf:
    """Annotation: the key ``kind`` says which model of a registry describes the mapping.

    Parameters
    ----------
    kinds : mapping of str to SpecModel class
        The registry; one file per kind, one row per file.
    bare : bool
        Accept the word ``x`` for ``{kind: x}``, and write it so where nothing else is to be said.
    """

    kinds: Mapping[str, type[SpecModel]]
    bare: bool = False

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Build the union, tagged by ``kind``, of the registry's models."""
        union = core_schema.tagged_union_schema(
            choices={kind: handler.generate_schema(model) for kind, model in self.kinds.items()},
            discriminator="kind",
        )
        if not self.bare:
            return union
        return core_schema.no_info_before_validator_function(
            _spell_out,
            union,
            serialization=core_schema.wrap_serializer_function_ser_schema(_abbreviate),
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe the same forms as JSON Schema."""
        union = handler(schema)
        words = [kind for kind, model in self.kinds.items() if _needs_only_kind(model)]
        return {"anyOf": [{"enum": words}, union]} if self.bare else union


def _needs_only_kind(model: type[SpecModel]) -> bool:
    return [name for name, field in keys(model).items() if field.is_required()] == ["kind"]


def _spell_out(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


def _abbreviate(value: Any, handler: core_schema.SerializerFunctionWrapHandler) -> Any:
    written = handler(value)
    return written["kind"] if list(written) == ["kind"] else written
