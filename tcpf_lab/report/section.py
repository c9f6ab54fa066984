"""What a report is made of: the runs of one experiment, and what they say."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, Field, StrictBool, StrictStr, ValidationError

from tcpf_lab.base.errors import LabError, RequestError, TraceError
from tcpf_lab.metrics import series
from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.report.claims.published import CONFIGS, published
from tcpf_lab.report.style import DISTINCT, METRICS, SECOND_READINGS
from tcpf_lab.results.layout import FORMAT, ExperimentFiles, RunFiles, read_json

#: A number that no run exceeds: sums of such do not overflow.
_Number = Annotated[float, Field(strict=True, allow_inf_nan=False, gt=-(2.0**100), lt=2.0**100)]
_Count = Annotated[int, Field(strict=True, ge=0, lt=2**63)]
_Scalar = _Number | StrictBool | StrictStr | None


class _Check(BaseModel):
    name: StrictStr
    ok: StrictBool | None
    detail: StrictStr


class _Validity(BaseModel):
    valid: StrictBool
    reasons: list[StrictStr]
    checks: list[_Check]


class _Flow(BaseModel, extra="allow"):
    """A flow's row: numbers, and below a few keys mappings of them."""

    __pydantic_extra__: dict[str, _Number | None]
    flow: _Count
    kernel: dict[str, _Scalar] | None = None
    iperf3: dict[str, _Scalar] | None = None
    events: dict[str, _Scalar] = {}


class _Dscp(BaseModel):
    """What became of the packets with a DSCP; earlier versions have no packets_per_s."""

    packets: _Number
    packets_lost: _Number
    loss_percent: _Number
    packet_loss_percent: _Number


class _Truth(BaseModel):
    timeouts_pcap: _Number | None
    timeouts_kernel: _Number | None


class _Metrics(BaseModel):
    """Kinds of what is read of ``metrics.json``; any of it may be missing."""

    config: StrictStr = ""
    case: StrictStr = ""
    flows: _Count = 0
    metrics: dict[str, _Number | None] = {}
    unmeasured: list[StrictStr] = []
    per_flow: list[_Flow] = []
    by_dscp: dict[Annotated[str, Field(pattern="^[0-9]{1,3}$")], _Dscp] = {}
    truth: _Truth = _Truth(timeouts_pcap=None, timeouts_kernel=None)
    validity: _Validity = _Validity(valid=False, reasons=[], checks=[])
    analysis: StrictStr = ""


class _Manifest(BaseModel):
    """Kinds of what is read of ``manifest.json``; any of it may be missing."""

    config: StrictStr = ""
    case: StrictStr = ""
    testbed: StrictStr = ""
    flows: _Count = 0
    seed: _Count = 0
    settings: dict[str, StrictStr] = {}
    window_s: Annotated[list[_Number], Field(min_length=2, max_length=2)] = []
    clock: StrictStr = ""
    expect: dict[str, Any] = {}
    facts: dict[str, Any] = {}
    tcpf_lab: StrictStr = ""
    git_commit: StrictStr = ""
    testbed_identity: StrictStr = ""


def read_metrics(files: RunFiles, *needed: str) -> dict[str, Any]:
    """Read ``metrics.json``.

    Parameters
    ----------
    files : RunFiles
        The run's directory.
    needed : str
        Keys that must be there; whatever is there must be of its kind.

    Raises
    ------
    RequestError
        If it is missing, damaged or of another format, or lacks something.
    """
    found = read_json(files.metrics)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise RequestError(f"not metrics of format {FORMAT}", where=str(files.metrics))
    return _checked(found, _Metrics, needed, str(files.metrics))


def read_manifest(files: RunFiles, *needed: str) -> dict[str, Any]:
    """Read ``manifest.json``, as `read_metrics` does its file.

    Raises
    ------
    RequestError
        If it is missing or damaged, or lacks something.
    """
    found = read_json(files.manifest)
    if not isinstance(found, dict):
        raise RequestError("not a manifest", where=str(files.manifest))
    return _checked(found, _Manifest, needed, str(files.manifest))


def read_series(files: RunFiles) -> series.Series:
    """Read ``series.npz`` as `tcpf_lab.metrics.series.read_series` does, whatever is in it.

    Raises
    ------
    TraceError
        If it is missing, damaged or of another layout.
    """
    try:
        return series.read_series(files)
    except (zlib.error, struct.error, NotImplementedError, RuntimeError, MemoryError) as error:
        raise TraceError(f"cannot be read: {error}", where=str(files.series)) from None


def _checked(
    found: dict[str, Any], kinds: type[BaseModel], needed: Sequence[str], where: str
) -> dict[str, Any]:
    lacking = [name for name in needed if name not in found]
    if lacking:
        raise RequestError(f"lacks {', '.join(lacking)}", where=where)
    try:
        kinds.model_validate(found)
    except ValidationError as error:
        wrong = dict.fromkeys(str(one["loc"][0]) for one in error.errors(include_url=False))
        raise RequestError(f"damaged: {', '.join(wrong)}", where=where) from None
    return found


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
        """Number of requested runs."""
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
        """Number of requested runs."""
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
            name: _number(found.get("metrics", {}), name)
            for name in METRICS
            if name not in found.get("unmeasured", ())
        }
        values |= _second_readings(found.get("metrics", {}))
    except LabError as error:
        words = f"{files.metrics.name}: {error.message}"
        return Problem(run, "invalid" if reasons else "unreadable", (*reasons, words)), {}
    return (None if valid else Problem(run, "invalid", reasons, used=True)), values


