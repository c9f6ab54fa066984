"""Write the files generated from the model: ``python -m tcpf_lab.spec.generate``."""

from __future__ import annotations

from pathlib import Path

from tcpf_lab.base import shipped
from tcpf_lab.results.layout import write_json, write_text
from tcpf_lab.spec.reference_docs import json_schema, spec_reference


def generate(root: Path) -> None:
    """Write the JSON Schema and the reference of keys below the checkout ``root``."""
    write_json(root / "experiments" / "schema.json", json_schema())
    write_text(root / "docs" / "reference" / "experiment-keys.md", spec_reference())


if __name__ == "__main__":
    generate(shipped.directory("experiments").parent)
