"""The columns of every table and frame, from ``columns.csv``: names, units, meanings, sources."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

#: ``count`` is a whole number, ``truth`` yes or no.
Kind = Literal["text", "count", "number", "truth"]


@dataclass(frozen=True)
class Column:
    """One column.

    Parameters
    ----------
    name : str
        As in the table; a number that ``metrics.json`` has too is called the same here.
    kind : {"text", "count", "number", "truth"}
        Type of the values.
    unit : str
        Of a number; empty for what has none.
    meaning : str
        Definition in a few words.
    source : str
        Where it comes from: a file of the run with the key in it, or another table.
    optional : bool
        Whether an entry may be missing.
    measured : bool
        Whether an entry is missing where the run could not measure it, as without captures.  The
        column has the type of one without missing entries where none is.
    """

    name: str
    kind: Kind
    unit: str
    meaning: str
    source: str
    optional: bool = False
    measured: bool = False


@dataclass(frozen=True)
class Layout:
    """One table: what a row is, and its columns in their order."""

    name: str
    row: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]

    @property
    def units(self) -> dict[str, str]:
        """The unit of every column that has one."""
        return {column.name: column.unit for column in self.columns if column.unit}

    def with_axes(self, axes: Sequence[Column]) -> Layout:
        """Give the layout with the columns that the matrix's own axes add, behind ``flows``."""
        at = self.names.index("flows") + 1
        return replace(self, columns=(*self.columns[:at], *axes, *self.columns[at:]))


def _read() -> dict[str, Layout]:
    """Read ``columns.csv``: a row per table, then a row per column with the tables that have it."""
    rows: dict[str, str] = {}
    columns: dict[str, list[Column]] = {}
    with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            if not line["column"]:
                rows[line["tables"]] = line["meaning"]
                continue
            column = Column(
                *(line["column"], cast("Kind", line["kind"])),
                *(line["unit"], line["meaning"], line["source"]),
                optional="optional" in line["missing"],
                measured="measured" in line["missing"],
            )
            for table in line["tables"].split():
                columns.setdefault(table, []).append(column)
    return {name: Layout(name, row, tuple(columns[name])) for name, row in rows.items()}


#: Every table and frame by its name, those that are exported first.
LAYOUTS = _read()
#: The tables that are exported, and those of them that only runs with groups have.
TABLES = tuple(
    LAYOUTS[name]
    for name in ("runs", "cells", "flows", "dscp", "checks", "groups", "probes", "harm", "left_out")
)
OF_GROUPS = ("groups", "probes", "harm")
#: Columns that identify the run of a row.
KEY = LAYOUTS["runs"].columns[: LAYOUTS["runs"].names.index("run") + 1]
