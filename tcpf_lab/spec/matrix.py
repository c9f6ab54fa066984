"""The matrix: which cases, how many flows, which seeds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from tcpf_lab.spec.base import KeyPath, SpecModel

MOST_SEEDS = 10_000
#: What the native generator can start.
MOST_SENDING = 4096
_RANGE = re.compile(r"([0-9]{1,10})\.\.([0-9]{1,10})", flags=re.ASCII)
_SEED = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
_FLOWS = {"type": "integer", "minimum": 1, "maximum": MOST_SENDING}


def _listed(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(value)
    return value if value is None or isinstance(value, dict) else (value,)


def _seeds(value: Any) -> Any:
    """Turn ``"1..10"`` into the ten numbers."""
    if not isinstance(value, str):
        return _listed(value)
    match = _RANGE.fullmatch(value.strip())
    if match is None:
        raise ValueError(f"{value!r} is not a range of seeds; write 1..10, [1, 2, 5] or one number")
    first, last = int(match[1]), int(match[2])
    if not 0 <= last - first < MOST_SEEDS:
        raise ValueError(f"{value!r} must go upwards and have at most {MOST_SEEDS} seeds")
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


class Matrix(SpecModel):
    """Every combination of the values is one run."""

    case: Annotated[
        tuple[str, ...],
        BeforeValidator(_listed),
        PlainSerializer(_written),
        _one_or_more({"type": "string"}),
    ] = Field(
        default=("all",),
        description="Names of cases, one or a list; `all` for every one in the file's order.",
    )
    flows: Annotated[
        tuple[Flows, ...],
        BeforeValidator(_listed),
        PlainSerializer(_written),
        _one_or_more(_FLOWS),
    ] = Field(
        description=f"Numbers of simultaneous flows, one or a list, each from 1 to {MOST_SENDING}.",
    )
    seed: Annotated[
        tuple[Seed, ...],
        BeforeValidator(_seeds),
        PlainSerializer(_written_seeds),
        _one_or_more(_SEED, {"type": "string", "pattern": r"^\s*[0-9]{1,10}\.\.[0-9]{1,10}\s*$"}),
    ] = Field(
        default=tuple(range(1, 11)),
        description="Seeds of all randomness: one, a list, or a range such as `1..10`.",
    )

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield an error for every empty list and every value that is listed twice."""
        for name in type(self).model_fields:
            values = getattr(self, name)
            if not values:
                yield (name,), "must not be empty"
            for index, value in enumerate(values):
                if value in values[:index]:
                    yield (name, index), f"{value} is listed twice"
