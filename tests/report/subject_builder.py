"""What a report is about, from values that a test makes up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from table_builder import table

from tcpf_lab.base import shipped
from tcpf_lab.papers.thesis.compare import compare
from tcpf_lab.report.compare.statistics import PUBLISHED_CELLS, CellKey
from tcpf_lab.report.contents.subject import Member, Subject
from tcpf_lab.report.section import Section, Source
from tcpf_lab.results.layout import ExperimentFiles
from tcpf_lab.spec.load import load

CONDITIONS = "60 s, 10 Mbit/s, 200 ms, sysctl-2.2 SACK"
Values = Callable[[CellKey, str, int], float]


def member(
    config: str,
    values: Values | None = None,
    seeds: Sequence[int] = (1, 2, 3, 4, 5, 6),
    cells: Sequence[CellKey] = PUBLISHED_CELLS,
) -> Member:
    """A configuration of the papers, with the published values unless others are given."""
    experiment = load(shipped.directory("experiments") / f"config{config}.yaml")
    own = [cell for cell in cells if cell.config == config]
    results = tuple(table(values, seeds=seeds, cells=own))
    source = Source(
        ExperimentFiles(Path("results"), experiment.name, "uml"),
        [result.cell for result in results],
        experiment.title,
        CONDITIONS,
    )
    return Member(experiment, Section(source, results))


def subject(*members: Member, collection: bool = True) -> Subject:
    """A report on published configurations."""
    results = [result for each in members for result in each.section.results]
    return Subject(
        title="A title",
        members=members,
        collection=collection,
        comparison=compare(results, resamples=200),
        sensitivity=None,
        commands=("tcpf-lab run x.yaml", "tcpf-lab report x.yaml"),
    )
