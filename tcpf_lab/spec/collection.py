"""A collection: several experiments that are run and reported together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from tcpf_lab.spec.base import KeyPath, SpecModel
from tcpf_lab.spec.model import Name, Title


class Member(SpecModel):
    """An experiment of a collection; the bare name of its file, if nothing of it is changed.

    With ``set`` it is one level of a factor, and gets a name of its own from both.
    """

    spec: str = Field(
        min_length=1, description="Its file: beside this one, or a name as `tcpf-lab run` takes it."
    )
    factor: Title = Field(default="", description="What is varied, in words.")
    level: Title = Field(default="", description="Its value here, in words.")
    settings: tuple[str, ...] = Field(
        default=(),
        alias="set",
        description="`PATH=VALUE` each, as for `--set`; `cases.*` means every case that has the "
        "rest of the path.",
    )

    @model_validator(mode="before")
    @classmethod
    def _spell_out(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"spec": value}
        if isinstance(value, dict) and isinstance(value.get("set"), list):
            return {**value, "set": tuple(value["set"])}
        return value

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe both forms."""
        return {"anyOf": [{"type": "string"}, handler(schema)]}

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield a change that has no name, and a name for no change."""
        if self.settings and not (self.factor and self.level):
            yield (), "what is set needs a name: give factor and level"
        if not self.settings and (self.factor or self.level):
            yield ("set",) if "set" in self.model_fields_set else (), "needs something to set"

    @property
    def slug(self) -> str:
        """Factor and level as part of a name; empty if nothing is changed."""
        words = re.sub(r"[^a-z0-9.]+", "-", f"{self.factor} {self.level}".lower())
        return words.replace(".", "_").strip("-")


class Collection(SpecModel):
    """A file that names experiments instead of describing one."""

    name: Name = Field(
        description="Directory of the report: letters, digits, `_`, `+` and `-`, at most 60."
    )
    title: Title = Field(default="", description="One line for the report.")
    only: dict[str, str | int] = Field(
        default={},
        description="Restricts `case` or `flows` of every experiment, as `--only` does.",
    )
    seeds: int | None = Field(
        default=None, ge=1, description="Only the first so many seeds of every experiment."
    )
    experiments: tuple[Member, ...] = Field(
        min_length=1, description="The experiments, in the report's order."
    )

    @model_validator(mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        if isinstance(value, dict) and isinstance(value.get("experiments"), list):
            return {**value, "experiments": tuple(value["experiments"])}
        return value

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield experiments that would get the same name."""
        seen: set[tuple[str, str]] = set()
        for index, member in enumerate(self.experiments):
            identity = ("", member.slug) if member.slug else (member.spec, "")
            if identity in seen:
                yield ("experiments", index), "is in the collection twice"
            seen.add(identity)

    def named(self, member: Member, experiment_name: str) -> str:
        """Give the name of a member's results: its own, or one made of what is changed."""
        return f"{self.name}-{member.slug}" if member.slug else experiment_name
