"""The points of a search: the ledger of all that were chosen, their runs, what these measured."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tcpf_lab.base.errors import LabError, RequestError, SpecError
from tcpf_lab.base.making import make_directory
from tcpf_lab.calibration.record import COST
from tcpf_lab.calibration.space import Dimension, Floats, Space
from tcpf_lab.calibration.target import CellName, Cells, cells_of, logged
from tcpf_lab.report.section import Cell, CellResult, Estimate, collect
from tcpf_lab.report.style import METRICS
from tcpf_lab.results.command import command, options
from tcpf_lab.results.layout import OUTCOME, ExperimentFiles, as_json, write_text
from tcpf_lab.run.runner import stale_runs
from tcpf_lab.run.selection import Choice, Part, RunRequest
from tcpf_lab.spec.calibrated import Subject, label, read_subject
from tcpf_lab.spec.calibration import ID, ROUND, UNIT, Calibration, Unknown, Variant
from tcpf_lab.spec.load import Level, named
from tcpf_lab.spec.model import Experiment, to_data
from tcpf_lab.spec.sweep import expand, narrow
from tcpf_lab.testbed import registry

#: The testbed whose directory needs no name of its own.
_USUAL = "uml"


@dataclass(frozen=True)
class CalibrationFiles:
    """Files of a calibration on one testbed."""

    results: Path
    name: str
    testbed: str
    testbed_path: str = ""  #: the testbed as ``--testbed`` takes it, if that is a path
    variant: Variant = field(default_factory=Variant)  #: in what the search differs from its file's

    def words(self, source: Path) -> tuple[str | Path, ...]:
        """Give the words of a command line that mean this calibration, whose file is given."""
        chosen = options(self.testbed_path or self.testbed, self.results)
        return named(source), *self.variant.options, *chosen

    @property
    def root(self) -> Path:
        """Directory of the ledger and of what is concluded."""
        parts = ["calibration", *([] if self.testbed == _USUAL else [self.testbed])]
        return self.results / self.name / "-".join([*parts, *self.variant.names])

    @property
    def ledger(self) -> Path:
        """Every point, its round and its values."""
        return self.root / "points.csv"

    @property
    def outcome(self) -> Path:
        """Everything that was found, rebuilt from the ledger and the runs."""
        return self.root / OUTCOME

    @property
    def cost(self) -> Path:
        """What each session took; nothing else depends on it."""
        return self.root / COST

    @property
    def runs(self) -> Path:
        """Results directory of the points' experiments."""
        return self.results / self.name / "points"

    def of(self, experiment: str) -> ExperimentFiles:
        """Give the files of the experiment of one point."""
        return ExperimentFiles(self.runs, experiment, self.testbed)

    def set_aside(self) -> Path | None:
        """Rename a ledger, so that the next search starts over; its runs stay."""
        if not self.ledger.exists():
            return None
        names = (self.root / f"points-{number}.csv" for number in range(1, 10_000))
        free = next(path for path in names if not path.exists())
        self.ledger.rename(free)
        return free


@dataclass(frozen=True)
class Point:
    """A setting of all unknowns; round 0 is the design.

    ``values`` are text, as they are set; ``unit`` is their place in the unit cube.
    """

    id: str
    round: int
    values: Mapping[str, str]
    unit: Floats


def space_of(subject: Subject) -> Space:
    """Give the unknowns as the search sees them."""
    unknowns = subject.calibration.unknowns.items()
    return Space(tuple(_dimension(name, one, subject.defaults[name]) for name, one in unknowns))


def _dimension(name: str, one: Unknown, default: str) -> Dimension:
    if one.levels:
        return Dimension(name, levels=tuple(one.levels), default=default)
    low, high = one.ends
    return Dimension(name, low, high, one.scale == "log", default=one.number(default))


def point_at(subject: Subject, space: Space, unit: Floats, round_: int) -> Point:
    """Give the point at a place: its numbers as they are written, rounded, and where these are."""
    unknowns = subject.calibration.unknowns.items()
    values = {
        name: value if isinstance(value, str) else one.text(value)
        for (name, one), value in zip(unknowns, space.values(unit), strict=True)
    }
    return Point(subject.point_id(values), round_, values, _place(subject, space, values))


def _place(subject: Subject, space: Space, values: Mapping[str, str]) -> Floats:
    unknowns = subject.calibration.unknowns.items()
    read = [values[name] if one.levels else one.number(values[name]) for name, one in unknowns]
    return space.units(read)


