"""Validation errors as sentences: the key path, what is wrong, what is allowed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from types import UnionType
from typing import Any, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from tcpf_lab.base.errors import LabError
from tcpf_lab.spec.model import PATTERNS, Experiment, name_problems
from tcpf_lab.spec.words import KeyPath, OneOf, RefusedError, SpecModel, closest, keys, unknown

#: What each error means: ``{given}`` is the value, other names are of the error's context.
_SENTENCES = {
    "too_short": "must not be empty",
    "union_tag_not_found": "missing key 'kind'",
    "greater_than": "must be more than {gt}, not {given}",
    "greater_than_equal": "must be at least {ge}, not {given}",
    "less_than_equal": "must be at most {le}, not {given}",
    "bool_type": "must be true or false, not {given}",
    "int_type": "must be a whole number, not {given}",
    "int_from_float": "must be a whole number, not {given}",
    "float_type": "must be a number, not {given}",
    "string_type": "must be text, not {given}",
    "tuple_type": "must be a list, not {given}",
    **dict.fromkeys(
        ("dict_type", "model_type", "model_attributes_type"), "must be a mapping, not {given}"
    ),
}
#: A key is not shown longer; no name that a file may give is.
_LONGEST_KEY = 80


def explain(
    error: ValidationError, data: Any, root: type[SpecModel] = Experiment
) -> list[tuple[KeyPath, str]]:
    """Give (key path, sentence) for everything that is wrong with ``data``.

    Parameters
    ----------
    error : ValidationError
        What ``root.model_validate`` raised for ``data``.
    data : Any
        Plain data (dict, list, scalars).
    root : SpecModel class
        What the whole of ``data`` describes.
    """
    errors = error.errors()
    meant = {
        _meant(_inside(e["loc"], data), data, root)
        for e in errors
        if e["type"] == "extra_forbidden"
    }
    telling = [e for e in errors if not _repeats(e, _inside(e["loc"], data), meant)]
    found = [item for details in telling for item in _explain(details, data, root)]
    if isinstance(data, dict) and isinstance(data.get("cases"), dict):
        matrix = data.get("matrix")
        wanted = matrix.get("case") if isinstance(matrix, dict) else None
        found += [
            (_inside(path, data), text) for path, text in name_problems(data["cases"], wanted)
        ]
    return list(dict.fromkeys(found))


def _repeats(details: ErrorDetails, path: KeyPath, meant: Collection[KeyPath]) -> bool:
    """Tell of an error whether it only follows from others.

    A key that is misspelt is not missing as well, and a list of wrong items is not empty.
    """
    if details["type"] == "too_short":
        return bool(details["input"])
    return details["type"] == "missing" and path in meant


def show_path(path: KeyPath) -> str:
    """Write a key path as messages show it, ``matrix.flows[1]``, long keys shortened."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{_short(step)}" for step in path)
    return text.removeprefix(".")


def _short(key: str) -> str:
    return key if len(key) <= _LONGEST_KEY else f"{key[: _LONGEST_KEY - 3]}..."


def shown_value(value: Any) -> str:
    """Write a value as messages show it, shortened where it is long."""
    if value is None:
        return "an empty value"
    if isinstance(value, dict | list | tuple):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 42 else f"{text[:38]}..."


def model_at(path: KeyPath, data: Any, root: type[SpecModel]) -> type[SpecModel] | None:
    """Find the model that describes the mapping at ``path`` of ``data``, which ``root`` does."""
    if not path:
        return root
    field = keys(root).get(str(path[0]))
    if field is None:
        return None
    rest, data = path[1:], data[path[0]]
    if get_origin(_given(field.annotation)) in (dict, tuple):
        if not rest:
            return None
        rest, data = rest[1:], data[rest[0]]
    models = models_of(field)
    kind = data.get("kind") if isinstance(data, dict) else data  # a marker may be a bare word
    child = models.get("") or models.get(str(kind))
    return model_at(rest, data, child) if child else None


