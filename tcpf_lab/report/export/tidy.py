"""Tidy tables: a row per run, cell, flow, code point or check; as frames, CSV and Parquet.

`tcpf_lab.report.export.columns` has the columns; a table has these and no others.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from tcpf_lab.base.units import UnitError, parse_duration, parse_rate, parse_size
from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.report.export.columns import LAYOUTS, OF_GROUPS, TABLES, Column, Kind, Layout
from tcpf_lab.report.harm import harms
from tcpf_lab.report.section import Cell, CellResult, Document, Section, read_manifest, read_metrics
from tcpf_lab.report.style import METRICS
from tcpf_lab.results.layout import ExperimentFiles, RunFiles
from tcpf_lab.spec.axis import KERNEL

_UNITS: Mapping[str, Callable[[object], float]] = {
    "bit/s": parse_rate,
    "bytes": parse_size,
    "s": parse_duration,
    "": lambda text: float(str(text)),
}


def base_value(text: str) -> tuple[float | str, str]:
    """Give a setting's value in its base unit, and that unit; a word as it is.

    Examples
    --------
    >>> base_value("100 kB"), base_value("10 Mbit"), base_value("0.25"), base_value("cubic")
    ((100000.0, 'bytes'), (10000000.0, 'bit/s'), (0.25, ''), ('cubic', ''))
    """
    for unit, parse in _UNITS.items():
        with suppress(UnitError, ValueError):
            return float(parse(text)), unit
    return text, ""


def base_numbers(key: str, texts: Iterable[str]) -> dict[str, float] | None:
    """Give the numbers of an axis in their base unit; None for words, or several units."""
    if key == KERNEL:
        return None
    values = {text: base_value(text) for text in texts}
    numbers = {text: value for text, (value, _) in values.items() if isinstance(value, float)}
    one_unit = len({unit for _, unit in values.values()}) == 1
    return numbers if one_unit and len(numbers) == len(values) else None


def axis_columns(sections: Iterable[Section]) -> list[Column]:
    """Give a column for each axis, called by its key; one with a word among its values has text."""
    texts: dict[str, dict[str, None]] = {}
    for section in sections:
        for cell in section.source.cells:
            for key, text in cell.settings:
                texts.setdefault(key, {})[text] = None
    return [axis_column(key, found) for key, found in texts.items()]


def axis_column(key: str, texts: Iterable[str]) -> Column:
    """Give the column of an axis with these values: of numbers, if they all have one unit."""
    values = [base_value(text) for text in texts]
    meaning = f"value of the key `{key}`; missing where the case has no such key"
    units = {unit for _, unit in values}
    if key == KERNEL or len(units) > 1 or any(isinstance(value, str) for value, _ in values):
        return Column(key, "text", "", meaning, "run.yaml", optional=True)
    return Column(key, "number", units.pop(), meaning, "run.yaml", optional=True)


def in_base_units(row: Mapping[str, Any], columns: Iterable[Column]) -> dict[str, Any]:
    """Give a row of a table with the settings in it as entries of their columns."""
    numeric = [column.name for column in columns if column.kind == "number" and column.name in row]
    return {**row, **{name: base_value(row[name])[0] for name in numeric}}


Row = dict[str, Any]

#: How pandas holds a kind of column: without missing entries, and with them.
_DTYPES: Mapping[Kind, tuple[str, str]] = {
    "text": ("string", "string"),
    "count": ("int64", "Int64"),
    "number": ("float64", "float64"),
    "truth": ("bool", "boolean"),
}


@dataclass(frozen=True)
class Tables:
    """The tables that are exported.

    Attributes
    ----------
    layouts : tuple of Layout
        Layouts of ``columns.csv``, with a column for each axis of the matrices.
    frames : mapping of str to DataFrame
        By the layout's name; each has its columns' units in ``attrs["units"]``.
    """

    layouts: tuple[Layout, ...]
    frames: Mapping[str, pd.DataFrame]

    @property
    def exported(self) -> tuple[Layout, ...]:
        """Layouts of the tables that become files: those of groups only if there are any."""
        absent = {name for name in OF_GROUPS if self.frames[name].empty}
        return tuple(layout for layout in self.layouts if layout.name not in absent)

    def frame(self, name: str) -> pd.DataFrame:
        """Give a table by its name in ``columns.csv``."""
        return self.frames[name]


@dataclass(frozen=True)
class UsedRun:
    """A run that a cell's means are made of, and what is read from it."""

    section: Section
    cell: Cell
    files: RunFiles

    def key(self, manifest: Mapping[str, Any]) -> Row:
        """Give the entries that say which run it is."""
        return {**_cell_key(self.section, self.cell), "seed": manifest["seed"], "run": self.id}

    @property
    def id(self) -> str:
        """Name of the run's directory."""
        return self.files.root.name


