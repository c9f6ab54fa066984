"""From the runs of an experiment to numbers: one result per cell of its matrix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, get_args

from tcpf_lab.errors import LabError
from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.reference.published import published
from tcpf_lab.report.run_records import is_number, read_manifest, read_metrics
from tcpf_lab.report.style import METRICS, SECOND_READINGS
from tcpf_lab.results import ExperimentFiles, RunFiles

#: Why a run is not simply part of its cell's means.
State = Literal["missing", "failed", "stale", "invalid", "unreadable"]
STATES: tuple[State, ...] = get_args(State)


@dataclass(frozen=True)
class Cell:
    """One cell of the matrix: a case with a number of flows, repeated once per run id.

    ``config`` is a configuration of the published tables or, where ``published`` is False, the name
    of an experiment that may be called like one. ``settings`` are the values of the matrix's axes
    that the case has, as text by the short form of their keys: ``("queue.max", "100 kB")``.
    """

    config: str
    case: str
    flows: int
    runs: tuple[str, ...]
    published: bool = True
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def known(self) -> Mapping[str, float]:
        """The published values by metric, as far as there are any; none where something varies."""
        if self.settings or not self.published:
            return {}
        return published(self.config, self.case, self.flows) or {}

    @property
    def label(self) -> str:
        """The case, with its settings if it has any: ``NoMark+RED, queue.max=100 kB``."""
        return ", ".join((self.case, *(f"{key}={value}" for key, value in self.settings)))

    @property
    def n(self) -> int:
        """Number of runs asked for."""
        return len(self.runs)


@dataclass(frozen=True)
class Problem:
    """A run that needs a remark; ``used`` says whether it is part of the means all the same."""

    run: str
    state: State
    reasons: tuple[str, ...] = ()
    used: bool = False

    def __str__(self) -> str:
        """Give ``run: state: reasons``."""
        words = f"{self.run}: {self.state}"
        return f"{words}: {'; '.join(self.reasons)}" if self.reasons else words


@dataclass(frozen=True)
class Estimate:
    """One metric of a cell, in the metric's unit.

    ``values`` has one entry per run used, or none where the cell's runs could not measure it;
    ``ci95`` is the half width of the 95 % confidence interval (Student's t) and is None for fewer
    than two runs.
    """

    values: tuple[float, ...]
    mean: float | None
    ci95: float | None
    published: float | None


@dataclass(frozen=True)
class CellResult:
    """What the runs of a cell say.

    ``metrics`` has every name of ``style.METRICS``, and of ``SECOND_READINGS`` what all runs have.

    ``complete`` counts finished runs of the present spec, ``valid_runs`` those of them that passed
    every check, ``used`` those that the means are made of.
    """

    cell: Cell
    complete: int
    valid_runs: int
    used: int
    metrics: Mapping[str, Estimate]
    problems: tuple[Problem, ...]

    @property
    def n(self) -> int:
        """Number of runs asked for."""
        return self.cell.n

    @property
    def used_runs(self) -> tuple[str, ...]:
        """Ids of the runs that the means are made of, in the order of an estimate's values."""
        left_out = {problem.run for problem in self.problems if not problem.used}
        return tuple(run for run in self.cell.runs if run not in left_out)


def collect(
    files: ExperimentFiles,
    cells: Iterable[Cell],
    include_invalid: bool = False,
    stale: Mapping[str, str] = MappingProxyType({}),
) -> list[CellResult]:
    """Read the metrics of every run of every cell and average them.

    Parameters
    ----------
    files : ExperimentFiles
        Where the runs are.
    cells : iterable of Cell
        What to read, in the order of the result.
    include_invalid : bool
        Let runs that failed a check into the means; they keep their entry in ``problems``.
    stale : mapping of str to str
        What makes runs stale, by their ids: they are left out.

    Returns
    -------
    list of CellResult
        One per cell. Runs that are not as they should be (``STATES``) are in ``problems``.
    """
    return [_collect_cell(files, cell, include_invalid, stale) for cell in cells]


def _collect_cell(
    files: ExperimentFiles, cell: Cell, include_invalid: bool, stale: Mapping[str, str]
) -> CellResult:
    problems: list[Problem] = []
    used: list[Mapping[str, float]] = []
    complete = valid_runs = 0
    for run in cell.runs:
        problem = _absence(files, run, stale)
        if problem is None:
            complete += 1
            problem, values = _read(files.run(run), run, cell, include_invalid)
            valid_runs += problem is None
            used += [values] if problem is None or problem.used else []
        problems += [problem] if problem else []
    return CellResult(
        cell=cell,
        complete=complete,
        valid_runs=valid_runs,
        used=len(used),
        metrics=_estimates(cell, used),
        problems=tuple(problems),
    )


def _absence(files: ExperimentFiles, run: str, stale: Mapping[str, str]) -> Problem | None:
    if not files.run(run).spec.exists():
        begun = files.partial(run).root.exists()
        return Problem(run, "failed" if begun else "missing")
    if run in stale:
        return Problem(run, "stale", (stale[run],))
    return None


def _read(
    files: RunFiles, run: str, cell: Cell, include_invalid: bool
) -> tuple[Problem | None, Mapping[str, float]]:
    """Give a run's metrics, and what is wrong with the run if something is."""
    reasons: tuple[str, ...] = ()
    try:
        found = _own_metrics(files, cell)
        valid, reasons = _verdict(found)
        if not valid and not include_invalid:
            return Problem(run, "invalid", reasons), {}
        values = {
            name: _number(found.get("metrics"), name)
            for name in METRICS
            if name not in _listed(found, "unmeasured")
        }
        values |= _second_readings(found.get("metrics"))
    except LabError as error:
        said = f"{files.metrics.name}: {error.message}"
        return Problem(run, "invalid" if reasons else "unreadable", (*reasons, said)), {}
    return (None if valid else Problem(run, "invalid", reasons, used=True)), values


def _own_metrics(files: RunFiles, cell: Cell) -> dict[str, Any]:
    found = read_metrics(files)
    manifest = read_manifest(files) if files.manifest.exists() else {}
    for key in ("config", "case", "flows"):
        if found.get(key) != getattr(cell, key):
            raise LabError(f"{key} is {found.get(key)!r}, expected {getattr(cell, key)!r}")
    seeds = found.get("seed"), manifest.get("seed")
    if None not in seeds and seeds[0] != seeds[1]:
        raise LabError(f"seed is {seeds[0]!r}, the manifest says {seeds[1]!r}")
    return found


def _number(metrics: Any, name: str) -> float:
    value = metrics.get(name) if isinstance(metrics, dict) else None
    if isinstance(metrics, dict) and name in metrics and value is None:
        raise LabError(f"{name} is undefined for it: is its window too short?")
    if not is_number(value):
        raise LabError(f"no value for {name}")
    return float(value)


def _second_readings(metrics: Any) -> dict[str, float]:
    """Give what there is of them: runs of earlier versions have none."""
    found = metrics if isinstance(metrics, dict) else {}
    return {n: float(found[n]) for n in SECOND_READINGS if is_number(found.get(n))}


def _verdict(found: Mapping[str, Any]) -> tuple[bool, tuple[str, ...]]:
    validity = found.get("validity")
    if not isinstance(validity, dict) or not isinstance(validity.get("valid"), bool):
        raise LabError("no validity verdict")
    return validity["valid"], tuple(str(reason) for reason in _listed(validity, "reasons"))


def _listed(found: Mapping[str, Any], name: str) -> list[Any]:
    """Give a list that may be left out."""
    value = found.get(name, [])
    if not isinstance(value, list):
        raise LabError(f"{name} is no list")
    return value


def _estimates(cell: Cell, used: list[Mapping[str, float]]) -> dict[str, Estimate]:
    shared = {name for name in used[0] if all(name in values for values in used)} if used else set()
    return {
        name: _estimate(
            tuple(values[name] for values in used) if name in shared else (),
            cell.known.get(SECOND_READINGS.get(name, name)),
        )
        for name in (*METRICS, *(name for name in SECOND_READINGS if name in shared))
    }


def _estimate(values: tuple[float, ...], known: float | None) -> Estimate:
    mean, ci95 = mean_ci(values) if values else (None, None)
    return Estimate(values, mean, ci95, None if known is None else float(known))
