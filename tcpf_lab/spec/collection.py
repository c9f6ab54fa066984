"""A collection: several experiments that are run and reported together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from tcpf_lab.spec.axis import HEADS, KERNEL, may_be_axis, path_of
from tcpf_lab.spec.model import NAME, PATTERNS, Name, Title
from tcpf_lab.spec.sweep import KEYS
from tcpf_lab.spec.words import LISTED, KeyPath, SpecModel, unknown

_AXIS_KEY = rf"^(({'|'.join(HEADS)})\.[^.]+|{KERNEL}$)"


class Member(SpecModel):
    """An experiment of a collection; only the name of its file, if nothing changes.

    With ``set`` it is a level of a factor, and its name is made of both.
    """

    spec: str = Field(min_length=1)
    """File: beside this one, or a name as `tcpf-lab run` takes it."""
    factor: Title = ""
    """What varies, in words."""
    level: Title = ""
    """Its value, in words."""
    settings: Annotated[tuple[str, ...], LISTED] = Field(default=(), alias="set")
    """`PATH=VALUE` each, as for `--set`; `cases.*` means every case that has the rest of the path.
    A list or a range makes an axis."""

    @model_validator(mode="before")
    @classmethod
    def _spell_out(cls, value: Any) -> Any:
        return {"spec": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe both forms."""
        return {"anyOf": [{"type": "string"}, handler(schema)]}

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield a change that has no name, and a name for no change."""
        if self.settings and not (self.factor and self.level):
            yield (), "set needs factor and level too: they name the changed experiment"
        elif self.settings and not self.slug:
            sentence = "factor and level need a letter a-z or a digit: results are named after them"
            yield ("level",), sentence
        if not self.settings and (self.factor or self.level):
            place = ("set",) if "set" in self.model_fields_set else ()
            yield place, "factor and level need set, a list of PATH=VALUE"

    @property
    def slug(self) -> str:
        """Factor and level as part of a name; empty if nothing is changed."""
        words = re.sub(r"[^a-z0-9.]+", "-", f"{self.factor} {self.level}".lower())
        return words.replace(".", "_").strip("-_")


class Collection(SpecModel):
    """A file that names experiments."""

    noun: ClassVar[str] = "a collection"

    name: Name
    """Directory of the report: letters, digits, `_`, `+` and `-`, at most 60."""
    title: Title = ""
    """One line for the report."""
    question: Title | None = None
    """What the experiments answer: one line on page one of the report. Left out, the report asks
    about what varies."""
    only: dict[str, str | int | float | bool] = Field(
        default={},
        json_schema_extra={
            "propertyNames": {"anyOf": [{"enum": list(KEYS)}, {"pattern": _AXIS_KEY}]}
        },
    )
    """Restricts `case`, `flows`, `seed` or an axis of every experiment, as `--only` does."""
    seeds: int | None = Field(default=None, ge=1)
    """Only the first N seeds of every experiment. Default: all."""
    experiments: Annotated[tuple[Member, ...], LISTED] = Field(min_length=1)
    """Experiments, in the report's order."""

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield unknown restrictions, and names that are too long or given twice."""
        for key in self.only:
            if key not in KEYS and not may_be_axis(path_of(key)):
                yield ("only", key), unknown("unknown key", key, KEYS)
        seen: dict[tuple[str, str], int] = {}
        for index, member in enumerate(self.experiments):
            identity = (self.named(member, ""), "" if member.slug else member.spec)
            first = seen.setdefault(identity, index)
            if first != index:
                yield ("experiments", index), self._twice(member, first)
            elif member.slug and not re.fullmatch(NAME, identity[0]):
                sentence = f"its name would be '{identity[0]}'; a name has {PATTERNS[NAME]}"
                yield ("experiments", index), sentence

    def _twice(self, member: Member, first: int) -> str:
        if not member.slug:
            return f"'{member.spec}' is listed twice"
        return f"has the same name as experiments[{first}]: '{self.named(member, '')}'"

    def named(self, member: Member, experiment_name: str) -> str:
        """Give the name of a member's results: its own, or one made of what is changed."""
        return f"{self.name}-{member.slug}" if member.slug else experiment_name
