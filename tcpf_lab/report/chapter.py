"""Several experiments together, under the numbers that the published tables and figures have.

Configuration A is Table 4.1 and Figures 4.1.1 to 4.1.4 of the thesis, with four of the cases, and
Table 4 of the paper, with all seven; B, C and D follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tcpf_lab.report.claims.published import CONFIGS, THESIS_CASES
from tcpf_lab.report.section import SUFFIXES, Document, Section, figure_name
from tcpf_lab.report.style import DISTINCT, DRAWN, METRICS, case_styles
from tcpf_lab.report.table import csv_table, markdown_table
from tcpf_lab.results.layout import ExperimentFiles
from tcpf_lab.spec.load import load


@dataclass(frozen=True)
class SweepFigure:
    """One figure: its file's name without suffix, metric, axis and number of flows."""

    name: str
    metric: str
    key: str
    flows: int


def sweep_figures(section: Section) -> tuple[SweepFigure, ...]:
    """Give a figure per metric and number of flows; none for a single value, or several axes.

    With several a line would have to be drawn for each combination of the others' values. There is
    none either of more cases than can be told apart, or where no case has runs at two values.
    """
    swept = [result for result in section.results if result.cell.settings and result.used]
    keys = {key for result in swept for key, _ in result.cell.settings}
    if len(keys) != 1 or len({result.cell.case for result in swept}) > DISTINCT:
        return ()
    (key,) = keys
    values: dict[tuple[int, str], set[str]] = {}
    for result in swept:
        cell = result.cell
        values.setdefault((cell.flows, cell.case), set()).add(dict(cell.settings)[key])
    counts = sorted({flows for (flows, _), found in values.items() if len(found) > 1})
    many = {flows: f"-flows{flows}" * (len(counts) > 1) for flows in counts}
    name = section.source.files.experiment
    return tuple(
        SweepFigure(figure_name(name, metric) + many[flows], metric, key, flows)
        for flows in counts
        for metric in DRAWN
        if all(result.metrics[metric].values for result in swept)
    )


def draw_sweep(
    files: ExperimentFiles, section: Section, suffixes: Sequence[str] = SUFFIXES
) -> Iterator[Document]:
    """Yield every figure of `sweep_figures` in some formats.

    Parameters
    ----------
    files : ExperimentFiles
        Where the report goes.
    section : Section
        Runs of an experiment with axes.
    suffixes : sequence of str
        Formats, of ``SUFFIXES``.
    """
    wanted = sweep_figures(section) if suffixes else ()
    if not wanted:
        return
    from tcpf_lab.report.plots.kinds import KINDS, Wanted, draw  # here: matplotlib takes a second
    from tcpf_lab.report.plots.runs import read_run

    runs = [
        (result.cell.flows, read_run(run, load(run.spec), section.source.cases))
        for result in section.results
        if result.cell.settings
        for run in map(section.source.files.run, result.used_runs)
    ]
    for figure in wanted:
        own = [run for flows, run in runs if flows == figure.flows]
        said = Wanted(metric=METRICS[figure.metric], parameter=figure.key)
        for suffix, content in draw(KINDS["parameter"], own, said, suffixes).items():
            yield files.figure(figure.name, suffix), content


#: The paper's Table 4 is of the first configuration.
FIRST_TABLE = 4


def chapter(
    files: ExperimentFiles, sections: Sequence[Section], suffixes: Sequence[str] = SUFFIXES
) -> Iterator[Document]:
    """Yield every table and figure of a collection.

    Parameters
    ----------
    files : ExperimentFiles
        Where the report goes.
    sections : sequence of Section
        The experiments; those that were published get their numbers, all others have their own
        names.
    suffixes : sequence of str
        Formats of the figures; none are drawn without any.
    """
    for section in sections:
        if numbered(section, sections):
            yield from _published(files, section, suffixes)
        else:
            yield from _own(files, section, suffixes)
    yield files.table("csv"), csv_table([r for section in sections for r in section.results])


def numbered(section: Section, sections: Sequence[Section]) -> bool:
    """Say whether a section of a collection has the numbers of published tables and figures.

    Of several experiments that are one configuration the first has them.
    """
    same = (one for one in sections if one.published and one.config == section.config)
    return next(same, None) is section


def thesis_part(section: Section) -> Section:
    """Give the section with the thesis' cases only."""
    results = [result for result in section.results if result.cell.case in THESIS_CASES]
    return replace(section, results=tuple(results))


def figure_numbers(section: Section) -> dict[str, str]:
    """Give the number of a published configuration's figures, by metric: ``4.1.1``, ..."""
    row = 1 + CONFIGS.index(section.config)
    return {metric: f"4.{row}.{number}" for number, metric in enumerate(DRAWN, 1)}


def _published(
    files: ExperimentFiles, section: Section, suffixes: Sequence[str]
) -> Iterator[Document]:
    place, title = CONFIGS.index(section.config), section.source.title
    thesis = thesis_part(section)
    for name, part in ((f"4.{1 + place}", thesis), (str(FIRST_TABLE + place), section)):
        if part.results:
            table = markdown_table(part.results, f"Table {name}. {title}", part.source.conditions)
            yield files.root / f"table-{name}.md", table
    for metric, number in figure_numbers(section).items():
        name, heading = figure_name(number, metric), f"Figure {number}. {title}"
        yield from figures(files, thesis, metric, name, heading, suffixes)


def _own(files: ExperimentFiles, section: Section, suffixes: Sequence[str]) -> Iterator[Document]:
    name = section.source.files.experiment
    table = markdown_table(section.results, section.source.title, section.source.conditions)
    yield files.root / f"table-{name}.md", table
    yield from own_figures(files, section, suffixes)


def own_figures(
    files: ExperimentFiles, section: Section, suffixes: Sequence[str]
) -> Iterator[Document]:
    """Yield the figures of an experiment under its own name: bars, or lines where it is a sweep."""
    for metric in DRAWN:
        name = figure_name(section.source.files.experiment, metric)
        yield from figures(files, section, metric, name, suffixes=suffixes)
    yield from draw_sweep(files, section, suffixes)


def figures(
    files: ExperimentFiles,
    section: Section,
    metric: str,
    name: str,
    heading: str = "",
    suffixes: Sequence[str] = SUFFIXES,
) -> Iterator[Document]:
    """Yield the bar chart of a metric in some formats; none if there is nothing to draw.

    None of a sweep either, nor of more cases than can be told apart.
    """
    if not section.usable or not section.charted or not suffixes or not section.measured(metric):
        return  # the table lists its runs with the reasons; there is nothing to draw
    from tcpf_lab.report.figure import bar_chart  # here: loading matplotlib takes a second

    title = heading or section.source.heading
    source = section.source
    looks = case_styles([result.cell.case for result in section.results], source.cases)
    drawn = bar_chart(section.results, metric, title, source.conditions, suffixes, looks)
    for suffix, content in drawn.items():
        yield files.figure(name, suffix), content