def _given(annotation: Any) -> Any:
    """Give what a key has where it is there: an annotation without None."""
    others = [one for one in get_args(annotation) if one is not type(None)]
    optional = get_origin(annotation) is UnionType and len(others) == 1
    return others[0] if optional else annotation


def models_of(field: FieldInfo) -> dict[str, type[SpecModel]]:
    """Give the models that can stand under a key, by ``kind``, or one under the empty name."""
    for note in field.metadata:
        if isinstance(note, OneOf):
            return dict(note.kinds)
    annotation = _given(field.annotation)
    if get_origin(annotation) is dict:
        return models_of(FieldInfo.from_annotation(get_args(annotation)[1]))
    candidates = (annotation, *get_args(annotation))
    models = [item for item in candidates if isinstance(item, type) and issubclass(item, SpecModel)]
    return {"": models[0]} if models else {}


def _inside(location: tuple[str | int, ...], data: Any) -> KeyPath:
    """Keep of an error's location the steps that lead somewhere in the data.

    The union of kinds puts the kind's name into the location, and a single value that stands for a
    list gets an index: neither is a key that the user wrote.
    """
    path: list[str | int] = []
    for step in location:
        if isinstance(data, dict):
            if step == "[key]" or (data.get("kind") == step and step not in data):
                continue
            data = data.get(str(step))
        elif isinstance(data, list) and isinstance(step, int):
            data = data[step]
        else:
            break
        path.append(step)
    return tuple(path)


def _explain(
    details: ErrorDetails, data: Any, root: type[SpecModel]
) -> Iterator[tuple[KeyPath, str]]:
    location, kind = details["loc"], details["type"]
    path = _inside(location, data)
    context = details.get("ctx", {})
    cause = context.get("error")
    if kind == "missing":
        path = _inside(location[:-1], data)
        yield path, _missing(str(location[-1]), path, data, root)
    elif kind == "extra_forbidden":
        yield path, unknown("unknown key", str(path[-1]), _keys(path[:-1], data, root))
    elif isinstance(cause, RefusedError):
        for inner, sentence in cause.found:
            yield _inside((*path, *inner), data), sentence
    elif isinstance(cause, LabError):
        yield path, cause.message
    elif isinstance(cause, ValueError):
        yield path, str(cause)
    else:
        yield path, _sentence(details, context)


def _missing(key: str, path: KeyPath, data: Any, root: type[SpecModel]) -> str:
    model = model_at(path, data, root)
    if model is None:
        return f"missing key '{key}'"
    needed = [name for name, field in keys(model).items() if field.is_required()]
    return f"missing key '{key}'; needed: {', '.join(needed)}"


def _keys(path: KeyPath, data: Any, root: type[SpecModel]) -> list[str]:
    model = model_at(path, data, root)
    return list(keys(model)) if model else []


def _meant(path: KeyPath, data: Any, root: type[SpecModel]) -> KeyPath:
    """The key path that an unknown one was probably meant to be, or itself."""
    return (*path[:-1], closest(str(path[-1]), _keys(path[:-1], data, root)) or path[-1])


def _words(text: str) -> list[str]:
    return re.findall(r"'([^']*)'", text) or re.findall(r"\d+", text)


def _sentence(details: ErrorDetails, context: dict[str, Any]) -> str:
    """Return what is wrong with a single value."""
    kind, value = details["type"], details["input"]
    given = shown_value(value)
    if kind == "literal_error":
        word = value if isinstance(value, str) else ""
        return unknown(f"unknown value {given}", word, _words(context["expected"]))
    if kind == "union_tag_invalid":
        tag = str(context["tag"])
        return unknown(f"unknown kind {shown_value(tag)}", tag, _words(context["expected_tags"]))
    if kind == "string_pattern_mismatch":
        return f"{given} is not allowed; write {PATTERNS[context['pattern']]}"
    if kind in _SENTENCES:
        return _SENTENCES[kind].format(given=given, **context)
    return f"{given}: {details['msg']}"
