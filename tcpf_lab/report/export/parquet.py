"""Tidy tables as Parquet, each field with its unit and meaning."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tcpf_lab.report.export.columns import Column, Layout
from tcpf_lab.report.export.tidy import Tables
from tcpf_lab.report.section import Document
from tcpf_lab.results.layout import ExperimentFiles

_TYPES = {"text": pa.string(), "count": pa.int64(), "number": pa.float64(), "truth": pa.bool_()}


def parquet_files(files: ExperimentFiles, found: Tables) -> Iterator[Document]:
    """Yield ``data/<table>.parquet`` for each table.

    The metadata of each field has ``unit``, ``meaning`` and ``source``, as the data dictionary has
    them. The same numbers give the same bytes, with the same version of pyarrow.

    Parameters
    ----------
    files : ExperimentFiles
        Where the report goes.
    found : Tables
        What `tables` gives.
    """
    for layout in found.layouts:
        yield files.data(layout.name, "parquet"), parquet(found.frame(layout.name), layout)


def parquet(table: pd.DataFrame, layout: Layout) -> bytes:
    """Give a table as the content of a Parquet file."""
    schema = pa.schema([_field(column) for column in layout.columns])
    content = io.BytesIO()
    pq.write_table(
        pa.Table.from_pandas(table, schema=schema, preserve_index=False).replace_schema_metadata(
            {"table": layout.name, "row": layout.row}
        ),
        content,
        compression="zstd",
    )
    return content.getvalue()


def _field(column: Column) -> pa.Field:
    told = {"unit": column.unit, "meaning": column.meaning, "source": column.source}
    return pa.field(column.name, _TYPES[column.kind], metadata=told)
