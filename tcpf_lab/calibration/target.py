"""What is searched for: the published numbers of every cell, and which unknowns reach it."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.base.errors import RequestError
from tcpf_lab.calibration.objective import COUNTS, Target, logged
from tcpf_lab.calibration.space import Floats
from tcpf_lab.report.claims.published import published
from tcpf_lab.spec.calibrated import Subject, label
from tcpf_lab.spec.load import require_file
from tcpf_lab.spec.model import Experiment, case_slug
from tcpf_lab.spec.words import unknown

#: By how many seeds the spread of one cell counts less than that of its metric in all cells.
_PRIOR_SEEDS = 4
#: No metric is known better than this, whatever a few seeds say: a variance of its logarithm.
_LEAST_VARIANCE = 1e-6
#: Published metrics by experiment, case and flows.
Numbers = Mapping[tuple[str, str, int], Mapping[str, float]]


@dataclass(frozen=True)
class CellName:
    """A cell with published numbers; ``config`` is what tables call the experiment."""

    experiment: str
    config: str
    flows: int
    case: str


@dataclass(frozen=True)
class Cells:
    """Cells of several experiments and their published numbers, (cells, metrics); NaN: none."""

    names: tuple[CellName, ...]
    metrics: tuple[str, ...]
    published: Floats

    @property
    def log_published(self) -> Floats:
        """Logarithms as the search compares them."""
        return logged(self.published, self.metrics)

    def of(self, experiment: str) -> tuple[CellName, ...]:
        """Give the cells of one experiment, in their order."""
        return tuple(name for name in self.names if name.experiment == experiment)


def read_numbers(
    path: Path, metrics: Iterable[str], experiments: Mapping[str, Experiment]
) -> Numbers:
    """Read published numbers: a row per cell, columns ``experiment``, ``case``, ``flows``, metrics.

    Parameters
    ----------
    path : Path
        The file.
    metrics : iterable of str
        Columns that are wanted; others are ignored.
    experiments : mapping of str to Experiment
        By their names: the cells that rows may be of. Rows of other experiments are ignored.

    Raises
    ------
    RequestError
        If the file cannot be read, lacks a column or a number, or has a row of no cell or a second
        one of a cell; an empty field was not published.
    """
    require_file(path, "a CSV")
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            lacking = {"experiment", "case", "flows"} - set(reader.fieldnames or ())
            if lacking:
                raise RequestError(f"lacks the column {sorted(lacking)[0]}", where=f"{path}:1")
            known = [metric for metric in metrics if metric in (reader.fieldnames or ())]
            if not known:
                raise RequestError("has no column of a metric in tolerance", where=f"{path}:1")
            numbers: dict[tuple[str, str, int], dict[str, float]] = {}
            for row in reader:
                where = f"{path}:{reader.line_num}"
                key = (row["experiment"], case_slug(row["case"] or ""), _flows(row, where))
                if key[0] in experiments:
                    _check_cell(row, experiments[key[0]], key[2], where)
                if key in numbers:
                    cell = f"{row['experiment']}, {row['case']}, {row['flows']} flows"
                    raise RequestError(f"a second row of {cell}", where=where)
                numbers[key] = {
                    metric: _number(row[metric], where) for metric in known if row[metric]
                }
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RequestError(f"cannot be read: {error}", where=str(path)) from None
    return numbers


def _check_cell(
    row: Mapping[str, str | None], experiment: Experiment, flows: int, where: str
) -> None:
    """Refuse a row that no cell of its experiment has: nothing would be held against it."""
    case, cases = row["case"] or "", experiment.cases
    if case_slug(case) not in map(case_slug, cases):
        raise RequestError(
            f"{experiment.name}: {unknown(f'unknown case {case!r}', case, cases)}", where=where
        )
    if flows not in experiment.matrix.flows:
        has = ", ".join(map(str, experiment.matrix.flows))
        message = f"{experiment.name}: its matrix has no flows: {flows}; allowed: {has}"
        raise RequestError(message, where=where)


def _flows(row: Mapping[str, str], where: str) -> int:
    if not (row["flows"] or "").isdecimal():
        raise RequestError(f"flows: {row['flows']!r} is no count", where=where)
    return int(row["flows"])


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise RequestError(f"{text!r} is no number of 0 or more", where=where)
    return value


def cells_of(subject: Subject, experiments: Iterable[Experiment]) -> Cells:
    """Give the cells of experiments that have published numbers.

    Raises
    ------
    RequestError
        If an experiment has none, or the file of the numbers cannot be read.
    """
    metrics, numbers = tuple(subject.calibration.tolerance), _numbers(subject)
    names: list[CellName] = []
    for experiment in experiments:
        of_it = [name for name in numbers if name.experiment == experiment.name]
        names += of_it
        if not of_it:
            raise RequestError(
                f"no published number of {experiment.name} is known for a metric in tolerance",
                where=str(subject.source),
                hint="`reference: {config: A}` in the experiment, or `published: FILE.csv` here",
            )
    rows = np.array([numbers[name] for name in names])
    return Cells(tuple(names), metrics, rows.reshape(len(names), len(metrics)))


def _numbers(subject: Subject) -> dict[CellName, list[float]]:
    """Give the published numbers of all cells, a value for each metric; NaN: none."""
    calibration = subject.calibration
    metrics = tuple(calibration.tolerance)
    own: Numbers | None = None
    if calibration.published is not None:
        path = subject.source.parent / calibration.published
        own = read_numbers(path, metrics, subject.whole)
    found: dict[CellName, list[float]] = {}
    # By name: a permutation is the same one whichever experiment is held out.
    for experiment in sorted(subject.experiments, key=lambda one: one.name):
        for case in experiment.selected_cases:
            for flows in experiment.matrix.flows:
                known = _known(own, experiment, case, flows)
                row = [known.get(metric, math.nan) for metric in metrics]
                if any(math.isfinite(value) for value in row):
                    found[CellName(experiment.name, label(experiment), flows, case)] = row
    if subject.permuted is None:
        return found
    order = np.random.default_rng(subject.permuted).permutation(len(found))
    rows = list(found.values())
    return {name: rows[place] for name, place in zip(found, order, strict=True)}


def check_numbers(subject: Subject) -> None:
    """Refuse published numbers that do not say what the file wants of them.

    Raises
    ------
    RequestError
        As `cells_of` for all experiments; or if no cell of `fit` has a number of a metric.
    """
    cells_of(subject, subject.experiments)
    cells = cells_of(subject, subject.fit)
    columns = zip(cells.metrics, cells.published.T, strict=True)
    lacking = [metric for metric, column in columns if not np.isfinite(column).any()]
    if lacking:
        raise RequestError(
            f"tolerance: no number of {lacking[0]} is published for an experiment of fit",
            where=str(subject.source),
            hint=f"leave {lacking[0]} out of tolerance, or give `published` a column of it",
        )


def _known(
    own: Numbers | None, experiment: Experiment, case: str, flows: int
) -> Mapping[str, float]:
    if own is not None:
        return own.get((experiment.name, case_slug(case), flows), {})
    return (published(experiment.config, case, flows) if experiment.config else None) or {}


def reached(subject: Subject, cells: Cells) -> NDArray[np.bool_]:
    """Tell which unknowns change a cell, (cells, unknowns)."""
    return np.array(
        [
            [name.case in reach[name.experiment] for reach in subject.reach.values()]
            for name in cells.names
        ]
    )


def variance_of(log_values: Floats) -> Floats:
    """Estimate the variance between seeds, (cells, metrics), from values (seeds, cells, metrics).

    A few seeds say little of one cell: its variance is drawn towards that of the metric in all
    cells. NaN values are left out; a metric without any has the least variance.
    """
    there = np.isfinite(log_values)
    count = there.sum(axis=0)
    centred = np.where(there, log_values, 0.0)
    means = centred.sum(axis=0) / np.maximum(count, 1)
    squares = (np.where(there, log_values - means, 0.0) ** 2).sum(axis=0)
    free = np.maximum(count - 1, 0)
    pooled = squares.sum(axis=0) / np.maximum(free.sum(axis=0), 1)
    drawn: Floats = (squares + _PRIOR_SEEDS * pooled) / (free + _PRIOR_SEEDS)
    return np.maximum(drawn, _LEAST_VARIANCE)


def with_counts(variance: Floats, cells: Cells) -> Floats:
    """Give variances (cells, metrics) of which none of a count is below a Poisson number's.

    A few seeds may give the same count by chance; n events that know nothing of each other vary by
    √n, log(n + a) by about √n / (n + a). The published n is taken: it does not change with the
    setting; one of 0 may as well have been 1, and counts as a half.
    """
    added = np.array([COUNTS.get(metric, np.inf) for metric in cells.metrics])
    least = np.maximum(cells.published, 0.5) / (cells.published + added) ** 2
    larger: Floats = np.fmax(variance, least)  # NaN where nothing was published
    return larger


def target_of(subject: Subject, cells: Cells, variance: Floats) -> Target:
    """Put together what the search minimises its distance to, with variances of `variance_of`."""
    tolerance = subject.calibration.tolerance
    return Target(
        names=tuple((name.config, name.flows, name.case) for name in cells.names),
        metrics=cells.metrics,
        log_published=cells.log_published,
        variance=with_counts(variance, cells),
        tolerance=np.array([tolerance[metric] for metric in cells.metrics]),
        seeds=subject.calibration.seeds,
    )