@dataclass(frozen=True)
class Ledger:
    """The points of a search in their order; ``outside`` are those that the ranges exclude now."""

    points: tuple[Point, ...]
    outside: tuple[Mapping[str, str], ...] = ()

    def of_round(self, number: int) -> tuple[Point, ...]:
        """Give the points of one round."""
        return tuple(point for point in self.points if point.round == number)

    def before(self, number: int) -> tuple[Point, ...]:
        """Give the points of all earlier rounds."""
        return tuple(point for point in self.points if point.round < number)

    def with_points(self, points: Iterable[Point]) -> Ledger:
        """Give the ledger with points that it has not got yet."""
        every = {point.id: point for point in self.points}
        for point in points:
            every.setdefault(point.id, point)
        return Ledger(tuple(every.values()), self.outside)


def write_ledger(path: Path, ledger: Ledger, names: Sequence[str]) -> None:
    """Write a ledger, whole or not at all."""
    rows = [
        {
            ID: point.id,
            ROUND: str(point.round),
            **point.values,
            **{f"{UNIT}{name}": f"{u:.9g}" for name, u in zip(names, point.unit, strict=True)},
        }
        for point in ledger.points
    ]
    text = io.StringIO()
    columns = [ID, ROUND, *names, *(f"{UNIT}{name}" for name in names)]
    writer = csv.DictWriter(text, columns, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows([*rows, *ledger.outside])
    make_directory(path.parent)
    write_text(path, text.getvalue())


def read_ledger(path: Path, subject: Subject, space: Space) -> Ledger:
    """Read the ledger of an earlier session; empty if there is none.

    A point whose values the ranges or levels do not have any more is kept apart: its runs stay.

    Raises
    ------
    RequestError
        If it is damaged, or of other unknowns, or of the same names that set something else.
    """
    if not path.exists():
        return Ledger(())
    names = list(subject.calibration.unknowns)
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            found = [name for name in reader.fieldnames or () if not name.startswith(UNIT)]
            rows = [dict(row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise _refused(f"cannot be read: {error}", path) from None
    if set(found) != {ID, ROUND, *names}:
        raise _refused(_other_unknowns(found, names), path)
    points, outside = [], []
    for number, row in enumerate(rows, start=2):
        point = _point(row, subject, space, f"{path}:{number}")
        if point is None:
            outside.append(row)
        else:
            points.append(point)
    return Ledger(tuple(points), tuple(outside))


def _point(row: Mapping[str, str], subject: Subject, space: Space, where: str) -> Point | None:
    """Make a point of a row; None if it is outside of the ranges."""
    unknowns = subject.calibration.unknowns
    if None in row.values() or not str(row[ROUND]).isdecimal():
        raise _refused("the line is damaged", where)
    values = {name: row[name] for name in unknowns}
    try:
        inside = all(_within(one, values[name]) for name, one in unknowns.items())
    except ValueError:
        inside = False
    if not inside:
        return None
    if subject.point_id(values) != row[ID]:
        raise _refused("the unknowns set something else now than when this was written", where)
    return Point(row[ID], int(row[ROUND]), values, _place(subject, space, values))


def _within(one: Unknown, value: str) -> bool:
    if one.levels:
        return value in one.levels
    low, high = one.ends
    return low <= one.number(value) <= high


def _other_unknowns(found: Sequence[str], names: Sequence[str]) -> str:
    gone = [name for name in found if name not in (ID, ROUND, *names)]
    new = [name for name in names if name not in found]
    parts = [f"has {', '.join(gone)}"] if gone else []
    parts += [f"lacks {', '.join(new)}"] if new else []
    return f"is of other unknowns: it {' and '.join(parts) or 'has not the usual columns'}"


def _refused(message: str, where: str | Path) -> RequestError:
    return RequestError(
        message,
        where=str(where),
        hint="--fresh starts over and sets the old points aside; matching runs are reused",
    )


def units(points: Sequence[Point]) -> Floats:
    """Give the places of points, (n, d)."""
    return np.array([point.unit for point in points])


#: What an outcome is of, by the names of its digests, as a sentence says it of a file.
_PARTS = {
    "calibration": "{} has changed since this outcome was written",
    "experiments": "The experiments of {} are others by now than those of this outcome",
    "published": "The published numbers of {} are others by now than those of this outcome",
}


def digests(subject: Subject) -> dict[str, str]:
    """Identify what is concluded from, whatever the files are called and how they are laid out.

    Returns
    -------
    dict
        SHA-256 of the ``calibration`` (what it sets aside from defaults, without its title), of its
        ``experiments`` as they are run, and of the ``published`` numbers.
    """
    cells = cells_of(subject, subject.experiments)
    known = [[str(value) for value in row] for row in cells.published.tolist()]
    parts: dict[str, Any] = {
        "calibration": subject.calibration.model_dump(
            mode="json", by_alias=True, exclude_defaults=True, exclude={"title"}
        ),
        "experiments": [to_data(experiment) for experiment in subject.experiments],
        "published": [cells.metrics, [asdict(name) for name in cells.names], known],
    }
    return {key: hashlib.sha256(as_json(part).encode()).hexdigest() for key, part in parts.items()}


def behind(
    calibration: Calibration, source: Path, files: CalibrationFiles, data: Mapping[str, Any]
) -> Iterator[str]:
    """Yield in sentences what has changed since ``calibration.json`` was written.

    Parameters
    ----------
    calibration : Calibration
        What its file says now.
    source : Path
        That file.
    files : CalibrationFiles
        Where the points are.
    data : mapping
        The outcome.
    """
    again = f"`{command('calibrate', *files.words(source), '--only-report')}`"
    try:
        subject = read_subject(calibration, source)
        ids = {point.id for point in read_ledger(files.ledger, subject, space_of(subject)).points}
        sentences = list(_changed(calibration, source, data, subject))
    except LabError as error:
        if "digests" in data:
            reason = str(error).splitlines()[0]
            yield f"{source.name} cannot be carried out any more ({reason})."
            return
        ids, sentences = _ids(files.ledger), list(_changed_of_older(calibration, source, data))
    for sentence in sentences:
        yield f"{sentence}: {again}."
    more = ids - {one["id"] for one in data["points"]}
    if more:
        yield f"{len(more)} points of {files.ledger.name} are not part of this outcome: {again}."


def _changed(
    calibration: Calibration, source: Path, data: Mapping[str, Any], subject: Subject
) -> Iterator[str]:
    """Yield what is of another state, as the file's digests have it; older files have none."""
    if "digests" not in data:
        yield from _changed_of_older(calibration, source, data)
        return
    now = digests(subject)
    for part, sentence in _PARTS.items():
        if now[part] != data["digests"].get(part):
            yield sentence.format(source.name)


def _changed_of_older(
    calibration: Calibration, source: Path, data: Mapping[str, Any]
) -> Iterator[str]:
    """Yield what an outcome without digests tells to be another."""
    if [one["name"] for one in data["unknowns"]] != list(calibration.unknowns):
        yield f"{source.name} has other unknowns by now than this outcome"
    if dict(calibration.tolerance) != data.get("tolerance"):
        yield f"{source.name} has other tolerances by now than this outcome"


def _ids(ledger: Path) -> set[str]:
    """Give the ids of a ledger of any unknowns; none where it is missing or damaged."""
    try:
        with ledger.open(encoding="utf-8", newline="") as file:
            return {row["id"] for row in csv.DictReader(file) if row.get("id")}
    except (OSError, UnicodeDecodeError, csv.Error):
        return set()


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
    testbed: str  #: as it was requested
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
            request=RunRequest(str(self.subject.source), self.testbed, self.files.runs),
            directory=self.files.testbed,
        )

    def counted(self, wanted: Iterable[Wanted]) -> tuple[int, int]:
        """Count the runs of points, those of all together: how many were requested, and are there.

        Those of experiments that are not allowed at a point are not requested.
        """
        most: dict[tuple[str, str], tuple[Point, Experiment, int]] = {}
        for one in wanted:
            for experiment in one.experiments:
                key = one.point.id, experiment.name
                if key not in most or most[key][2] < one.seeds:
                    most[key] = one.point, experiment, one.seeds
        found = [result for requested in most.values() for result in self._read(*requested)]
        return sum(result.n for result in found), sum(result.complete for result in found)

    def is_allowed(self, point: Point) -> bool:
        """Whether all experiments, held out or not, allow what a point sets."""
        return all(self._part(point, one, 1) is not None for one in self.subject.experiments)

    def look_again(self, choice: Choice) -> None:
        """Take note of what is not as it would be made now; nothing of it is used."""
        for part, states in choice.states():
            self._stale[part.experiment.name] = stale_runs(states)

    def forget(self, names: Collection[str]) -> None:
        """Read the runs of these experiments again when they are next requested."""
        made = {key for key, part in self._parts.items() if part.experiment.name in names}
        self._results = {key: results for key, results in self._results.items() if key not in made}

    def forget_all(self) -> None:
        """Read all runs again when they are next requested."""
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
        """Give what the runs of a point measured of some cells, in the order of these."""
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
