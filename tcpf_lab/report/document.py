"""Everything that is reported on an experiment or a collection, written into its directory.

A collection goes under the numbers that the published tables and figures have. Configuration A is
Table 4.1 and Figures 4.1.1 to 4.1.4 of the thesis, with four of the cases, and Table 4 of the
paper, with all seven; B, C and D follow.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tcpf_lab.base.errors import LabError
from tcpf_lab.base.making import make_directory, write
from tcpf_lab.report.claims.page import Page
from tcpf_lab.report.claims.published import CONFIGS, THESIS_CASES
from tcpf_lab.report.compare.factors import factors
from tcpf_lab.report.results_table import csv_table, markdown_table
from tcpf_lab.report.section import (
    SUFFIXES,
    CellResult,
    Document,
    Problem,
    Section,
    Source,
    figure_name,
    gather,
    read_manifest,
    read_metrics,
)
from tcpf_lab.report.style import DISTINCT, DRAWN, METRICS, case_styles
from tcpf_lab.results.command import command
from tcpf_lab.results.layout import FORMAT, ExperimentFiles, as_json
from tcpf_lab.spec.load import load

#: What of a report is written here.
FORMATS: tuple[str, ...] = ("md", "table", "figures")
_FORMAT_OF = {".md": "md", ".csv": "table"}


@dataclass(frozen=True)
class Report:
    """What was written, from which numbers, and the runs that are not part of them.

    ``drawings`` has the SVG text of every figure that was drawn, by its name; ``opening`` is the
    page that a report on published configurations opens with, ``printed`` are pages whose tables a
    terminal shows.
    """

    written: tuple[Path, ...]
    sections: tuple[Section, ...]
    left_out: tuple[Problem, ...]
    drawings: Mapping[str, str] = field(default_factory=dict)
    opening: Page | None = None
    printed: tuple[Page, ...] = ()

    @property
    def cells(self) -> tuple[CellResult, ...]:
        """Every cell of every section."""
        return tuple(result for section in self.sections for result in section.results)


def write_report(
    files: ExperimentFiles,
    sources: Sequence[Source],
    title: str,
    *,
    again: str = "",
    collection: bool = False,
    include_invalid: bool = False,
    formats: Collection[str] = FORMATS,
) -> Report:
    """Write the tables and figures of an experiment or a collection.

    Parameters
    ----------
    files : ExperimentFiles
        Where the report goes.
    sources : sequence of Source
        The runs: of one experiment, or of each in a collection.
    title : str
        Of the whole.
    again : str
        The command line that makes the runs.
    collection : bool
        Whether the sources are a collection's, even if only one was requested.
    include_invalid : bool
        Let runs that failed a check into the means.
    formats : collection of str
        What is written, of ``FORMATS``; ``svg`` draws the figures without writing them.

    Returns
    -------
    Report
        Paths in the order of writing, the numbers, and the runs left out with their reasons.

    Raises
    ------
    LabError
        If there is not a single usable run, or a file cannot be written.
    """
    sections = gather(sources, include_invalid)
    problems = [problem for section in sections for problem in _problems(section, collection)]
    if not any(section.usable for section in sections):
        raise _nothing_usable(files, problems, again)
    written, drawings = [], {}
    suffixes = SUFFIXES if "figures" in formats else ("svg",) * ("svg" in formats)
    for path, content in _documents(files, sections, title, collection, suffixes):
        if path.suffix == ".svg":
            drawings[path.stem] = str(content, "utf-8") if isinstance(content, bytes) else content
        if _FORMAT_OF.get(path.suffix, "figures") in formats:
            write_document(path, content)
            written.append(path)
    left_out = tuple(problem for problem in problems if not problem.used)
    return Report(tuple(written), sections, left_out, drawings)


def _problems(section: Section, collection: bool) -> Iterator[Problem]:
    """Yield what is wrong with runs; in a collection a run's id alone does not name it."""
    above = f"{section.source.files.experiment}/" if collection else ""
    for result in section.results:
        for problem in result.problems:
            yield replace(problem, run=above + problem.run)


def _documents(
    files: ExperimentFiles,
    sections: Sequence[Section],
    title: str,
    collection: bool,
    suffixes: Sequence[str],
) -> Iterator[Document]:
    if any(section.source.factor for section in sections):
        return factors(files, sections, title)
    if collection:
        return chapter(files, sections, suffixes)
    return _experiment(files, sections[0], suffixes)


def _experiment(
    files: ExperimentFiles, section: Section, suffixes: Sequence[str]
) -> Iterator[Document]:
    title, conditions = section.source.title, section.source.conditions
    yield files.table("md"), markdown_table(section.results, title, conditions)
    yield files.table("csv"), csv_table(section.results)
    yield from own_figures(files, section, suffixes)


def _nothing_usable(files: ExperimentFiles, problems: Sequence[Problem], again: str) -> LabError:
    """Say what is missing, and what to type about it."""
    if not problems:
        return LabError(
            "no run was requested", where=str(files.root), hint=f"`{again}`" if again else ""
        )
    counts = Counter(problem.state for problem in problems)
    states = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    first = next((problem for problem in problems if problem.reasons), problems[0])
    if counts["missing"] or counts["failed"] or counts["stale"]:
        hint = f"`{again}`"
    elif counts["invalid"]:
        virtual = files.testbed == "uml"
        change = "change the experiment: in virtual time it gives the same bytes again"
        act = change if virtual else f"`{again} --force`"
        hint = f"{act}; or `--include-invalid` to include them"
    elif any("undefined" in reason for reason in first.reasons):
        hint = "measure for longer: change traffic.duration"
    else:
        hint = f"`{command('analyze', files.root)}` if captures are stored, else `{again} --force`"
    return LabError(
        f"no usable run among {len(problems)} ({states}); the first: {first}",
        where=str(files.root),
        hint=hint,
    )


