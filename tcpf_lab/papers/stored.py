"""A page as one JSON file, from which everything on it is drawn again without a run.

A dataclass is an object, named by ``is``, with the fields that differ from their defaults. Several
of one kind are a table: ``each`` names the kind, ``columns`` the fields, ``rows`` has the values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from tcpf_lab.base.errors import RequestError
from tcpf_lab.papers.buffers import OverBuffer
from tcpf_lab.papers.figures import AgainstDelay, Bars, Lines
from tcpf_lab.papers.rio.measured import OverTime
from tcpf_lab.papers.sides import Paired
from tcpf_lab.papers.thesis.page import Scatter
from tcpf_lab.papers.workloads import Distribution
from tcpf_lab.report.claims.judge import Source
from tcpf_lab.report.claims.page import Claims, Drawing, Frame, Page, Point, Table, Text
from tcpf_lab.report.claims.papers import Measured, PaperCheck, PaperClaim
from tcpf_lab.results.layout import as_lines, read_json

#: Number of the format; another one is refused.
FORMAT = 1
#: Kinds of figures of a stored page.
FRAMES = (AgainstDelay, Bars, Distribution, Lines, OverBuffer, OverTime, Paired, Scatter)
_NAME = re.compile(r"[A-Za-z0-9_+-]+")
_KINDS: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (
        *(Page, Text, Table, Drawing, Point, Claims, PaperClaim, Source, PaperCheck, Measured),
        *FRAMES,
    )
}


#: What a table is written as: the texts of its columns and rows, not how they are set.
_OF_TABLE: Mapping[str, Any] = {
    "name": str,
    "columns": tuple[str, ...],
    "rows": tuple[tuple[str, ...], ...],
    "caption": str,
    "left": int,
}


def as_text(page: Page) -> str:
    """Give the file of a page; `read_page` makes an equal one of it."""
    return as_lines({"format": FORMAT, "page": _encoded(page)})


def is_stored(path: Path) -> bool:
    """Return whether a JSON file is a stored page."""
    content = read_json(path)
    return isinstance(content, dict) and "page" in content


def read_page(path: Path) -> Page:
    """Read a stored page.

    Raises
    ------
    RequestError
        If the file is not one, or of another format.
    """
    content = read_json(path)
    if not isinstance(content, dict) or "page" not in content:
        raise RequestError(
            "is not a stored page",
            where=str(path),
            hint="`report` with --reference writes one, beside its tables",
        )
    if content.get("format") != FORMAT:
        message = f"is a page of format {content.get('format')!r}, not {FORMAT}"
        raise RequestError(message, where=str(path), hint="another version of tcpf-lab reads it")
    try:
        page: Page = _decoded({"is": "Page", **content["page"]})
        _require_whole(page)
    except (KeyError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__} {error}"
        raise RequestError(f"is a damaged page: {reason}", where=str(path)) from None
    return page


def _require_whole(page: Page) -> None:
    """Refuse what cannot be written, and names that would lead elsewhere: they become files'."""
    if not isinstance(page, Page):
        raise TypeError("another block in its place")
    for block in page.blocks:
        if isinstance(block, Table) and any(len(row) != len(block.columns) for row in block.rows):
            raise ValueError(f"a row of table {block.name} has other columns")
        if isinstance(block, Claims) and not all(claim.checks for claim in block.claims):
            raise ValueError("a claim without a check")
    named = (one for one in page.blocks if isinstance(one, Table | Drawing))
    for one in (page, *named):
        if not _NAME.fullmatch(one.name):
            raise ValueError(f"name {one.name!r}")


def _encoded(value: Any) -> Any:
    if isinstance(value, Table):
        texts = (value.name, value.headings, value.rows, value.caption, value.left)
        return {"is": "Table", **dict(zip(_OF_TABLE, texts, strict=True))}
    if is_dataclass(value) and not isinstance(value, type):
        own = {one.name: getattr(value, one.name) for one in fields(value)}
        fields_set = {n: _encoded(v) for n, v in own.items() if v != _default(type(value), n)}
        return {"is": type(value).__name__, **fields_set}
    if isinstance(value, tuple):
        return _table(value) if _alike(value) else [_encoded(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"is": "float", "value": str(value)}
    return value


def _alike(values: tuple[Any, ...]) -> bool:
    first = values[0] if len(values) > 1 else None
    if not is_dataclass(first) or isinstance(first, Table):
        return False
    return len(set(map(type, values))) == 1


def _table(values: tuple[Any, ...]) -> Any:
    """Encode several of one kind; a column in which all have the default is left out."""
    kind = type(values[0])
    columns = {one.name: [getattr(value, one.name) for value in values] for one in fields(kind)}
    fields_set = {n: c for n, c in columns.items() if any(v != _default(kind, n) for v in c)}
    rows = [[_encoded(value) for value in row] for row in zip(*fields_set.values(), strict=True)]
    return {"each": kind.__name__, "columns": list(fields_set), "rows": rows}


def _default(kind: type, name: str) -> Any:
    """Give the default of a field; what has none equals nothing."""
    found: Field[Any] = kind.__dataclass_fields__[name]  # type: ignore[attr-defined]
    return MISSING if found.default is MISSING else found.default


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_decoded, value))
    if not isinstance(value, dict):
        return value
    if value.get("is") == "float":
        return _not_finite(value["value"])
    if "each" in value:
        columns = value["columns"]
        rows = ({"is": value["each"], **dict(zip(columns, r, strict=True))} for r in value["rows"])
        return tuple(map(_decoded, rows))
    kind = _KINDS[value["is"]]
    given = {name: _decoded(one) for name, one in value.items() if name != "is"}
    wrong = [
        name
        for name, hint in _hints(kind).items()
        if name in given and not _fits(given[name], hint)
    ]
    if wrong:
        raise TypeError(f"{wrong[0]} of {kind.__name__}")
    return kind(**given)


def _not_finite(text: str) -> float:
    # The one of `math`, which equals itself within a tuple.
    return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[text]


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    """Give the types of a dataclass's fields, and of what a table is written as."""
    if kind is Table:
        return _OF_TABLE
    found = get_type_hints(kind)
    return {one.name: found[one.name] for one in fields(kind)}


def _fits(value: Any, hint: Any) -> bool:
    """Say whether a value is of the type that a field is declared with."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is Literal:
        return value in inner
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if inner[-1] is Ellipsis:
            return all(_fits(one, inner[0]) for one in value)
        return len(value) == len(inner) and all(map(_fits, value, inner))
    if isinstance(hint, TypeVar):
        return isinstance(value, hint.__bound__ or object)
    if hint is Frame:
        return isinstance(value, FRAMES)
    if hint in (int, float):
        return isinstance(value, int | hint) and not isinstance(value, bool)
    return isinstance(value, hint)
