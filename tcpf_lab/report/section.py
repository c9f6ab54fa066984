"""What a report is made of: the runs of one experiment, and what they say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tcpf_lab.reference.published import CONFIGS
from tcpf_lab.report.collect import Cell, CellResult, collect
from tcpf_lab.report.style import DISTINCT, METRICS, case_styles
from tcpf_lab.results import ExperimentFiles

#: File formats of every figure of a report.
SUFFIXES: tuple[str, ...] = ("png", "pdf", "svg")
#: A file of a report and its content; made one by one, so that a full disk is told early.
Document = tuple[Path, str | bytes]


@dataclass(frozen=True)
class Source:
    """The runs of one experiment.

    Parameters
    ----------
    files : ExperimentFiles
        Where they are.
    cells : sequence of Cell
        The matrix, in its own order.
    title, conditions : str
        ``Configuration A`` and the conditions of every run, ``60 s, 10 Mbit/s, 200 ms``.
    cases : tuple of str
        All cases of the experiment, also those without a cell: figures tell them apart.
    stale : mapping of str to str
        What makes runs stale, by their ids: they are left out.
    factor, level : str
        What was varied in a collection, and its value; empty for an experiment as it stands.
    settings : tuple of str
        What was changed of the experiment's file, ``PATH=VALUE`` each: by the level, then by the
        command line.
    """

    files: ExperimentFiles
    cells: Sequence[Cell]
    title: str
    conditions: str
    cases: tuple[str, ...] = ()
    stale: Mapping[str, str] = field(default_factory=dict)
    factor: str = ""
    level: str = ""
    settings: tuple[str, ...] = ()

    @property
    def heading(self) -> str:
        """The title, with factor and level where something was varied."""
        return f"{self.title}, {self.factor}: {self.level}" if self.factor else self.title


@dataclass(frozen=True)
class Section:
    """What the runs of one experiment say."""

    source: Source
    results: tuple[CellResult, ...]

    @property
    def config(self) -> str:
        """The configuration, in the published tables if it has one there."""
        return self.source.cells[0].config

    @property
    def swept(self) -> bool:
        """Whether the matrix has axes of its own."""
        return any(cell.settings for cell in self.source.cells)

    @property
    def charted(self) -> bool:
        """Whether bars can show it: a bar per case, each with a look of its own."""
        return not self.swept and len({cell.case for cell in self.source.cells}) <= DISTINCT

    @property
    def published(self) -> bool:
        """Whether the published tables have it: an experiment as it stands, with a reference."""
        cell = self.source.cells[0]
        as_it_stands = not self.source.factor and not self.swept
        return cell.published and cell.config in CONFIGS and as_it_stands

    @property
    def usable(self) -> bool:
        """Whether a single run is part of the means."""
        return any(result.used for result in self.results)

    def measured(self, metric: str) -> bool:
        """Tell whether any cell has a value of the metric; without captures some have none."""
        return any(result.metrics[metric].mean is not None for result in self.results)


def gather(sources: Iterable[Source], include_invalid: bool = False) -> tuple[Section, ...]:
    """Read the metrics of all runs and average them, experiment by experiment."""
    return tuple(
        Section(source, tuple(collect(source.files, source.cells, include_invalid, source.stale)))
        for source in sources
    )


def as_it_stands(section: Section, sections: Iterable[Section]) -> Section | None:
    """Give what a level of a factor is compared with.

    Parameters
    ----------
    section : Section
        The level.
    sections : iterable of Section
        A whole collection.

    Returns
    -------
    Section or None
        The experiment without a factor of the level's configuration, or the first there is.
    """
    plain = [one for one in sections if not one.source.factor]
    own = [one for one in plain if one.config == section.config]
    return next(iter([*own, *plain]), None)


def figure_name(number: str, metric: str) -> str:
    """Give the file name of a figure, by its number or its experiment, without its suffix."""
    return f"fig-{number}-{METRICS[metric].slug}"


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
