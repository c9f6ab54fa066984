"""The figures of a sweep: each metric against the axis, a line with its band per case."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tcpf_lab.report.section import SUFFIXES, Document, Section, figure_name
from tcpf_lab.report.style import DISTINCT, DRAWN, METRICS
from tcpf_lab.results import ExperimentFiles
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
