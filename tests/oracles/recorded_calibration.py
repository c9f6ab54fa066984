"""A calibration concluded anew from the numbers that ``calibration.json`` keeps of its runs.

There is no public door to this: `tcpf-lab calibrate --only-report` reads run directories, thousands
of them. What it needs of the package is imported here and nowhere else.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tcpf_lab.calibration import outcome as evidence
from tcpf_lab.calibration.ledger import CalibrationFiles, Point, Responses, read_ledger
from tcpf_lab.calibration.outcome import find, outcome
from tcpf_lab.calibration.search import open_search
from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.report.section import Cell, CellResult, Estimate
from tcpf_lab.report.style import METRICS
from tcpf_lab.results.layout import read_json
from tcpf_lab.spec.calibrated import label, read_subject
from tcpf_lab.spec.load import find as find_spec
from tcpf_lab.spec.load import load_any
from tcpf_lab.spec.model import Experiment, case_slug

#: Student's t for a 95 % interval of four values.
T_OF_4 = 3.182446305284263


@dataclass
class Recorded(Responses):
    """Answers from the record instead of run directories.

    Of a point of the search the record has what its one run measured. Of a setting of the close
    look it has mean and half width over four seeds: four values that have both stand for them.
    """

    record: dict[str, Any] = field(default_factory=dict)

    def _read(self, point: Point, experiment: Experiment, seeds: int) -> tuple[CellResult, ...]:
        wanted = [one for one in self.cells.names if one.experiment == experiment.name]
        return tuple(self._cell(point, experiment, one.case, one.flows, seeds) for one in wanted)

    def _cell(
        self, point: Point, experiment: Experiment, case: str, flows: int, seeds: int
    ) -> CellResult:
        runs = tuple(f"{case_slug(case)}-flows{flows}-seed{n + 1}" for n in range(seeds))
        cell = Cell(label(experiment), case, flows, runs)
        found = {
            metric: _estimate(values, cell.known.get(metric))
            for metric, values in self._values(point, experiment.name, case, flows, seeds).items()
        }
        nothing = Estimate((), None, None, None)
        metrics = {name: found.get(name, nothing) for name in METRICS}
        return CellResult(cell, seeds, seeds, seeds, metrics, ())

    def _values(
        self, point: Point, experiment: str, case: str, flows: int, seeds: int
    ) -> dict[str, tuple[float, ...]]:
        key = {"experiment": experiment, "case": case, "flows": flows}
        if seeds == 1:
            row = _row(self.record["cells"], key)
            (numbers,) = (p["measured"][row] for p in self.record["points"] if p["id"] == point.id)
            pairs_of_one = zip(self.record["metrics"], numbers, strict=True)
            return {metric: (value,) for metric, value in pairs_of_one if value is not None}
        row = _row(self.record["table"]["cells"], key)
        (one,) = (s for s in self.record["settings"] if s["id"] == point.id)
        pairs = zip(one["mean"][row], one["half"][row], strict=True)
        return {
            metric: _four(mean, half)
            for metric, (mean, half) in zip(self.record["metrics"], pairs, strict=True)
        }


def _row(cells: list[dict[str, Any]], key: dict[str, Any]) -> int:
    return next(n for n, cell in enumerate(cells) if key.items() <= cell.items())


def _four(mean: float, half: float) -> tuple[float, ...]:
    apart = half * 2 / T_OF_4 * math.sqrt(3 / 4)
    low = mean - apart
    return (low, mean + apart, low, mean + apart)


def _estimate(values: tuple[float, ...], known: float | None) -> Estimate:
    mean, half = mean_ci(values)
    return Estimate(values, mean, half, None if known is None else float(known))


def conclude(spec: str, record: Path, directory: Path) -> dict[str, Any]:
    """Give what the calibration ``spec`` concludes from the numbers of a ``calibration.json``.

    The settings looked at closely are those of the record, as it has no numbers of others.  Those
    that would be chosen now are in ``chosen``.
    """
    kept = read_json(record)
    source = find_spec(spec)
    subject = read_subject(load_any(source), source)  # type: ignore[arg-type]
    files = CalibrationFiles(directory, subject.calibration.name, "uml")
    names = list(subject.calibration.unknowns)
    _write_ledger(files.ledger, kept["points"], names)
    search = open_search(subject, files, "uml")
    cells = search.responses.cells
    search.responses = Recorded(subject, files, "uml", cells, record=kept)
    findings = find(search)
    settings = directory / "settings.csv"
    _write_ledger(settings, kept["settings"], names)
    looked_at = read_ledger(settings, subject, search.space).points
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence, "validity", lambda *_: {})  # of run directories, which are not here
        found = outcome(search, replace(findings, chosen=looked_at))
    return {**found, "chosen": [point.id for point in findings.chosen]}


def _write_ledger(path: Path, points: list[dict[str, Any]], names: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "round", *names])
        for one in points:
            writer.writerow([one["id"], one.get("round", 0), *(one["values"][n] for n in names)])
