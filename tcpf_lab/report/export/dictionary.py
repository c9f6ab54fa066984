"""The data dictionary: ``python -m tcpf_lab.report.export.dictionary`` writes it into ``docs/``."""

from __future__ import annotations

from pathlib import Path

from tcpf_lab.base import shipped
from tcpf_lab.report.contents.model import filled
from tcpf_lab.report.export.columns import LAYOUTS, TABLES
from tcpf_lab.results.layout import write_text


def markdown() -> str:
    """Give the dictionary as the document holds it."""
    return filled("dictionary", tables=LAYOUTS.values(), exported=len(TABLES))


def generate(root: Path) -> None:
    """Write ``docs/data-dictionary.md`` below the checkout ``root``."""
    write_text(root / "docs" / "data-dictionary.md", markdown())


if __name__ == "__main__":
    generate(shipped.directory("experiments").parent)
