"""Several experiments together, under the numbers that the published tables and figures have.

Configuration A is Table 4.1 and Figures 4.1.1 to 4.1.4 of the thesis, with four of the cases, and
Table 4 of the paper, with all seven; B, C and D follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tcpf_lab.reference.published import CONFIGS, THESIS_CASES
from tcpf_lab.report.section import SUFFIXES, Document, Section, figure_name, figures
from tcpf_lab.report.style import DRAWN
from tcpf_lab.report.sweep_figures import draw_sweep
from tcpf_lab.report.table import csv_table, markdown_table
from tcpf_lab.results import ExperimentFiles

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
