"""An experiment's matrix into runs: one case at one point of its axes, flows, one seed each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tcpf_lab.spec.axis import ANY, HEADS, Axis, key_of, may_be_axis, meet, shared
from tcpf_lab.spec.explain import show_path
from tcpf_lab.spec.matrix import MOST_RUNS, Matrix
from tcpf_lab.spec.model import Case, Experiment, to_data
from tcpf_lab.spec.narrow import narrow
from tcpf_lab.spec.values import MOST_VALUES, Value, shown
from tcpf_lab.spec.variant import (
    Point,
    PointError,
    Problem,
    Settings,
    Values,
    at,
    name_of,
    points,
    settings_of,
    target_of,
    touching,
)
from tcpf_lab.spec.words import KeyPath, unknown


@dataclass(frozen=True)
class Run:
    """One cell of the matrix with one seed.

    ``experiment`` is narrowed to this run: dumped, loaded and expanded it gives the same run again.
    ``settings`` are the values of the axes that its case has, by the short form of their keys.
    """

    experiment: Experiment
    case_name: str
    case: Case
    flows: int
    seed: int
    settings: Settings = ()

    @property
    def id(self) -> str:
        """Name of the run's directory, such as ``nomark+red-flows100-seed1``.

        A setting stands behind the case, ``nomark+red-queue.max=100kB-flows100-seed1``: neither a
        case's part nor a value has an equals sign, and what would be the name of two runs, of no
        directory or of one within another is refused with the file.
        """
        cell = name_of(self.case_name, self.settings)
        return f"{cell}-flows{self.flows}-seed{self.seed}"


def expand(
    experiment: Experiment, only: Mapping[str, str] | None = None, seeds: int | None = None
) -> tuple[Run, ...]:
    """Give the runs of an experiment: cases in order, in each points of its axes, flows, seeds.

    A case is run at the combinations of those axes that it has; one without any is run once, as if
    the matrix had none.

    Parameters
    ----------
    experiment : Experiment
        A valid experiment; its case names are distinct as run ids.
    only : mapping of str to str, optional
        Restricts ``case``, ``flows``, ``seed`` or an axis to a comma-separated list of the
        matrix's values.
    seeds : int, optional
        Take only the first so many seeds of the matrix.

    Raises
    ------
    RequestError
        If ``only`` names an unknown key or value, or ``seeds`` is not from 1 to what there is.
    """
    narrowed = narrow(experiment, only, seeds)
    matrix = narrowed.matrix
    return tuple(
        _run(changed, case, values, flows, seed)
        for case, axes in touching(narrowed).items()
        for changed, values in (at(narrowed, case, point) for point in points(axes))
        for flows in matrix.flows
        for seed in matrix.seed
    )


def _run(experiment: Experiment, case: str, values: Values, flows: int, seed: int) -> Run:
    """Make one run of the experiment of one case at one point."""
    matrix = Matrix.model_validate({"case": case, "flows": flows, "seed": seed, **values})
    narrowed = experiment.model_copy(update={"matrix": matrix})
    return Run(narrowed, case, experiment.cases[case], flows, seed, settings_of(values))


#: A run's name has no more than so many characters: files are called like it, with something
#: behind, and a file's name has 255 bytes.
_LONGEST_NAME = 180
#: Of one axis so many faults are told; a range may have a thousand of the same.
_MOST_TOLD = 3


def axis_problems(experiment: Experiment, written: Any) -> Iterator[Problem]:
    """Yield (key path, sentence) for everything that is wrong with the axes of a matrix.

    Every combination of their values has to be an experiment that a file may hold.

    Parameters
    ----------
    experiment : Experiment
        Valid but for its axes.
    written : mapping
        Its matrix as plain data, where a list has places and a range has none.
    """
    axes = touching(experiment)
    for check in (_key_problems, _size_problems, _point_problems):
        found = list(check(experiment, axes))
        yield from dict.fromkeys(_placed(problem, experiment, written) for problem in found)
        if found:
            return


def _placed(problem: Problem, experiment: Experiment, written: Any) -> Problem:
    """Give a fault of a value in a range to the range, and name the value."""
    path, text = problem
    if len(path) < 3 or isinstance(written.get(path[1]), list | tuple):
        return problem
    value = shown(experiment.matrix.values()[str(path[1])][path[2]])
    return path[:2], text if value in text else f"at {value}: {text}"


def _key_problems(
    experiment: Experiment, axes: Mapping[str, tuple[Axis, ...]]
) -> Iterator[Problem]:
    every = experiment.matrix.axes
    for index, axis in enumerate(every):
        text = _wrong_key(experiment, axis) or ""
        if not text and not any(axis in own for own in axes.values()):
            text = _nowhere(experiment, axis)
        meeting = [other for other in every[:index] if meet(axis.path, other.path)]
        if not text and meeting:
            text = f"decides the same as '{meeting[0].written}'"
        if text:
            yield ("matrix", axis.written), text


def _wrong_key(experiment: Experiment, axis: Axis) -> str | None:
    head, *rest = map(str, axis.path)
    if head not in HEADS:
        return unknown(f"an axis cannot begin with '{head}'", head, HEADS)
    if not may_be_axis(axis.path) or not all(rest):
        return "names a section, not a value in it; write keys joined by dots, as queue.max"
    if rest[-1] == "kind":
        return "kinds have different keys; make a case of each instead"
    if head == "cases" and rest[0] not in (ANY, *experiment.cases):
        return unknown(f"unknown case '{rest[0]}'", rest[0], (ANY, *experiment.cases))
    return None


def _nowhere(experiment: Experiment, axis: Axis) -> str:
    """Say of a key that no case of the matrix has it, and which ones they have."""
    cases = to_data(experiment)["cases"]
    if axis.path[1] != ANY:
        return f"the matrix does not run case '{axis.path[1]}'"
    keys = {
        f"{section}.{key}": None
        for name in experiment.selected_cases
        for section, values in cases[name].items()
        if isinstance(values, dict)
        for key in values
        if key != "kind"
    }
    return unknown(f"no case that is run has {axis.key}", axis.key, keys)


def _size_problems(
    experiment: Experiment, axes: Mapping[str, tuple[Axis, ...]]
) -> Iterator[Problem]:
    points_of = {case: math.prod(len(axis.values) for axis in own) for case, own in axes.items()}
    case, most = max(points_of.items(), key=lambda item: item[1])
    matrix = experiment.matrix
    runs = sum(points_of.values()) * len(matrix.flows) * len(matrix.seed)
    if most > MOST_VALUES:
        yield (
            ("matrix",),
            f"the axes have {most} combinations in case '{case}'; at most {MOST_VALUES}",
        )
    elif runs > MOST_RUNS:
        yield ("matrix",), f"makes {runs} runs; at most {MOST_RUNS}"


#: Points by the names that they give runs, and what the file means there.
Names = dict[str, tuple[Point, Settings]]


@dataclass(frozen=True)
class _Fault:
    """What is wrong at one point: where it is blamed on, what is said, and what it is alike by."""

    place: KeyPath
    kind: str
    text: str


def _point_problems(
    experiment: Experiment, axes: Mapping[str, tuple[Axis, ...]]
) -> Iterator[Problem]:
    """Yield what is wrong at the points, the same fault of the same value once."""
    told: dict[KeyPath, set[tuple[KeyPath, str]]] = {}
    for case, own in axes.items():
        same: Names = {}
        for point in points(own) if own else ():
            if all(len(told.get(("matrix", axis.written), ())) == _MOST_TOLD for axis in own):
                break
            for fault in _wrong_at(experiment, case, point, same):
                known = told.setdefault(fault.place[:2], set())
                if len(known) < _MOST_TOLD and (fault.place, fault.kind) not in known:
                    known.add((fault.place, fault.kind))
                    yield fault.place, fault.text


def _wrong_at(experiment: Experiment, case: str, point: Point, same: Names) -> Iterator[_Fault]:
    """Yield what is wrong at one point; ``same`` has the points before it by their runs' names."""
    try:
        _, values = at(experiment, case, point)
    except PointError as error:
        yield from (_blamed(problem, case, point) for problem in error.found)
        return
    settings = settings_of(values)
    name = name_of(case, settings)
    yield from _unfit(name, dict(settings), point)
    first, meant = same.setdefault(name, (point, settings))
    how = "is the same as" if settings == meant else "gives runs the same name as"
    for (axis, value), (_, before) in zip(point, first, strict=True):
        if value != before:
            text = f"{shown(value)} {how} {shown(before)}"
            yield _Fault(_position(axis, value), text, text)


