"""What the close look rests on: every cell under each setting, TCP, and which runs these are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from tcpf_lab.calibrating.ledger import Point
from tcpf_lab.calibrating.search import Search
from tcpf_lab.errors import SpecError
from tcpf_lab.report.collect import CellResult
from tcpf_lab.report.conditions import conditions
from tcpf_lab.report.contents.left_out import runs_left_out
from tcpf_lab.report.contents.provenance import provenance
from tcpf_lab.report.section import Section, Source
from tcpf_lab.spec.calibrated import label
from tcpf_lab.spec.model import Experiment

#: What each setting of the close look measured, by the setting's id.
Results = Mapping[str, Sequence[CellResult]]


def setting(search: Search, point: Point, results: Sequence[CellResult]) -> dict[str, Any]:
    """Give what one setting measured, in the order of all cells, and with which TCP.

    ``mean`` and ``half``, the half width of its 95 % confidence interval, are (cells, metrics);
    ``runs`` is how many each mean is made of.
    """
    metrics = search.cells.metrics
    first = next((one for _, one in _experiments(search, point)), None)
    return {
        "mean": [[result.metrics[metric].mean for metric in metrics] for result in results],
        "half": [[result.metrics[metric].ci95 for metric in metrics] for result in results],
        "runs": [result.used for result in results],
        "tcp": None if first is None else _tcp(first),
        "conditions": {name: conditions([one]) for name, one in _experiments(search, point)},
    }


def _tcp(experiment: Experiment) -> dict[str, Any]:
    """Name the profile, and the behaviours of Linux 2.2 that are on."""
    tcp = experiment.tcp
    return {"profile": tcp.profile, "linux22": list(tcp.behaviours), "sack": tcp.sack}


def _experiments(search: Search, point: Point) -> Iterator[tuple[str, Experiment]]:
    """Yield the experiments at a setting by the names that the file has; what it refuses is not."""
    for experiment in search.subject.experiments:
        with suppress(SpecError):
            yield experiment.name, search.subject.at(experiment, point.values)


def table(search: Search) -> dict[str, Any]:
    """Give every cell of the close look, held out or not, and the published numbers."""
    every = search.responses.cells
    return {"cells": [asdict(name) for name in every.names], "published": every.published}


def experiments(search: Search) -> list[dict[str, Any]]:
    """Say what the experiments are, and which of them the search saw."""
    parts = (("fit", search.subject.fit), ("test", search.subject.test))
    return [
        {"name": one.name, "config": label(one), "title": one.title, "part": part}
        for part, members in parts
        for one in members
    ]


def validity(search: Search, chosen: Sequence[Point], results: Results) -> dict[str, Any]:
    """Count the runs of the close look, name those that are left out, say what made them."""
    sections = tuple(_sections(search, chosen, results))
    found = [result for section in sections for result in section.results]
    made = provenance(sections)
    return {
        "runs": {
            "asked": sum(result.n for result in found),
            "complete": sum(result.complete for result in found),
            "valid": sum(result.valid_runs for result in found),
            "used": sum(result.used for result in found),
        },
        "checks": [asdict(check) for check in made.checks],
        "left_out": [asdict(one) for one in runs_left_out(sections)],
        "made_with": {name: list(values) for name, values in made.made_with.items()},
    }


def _sections(search: Search, chosen: Sequence[Point], results: Results) -> Iterator[Section]:
    """Yield the runs of each setting and experiment."""
    names = search.responses.cells.names
    for point in chosen:
        for name, experiment in _experiments(search, point):
            own = tuple(
                result
                for cell, result in zip(names, results[point.id], strict=True)
                if cell.experiment == name
            )
            files = search.files.of(experiment.name)
            cells = [result.cell for result in own]
            yield Section(Source(files, cells, experiment.title, conditions([experiment])), own)
