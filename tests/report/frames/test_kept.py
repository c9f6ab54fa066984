"""Reproductions that were kept, read back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from table_builder import cell_result

from tcpf_lab.base.errors import RequestError
from tcpf_lab.report.compare.statistics import CellKey
from tcpf_lab.report.frames.results import kept_cells, reproductions
from tcpf_lab.report.table import csv_table


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A sweep over a threshold, with a case that has none."""
    results = []
    for place, size in enumerate(("100 kB", "0.2 MB", "")):
        found = cell_result(CellKey("A", 100, "TB+RIO"), {"timeouts": (place, place + 2)}, (1, 2))
        settings = (("queue.max", size),) if size else ()
        results.append(replace(found, cell=replace(found.cell, settings=settings)))
    (tmp_path / "table.csv").write_text(csv_table(results))
    (tmp_path / "manifest.json").write_text(json.dumps({"experiment": "x", "testbed": "uml"}))
    return tmp_path


def test_the_axes_of_a_sweep_are_columns_in_base_units(kept: Path) -> None:
    found = kept_cells(reproductions(kept))
    timeouts = found[found["metric"] == "timeouts"]
    assert timeouts["queue.max"].tolist()[:2] == [100_000.0, 200_000.0]
    assert pd.isna(timeouts["queue.max"].iloc[2])
    assert timeouts["mean"].tolist() == [1.0, 2.0, 3.0]
    assert found.attrs["units"]["queue.max"] == "bytes"


def test_what_is_no_such_table_is_an_error_with_its_line(kept: Path) -> None:
    (kept / "table.csv").write_text("case,flows\nTB+RIO,100\n")
    with pytest.raises(RequestError, match=r"table.csv:2.*not a line of such a table"):
        kept_cells(reproductions(kept))
