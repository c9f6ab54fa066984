"""Tidy tables as CSV, and the part of the data dictionary that describes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from tcpf_lab.report.export.columns import Layout
from tcpf_lab.report.export.tidy import Tables
from tcpf_lab.report.section import Document
from tcpf_lab.results.layout import ExperimentFiles

#: Line breaks that the writer does not quote, and that readers take for the end of a line.
_OTHER_BREAKS = r"\r\n?"
_DICTIONARY = ("table", "column", "type", "unit", "meaning", "source")


def csv_files(files: ExperimentFiles, found: Tables) -> Iterator[Document]:
    """Yield ``data/<table>.csv`` for each table, and ``data/columns.csv``.

    Fields are separated by commas, lines end with a line feed, the text is UTF-8. A number has the
    digits that give the same number again, a missing value is an empty field, a truth value
    ``True`` or ``False``. A line break within a text is a line feed too, and in quotes.

    Parameters
    ----------
    files : ExperimentFiles
        Where the report goes.
    found : Tables
        What `tables` gives.
    """
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
    texts = [name for name, kind in table.dtypes.items() if kind == "string"]
    clean = {str(name): table[name].str.replace(_OTHER_BREAKS, "\n", regex=True) for name in texts}
    return table.assign(**clean).to_csv(index=False, lineterminator="\n")
