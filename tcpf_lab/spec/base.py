"""What every part of an experiment file has in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

#: Keys and list positions that lead from a mapping to a value.
KeyPath = tuple[str | int, ...]


class RefusedError(ValueError):
    """Values that are fine each and wrong together; ``found`` holds (key path, sentence)."""

    def __init__(self, found: tuple[tuple[KeyPath, str], ...]) -> None:
        super().__init__("; ".join(sentence for _, sentence in found))
        self.found = found


class SpecModel(BaseModel):
    """A mapping of an experiment file: immutable, no unknown keys, no silent conversion."""

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
