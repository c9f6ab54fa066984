"""The table of an experiment: CSV for programs, Markdown like the papers', one for a terminal."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import numpy as np

from tcpf_lab.report.section import Cell, CellResult, Estimate, Problem
from tcpf_lab.report.style import DRAWN, METRICS, MetricStyle
from tcpf_lab.report.table import (
    NOTHING,
    Column,
    Entry,
    Group,
    Line,
    Row,
    Table,
    as_markdown,
    for_markdown,
    table_of,
)

#: Where columns of axes stand in a row of ``table.csv``: behind ``flows``.
_AXES_AT = 3

_HOW_TO_READ = """\
Mean over the runs used ± half width of the 95 % confidence interval (Student's t), the published
value in parentheses; {nothing} where there is none. A run is one seed; "valid runs" counts those
that passed every check, of the runs requested.{invalid} The length of the published runs is not
known, so their timeouts compare by order and ratio, not by size."""

_INVALID_USED = " Runs that failed a check are part of the means, as requested."


def csv_header() -> list[str]:
    """Give the columns of ``table.csv``."""
    columns = ["config", "case", "flows", "n", "valid_runs"]
    for name in METRICS:
        columns += [f"{name}_mean", f"{name}_ci95", f"{name}_published"]
    return columns


def axes_of(results: Sequence[CellResult]) -> list[str]:
    """Give the keys of the axes that any cell has, in the order of appearance."""
    return list(dict.fromkeys(key for result in results for key, _ in result.cell.settings))


def csv_table(results: Sequence[CellResult], axes: Sequence[str] | None = None) -> str:
    """Give one row per cell; a number that does not exist is an empty field.

    Parameters
    ----------
    results : sequence of CellResult
        The cells.
    axes : sequence of str, optional
        Keys of axes, a column each behind ``flows``; those of the cells by default.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    keys = axes_of(results) if axes is None else list(axes)
    header = csv_header()
    writer.writerow([*header[:_AXES_AT], *keys, *header[_AXES_AT:]])
    for result in results:
        cell = result.cell
        settings = dict(cell.settings)
        row: list[object] = [cell.config, cell.case, cell.flows]
        row += [settings.get(key, "") for key in keys]
        row += [cell.n, result.valid_runs]
        for name in METRICS:
            estimate = result.metrics[name]
            row += map(_digits, (estimate.mean, estimate.ci95, estimate.published))
        writer.writerow(row)
    return text.getvalue()


def _digits(value: float | None) -> str:
    """Six significant digits without an exponent."""
    if value is None:
        return ""
    return np.format_float_positional(value, precision=6, fractional=False, trim="-")


def printed(estimate: Estimate, metric: MetricStyle, note: str = "") -> Entry:
    """Give the entry of an estimate, with the metric's decimals.

    A half width too small for them is printed as a bound, never as zero.
    """
    known = "" if estimate.published is None else f"{estimate.published:g}"
    if estimate.mean is None:
        return Entry(NOTHING, published=known, note=note)
    places = metric.places(estimate.mean)
    ours = f"{estimate.mean:.{places}f}"
    half = "" if estimate.ci95 is None else f"{estimate.ci95:.{places}f}"
    if estimate.ci95 and float(half) == 0:
        half = f"<{10.0**-places:.{places}f}"
    return Entry(ours, estimate.mean, half, known, note)


def by_flows(results: Sequence[CellResult]) -> dict[int, list[CellResult]]:
    """Group cells by their number of flows, in the order of the matrix."""
    found: dict[int, list[CellResult]] = {}
    for result in results:
        found.setdefault(result.cell.flows, []).append(result)
    return found


def markdown_table(results: Sequence[CellResult], title: str, conditions: str) -> str:
    """Give the papers' table, a part per number of flows: a row per case, a column per metric.

    Side by side, as the papers print them, the parts would be too wide for a screen.

    Parameters
    ----------
    results : sequence of CellResult
        Cells of one experiment.
    title, conditions : str
        Heading, and the conditions of every run, e.g. ``60 s, 10 Mbit/s, 200 ms``.

    Returns
    -------
    str
        Markdown: the table, how to read it, and a line per run that is missing or failed a check.
    """
    problems = [problem for result in results for problem in result.problems]
    invalid = _INVALID_USED if any(problem.used for problem in problems) else ""
    several = len({result.cell.config for result in results}) > 1
    parts = [f"# {as_markdown(title)}", f"Conditions of every run: {conditions}."]
    for count, own in by_flows(results).items():
        parts += [f"## {count} flows", for_markdown(_part(own, several))]
    parts += ["## How to read", _HOW_TO_READ.format(nothing=NOTHING, invalid=invalid)]
    return "\n\n".join(parts + _problem_parts(problems)) + "\n"


def _part(results: Sequence[CellResult], several: bool) -> Table:
    """One part of the table; ``several`` configurations get a column of their own, so do axes."""
    keys = axes_of(results)
    names = [*["config"] * several, "case", *keys]
    numbers = (*(style.heading for style in METRICS.values()), "valid runs")
    rows: list[Line] = []
    for result in results:
        settings = dict(result.cell.settings)
        rows.append(
            (
                *[result.cell.config] * several,
                result.cell.case,
                *(settings.get(key, "") for key in keys),
                *(printed(result.metrics[name], style) for name, style in METRICS.items()),
                f"{result.valid_runs}/{result.n}",
            )
        )
    columns = (*map(Column, names), *(Column(heading, "number") for heading in numbers))
    return table_of("results", "", columns, rows)


def _problem_parts(problems: Sequence[Problem]) -> list[str]:
    parts = []
    for heading, used in (("Runs left out", False), ("Runs used although invalid", True)):
        lines = [f"- {as_markdown(str(one))}" for one in problems if one.used is used]
        parts += [f"## {heading}", "\n".join(lines)] if lines else []
    return parts


def terminal_table(results: Sequence[CellResult], title: str) -> Table:
    """Give the papers' metrics for a terminal of 80 columns: a row per cell, grouped by flows.

    A case with axes has a row for their values, which the heading names. The published values stand
    under ours. ``table.csv`` has every metric.
    """
    axes = axes_of(results)
    metrics = [METRICS[name].heading.replace(" (", "\n(") for name in DRAWN]
    columns = (
        Column("\n  ".join(["case", *axes]), fit="folded"),
        *(Column(heading, "number", fit="whole") for heading in (*metrics, "valid\nruns")),
    )
    several = len({result.cell.config for result in results}) > 1
    groups = []
    for count, own in by_flows(results).items():
        rows: list[Row] = []
        case = ""
        for result in own:
            name = f"{result.cell.config} {result.cell.case}" if several else result.cell.case
            if result.cell.settings and name != case:
                rows.append((Entry(name),))
            case = name
            rows.append((Entry(_row_name(name, result.cell, axes)), *_terminal_entries(result)))
        groups.append(Group(f"{count} flows", tuple(rows)))
    note = "mean ± half width of the 95 % interval; (published); valid/requested runs"
    return Table("results", title, columns, tuple(groups), note, close=True)


def _row_name(name: str, cell: Cell, axes: Sequence[str]) -> str:
    """Give the values of a cell's axes in the order of the heading, or the case without any."""
    settings = dict(cell.settings)
    values = (settings.get(key, NOTHING) for key in axes)
    return f"  {', '.join(values)}" if settings else name


def _terminal_entries(result: CellResult) -> Row:
    runs = f"{result.valid_runs}/{result.n}"
    colour = "" if result.valid_runs == result.n else "yellow"
    estimates = (printed(result.metrics[name], METRICS[name]) for name in DRAWN)
    return (*estimates, Entry(runs, style=colour))