def _unfit(name: str, settings: Mapping[str, str], point: Point) -> Iterator[_Fault]:
    """Yield a value that no directory can be called after."""
    for axis, value in point:
        if "/" in settings[axis.key]:
            text = "gives runs no name, as it has a '/'; make a case of each value instead"
            yield _Fault(_position(axis, value), text, f"{shown(value)} {text}")
    if len(name) > _LONGEST_NAME:
        axis, value = max(point, key=lambda item: len(settings[item[0].key]))
        text = (
            f"gives runs a name longer than {_LONGEST_NAME} characters; make a case of it instead"
        )
        yield _Fault(_position(axis, value), text, text)


def _blamed(problem: Problem, case: str, point: Point) -> _Fault:
    """Give a fault of the experiment at a point as one of the axis that it comes from."""
    path, text = problem
    axis, value = max(point, key=lambda item: shared(target_of(item[0], case), path))
    target = target_of(axis, case)
    place = _position(axis, value)
    if path == target:
        others = [item for item in point if item[0] != axis]
        return _Fault(place, text, f"with {_said(others)}: {text}" if others else text)
    here = "" if target[: len(path)] == path else f"with {_said(point)}, "
    return _Fault(place, f"{key_of(path)} {text}", f"{here}{show_path(path)}: {text}")


def _said(point: Iterable[tuple[Axis, Value]]) -> str:
    return ", ".join(f"{axis.key}={shown(value)}" for axis, value in point)


def _position(axis: Axis, value: Value) -> KeyPath:
    return "matrix", axis.written, axis.values.index(value)