def used_runs(sections: Iterable[Section]) -> Iterator[UsedRun]:
    """Yield the runs that means are made of, in the order of the matrix."""
    for section in sections:
        for result in section.results:
            for run in result.used_runs:
                yield UsedRun(section, result.cell, section.source.files.run(run))


def tables(sections: Sequence[Section]) -> Tables:
    """Read every used run once, and give all tables.

    Parameters
    ----------
    sections : sequence of Section
        The experiments, as `tcpf_lab.report.section.gather` gives them.

    Raises
    ------
    RequestError
        If a manifest is missing or damaged.
    """
    rows: dict[str, list[Row]] = {table.name: [] for table in TABLES}
    groups: dict[Path, tuple[int, Sequence[Mapping[str, Any]]]] = {}
    for run in used_runs(sections):
        manifest, metrics = _records(run.files)
        key = run.key(manifest)
        rows["runs"].append({**key, **_run_row(manifest, metrics)})
        rows["flows"] += ({**key, **row} for row in flow_rows(metrics))
        rows["dscp"] += ({**key, **row} for row in dscp_rows(metrics))
        rows["checks"] += ({**key, **row} for row in check_rows(metrics))
        rows["groups"] += ({**key, **row} for row in group_rows(metrics))
        rows["probes"] += ({**key, **row} for row in probe_rows(metrics))
        if "groups" in metrics:
            groups[run.files.root] = int(manifest["seed"]), metrics["groups"]
    rows["harm"] += _harm_rows(sections, groups)
    rows["cells"] += _cell_rows(sections)
    rows["left_out"] += _left_out_rows(sections)
    axes = axis_columns(sections)
    layouts = tuple(table.with_axes(axes) for table in TABLES)
    frames = {
        known.name: frame(known, [in_base_units(row, axes) for row in rows[known.name]])
        for known in layouts
    }
    return Tables(layouts, frames)


def _records(files: RunFiles) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Read manifest and metrics with everything that the tables have of them."""
    made_with = ("clock", "tcpf_lab", "git_commit", "testbed_identity")
    parts = ("metrics", "per_flow", "by_dscp", "truth", "validity", "analysis")
    return read_manifest(files, "seed", "window_s", *made_with), read_metrics(files, *parts)


def frame(layout: Layout, rows: Sequence[Row]) -> pd.DataFrame:
    """Make a frame with the columns of a layout, in its order and of its types.

    An entry that a row has not got is missing, which its column must allow.
    """
    values = {column.name: _series(column, rows) for column in layout.columns}
    return with_units(pd.DataFrame(values), layout)


def _series(column: Column, rows: Sequence[Row]) -> pd.Series[Any]:
    entries = [row.get(column.name) for row in rows]
    sparse = column.optional or (column.measured and None in entries)
    return pd.Series(entries, dtype=_DTYPES[column.kind][sparse])


def with_units(table: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    """Put the units of the layout's columns into the frame's ``attrs``."""
    table.attrs["units"] = dict(layout.units)
    return table


def _cell_key(section: Section, cell: Cell) -> Row:
    source = section.source
    return {
        "experiment": source.files.experiment,
        "testbed": source.files.testbed,
        "config": cell.config,
        "factor": source.factor,
        "level": source.level,
        "case": cell.case,
        "flows": cell.flows,
        **dict(cell.settings),
    }


def _run_row(manifest: Mapping[str, Any], metrics: Mapping[str, Any]) -> Row:
    start, end = manifest["window_s"]
    truth = metrics["truth"]
    return {
        "valid": metrics["validity"]["valid"],
        "reasons": "; ".join(metrics["validity"]["reasons"]),
        "window_start_s": start,
        "window_end_s": end,
        **metrics["metrics"],
        "timeouts_pcap": truth["timeouts_pcap"],
        "timeouts_kernel": truth["timeouts_kernel"],
        "analysis": metrics["analysis"],
        **{name: manifest[name] for name in ("clock", "tcpf_lab", "git_commit")},
        "testbed_identity": manifest["testbed_identity"],
    }


def flow_rows(metrics: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the flows of a run's ``metrics.json``; nested numbers get names of their own."""
    for flow in metrics["per_flow"]:
        row = dict(flow)
        for source in ("kernel", "iperf3"):
            numbers = row.pop(source, None) or {}
            row |= {f"{source}_{name}": value for name, value in numbers.items()}
        row |= {f"{name}_packets": n for name, n in row.pop("events", {}).items()}
        if "kernel_connected" in row:
            row["kernel_connected"] = bool(row["kernel_connected"])
        yield row


