"""The tables of an experiment: CSV for programs, Markdown like the papers', one for a terminal."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from tcpf_lab.report.section import Cell, CellResult, Estimate, Problem
from tcpf_lab.report.style import DRAWN, METRICS, MetricStyle

#: Stands in a table where there is no number.
NOTHING = "–"
#: Columns of the narrowest terminal that tables are made for.
TERMINAL = 80
#: Where columns of axes stand in a row of ``table.csv``: behind ``flows``.
_AXES_AT = 3

#: What Markdown would not show as it is; a "<" that no tag begins with is none.
_MARKUP = re.compile(r"[\\`\[]|<(?=[A-Za-z/!?])")

_HOW_TO_READ = """\
Mean over the runs used ± half width of the 95 % confidence interval (Student's t), the published
value in parentheses; {nothing} where there is none. A run is one seed; "valid runs" counts those
that passed every check, of those asked for.{invalid} The published runs do not state how long they
took, so their timeouts compare by order and ratio, not by size."""

_INVALID_USED = " Runs that failed a check are part of the means, because that was asked for."


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


@dataclass(frozen=True)
class Printed:
    """An estimate as it is printed; ``half`` and ``published`` are empty where there is none."""

    mean: str
    half: str
    published: str

    def __str__(self) -> str:
        """Give ``1532 ± 21``, or the mean alone."""
        return f"{self.mean} ± {self.half}" if self.half else self.mean

    @property
    def in_parentheses(self) -> str:
        """The published value as a table has it beside ours, ``(1322)``, or nothing."""
        return f"({self.published})" if self.published else ""


def printed(estimate: Estimate, metric: MetricStyle) -> Printed:
    """Give an estimate with the metric's decimals.

    A half width too small for them is printed as a bound, never as zero.
    """
    known = "" if estimate.published is None else f"{estimate.published:g}"
    if estimate.mean is None:
        return Printed(NOTHING, "", known)
    places = metric.places(estimate.mean)
    ours = f"{estimate.mean:.{places}f}"
    if estimate.ci95 is None:
        return Printed(ours, "", known)
    half = f"{estimate.ci95:.{places}f}"
    if estimate.ci95 > 0 and float(half) == 0:
        half = f"<{10.0**-places:.{places}f}"
    return Printed(ours, half, known)


def _flow_counts(results: Sequence[CellResult]) -> list[int]:
    """Flow counts in the order of the matrix."""
    return list(dict.fromkeys(result.cell.flows for result in results))


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
    for count in _flow_counts(results):
        own = [result for result in results if result.cell.flows == count]
        parts += [f"## {count} flows", "\n".join(_markdown_rows(own, several))]
    parts += ["## How to read", _HOW_TO_READ.format(nothing=NOTHING, invalid=invalid)]
    return "\n\n".join(parts + _problem_parts(problems)) + "\n"


def _markdown_rows(results: Sequence[CellResult], several: bool) -> list[str]:
    """One part of the table; ``several`` configurations get a column of their own, so do axes."""
    headings = (style.heading for style in METRICS.values())
    keys = axes_of(results)
    rows = [["config"] * several + ["case", *keys, *headings, "valid runs"]]
    for result in results:
        settings = dict(result.cell.settings)
        row = [result.cell.config] * several + [result.cell.case]
        row += [settings.get(key, "") for key in keys]
        rows.append(row + _markdown_entries(result))
    return aligned(rows, left=1 + several + len(keys))


def _markdown_entries(result: CellResult) -> list[str]:
    every = [printed(result.metrics[name], style) for name, style in METRICS.items()]
    entries = [f"{one} {one.in_parentheses}".rstrip() for one in every]
    return [*entries, f"{result.valid_runs}/{result.n}"]


def as_markdown(text: str) -> str:
    r"""Give text so that Markdown shows it as it is: no link, no code, no HTML.

    Examples
    --------
    >>> print(as_markdown("<b> ± <1"))
    \<b> ± <1
    """
    return _MARKUP.sub(r"\\\g<0>", text)


def aligned(rows: list[list[str]], left: int) -> list[str]:
    """Markdown rows padded to equal widths, so that the source reads as a table too."""
    cells = [[as_markdown(text).replace("|", "\\|") for text in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    rule = ["-" * w if i < left else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    lines = []
    for row in (cells[0], rule, *cells[1:]):
        padded = (
            text.ljust(width) if i < left else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append(f"| {' | '.join(padded)} |")
    return lines


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
    caption = "mean ± half width of the 95 % interval; (published); valid runs/asked for"
    axes = axes_of(results)
    metrics = [METRICS[name].heading.replace(" (", "\n(") for name in DRAWN]
    columns = [("\n  ".join(["case", *axes]), "folded"), *((name, "number") for name in metrics)]
    table = plain_table(title, caption, [*columns, ("valid\nruns", "number")])
    several = len({result.cell.config for result in results}) > 1
    for count in _flow_counts(results):
        table.add_row(Text(f"{count} flows", style="bold"))
        case = ""
        for result in (result for result in results if result.cell.flows == count):
            name = f"{result.cell.config} {result.cell.case}" if several else result.cell.case
            if result.cell.settings and name != case:
                table.add_row(Text(name))
            case = name
            table.add_row(Text(_row_name(name, result.cell, axes)), *_terminal_entries(result))
        table.add_section()
    return fitted(table)


def _row_name(name: str, cell: Cell, axes: Sequence[str]) -> str:
    """Give the values of a cell's axes in the order of the heading, or the case without any."""
    settings = dict(cell.settings)
    values = (settings.get(key, NOTHING) for key in axes)
    return f"  {', '.join(values)}" if settings else name


#: How a column of a table for a terminal is set, by a word for it.
_SET: dict[str, dict[str, Any]] = {
    "left": {},
    "folded": {"overflow": "fold"},
    "whole": {"no_wrap": True},
    "right": {"justify": "right"},
    "number": {"justify": "right", "no_wrap": True},
}


def plain_table(title: str, caption: str = "", columns: Iterable[tuple[str, str]] = ()) -> Table:
    """Give an empty table as all tables for a terminal look.

    Parameters
    ----------
    title, caption : str
        What stands above and below.
    columns : iterable of (str, str)
        Headings, and how what is below is set: ``left``, ``folded`` where it has no room,
        ``whole`` on its line; ``right``, or a ``number``, which is whole too.
    """
    table = Table(title=Text(title), box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    if caption:
        table.caption = Text(caption)
    for heading, how in columns:
        table.add_column(Text(heading), **_SET[how])
    return table


def fitted(table: Table) -> Table:
    """Bring the columns of a table closer together if a terminal would have to fold names."""
    roomy = Console(width=1000)
    if Measurement.get(roomy, roomy.options, table).maximum > TERMINAL:
        table.padding = (0, 0, 0, 0)
        table.show_edge = False
    return table


def _terminal_entries(result: CellResult) -> list[Text]:
    row = []
    for name in DRAWN:
        one = printed(result.metrics[name], METRICS[name])
        row.append(Text.assemble(str(one), (f"\n{one.in_parentheses}".rstrip(), "dim")))
    runs = f"{result.valid_runs}/{result.n}"
    return [*row, Text(runs, style="" if result.valid_runs == result.n else "yellow")]


#: Stands before a negative number; a hyphen is narrower, and a line may be broken behind it.
MINUS = "\u2212"
#: Whole numbers from here on have more than three digits.
_WHOLE_FROM = 1000


def fixed(value: float, places: int) -> str:
    """Give a number with so many decimals; what rounds to zero has no sign.

    Examples
    --------
    >>> fixed(-0.333, 2), fixed(-0.001, 2)
    ('−0.33', '0.00')
    """
    return f"{value:z.{places}f}".replace("-", MINUS)


def significant(value: float) -> str:
    """Give three significant digits, whole numbers from 1000 on, without an exponent.

    Examples
    --------
    >>> significant(0.98765), significant(999.9), significant(12345.6), significant(-0.00002)
    ('0.988', '1000', '12346', '−0.00002')
    """
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    if abs(value) >= _WHOLE_FROM:
        return fixed(value, 0)
    rounded = Decimal(f"{value:z.2e}").normalize()
    return f"{rounded:f}".replace("-", MINUS)


def spread(values: Sequence[float]) -> str:
    """Give the smallest and the largest of some values, ``1.02 to 1.95``, or the only one."""
    low, high = significant(min(values)), significant(max(values))
    return low if low == high else f"{low} to {high}"


def ratios(*values: float) -> tuple[str, ...]:
    """Give ratios, those below 10 with three decimals, more where one would pass for 1.

    What a ratio says is on which side of 1 it is: an end of an interval must not seem to be 1.

    Examples
    --------
    >>> ratios(0.5, 0.49312, 12.0)
    ('0.500', '0.493', '12')
    >>> ratios(1.00031, 1.00012, 1.0005)
    ('1.0003', '1.0001', '1.0005')
    """
    places = next((p for p in range(3, 6) if not any(_passes_for_1(v, p) for v in values)), 6)
    return tuple(fixed(v, places) if abs(v) < 10 else significant(v) for v in values)


def _passes_for_1(value: float, places: int) -> bool:
    return float(fixed(abs(value), places)) == 1 and not math.isclose(value, 1, rel_tol=1e-9)
