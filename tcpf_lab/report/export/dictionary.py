"""Generated pages: ``python -m tcpf_lab.report.export.dictionary`` writes ``docs/reference/``.

``columns.md`` is made from ``columns.csv``, ``glossary.md`` from ``report/glossary.toml``,
``rules.md`` from the rules of the capture analysis.
"""

from __future__ import annotations

from pathlib import Path

from tcpf_lab import _trace
from tcpf_lab.base import shipped
from tcpf_lab.report.contents.model import filled
from tcpf_lab.report.export import glossary
from tcpf_lab.report.export.columns import LAYOUTS, TABLES
from tcpf_lab.results.layout import write_text

#: The metrics of the papers' tables: name here -> name there.
PUBLISHED = {
    "timeouts": "Number of Timeouts",
    "loss_percent": "Probability of Loss (%)",
    "goodput_bytes_per_s": "Average per-flow Goodput",
    "goodput_cov": "Goodput Coefficient of Variation",
}


def columns() -> str:
    """Give ``columns.md``."""
    return filled("columns", tables=LAYOUTS.values(), exported=len(TABLES))


def glossary_page() -> str:
    """Give ``glossary.md``."""
    own = {name: table for name, table in glossary.read().items() if name != "terms"}
    metrics = [
        (column, PUBLISHED.get(column.name, ""))
        for column in LAYOUTS["runs"].columns
        if column.source == "metrics.json: metrics"
    ]
    return filled("glossary", terms=glossary.terms().values(), metrics=metrics, **own)


def pages() -> dict[str, str]:
    """Give the text of each page by its file name."""
    return {
        "columns.md": columns(),
        "glossary.md": glossary_page(),
        "rules.md": filled("rules", rules=_trace.RULES),
    }


def generate(root: Path) -> None:
    """Write the pages below the checkout ``root``."""
    directory = root / "docs" / "reference"
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        write_text(directory / name, text)


if __name__ == "__main__":
    generate(shipped.directory("experiments").parent)
