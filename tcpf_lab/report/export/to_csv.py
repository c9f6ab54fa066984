"""Tidy tables as CSV, and the part of the data dictionary that describes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from tcpf_lab.report.export.columns import Layout
from tcpf_lab.report.export.tidy import tables
from tcpf_lab.report.section import Document, Section
from tcpf_lab.results import ExperimentFiles

_DICTIONARY = ("table", "column", "type", "unit", "meaning", "source")


def csv_files(files: ExperimentFiles, sections: Sequence[Section]) -> Iterator[Document]:
    """Yield ``data/<table>.csv`` for each table, and ``data/columns.csv``.

    Fields are separated by commas, lines end with a line feed, the text is UTF-8. A number has the
    digits that give the same number again, a missing value is an empty field, a truth value
    ``True`` or ``False``.

    Parameters
    ----------
    files : ExperimentFiles
        Where the report goes.
    sections : sequence of Section
        The experiments.
    """
    found = tables(sections)
    for layout in found.layouts:
        yield files.data(layout.name, "csv"), _text(found.frame(layout.name))
    yield files.data("columns", "csv"), _text(_dictionary(found.layouts))


def _dictionary(layouts: Sequence[Layout]) -> pd.DataFrame:
    rows = [
        (layout.name, column.name, column.kind, column.unit, column.meaning, column.source)
        for layout in layouts
        for column in layout.columns
    ]
    return pd.DataFrame(rows, columns=list(_DICTIONARY))


def _text(table: pd.DataFrame) -> str:
    return table.to_csv(index=False, lineterminator="\n")