def write_document(path: Path, content: str | bytes) -> None:
    """Write a file of a report, and the directories above it.

    Raises
    ------
    LabError
        If it cannot be written.
    """
    make_directory(path.parent)
    write(path, content.encode() if isinstance(content, str) else content)


#: What of a run's manifest is the same for all runs of one reproduction, or listed where it is not.
_MADE_WITH = ("tcpf_lab", "git_commit", "clock", "testbed", "testbed_identity", "window_s")


def reproduction(
    sections: Sequence[Section], directory: Path, commands: Sequence[str]
) -> Iterator[Document]:
    """Yield the tables, what they were made with, and the thesis's figures.

    Published configurations alone have ``<experiment>/table.csv`` and ``manifest.json`` each;
    all others are one ``tables.csv``, with the experiment in front, and one ``manifest.json``.
    Each has ``<experiment>/table.md``.

    Parameters
    ----------
    sections : sequence of Section
        The experiments.
    directory : Path
        What holds a directory for each experiment afterwards.
    commands : sequence of str
        How it was made, for the manifest.

    Yields
    ------
    (Path, str or bytes)
        Every file; the same bytes from the same runs, wherever and whenever.

    Raises
    ------
    LabError
        If a run has no manifest.
    """
    apart = all(numbered(section, sections) for section in sections)
    for section in sections:
        source = section.source
        root = directory / source.files.experiment
        if apart:
            yield root / "table.csv", csv_table(section.results)
        yield root / "table.md", markdown_table(section.results, source.title, source.conditions)
        if apart:
            yield root / "manifest.json", as_json(manifest(section, commands))
        if numbered(section, sections):
            yield from _thesis_figures(section, root)
    if not apart:
        tables = {one.source.files.experiment: csv_table(one.results) for one in sections}
        yield directory / "tables.csv", together(tables)
        made = [manifest(section, commands) for section in sections]
        own = [{k: v for k, v in one.items() if k not in _OF_ALL} for one in made]
        shared = {name: made[0][name] for name in _OF_ALL}
        yield directory / "manifest.json", as_json({**shared, "experiments": own})


#: What is the same for all experiments of a manifest.
_OF_ALL = ("format", "commands")


def together(tables: Mapping[str, str]) -> str:
    """Put CSV tables one below the other, each row with its table's name in front.

    Columns that a table lacks are empty in its rows.
    """
    read = {name: list(csv.DictReader(io.StringIO(text))) for name, text in tables.items()}
    widest = max(read.values(), key=lambda rows: len(rows[0]) if rows else 0)
    columns = list(widest[0]) if widest else []
    for rows in read.values():
        for place, name in enumerate(rows[0] if rows else ()):
            if name not in columns:
                columns.insert(place, name)
    text = io.StringIO()
    writer = csv.DictWriter(text, ["experiment", *columns], restval="", lineterminator="\n")
    writer.writeheader()
    for name, rows in read.items():
        writer.writerows({"experiment": name, **row} for row in rows)
    return text.getvalue()


def _thesis_figures(section: Section, root: Path) -> Iterator[Document]:
    source, part = section.source, thesis_part(section)
    if part.usable:
        from tcpf_lab.report.figure import bar_chart  # here: loading matplotlib takes a second

        for metric, number in figure_numbers(section).items():
            heading = f"Figure {number}. {source.title}"
            drawn = bar_chart(part.results, metric, heading, source.conditions)
            yield root / f"{figure_name(number, metric)}.png", drawn["png"]


def manifest(section: Section, commands: Sequence[str]) -> dict[str, Any]:
    """Say what an experiment's numbers were made with, from the manifests of the runs used.

    Parameters
    ----------
    section : Section
        The experiment.
    commands : sequence of str
        What makes it again.
    """
    files, cells = section.source.files, section.source.cells
    runs = [run for result in section.results for run in result.used_runs]
    manifests = [read_manifest(files.run(run), "seed", "facts", *_MADE_WITH) for run in runs]
    analyses = [read_metrics(files.run(run), "analysis")["analysis"] for run in runs]
    return {
        "format": FORMAT,
        "commands": list(commands),
        "experiment": files.experiment,
        "config": section.config,
        "cases": list(dict.fromkeys(cell.case for cell in cells)),
        "flows": list(dict.fromkeys(cell.flows for cell in cells)),
        "seeds": sorted({int(found["seed"]) for found in manifests}),
        "runs": {
            "requested": sum(cell.n for cell in cells),
            "used": len(runs),
            "valid": sum(result.valid_runs for result in section.results),
        },
        "analysis": agreed(analyses),
        **{name: agreed(found[name] for found in manifests) for name in _MADE_WITH},
        "facts": agreed(found["facts"] for found in manifests),
    }


def agreed(values: Iterable[Any]) -> Any:
    """Give the one value, of mappings key by key, or a list of all where they differ."""
    found = list(values)
    if found and all(isinstance(value, Mapping) for value in found):
        names = dict.fromkeys(name for value in found for name in value)
        return {name: agreed(v[name] for v in found if name in v) for name in sorted(names)}
    different = [value for index, value in enumerate(found) if value not in found[:index]]
    return different[0] if len(different) == 1 else sorted(different, key=str)


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
    none either of more cases than can be distinguished, or where no case has runs at two values.
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
        wanted_figure = Wanted(metric=METRICS[figure.metric], parameter=figure.key)
        for suffix, content in draw(KINDS["parameter"], own, wanted_figure, suffixes).items():
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

    None of a sweep either, nor of more cases than can be distinguished.
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
