"""One factor at a time: what each level of it does to every case, and to the order of the cases."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tcpf_lab.report.compare.statistics import correlation
from tcpf_lab.report.results_table import axes_of, csv_table, printed
from tcpf_lab.report.section import CellResult, Document, Section, as_it_stands
from tcpf_lab.report.style import DRAWN, METRICS, MetricStyle
from tcpf_lab.report.table import (
    NOTHING,
    Column,
    Table,
    as_markdown,
    fixed,
    for_markdown,
    table_of,
)
from tcpf_lab.results.layout import ExperimentFiles

#: What a row without a factor is called.
DEFAULT = "as it stands"

_HOW_TO_READ = """\
A row is one level of one factor, with everything else as it stands. Mean over the runs used ± half
width of the 95 % confidence interval (Student's t); " marks a case that the level does not touch:
its runs are those of the row "{default}". tau is Kendall's rank correlation (tau-b) of the cases'
means with the published values: 1 is the published order, −1 the reverse."""
#: Stands for the value of the row that everything is compared with.
_SAME = '"'


def factors(files: ExperimentFiles, sections: Sequence[Section], title: str) -> Iterator[Document]:
    """Yield ``table.md``, a table for each metric and number of flows, and ``table.csv``.

    Parameters
    ----------
    files : ExperimentFiles
        Where the report goes.
    sections : sequence of Section
        The levels, in the order of the rows.
    title : str
        Of the whole.
    """
    levels = _levels(sections)
    flows = dict.fromkeys(result.cell.flows for s in sections for result in s.results)
    how_to_read = _HOW_TO_READ.format(default=DEFAULT)
    parts = [
        f"# {as_markdown(title)}",
        f"As it stands: {sections[0].source.conditions}.",
        how_to_read,
    ]
    for count in flows:
        for metric in METRICS.values():
            parts += [f"## {metric.title}, {count} flows"]
            parts += [for_markdown(_table(levels, metric, count))]
    left_out = [
        as_markdown(f"- {section.source.files.experiment}/{problem}")
        for section in sections
        for result in section.results
        for problem in result.problems
    ]
    if left_out:
        parts += ["## Runs left out or invalid", "\n".join(left_out)]
    yield files.table("md"), "\n\n".join(parts) + "\n"
    yield files.table("csv"), _csv(sections)


@dataclass(frozen=True)
class _Level:
    """A row: results by flows and case, those that its own runs gave and those it shares."""

    section: Section
    own: dict[tuple[int, str], CellResult]
    shared: dict[tuple[int, str], CellResult]

    def results(self, flows: int) -> list[CellResult]:
        every = {**self.shared, **self.own}
        return [result for (count, _), result in every.items() if count == flows]


def _levels(sections: Sequence[Section]) -> list[_Level]:
    """Give every level the cases that it does not touch, from the one that changes nothing."""
    rows = ((section, as_it_stands(section, sections)) for section in sections)
    return [
        _Level(section, _by_cell(section.results), _by_cell(default.results) if default else {})
        for section, default in rows
    ]


def _by_cell(results: Sequence[CellResult]) -> dict[tuple[int, str], CellResult]:
    return {(result.cell.flows, result.cell.label): result for result in results}


def rank_correlation(results: Sequence[CellResult], metric: str) -> float | None:
    """Give Kendall's tau-b of measured means and published values.

    Parameters
    ----------
    results : sequence of CellResult
        Cases of one configuration and number of flows.
    metric : str
        A name of ``style.METRICS``.

    Returns
    -------
    float or None
        From -1 to 1; None if fewer than two cases have both values, or one side is all equal.
    """
    pairs = [
        (known[metric], mean)
        for result in results
        if (mean := result.metrics[metric].mean) is not None
        and metric in (known := result.cell.known)
    ]
    taus = correlation(*np.array(pairs, float).reshape(-1, 2).T)
    return None if taus is None else float(taus[0])


def _table(levels: Sequence[_Level], metric: MetricStyle, flows: int) -> Table:
    cases = list(dict.fromkeys(r.cell.label for level in levels for r in level.section.results))
    known = _published_row(levels, metric.name, flows, cases)
    rows = [["published", "", *known, ""]] if any(known) else []
    previous = ""
    for level in levels:
        factor = level.section.source.factor or DEFAULT
        entries = [_entry(level, metric, flows, case) for case in cases]
        tau = _shown(rank_correlation(level.results(flows), metric.name))
        name = "" if factor == previous else factor
        rows.append([name, level.section.source.level, *entries, tau])
        previous = factor
    numbers = (Column(heading, "number") for heading in (*cases, "tau"))
    return table_of(metric.slug, metric.title, ("factor", "level", *numbers), rows)


def _shown(tau: float | None) -> str:
    return NOTHING if tau is None else fixed(tau, 2)


def _entry(level: _Level, metric: MetricStyle, flows: int, case: str) -> str:
    result = level.own.get((flows, case))
    if result is not None:
        return str(printed(result.metrics[metric.name], metric))
    return _SAME if (flows, case) in level.shared else NOTHING


def _published_row(
    levels: Sequence[_Level], metric: str, flows: int, cases: Sequence[str]
) -> list[str]:
    known = {r.cell.label: r.cell.known for r in levels[0].results(flows)}
    values = [known.get(case, {}).get(metric) for case in cases]
    return ["" if value is None else f"{value:g}" for value in values]


def _csv(sections: Sequence[Section]) -> str:
    """One row per level and cell: the columns of an experiment's table behind two more."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    axes = axes_of([result for section in sections for result in section.results])
    for index, section in enumerate(sections):
        header, *rows = csv.reader(io.StringIO(csv_table(section.results, axes)))
        if index == 0:
            writer.writerow(["factor", "level", *header])
        names = [section.source.factor or DEFAULT, section.source.level]
        writer.writerows([*names, *row] for row in rows)
    return text.getvalue()


def terminal_factors(sections: Sequence[Section]) -> Table:
    """Give the rank correlations of every level for a terminal; ``table.md`` has the values."""
    columns = (
        *(Column(heading, fit="folded") for heading in ("factor", "level")),
        Column("flows", "number"),
        *(Column(METRICS[name].slug, "number", fit="whole") for name in DRAWN),
    )
    rows = (
        (
            level.section.source.factor or DEFAULT,
            level.section.source.level,
            str(flows),
            *(_shown(rank_correlation(level.results(flows), name)) for name in DRAWN),
        )
        for level in _levels(sections)
        for flows in dict.fromkeys(flows for flows, _ in level.own)
    )
    return table_of("taus", "Kendall's tau of the cases with the published order", columns, rows)
