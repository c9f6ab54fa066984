"""From points to runs, and from runs to numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tcpf_lab.base.errors import SpecError
from tcpf_lab.calibration.ledger import CalibrationFiles, Point
from tcpf_lab.calibration.objective import logged
from tcpf_lab.calibration.space import Floats
from tcpf_lab.calibration.target import CellName, Cells
from tcpf_lab.report.section import Cell, CellResult, Estimate, collect
from tcpf_lab.report.style import METRICS
from tcpf_lab.run.runner import stale_runs
from tcpf_lab.run.selection import Choice, Part, RunsAsked
from tcpf_lab.spec.calibrated import Subject, label
from tcpf_lab.spec.load import Level
from tcpf_lab.spec.model import Experiment
from tcpf_lab.spec.sweep import expand, narrow
from tcpf_lab.testbed import registry


@dataclass(frozen=True)
class Wanted:
    """A point that is to be run: on which experiments, with how many seeds."""

    point: Point
    experiments: tuple[Experiment, ...]
    seeds: int


@dataclass
class Responses:
    """Runs of points on one testbed, and what they measured; what was read is kept.

    ``refused`` has for each point that an experiment does not allow which one, and why not.
    """

    subject: Subject
    files: CalibrationFiles
    testbed: str  #: as it was asked for
    cells: Cells  #: of all experiments
    refused: dict[str, str] = field(default_factory=dict)
    _parts: dict[tuple[str, str, int], Part] = field(default_factory=dict)
    _results: dict[tuple[str, str, int], tuple[CellResult, ...]] = field(default_factory=dict)
    _stale: dict[str, dict[str, str]] = field(default_factory=dict)

    def choice(self, name: str, wanted: Iterable[Wanted]) -> Choice:
        """Give the runs of points as the runner takes them, those of all together."""
        parts: dict[str, Part] = {}
        for one in wanted:
            for part in self._parts_of(one):
                known = parts.get(part.experiment.name)
                if known is None or len(part.runs) > len(known.runs):
                    parts[part.experiment.name] = part
        return Choice(
            source=self.subject.source,
            name=name,
            title=self.subject.calibration.title,
            collection=True,
            parts=tuple(parts.values()),
            testbed_name=self.testbed,
            results=self.files.runs,
            asked=RunsAsked(str(self.subject.source)),
            directory=self.files.testbed,
        )

    def counted(self, wanted: Iterable[Wanted]) -> tuple[int, int]:
        """Count the runs of points, those of all together: how many were asked for, and are there.

        Those of experiments that are not allowed at a point are not asked for.
        """
        most: dict[tuple[str, str], tuple[Point, Experiment, int]] = {}
        for one in wanted:
            for experiment in one.experiments:
                key = one.point.id, experiment.name
                if key not in most or most[key][2] < one.seeds:
                    most[key] = one.point, experiment, one.seeds
        found = [result for asked in most.values() for result in self._read(*asked)]
        return sum(result.n for result in found), sum(result.complete for result in found)

    def is_allowed(self, point: Point) -> bool:
        """Whether all experiments, held out or not, allow what a point sets."""
        return all(self._part(point, one, 1) is not None for one in self.subject.experiments)

    def look_again(self, choice: Choice) -> None:
        """Take note of what is not as it would be made now; nothing of it is used."""
        for part, states in choice.states():
            self._stale[part.experiment.name] = stale_runs(states)

    def forget(self, names: Collection[str]) -> None:
        """Read the runs of these experiments again when they are next asked for."""
        made = {key for key, part in self._parts.items() if part.experiment.name in names}
        self._results = {key: results for key, results in self._results.items() if key not in made}

    def forget_all(self) -> None:
        """Read all runs again when they are next asked for."""
        self._results.clear()

    def log_means(self, points: Sequence[Point], cells: Cells) -> Floats:
        """Give the logarithms of the means of points, (points, cells, metrics); NaN: none."""
        return logged(self.means(points, cells), cells.metrics)

    def means(self, points: Sequence[Point], cells: Cells) -> Floats:
        """Give the means over the search's seeds, (points, cells, metrics); NaN where none is."""
        seeds = self.subject.calibration.seeds
        rows = [
            [_mean(result, metric) for metric in cells.metrics]
            for point in points
            for result in self.results(point, cells, seeds)
        ]
        return np.array(rows, dtype=float).reshape(len(points), len(cells.names), -1)

    def by_seed(self, point: Point, cells: Cells, seeds: int) -> Floats:
        """Give the logarithms of single runs of a point, (seeds, cells, metrics)."""
        values = np.full((seeds, len(cells.names), len(cells.metrics)), np.nan)
        for place, result in enumerate(self.results(point, cells, seeds)):
            for column, metric in enumerate(cells.metrics):
                found = result.metrics[metric].values
                values[: len(found), place, column] = found
        return logged(values, cells.metrics)

    def results(self, point: Point, cells: Cells, seeds: int) -> list[CellResult]:
        """Give what the runs of a point say of some cells, in the order of these."""
        found: dict[CellName, CellResult] = {}
        by_name = {one.name: one for one in self.subject.experiments}
        for experiment in dict.fromkeys(name.experiment for name in cells.names):
            for result in self._read(point, by_name[experiment], seeds):
                config = label(by_name[experiment])
                name = CellName(experiment, config, result.cell.flows, result.cell.case)
                found[name] = replace(result, cell=replace(result.cell, config=config))
        return [found.get(name) or _without_runs(name) for name in cells.names]

    def _read(self, point: Point, experiment: Experiment, seeds: int) -> tuple[CellResult, ...]:
        key = point.id, experiment.name, seeds
        if key not in self._results:
            part = self._part(point, experiment, seeds)
            stale = self._stale.get(part.experiment.name, {}) if part else {}
            read = collect(part.files, part.cells(), stale=stale) if part else []
            self._results[key] = tuple(read)
        return self._results[key]

    def _parts_of(self, wanted: Wanted) -> list[Part]:
        parts = (self._part(wanted.point, one, wanted.seeds) for one in wanted.experiments)
        return [part for part in parts if part is not None]

    def _part(self, point: Point, experiment: Experiment, seeds: int) -> Part | None:
        """Give the runs of an experiment at a point; None if it is not allowed there."""
        key = point.id, experiment.name, seeds
        if key not in self._parts:
            try:
                changed = self.subject.at(experiment, point.values)
            except SpecError as error:
                why = f"{experiment.name}: {str(error).splitlines()[0]}"
                self.refused.setdefault(point.id, why)
                return None
            settled = narrow(changed, None, seeds).on(registry.generator(self.testbed))
            wanted = {(name.case, name.flows) for name in self.cells.of(experiment.name)}
            runs = tuple(run for run in expand(settled) if (run.case_name, run.flows) in wanted)
            self._parts[key] = Part(Level(settled), runs, self.files.of(settled.name))
        return self._parts[key]


def _mean(result: CellResult, metric: str) -> float:
    mean = result.metrics[metric].mean
    return float("nan") if mean is None else mean


def _without_runs(name: CellName) -> CellResult:
    """Stand for a cell of a point that its experiment does not allow."""
    nothing = {metric: Estimate((), None, None, None) for metric in METRICS}
    return CellResult(Cell(name.config, name.case, name.flows, ()), 0, 0, 0, nothing, ())