def _own_metrics(files: RunFiles, cell: Cell) -> dict[str, Any]:
    found = read_metrics(files)
    manifest = read_manifest(files) if files.manifest.exists() else {}
    for key in ("config", "case", "flows"):
        if found.get(key) != getattr(cell, key):
            raise LabError(f"{key} is {found.get(key)!r}, expected {getattr(cell, key)!r}")
    seeds = found.get("seed"), manifest.get("seed")
    if None not in seeds and seeds[0] != seeds[1]:
        raise LabError(f"seed is {seeds[0]!r}, the manifest has {seeds[1]!r}")
    return found


def _number(metrics: Mapping[str, Any], name: str) -> float:
    if name not in metrics:
        raise LabError(f"no value for {name}")
    if metrics[name] is None:
        raise LabError(f"{name} is undefined for it: is its window too short?")
    return float(metrics[name])


def _second_readings(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Give what there is of them: runs of earlier versions have none."""
    return {name: float(metrics[name]) for name in SECOND_READINGS if metrics.get(name) is not None}


def _verdict(found: Mapping[str, Any]) -> tuple[bool, tuple[str, ...]]:
    if "validity" not in found:
        raise LabError("no validity verdict")
    return found["validity"]["valid"], tuple(found["validity"]["reasons"])


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


#: File formats of every figure of a report.
SUFFIXES: tuple[str, ...] = ("png", "pdf", "svg")
#: A file of a report and its content; made one by one, so that a full disk is reported early.
Document = tuple[Path, str | bytes]


@dataclass(frozen=True)
class Source:
    """The runs of one experiment.

    Parameters
    ----------
    files : ExperimentFiles
        Where they are.
    cells : sequence of Cell
        The matrix, in its own order.
    title, conditions : str
        ``Configuration A`` and the conditions of every run, ``60 s, 10 Mbit/s, 200 ms``.
    cases : tuple of str
        All cases of the experiment, also those without a cell: figures tell them apart.
    stale : mapping of str to str
        What makes runs stale, by their ids: they are left out.
    factor, level : str
        What was varied in a collection, and its value; empty for an experiment as it stands.
    settings : tuple of str
        What was changed of the experiment's file, ``PATH=VALUE`` each: by the level, then by the
        command line.
    """

    files: ExperimentFiles
    cells: Sequence[Cell]
    title: str
    conditions: str
    cases: tuple[str, ...] = ()
    stale: Mapping[str, str] = field(default_factory=dict)
    factor: str = ""
    level: str = ""
    settings: tuple[str, ...] = ()

    @property
    def heading(self) -> str:
        """The title, with factor and level where something was varied."""
        return f"{self.title}, {self.factor}: {self.level}" if self.factor else self.title


@dataclass(frozen=True)
class Section:
    """What the runs of one experiment say."""

    source: Source
    results: tuple[CellResult, ...]

    @property
    def config(self) -> str:
        """The configuration, in the published tables if it has one there."""
        return self.source.cells[0].config

    @property
    def swept(self) -> bool:
        """Whether the matrix has axes of its own."""
        return any(cell.settings for cell in self.source.cells)

    @property
    def charted(self) -> bool:
        """Whether bars can show it: a bar per case, each with a look of its own."""
        return not self.swept and len({cell.case for cell in self.source.cells}) <= DISTINCT

    @property
    def published(self) -> bool:
        """Whether the published tables have it: an experiment as it stands, with a reference."""
        cell = self.source.cells[0]
        as_it_stands = not self.source.factor and not self.swept
        return cell.published and cell.config in CONFIGS and as_it_stands

    @property
    def usable(self) -> bool:
        """Whether a single run is part of the means."""
        return any(result.used for result in self.results)

    def measured(self, metric: str) -> bool:
        """Tell whether any cell has a value of the metric; without captures some have none."""
        return any(result.metrics[metric].mean is not None for result in self.results)


def gather(sources: Iterable[Source], include_invalid: bool = False) -> tuple[Section, ...]:
    """Read the metrics of all runs and average them, experiment by experiment."""
    return tuple(
        Section(source, tuple(collect(source.files, source.cells, include_invalid, source.stale)))
        for source in sources
    )


def as_it_stands(section: Section, sections: Iterable[Section]) -> Section | None:
    """Give what a level of a factor is compared with.

    Parameters
    ----------
    section : Section
        The level.
    sections : iterable of Section
        A whole collection.

    Returns
    -------
    Section or None
        The experiment without a factor of the level's configuration, or the first there is.
    """
    plain = [one for one in sections if not one.source.factor]
    own = [one for one in plain if one.config == section.config]
    return next(iter([*own, *plain]), None)


def figure_name(number: str, metric: str) -> str:
    """Give the file name of a figure, by its number or its experiment, without its suffix."""
    return f"fig-{number}-{METRICS[metric].slug}"
