"""What the analysis of captures found as JSON lines, CSV and Parquet: flows, or events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd

from tcpf_lab.report.export.columns import LAYOUTS
from tcpf_lab.report.export.parquet import parquet
from tcpf_lab.report.frames.captures import Captures


def parquet_file(found: Captures, *, events: bool) -> bytes:
    """Give a Parquet file; each field has its unit and meaning."""
    if events:
        return parquet(found.events, LAYOUTS["events"])
    return parquet(found.flows, LAYOUTS["capture_flows"])


def csv_text(found: Captures, *, events: bool) -> str:
    """Give CSV: commas, line feeds, a missing value is an empty field."""
    table = found.events if events else found.flows
    return table.to_csv(index=False, lineterminator="\n")


def json_lines(found: Captures, *, events: bool) -> str:
    """Give an object per line and row, a missing value is null."""
    table = found.events if events else found.flows
    return "".join(json.dumps(row) + "\n" for row in _records(table))


def event_lists(found: Captures) -> Iterator[list[dict[str, Any]]]:
    """Yield the events of each capture as JSON has them."""
    table = found.events
    for analysis in found.analyses:
        own = table[table["capture"] == analysis.capture.name]
        yield list(_records(own.drop(columns="capture")))


def _records(table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield rows with numbers and texts of Python, None for what is missing."""
    plain = table.astype(object).where(table.notna(), None)
    columns = list(plain.columns)
    for row in plain.itertuples(index=False, name=None):
        yield dict(zip(columns, row, strict=True))
