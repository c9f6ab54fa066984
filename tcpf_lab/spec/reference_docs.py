"""The reference of every key of an experiment file, generated from the model."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import PlainSerializer
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from tcpf_lab.base.units import DURATION, RATE, SIZE, Quantity
from tcpf_lab.spec import background, marker, probe, queue, tcp
from tcpf_lab.spec.calibration import Calibration, Check, Design, Search, Unknown
from tcpf_lab.spec.collection import Collection, Member
from tcpf_lab.spec.graph import Delays, Impairment
from tcpf_lab.spec.group import Group
from tcpf_lab.spec.marker import Marker
from tcpf_lab.spec.matrix import Matrix
from tcpf_lab.spec.model import Case, Experiment, Reference
from tcpf_lab.spec.tcp import Linux22, Tcp
from tcpf_lab.spec.topology import Chain, Dumbbell, ParkingLot, Topology
from tcpf_lab.spec.traffic import Traffic, Users
from tcpf_lab.spec.words import SpecModel, keys

#: Types that need other words than the annotation's.
_SPECIAL = {
    **dict.fromkeys(("cases", "background", "groups", "probes", "unknowns"), "mapping of names"),
    "marker": "word or mapping",
    **dict.fromkeys(("probability", "loss", "duplicate", "reorder"), "number, 0 to 1"),
    **dict.fromkeys(("in", "out"), "code point"),
    **dict.fromkeys(("only", "sysctls"), "mapping"),
    "experiments": "list of words and mappings",
    "set": "text or list",
    **dict.fromkeys(("from", "to", "round"), "number, with its unit"),
    "times": "text",
    "levels": "list or mapping",
    "tolerance": "mapping of percentages",
}


def spec_reference() -> str:
    """Give the text of ``docs/reference/experiment-keys.md``."""
    from jinja2 import Template  # here: only the documentation needs it

    text = Path(__file__).with_name("reference.md.j2").read_text(encoding="utf-8")
    template = Template(text, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    text = template.render(
        quantities=(RATE, SIZE, DURATION),
        sections=[(heading, _about(model), _rows(model)) for heading, model in _sections()],
        tcp=tcp,
    )
    return str(text)


def _sections() -> Iterator[tuple[str, type[SpecModel]]]:
    yield "The file", Experiment
    yield "`reference`", Reference
    yield "`topology`", Topology
    yield "`topology.chain`", Chain
    yield "`topology.dumbbell`", Dumbbell
    yield "`topology.parking_lot`", ParkingLot
    yield "`forward` and `reverse` of `topology.chain` and `topology.dumbbell`", Impairment
    yield "`tcp`", Tcp
    yield "`tcp.linux22`", Linux22
    yield "`traffic`", Traffic
    yield "`traffic.groups.NAME`", Group
    for kind, probe_model in probe.KINDS.items():
        yield f"`traffic.probes.NAME`, kind `{kind}`", probe_model
    yield "`traffic.users`", Users
    yield "`cases.NAME`", Case
    for kind, model in marker.KINDS.items():
        yield f"`marker`, kind `{kind}`", model
    for kind, queue_model in queue.KINDS.items():
        yield f"`queue`, kind `{kind}`", queue_model
    for kind, source_model in background.KINDS.items():
        yield f"`background.NAME`, kind `{kind}`", source_model
    yield "`matrix`", Matrix
    yield "A collection", Collection
    yield "`experiments[N]`", Member
    yield "A calibration", Calibration
    yield "`unknowns.NAME`", Unknown
    yield "`design`", Design
    yield "`search`", Search
    yield "`check`", Check


def _about(model: type[SpecModel]) -> str:
    return (inspect.getdoc(model) or "").split("\nNotes\n")[0].replace("``", "`").strip()


def descriptions(model: type[SpecModel]) -> dict[str, str]:
    """Give what each key of a mapping means: the text below it in the source of the model."""
    texts = {}
    for base in reversed(model.__mro__):
        if not issubclass(base, SpecModel):
            continue
        (written,) = ast.parse(inspect.getsource(base)).body
        assert isinstance(written, ast.ClassDef)
        for key, below in pairwise(written.body):
            match key, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    texts[name] = " ".join(text.split())
    fields = model.model_fields.items()
    return {field.alias or name: field.description or texts[name] for name, field in fields}


def _rows(model: type[SpecModel]) -> Iterator[tuple[str, str, str, str]]:
    """Yield key, type, default and meaning of each key of a mapping."""
    texts = descriptions(model)
    for name, field in keys(model).items():
        meaning, _, described = texts[name].partition(" Default: ")
        default = described.removesuffix(".") or _default(field)
        yield name, _type(name, field), default, meaning


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if value is None:
        return "none"
    if value in ({}, ()):
        return "empty"
    if isinstance(value, Marker):
        return f"`{value.kind}`"
    if isinstance(value, Linux22):
        return "the profile's"
    if isinstance(value, Traffic | Design | Search | Check):
        return "as below"
    for note in field.metadata:
        if isinstance(note, PlainSerializer):
            value = note.func(value)  # type: ignore[call-arg]
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"`{text}`" if text else "empty"


def _type(name: str, field: FieldInfo) -> str:
    if field.annotation is Delays:
        return "duration, a list, or a range"
    within = [getattr(item, "__metadata__", ()) for item in get_args(field.annotation)]
    for note in (*field.metadata, *chain.from_iterable(within)):
        if isinstance(note, Quantity):
            return note.noun
    special = _SPECIAL.get(name.removeprefix("in_").removeprefix("out_"))
    return special or _plain_type(field.annotation) + _range(field)


def _range(field: FieldInfo) -> str:
    """Give the range of a number, empty if it has none."""
    low = next((f"{note.ge:.10g}" for note in field.metadata if isinstance(note, Ge)), None)
    high = next((f"{note.le:.10g}" for note in field.metadata if isinstance(note, Le)), None)
    if high is None:
        return f", at least {low}" if low else ""
    return f", {low} to {high}"


def _plain_type(annotation: Any) -> str:
    arguments = [item for item in get_args(annotation) if item is not type(None)]
    origin = get_origin(annotation)
    if origin is tuple:
        one = _plain_type(arguments[0])
        return f"{one}, a list, or a range" if one == "whole number" else f"{one}, or a list"
    if arguments and all(isinstance(item, str | int) for item in arguments):
        return " or ".join(f"`{item}`" for item in arguments)
    inner = arguments[0] if arguments else annotation
    if get_args(inner):
        return _plain_type(inner)
    if isinstance(inner, type) and issubclass(inner, SpecModel):
        return "mapping"
    names = {bool: "true or false", int: "whole number", float: "number", str: "text"}
    return names.get(inner, str(inner))


class _WithDescriptions(GenerateJsonSchema):
    """Describes every key."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Give the schema of a mapping."""
        made = super().model_schema(schema)
        texts, properties = descriptions(schema["cls"]), made["properties"]
        for key, field in keys(schema["cls"]).items():
            if field.description is None:
                described = {"description": texts[key], **properties[key]}
                properties[key] = dict(sorted(described.items()))
        return made


DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """Give the JSON Schema (2020-12) of an experiment file, a collection or a calibration.

    It accepts the forms that the YAML may have, units included.  Rules between keys - ``min`` less
    than ``max``, cases that the matrix names - are beyond it: the loader checks them.
    """
    _, schema = models_json_schema(
        [(model, "validation") for model in (Experiment, Collection, Calibration)],
        schema_generator=_WithDescriptions,
        title="An experiment, a collection of them, or a calibration",
    )
    return {
        "$schema": DIALECT,
        **_without_discriminator(schema),
        # One branch or another: an editor then says what is wrong within it.
        "if": {"required": ["experiments"]},
        "then": {"$ref": "#/$defs/Collection"},
        "else": {
            "if": {"required": ["unknowns"]},
            "then": {"$ref": "#/$defs/Calibration"},
            "else": {"$ref": "#/$defs/Experiment"},
        },
    }


def schema_of(model: type[SpecModel]) -> dict[str, Any]:
    """Give the JSON Schema of any other file that one model describes as a whole."""
    schema = model.model_json_schema(schema_generator=_WithDescriptions)
    return {"$schema": DIALECT, **_without_discriminator(schema)}


def _without_discriminator(schema: Any) -> Any:
    """Drop OpenAPI's keyword, which JSON Schema does not know."""
    if isinstance(schema, dict):
        return {k: _without_discriminator(v) for k, v in schema.items() if k != "discriminator"}
    if isinstance(schema, list):
        return [_without_discriminator(item) for item in schema]
    return schema
