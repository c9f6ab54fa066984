"""JSON Schema of experiment files, for editors and other programs."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from tcpf_lab.spec.base import SpecModel
from tcpf_lab.spec.calibration import Calibration
from tcpf_lab.spec.collection import Collection
from tcpf_lab.spec.model import Experiment

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """Give the JSON Schema (2020-12) of an experiment file, a collection or a calibration.

    It accepts the forms that the YAML may have, units included.  Rules between keys - ``min`` less
    than ``max``, cases that the matrix names - are beyond it; `load` holds those.
    """
    _, schema = models_json_schema(
        [(model, "validation") for model in (Experiment, Collection, Calibration)],
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
    return {"$schema": DIALECT, **_without_discriminator(model.model_json_schema())}


def _without_discriminator(schema: Any) -> Any:
    """Drop OpenAPI's keyword, which JSON Schema does not know."""
    if isinstance(schema, dict):
        return {k: _without_discriminator(v) for k, v in schema.items() if k != "discriminator"}
    if isinstance(schema, list):
        return [_without_discriminator(item) for item in schema]
    return schema
