"""What is searched for: the published numbers of every cell, and how far a setting is from them.

The distance is in units of what noise and a model may do.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2

from tcpf_lab.base.errors import RequestError
from tcpf_lab.calibration.space import Floats
from tcpf_lab.report.claims.published import published
from tcpf_lab.spec.calibrated import Subject, label
from tcpf_lab.spec.load import require_file
from tcpf_lab.spec.model import Experiment, case_slug
from tcpf_lab.spec.words import unknown

#: Counts, which may be 0, and what is added to both sides before the logarithm. With one half cells
#: of 0 to 2 timeouts would rule all others: their noise alone is a factor of several.
COUNTS = {"timeouts": 3.0}
#: Smallest value distinguished from 0, of metrics that may be 0: the last published digit.
FLOORS = {"loss_percent": 0.01}


def logged(values: ArrayLike, metrics: Sequence[str]) -> Floats:
    """Give the natural logarithms of metrics, values (..., metrics).

    A count n is log(n + 3); loss below its floor is taken at the floor; of any other metric a
    value that is not positive has no logarithm, and is NaN.
    """
    numbers = np.array(values, dtype=float)
    for place, metric in enumerate(metrics):
        column = numbers[..., place] + COUNTS.get(metric, 0.0)
        if metric in FLOORS:
            column = np.maximum(column, FLOORS[metric])
        numbers[..., place] = np.where(column > 0, column, np.nan)
    logarithms: Floats = np.log(numbers)
    return logarithms


@dataclass(frozen=True)
class Target:
    """The published numbers, and how far a right setting may be from them.

    Parameters
    ----------
    names : tuple of (str, int, str)
        Configuration, number of flows and case of each cell.
    metrics : tuple of str
        Names of the metrics.
    log_published : ndarray, shape (cells, metrics)
        Logarithms of `logged`; NaN where nothing was published.
    variance : ndarray, shape (cells, metrics)
        Variance of one run's logarithm between seeds.
    tolerance : ndarray, shape (metrics,)
        How far a right setting may be off beside noise, as a ratio: 0.1 is 10 %.
    seeds : int
        Runs behind each measured mean.

    Raises
    ------
    RequestError
        If the shapes do not fit, or a variance is not positive with a tolerance of 0.
    """

    names: tuple[tuple[str, int, str], ...]
    metrics: tuple[str, ...]
    log_published: Floats
    variance: Floats
    tolerance: Floats
    seeds: int = 1

    def __post_init__(self) -> None:
        shape = (len(self.names), len(self.metrics))
        if self.log_published.shape != shape or self.variance.shape != shape:
            raise RequestError(f"published numbers and variances must be of shape {shape}")
        if self.tolerance.shape != shape[1:] or self.seeds < 1:
            raise RequestError("one tolerance per metric and at least one seed are needed")
        if not (self.spread[np.isfinite(self.log_published)] > 0).all():
            raise RequestError(
                "a number with neither noise nor tolerance cannot be fitted",
                hint="give `tolerance` for every metric",
            )

    @property
    def noise(self) -> Floats:
        """Variance of a measured mean (cells, metrics), of its logarithm."""
        return self.variance / self.seeds

    @property
    def spread(self) -> Floats:
        """Variance that a residual has at a right setting, (cells, metrics).

        Three parts: noise of our mean; noise of the published number; tolerance. The papers do not
        say whether they print one run or a mean of several: one is taken, the larger noise. The
        tolerance stands for what no setting corrects (the model discrepancy of M. C. Kennedy and
        A. O'Hagan, Bayesian calibration of computer models, JRSS B 63, 2001).
        """
        spread: Floats = self.noise + self.variance + np.log1p(self.tolerance) ** 2
        return spread

    @property
    def fitted(self) -> int:
        """How many numbers there are to fit, N."""
        return int(np.isfinite(self.log_published).sum())

    def only(self, known: NDArray[np.bool_]) -> Target:
        """Give the same without the numbers that are not `known` (cells, metrics)."""
        return replace(self, log_published=np.where(known, self.log_published, np.nan))


@dataclass(frozen=True)
class Misfit:
    """Sum of squared standardised residuals (...), and what each metric adds (..., metrics)."""

    total: Floats
    by_metric: Floats


def residuals(log_measured: ArrayLike, target: Target) -> Floats:
    """Give standardised residuals of logarithms (..., cells, metrics); NaN where one is missing."""
    difference: Floats = np.asarray(log_measured, dtype=float) - target.log_published
    return difference / np.sqrt(target.spread)


def misfit(log_measured: ArrayLike, target: Target) -> Misfit:
    """Give J, the sum of squared standardised residuals.

    Parameters
    ----------
    log_measured : array, shape (..., cells, metrics)
        Logarithms of measured means of some points; NaN where a cell has no usable run.
    target : Target
        What is to be fitted.

    Returns
    -------
    Misfit
        A cell that a point lacks counts as the worst residual of its metric at any of the points
        given, 1 at least: a setting whose runs fail or are not valid must not gain by it. A cell
        that all of them lack is left out. NaN where a point has no cell of a metric.
    """
    squares = residuals(log_measured, target) ** 2
    there = np.isfinite(squares)
    points = tuple(range(squares.ndim - 2))
    measured = there.any(axis=points)  # by any point, (cells, metrics)
    known = np.where(there, squares, 0.0)
    worst = np.maximum(known.max(axis=(*points, -2), initial=0.0), 1.0)
    shares = np.where(there, known, np.where(measured, worst, 0.0)).sum(axis=-2)
    wanted = np.isfinite(target.log_published).any(axis=0)
    shares = np.where(wanted & ~there.any(axis=-2), np.nan, shares)
    return Misfit(shares.sum(axis=-1), shares)


def complete(log_measured: ArrayLike, target: Target) -> NDArray[np.bool_]:
    """Say which points (..., cells, metrics) have measured all that is to be fitted, (...)."""
    there: NDArray[np.bool_] = np.isfinite(np.asarray(log_measured, dtype=float))
    whole = (there | ~np.isfinite(target.log_published)).all(axis=(-2, -1))
    return np.asarray(whole, dtype=bool)


def least_of(totals: Floats, whole: NDArray[np.bool_]) -> int:
    """Give the place of the minimum misfit (n,): of a `complete` point, if there is one.

    What a point lacks is guessed, and the best one must not rest on a guess. If no point has a
    misfit, the first is given.
    """
    finite = np.isfinite(totals)
    among = finite & whole if (finite & whole).any() else finite
    return int(np.argmin(np.where(among, totals, np.inf)))


@dataclass(frozen=True)
class Threshold:
    """The misfit up to which a setting is not excluded, and where it comes from.

    ``least`` is the minimum misfit, ``residuals`` how many there are, ``effective`` how many
    independent ones they are taken for, ``parameters`` how many numbers were free, ``scale`` the
    factor of the chi-squared quantile, ``limit`` the threshold itself.
    """

    least: float
    residuals: int
    effective: float
    parameters: int
    scale: float
    limit: float

    @property
    def inflation(self) -> float:
        """By how much all variances V are taken to be too small; 1 where something fits."""
        return self.scale * self.effective / self.residuals


def threshold(
    least: float,
    target: Target,
    parameters: int,
    effective: float | None = None,
    confidence: float = 0.95,
) -> Threshold:
    """Give the threshold of profiles, scaled by the lack of fit.

    Parameters
    ----------
    least : float
        The minimum misfit, J_min.
    target : Target
        Its N residuals.
    parameters : int
        Number of free parameters, d: one of a range, of levels one less than there are.
    effective : float, optional
        How many independent residuals the N are worth; N without it.
    confidence : float
        Of one unknown's interval.

    Returns
    -------
    Threshold
        ``limit`` = J_min + chi2_1(confidence) · max(N / N_eff, J_min / (N_eff - d)).

    Notes
    -----
    With N_eff = N this is J_min + chi2_1 · max(1, J_min / (N - d)). The quantile is that of the
    profile likelihood (D. J. Venzon and S. H. Moolgavkar, Applied Statistics 37, 1988): it holds
    if J is -2 log L, the residuals are independent and some setting is right. None is where J_min
    exceeds N - d, and then all variances are taken to be too small by that factor: R. T. Birge's
    ratio (Phys. Rev. 40, 1932), the dispersion of a quasi-likelihood (P. McCullagh, Ann. Stat. 11,
    1983). It makes intervals wider, not right: it supposes that what does not fit is spread over
    all residuals at random. Residuals of one case or one metric miss together, so they are worth
    fewer than N, and the interval of a smaller `effective` is the more honest one. If groups of
    N / N_eff residuals are equal, J counts each N / N_eff times: the first term of the maximum.
    """
    count = target.fitted
    worth = float(count if effective is None else effective)
    if not 0 < worth <= count:
        raise RequestError(
            f"{worth:g} independent residuals of {count}", hint="more than 0, at most all of them"
        )
    # With no more residuals than parameters nothing is left to judge the fit by: one is left.
    scale = max(count / worth, least / max(1.0, worth - parameters))
    limit = least + float(chi2.ppf(confidence, 1)) * scale
    return Threshold(least, count, worth, parameters, scale, limit)


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
        raise RequestError(f"flows: {row['flows']!r} is not a count", where=where)
    return int(row["flows"])


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise RequestError(f"{text!r} is not a number of 0 or more", where=where)
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
                f"no published number of {experiment.name} is known for any metric of `tolerance`",
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
