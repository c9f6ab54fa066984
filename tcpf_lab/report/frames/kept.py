"""Reproductions that were kept (``results/reference``): their means, read back."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from tcpf_lab.errors import RequestError
from tcpf_lab.report.export.axes import axis_column, in_base_units
from tcpf_lab.report.export.table_columns import CELLS
from tcpf_lab.report.export.tidy import frame
from tcpf_lab.report.style import METRICS
from tcpf_lab.results import read_json

_TABLE, _MANIFEST = "table.csv", "manifest.json"


def reproductions(path: Path) -> list[Path]:
    """Give the directories of kept experiments: this one, or those in it."""
    candidates = (path, *sorted(path.glob("*/")))
    return [folder for folder in candidates if _is_kept(folder)]


def _is_kept(folder: Path) -> bool:
    has_both = all((folder / name).is_file() for name in (_TABLE, _MANIFEST))
    return has_both and not (folder / "run.yaml").exists()


def kept_cells(folders: list[Path]) -> pd.DataFrame:
    """Read the tables of kept experiments, a row per cell and metric.

    Raises
    ------
    RequestError
        If a table is not one.
    """
    rows = [row for folder in folders for row in _rows(folder)]
    settings = {key for row in rows for key in row} - set(CELLS.names)
    axes = [axis_column(key, [row[key] for row in rows if key in row]) for key in sorted(settings)]
    return frame(CELLS.with_axes(axes), [in_base_units(row, axes) for row in rows])


def _rows(folder: Path) -> Iterator[dict[str, Any]]:
    manifest = read_json(folder / _MANIFEST)
    with (folder / _TABLE).open(encoding="utf-8", newline="") as file:
        for number, line in enumerate(csv.DictReader(file), 2):
            try:
                yield from _cell(line, manifest)
            except (KeyError, ValueError, TypeError) as error:
                reason = f"not a line of such a table: {type(error).__name__} {error}"
                raise RequestError(reason, where=f"{folder / _TABLE}:{number}") from None


def _cell(line: Mapping[str, str], manifest: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    columns = list(line)
    axes = columns[columns.index("flows") + 1 : columns.index("n")]
    for metric, style in METRICS.items():
        mean, known = _number(line[f"{metric}_mean"]), _number(line[f"{metric}_published"])
        yield {
            "experiment": manifest["experiment"],
            "testbed": manifest["testbed"],
            "config": line["config"],
            "factor": "",
            "level": "",
            "case": line["case"],
            "flows": int(line["flows"]),
            **{key: line[key] for key in axes if line[key]},
            "metric": metric,
            "unit": style.unit,
            "mean": mean,
            "ci95": _number(line[f"{metric}_ci95"]),
            "published": known,
            "ratio": mean / known if known and mean is not None else None,
            "n": int(line["n"]),
            "valid_runs": int(line["valid_runs"]),
            "used": int(line["valid_runs"]),  # the table does not tell them apart
        }


def _number(text: str) -> float | None:
    return float(text) if text else None
