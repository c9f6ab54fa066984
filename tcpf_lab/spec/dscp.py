"""Differentiated services code points by name, as ``tc`` knows them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from tcpf_lab.spec.suggest import unknown

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
