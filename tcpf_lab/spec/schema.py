"""JSON Schema of experiment files, for editors and other programs."""

from __future__ import annotations

from typing import Any

from tcpf_lab.spec.model import Experiment

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """Give the JSON Schema (2020-12) of an experiment file.

    It accepts the forms that the YAML may have, units included.  Rules between keys - ``min`` less
    than ``max``, cases that the matrix names - are beyond it; `load` holds those.
    """
    schema = Experiment.model_json_schema(mode="validation")
    return {"$schema": DIALECT, **_without_discriminator(schema)}


def _without_discriminator(schema: Any) -> Any:
    """Drop OpenAPI's keyword, which JSON Schema does not know."""
    if isinstance(schema, dict):
        return {k: _without_discriminator(v) for k, v in schema.items() if k != "discriminator"}
    if isinstance(schema, list):
        return [_without_discriminator(item) for item in schema]
    return schema
