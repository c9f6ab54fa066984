"""A reproduction to keep beside the code: tables, figures, and how they were made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tcpf_lab.report.chapter import figure_numbers, numbered, thesis_part
from tcpf_lab.report.run_records import read_manifest, read_metrics
from tcpf_lab.report.section import Document, Section, figure_name
from tcpf_lab.report.table import csv_table, markdown_table
from tcpf_lab.results import FORMAT, as_json

#: What of a run's manifest is the same for all runs of one reproduction, or listed where it is not.
_MADE_WITH = ("tcpf_lab", "git_commit", "clock", "testbed", "testbed_identity", "window_s")


def reproduction(
    sections: Sequence[Section], directory: Path, commands: Sequence[str]
) -> Iterator[Document]:
    """Yield ``<experiment>/table.csv``, ``table.md``, ``manifest.json`` and the thesis's figures.

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
    for section in sections:
        yield from _documents(section, directory, commands, numbered(section, sections))


def _documents(
    section: Section, directory: Path, commands: Sequence[str], by_number: bool
) -> Iterator[Document]:
    source = section.source
    root = directory / source.files.experiment
    yield root / "table.csv", csv_table(section.results)
    yield root / "table.md", markdown_table(section.results, source.title, source.conditions)
    yield root / "manifest.json", as_json(manifest(section, commands))
    part = thesis_part(section)
    if by_number and part.usable:
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
            "asked": sum(cell.n for cell in cells),
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