def dscp_rows(metrics: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the code points of a run's ``metrics.json``."""
    for dscp, row in metrics["by_dscp"].items():
        yield {"dscp": int(dscp), **row}


def check_rows(metrics: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the checks of a run's ``metrics.json``."""
    for check in metrics["validity"]["checks"]:
        yield {"check": check["name"], "ok": check["ok"], "detail": check["detail"]}


def group_rows(metrics: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the groups of a run's ``metrics.json``."""
    for group in metrics.get("groups", ()):
        own = set(LAYOUTS["groups"].names) - {"flows"}  # which is the run's
        delays, times = group["queueing_delay_s"].items(), group["completion_s"] or {}
        yield {
            **{name: value for name, value in group.items() if name in own},
            "group": group["name"],
            "group_flows": group["flows"],
            **{f"queueing_delay_{name}_s": value for name, value in delays},
            **{f"completion_{name}_s": value for name, value in times.items()},
        }


def probe_rows(metrics: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the probes of a run's ``metrics.json``, idle and under load."""
    for probe in metrics.get("probes", ()):
        for phase in ("idle", "load"):
            if probe[phase] is not None:
                own = {name: probe[name] for name in ("kind", "direction")}
                yield {"probe": probe["name"], "phase": phase, **own, **probe[phase]}


def _harm_rows(
    sections: Iterable[Section], groups: Mapping[Path, tuple[int, Sequence[Mapping[str, Any]]]]
) -> Iterator[Row]:
    """Yield the harm of groups on each other, of the groups of each run by its directory."""
    for section in sections:
        cells = []
        for result in section.results:
            roots = (section.source.files.run(run).root for run in result.used_runs)
            cells.append((result.cell, dict(groups[root] for root in roots if root in groups)))
        for found in harms(cells):
            for measure, by_seed in found.by_seed.items():
                mean, half = mean_ci(list(by_seed.values())) if by_seed else (None, None)
                yield {
                    **_cell_key(section, found.cell),
                    "harm_of": found.of,
                    "harm_on": found.on,
                    "metric": measure,
                    "mean": mean,
                    "ci95": half,
                    "used": len(by_seed),
                }


def _cell_rows(sections: Iterable[Section]) -> Iterator[Row]:
    for section in sections:
        for result in section.results:
            for name in METRICS:
                yield {**_cell_key(section, result.cell), **_estimate_row(result, name)}


def _estimate_row(result: CellResult, metric: str) -> Row:
    estimate = result.metrics[metric]
    known = estimate.published
    return {
        "metric": metric,
        "unit": METRICS[metric].unit,
        "mean": estimate.mean,
        "ci95": estimate.ci95,
        "published": known,
        "ratio": estimate.mean / known if known and estimate.mean is not None else None,
        "n": result.n,
        "valid_runs": result.valid_runs,
        "used": result.used,
    }


def _left_out_rows(sections: Iterable[Section]) -> Iterator[Row]:
    for section in sections:
        for result in section.results:
            for problem in result.problems:
                yield {
                    **_cell_key(section, result.cell),
                    "run": problem.run,
                    "state": problem.state,
                    "reasons": "; ".join(problem.reasons),
                    "used": problem.used,
                }


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
    for layout in found.exported:
        yield files.data(layout.name, "csv"), _text(found.frame(layout.name))
    yield files.data("columns", "csv"), _text(_dictionary(found.exported))


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


def parquet_files(files: ExperimentFiles, found: Tables) -> Iterator[Document]:
    """Yield ``data/<table>.parquet`` for each table.

    The metadata of each field has ``unit``, ``meaning`` and ``source``, as in
    ``columns.csv``. The same numbers give the same bytes, with the same version of pyarrow.

    Parameters
    ----------
    files : ExperimentFiles
        Where the report goes.
    found : Tables
        What `tables` gives.
    """
    for layout in found.exported:
        yield files.data(layout.name, "parquet"), parquet(found.frame(layout.name), layout)


def parquet(table: pd.DataFrame, layout: Layout) -> bytes:
    """Give a table as the content of a Parquet file."""
    import pyarrow as pa  # here: it takes a while to load
    import pyarrow.parquet as pq

    kinds = {"text": pa.string(), "count": pa.int64(), "number": pa.float64(), "truth": pa.bool_()}
    fields = [
        pa.field(
            column.name,
            kinds[column.kind],
            metadata={"unit": column.unit, "meaning": column.meaning, "source": column.source},
        )
        for column in layout.columns
    ]
    rows = pa.Table.from_pandas(table, schema=pa.schema(fields), preserve_index=False)
    content = io.BytesIO()
    about = {"table": layout.name, "row": layout.row}
    pq.write_table(rows.replace_schema_metadata(about), content, compression="zstd")
    return content.getvalue()
