"""The matrix: which cases, how many flows, which seeds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Self

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails

from tcpf_lab.spec.axis import (
    HEADS,
    KERNEL,
    MOST_VALUES,
    SCALAR,
    Axis,
    Value,
    is_range,
    plain,
    shown,
    spread,
)
from tcpf_lab.spec.words import KeyPath, SpecModel

MOST_SEEDS = 10_000
#: A matrix of more is a mistake: it would take days.
MOST_RUNS = 100_000
#: What the native generator can start.
MOST_SENDING = 4096
_RANGE = re.compile(r"([0-9]{1,10})\.\.([0-9]{1,10})", flags=re.ASCII)
_SEED = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
_FLOWS = {"type": "integer", "minimum": 1, "maximum": MOST_SENDING}
_STEPPED = r"^\s*[0-9]{1,4}\s*\.\.\s*[0-9]{1,4}\s*(:\s*[0-9]{1,4}\s*)?$"


def _listed(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(value)
    return value if value is None or isinstance(value, dict) else (value,)


def _flows(value: Any) -> Any:
    """Turn ``"10..50:10"`` into the five numbers."""
    return spread(value) if is_range(value) else _listed(value)


def _seeds(value: Any) -> Any:
    """Turn ``"1..10"`` into the ten numbers."""
    if not isinstance(value, str):
        return _listed(value)
    match = _RANGE.fullmatch(value.strip())
    if match is None:
        raise ValueError(f"{value!r} is not a range of seeds; write 1..10, [1, 2, 5] or one number")
    first, last = int(match[1]), int(match[2])
    if last < first:
        raise ValueError(f"{value!r} runs downwards; write the smaller seed first")
    if last - first >= MOST_SEEDS:
        raise ValueError(f"{value!r} has {last - first + 1} seeds; at most {MOST_SEEDS}")
    return tuple(range(first, last + 1))


def _written(values: tuple[Any, ...]) -> Any:
    return values[0] if len(values) == 1 else list(values)


def _written_seeds(seeds: tuple[int, ...]) -> Any:
    if len(seeds) > 2 and seeds == tuple(range(seeds[0], seeds[0] + len(seeds))):
        return f"{seeds[0]}..{seeds[-1]}"
    return _written(seeds)


def _one_or_more(item: dict[str, Any], *others: dict[str, Any]) -> WithJsonSchema:
    several = {"type": "array", "items": item, "minItems": 1, "uniqueItems": True}
    return WithJsonSchema({"anyOf": [*others, item, several]})


Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]
Flows = Annotated[int, Field(ge=1, le=MOST_SENDING)]


#: The values of an axis, as a file may write them.
AxisValues = Annotated[
    tuple[Annotated[Value, PlainValidator(plain)], ...],
    BeforeValidator(spread),
    PlainSerializer(_written),
]
_AXIS_LIST = {"minItems": 1, "maxItems": MOST_VALUES, "uniqueItems": True}
_AXIS = {
    "description": "An axis: values of this key, one, a list, or a range.",
    "anyOf": [SCALAR, {"type": "array", "items": SCALAR, **_AXIS_LIST}],
}


class Matrix(SpecModel):
    """Every combination of the values is one run; at most 100000.

    Any other key of the experiment can be an axis: written with dots, with a list of values or a
    range `FIRST..LAST:STEP`, as in `queue.out_max: 100 kB..300 kB:50 kB`. `queue.X` and `marker.X`
    are short for `cases.*.queue.X` and `cases.*.marker.X`, every case that has the key; a case
    without it runs once. See `docs/experiments.md`.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, AxisValues]

    case: Annotated[
        tuple[str, ...],
        BeforeValidator(_listed),
        PlainSerializer(_written),
        _one_or_more({"type": "string"}),
    ] = ("all",)
    """Names of cases, one or a list; `all`: every case in the file's order."""
    flows: Annotated[
        tuple[Flows, ...],
        BeforeValidator(_flows),
        PlainSerializer(_written),
        _one_or_more(_FLOWS, {"type": "string", "pattern": _STEPPED}),
    ] = Field(
        default=(),
        description="Numbers of concurrent flows: one, a list, or a range such as `10..50:10`, "
        f"each from 1 to {MOST_SENDING}. Left out with `traffic.groups`, needed otherwise.",
    )
    seed: Annotated[
        tuple[Seed, ...],
        BeforeValidator(_seeds),
        PlainSerializer(_written_seeds),
        _one_or_more(_SEED, {"type": "string", "pattern": r"^\s*[0-9]{1,10}\.\.[0-9]{1,10}\s*$"}),
    ] = tuple(range(1, 11))
    """Random seeds: one, a list, or a range such as `1..10`."""

    @property
    def axes(self) -> tuple[Axis, ...]:
        """What is varied besides case, flows and seed, in the file's order."""
        return tuple(Axis(key, values) for key, values in self.__pydantic_extra__.items())

    @model_validator(mode="wrap")
    @classmethod
    def _no_other_keys(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Refuse a key that can be no axis as any mapping refuses an unknown one."""
        if not isinstance(value, dict):
            return handler(value)
        own = {*cls.model_fields, KERNEL}
        known = {k: item for k, item in value.items() if k in own or "." in str(k)}
        errors = [
            InitErrorDetails(type="extra_forbidden", loc=(key,), input=value[key])
            for key in value
            if key not in known
        ]
        try:
            matrix = handler(known)
        except ValidationError as error:
            errors += [
                InitErrorDetails(
                    type=found["type"],
                    loc=found["loc"],
                    input=found["input"],
                    ctx=found.get("ctx", {}),
                )
                for found in error.errors()
            ]
        if errors:
            raise ValidationError.from_exception_data(cls.__name__, errors)
        return matrix

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe the axes by what their keys begin with."""
        described = handler.resolve_ref_schema(handler(schema))
        heads = "|".join(HEADS)
        described["patternProperties"] = {rf"^(({heads})\.[^.]+|{KERNEL}$)": _AXIS}
        described["additionalProperties"] = False
        return described

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield an error for every empty list and every value that is listed twice."""
        for name, values in self.values().items():
            if not values and name != "flows":  # groups have their own
                yield (name,), "must not be empty"
            for index, value in enumerate(values):
                if value in values[:index]:
                    yield (name, index), f"{shown(value)} is listed twice"

    def values(self) -> dict[str, Any]:
        """Give every key and its values, the axes after the others."""
        return {**super().values(), **self.__pydantic_extra__}
