"""An experiment's matrix into runs: a part of it, the experiment at a point of its axes, the runs.

``--only`` and ``--seeds`` narrow a matrix. A run is one case at one point of the axes, with a
number of flows and a seed; the experiment at a point is checked as a file is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from pydantic import ValidationError

from tcpf_lab.base.errors import RequestError
from tcpf_lab.spec.axis import (
    ANY,
    HEADS,
    KERNEL,
    MOST_VALUES,
    Axis,
    Value,
    key_of,
    may_be_axis,
    meet,
    path_of,
    shared,
    shown,
    word,
)
from tcpf_lab.spec.explain import explain, show_path
from tcpf_lab.spec.matrix import MOST_RUNS, Matrix
from tcpf_lab.spec.model import Case, Experiment, case_slug, to_data
from tcpf_lab.spec.words import KeyPath, unknown

#: What of every matrix can be restricted, besides its axes.
KEYS = ("case", "flows", "seed")


def narrow(
    experiment: Experiment, only: Mapping[str, str] | None = None, seeds: int | None = None
) -> Experiment:
    """Give the experiment with fewer values in its matrix, `expand` describes which.

    Raises
    ------
    RequestError
        As `expand`.
    """
    (narrowed,) = narrow_each([experiment], only, seeds)
    if narrowed is None:
        words = " ".join(f"--only {key}={value}" for key, value in (only or {}).items())
        raise RequestError("no run matches all of this", where=words)
    return narrowed


def narrow_each(
    experiments: Sequence[Experiment],
    only: Mapping[str, str] | None = None,
    seeds: int | None = None,
    where: Callable[[str], str] | None = None,
) -> list[Experiment | None]:
    """Give of each experiment what it has of the wanted values, None for one without any.

    Parameters
    ----------
    experiments : sequence of Experiment
        What to narrow, at least one.
    only, seeds
        As for `expand`; each value must be in some matrix, not in every one. A case that lacks
        an axis has none of its values.
    where : callable, optional
        Gives the place of a key of ``only``, or of ``seeds``, for messages; the option by default.

    Raises
    ------
    RequestError
        If ``only`` names an unknown key, a value is in no matrix, or none has so many seeds.
    """
    wanted = dict(only or {})
    place = where or (lambda key: _option(key, wanted, seeds))
    most = max(len(experiment.matrix.seed) for experiment in experiments)
    if seeds is not None and not 1 <= seeds <= most:
        message = f"must be from 1 to {most} (seeds in the matrix), not {seeds}"
        hint = f"`--set matrix.seed=1..{seeds}` for more" if seeds > most else ""
        raise RequestError(message, where=place("seeds"), hint=hint)
    values = [_values(experiment, seeds) for experiment in experiments]
    words = {key: _words(key, text, experiments, values, place) for key, text in wanted.items()}
    return [
        _narrowed(experiment, own, words)
        for experiment, own in zip(experiments, values, strict=True)
    ]


def _option(key: str, wanted: Mapping[str, str], seeds: int | None) -> str:
    return f"--seeds {seeds}" if key == "seeds" else f"--only {key}={wanted[key]}"


def _values(experiment: Experiment, seeds: int | None) -> dict[str, dict[str, Any]]:
    """What ``only`` may say: for each key the values of the matrix by the word that means them."""
    numbers = experiment.matrix.flows  # none with groups, whose numbers may be axes
    return {
        "case": {case_slug(name): name for name in experiment.selected_cases},
        **({"flows": {str(number): number for number in numbers}} if numbers else {}),
        "seed": {str(number): number for number in experiment.matrix.seed[:seeds]},
    }


def _meant(key: str, experiment: Experiment) -> list[Axis]:
    """Give the axes that a key of ``only`` names: one, or one of each of several cases."""
    path = path_of(key)
    return [a for a in experiment.matrix.axes if a.key == key_of(path) and meet(a.path, path)]


def _words(
    key: str,
    text: str,
    experiments: Sequence[Experiment],
    values: Sequence[Mapping[str, Mapping[str, Any]]],
    place: Callable[[str], str],
) -> set[str]:
    """The words of a list, each of which is in some matrix."""
    if key in KEYS:
        known = {name: value for own in values for name, value in own.get(key, {}).items()}
    else:
        axes = [axis for experiment in experiments for axis in _meant(key, experiment)]
        known = {_word(key, shown(value)): shown(value) for axis in axes for value in axis.values}
    if not known:
        every = dict.fromkeys(axis.key for one in experiments for axis in one.matrix.axes)
        raise RequestError(unknown(f"unknown key '{key}'", key, (*KEYS, *every)), where=place(key))
    words = set()
    for part in text.split(","):
        name = _word(key, part)
        if name not in known:
            message = unknown(f"unknown {key} '{part}'", part, map(str, known.values()))
            raise RequestError(message, where=place(key))
        words.add(name)
    return words


def _word(key: str, text: str) -> str:
    if key in KEYS:
        return case_slug(text) if key == "case" else text.strip()
    return text.strip() if key == KERNEL else word(text)


def _narrowed(
    experiment: Experiment, values: Mapping[str, Mapping[str, Any]], words: Mapping[str, set[str]]
) -> Experiment | None:
    chosen = {
        key: tuple(value for name, value in own.items() if name in words.get(key, own))
        for key, own in values.items()
    }
    wanted = {key: _meant(key, experiment) for key in words if key not in KEYS}
    axes = {
        axis: tuple(value for value in axis.values if _all_want(axis, value, wanted, words))
        for axis in experiment.matrix.axes
    }
    has = touching(experiment)
    chosen["case"] = tuple(
        case
        for case in chosen["case"]
        if all(any(a in has[case] and axes[a] for a in own) for own in wanted.values())
    )
    if not all(chosen.values()):
        return None
    left = {
        axis.written: values
        for axis, values in axes.items()
        if values and any(axis in has[case] for case in chosen["case"])
    }
    return experiment.model_copy(update={"matrix": Matrix.model_validate({**chosen, **left})})


def _all_want(
    axis: Axis, value: Value, wanted: Mapping[str, list[Axis]], words: Mapping[str, set[str]]
) -> bool:
    """Tell whether a value of an axis is among those of every key that names the axis."""
    return all(
        _word(axis.key, shown(value)) in words[key]
        for key, named in wanted.items()
        if axis in named
    )


def parse_only(settings: Iterable[str]) -> dict[str, str]:
    """Turn ``KEY=VALUE`` words into the mapping that `expand` takes.

    Raises
    ------
    RequestError
        If a word is not of that form, or a key is given twice.
    """
    result: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key or not value:
            message = "write KEY=VALUE, such as case=NoMark+RED or seed=1,2"
            raise RequestError(message, where=f"--only {setting}")
        if key in result:
            raise RequestError(
                f"{key} is given twice; write its values with commas", where=f"--only {setting}"
            )
        result[key] = value
    return result


#: Values of a case's axes by the short form of their keys, in the order of the keys.
Values = dict[str, Value]
#: The same as text.
Settings = tuple[tuple[str, str], ...]
#: One value of each of some axes.
Point = tuple[tuple[Axis, Value], ...]

#: What is wrong with a path that goes on below a single value.
NO_KEYS = "is a single value and has no keys"
#: Key path and sentence.
Problem = tuple[KeyPath, str]


class PointError(ValueError):
    """The experiment is not allowed at a point; ``found`` are key paths and sentences."""

    def __init__(self, found: list[Problem]) -> None:
        super().__init__(found)
        self.found = found


def touching(experiment: Experiment) -> dict[str, tuple[Axis, ...]]:
    """Give for every case of the matrix the axes that it has, in the matrix's order."""
    axes = experiment.matrix.axes
    cases = _cases(experiment) if axes else {}
    return {
        name: tuple(axis for axis in axes if axis.touches(name, cases[name]))
        for name in experiment.selected_cases
    }


def _cases(experiment: Experiment) -> dict[str, Any]:
    """Give the cases as plain data, with the keys that no file has to set: None there."""
    cases: dict[str, Any] = experiment.model_dump(mode="json", by_alias=True)["cases"]
    return cases


def points(axes: Sequence[Axis], groups: Collection[str] | None = None) -> Iterator[Point]:
    """Yield every combination of the axes' values, the last axis fastest; one without axes.

    Without those in which axes give each of several groups no flows: nothing would send.
    """
    for values in product(*(axis.values for axis in axes)):
        point = tuple(zip(axes, values, strict=True))
        if not _is_silent(point, groups or ()):
            yield point


def _is_silent(point: Point, groups: Collection[str]) -> bool:
    none = {axis.path for axis, value in point if value == 0}
    absent = [("traffic", "groups", name, "flows") in none for name in groups]
    return len(absent) > 1 and all(absent)


def at(experiment: Experiment, case: str, point: Point) -> tuple[Experiment, Values]:
    """Give the experiment of one case at a point, without axes, and the values that it has there.

    Parameters
    ----------
    experiment : Experiment
        With the case among its cases.
    case : str
        Name of the case.
    point : Point
        One value of each axis that the case has.

    Returns
    -------
    tuple of (Experiment, Values)
        Values in the one way of writing that the model gives them, in the order of their keys.

    Raises
    ------
    PointError
        If the experiment is not allowed there.
    """
    several = {"flows": experiment.matrix.flows, "seed": experiment.matrix.seed}
    matrix = Matrix.model_validate({"case": case, **several})
    cases = {case: experiment.cases[case]}
    narrowed = experiment.model_copy(update={"cases": cases, "matrix": matrix})
    if not point:
        return narrowed, {}
    data = to_data(narrowed)
    targets = {axis.key: target_of(axis, case) for axis, _ in point}
    for axis, value in point:
        obstacle = put(data, targets[axis.key], value)
        if obstacle:
            raise PointError([(obstacle, NO_KEYS)])
    try:
        changed = Experiment.model_validate(data)
    except ValidationError as error:
        raise PointError(explain(error, data)) from None
    written = to_data(changed)
    return changed, {key: _value(written, targets[key]) for key in sorted(targets)}


def settings_of(values: Values) -> Settings:
    """Give values as text, as ids and tables have them."""
    return tuple((key, shown(value)) for key, value in values.items())


def name_of(case: str, settings: Settings) -> str:
    """Give what of a run's name says its case and settings, such as ``red-queue.max=100kB``."""
    words = (f"{key}={value.replace(' ', '')}" for key, value in settings)
    return "-".join([case_slug(case), *words])


def target_of(axis: Axis, case: str) -> KeyPath:
    """Give the path of an axis' value in one case."""
    path = axis.path
    return ("cases", case, *path[2:]) if path[0] == "cases" else path


def put(data: dict[str, Any], path: KeyPath, value: Any) -> KeyPath | None:
    """Set a value of plain data; sections that were left out come into being.

    Returns
    -------
    KeyPath or None
        The path of what is in the way, a single value where a section is needed; None if nothing.
    """
    section: Any = data
    for depth, key in enumerate(path[:-1], start=1):
        section = section.setdefault(key, {})
        if not isinstance(section, dict):
            return path[:depth]
    section[path[-1]] = value
    return None


def _value(data: Any, path: KeyPath) -> Any:
    for key in path:
        data = data[key]
    return data


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

    @property
    def key(self) -> tuple[str, str]:
        """Experiment and id, which no other run of a collection has."""
        return self.experiment.name, self.id


def expand(
    experiment: Experiment, only: Mapping[str, str] | None = None, seeds: int | None = None
) -> tuple[Run, ...]:
    """Give the runs of an experiment: cases in order, in each points of its axes, flows, seeds.

    A case is run at the combinations of those axes that it has, save those in which no group has
    flows; one without any is run once, as if the matrix had none.

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
        for point in points(axes, narrowed.traffic.groups)
        for changed, values in [at(narrowed, case, point)]
        for flows in changed.flows
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
#: Most faults reported of one axis; a range may have a thousand of the same.
_MOST_FAULTS = 3
#: A limit in a sentence, which may differ from point to point where the fault is the same.
_NUMBER = re.compile(r"\d[\d.]*")


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
            text = f"sets the same value as the axis '{meeting[0].written}'; remove one of them"
        if text:
            yield ("matrix", axis.written), text


def _wrong_key(experiment: Experiment, axis: Axis) -> str | None:
    if axis.path == (KERNEL,):
        return None
    head, *rest = map(str, axis.path)
    if head not in HEADS:
        return unknown(f"an axis cannot start with '{head}'", head, HEADS)
    if not may_be_axis(axis.path) or not all(rest):
        return "is not the key of a single value; write the whole key, such as queue.max"
    if rest[-1] == "kind":
        return "kind cannot be an axis, as each kind has other keys; write a case for each kind"
    if head == "cases" and rest[0] not in (ANY, *experiment.cases):
        return unknown(f"unknown case '{rest[0]}'", rest[0], (ANY, *experiment.cases))
    return None


def _nowhere(experiment: Experiment, axis: Axis) -> str:
    """Say of a key that no case of the matrix has it, and which ones they have."""
    cases = _cases(experiment)
    if axis.path[1] != ANY:
        return f"case '{axis.path[1]}' is not in matrix.case"
    keys = {
        f"{section}.{key}": None
        for name in experiment.selected_cases
        for section, values in cases[name].items()
        if isinstance(values, dict)
        for key in values
        if key != "kind"
    }
    return unknown(f"no case of the matrix has the key {axis.key}", axis.key, keys)


def _size_problems(
    experiment: Experiment, axes: Mapping[str, tuple[Axis, ...]]
) -> Iterator[Problem]:
    points_of = {case: math.prod(len(axis.values) for axis in own) for case, own in axes.items()}
    case, most = max(points_of.items(), key=lambda item: item[1])
    matrix = experiment.matrix
    runs = sum(points_of.values()) * len(experiment.flows) * len(matrix.seed)
    if most > MOST_VALUES:
        yield (
            ("matrix",),
            f"the axes make {most} combinations in case '{case}'; at most {MOST_VALUES}",
        )
    elif runs > MOST_RUNS:
        yield ("matrix",), f"makes {runs} runs; at most {MOST_RUNS}"


#: Points by the names that they give runs, and what the file means there.
Names = dict[str, tuple[Point, Settings]]


@dataclass(frozen=True)
class _Fault:
    """What is wrong at one point: the key path, the text, and a text without varying limits."""

    place: KeyPath
    kind: str
    text: str


def _point_problems(
    experiment: Experiment, axes: Mapping[str, tuple[Axis, ...]]
) -> Iterator[Problem]:
    """Yield what is wrong at the points, the same fault of the same value once."""
    reported: dict[KeyPath, set[tuple[KeyPath, str]]] = {}
    for case, own in axes.items():
        same: Names = {}
        for point in points(own, experiment.traffic.groups) if own else ():
            known_of = (reported.get(("matrix", axis.written), ()) for axis in own)
            if all(len(known) == _MOST_FAULTS for known in known_of):
                break
            for fault in _wrong_at(experiment, case, point, same):
                known = reported.setdefault(fault.place[:2], set())
                if len(known) < _MOST_FAULTS and (fault.place, fault.kind) not in known:
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
    how = "is the same as" if settings == meant else "has the same run id as"
    for (axis, value), (_, before) in zip(point, first, strict=True):
        if value != before:
            text = f"{shown(value)} {how} {shown(before)}"
            yield _Fault(_position(axis, value), text, text)


def _unfit(name: str, settings: Mapping[str, str], point: Point) -> Iterator[_Fault]:
    """Yield a value that no directory can be called after."""
    for axis, value in point:
        if "/" in settings[axis.key]:
            text = "cannot be part of a run id, as it has a '/'; write a case for each value"
            yield _Fault(_position(axis, value), text, f"{shown(value)} {text}")
    if len(name) > _LONGEST_NAME:
        axis, value = max(point, key=lambda item: len(settings[item[0].key]))
        text = f"makes a run id longer than {_LONGEST_NAME} characters; write a case for it"
        yield _Fault(_position(axis, value), text, text)


def _blamed(problem: Problem, case: str, point: Point) -> _Fault:
    """Give a fault of the experiment at a point as one of the axis that it comes from."""
    path, text = problem
    axis, value = max(point, key=lambda item: shared(target_of(item[0], case), path))
    target = target_of(axis, case)
    place, alike = _position(axis, value), _NUMBER.sub("", text)
    if path == target:
        others = [item for item in point if item[0] != axis]
        return _Fault(place, alike, f"with {_listed(others)}: {text}" if others else text)
    here = "" if target[: len(path)] == path else f"with {_listed(point)}, "
    return _Fault(place, f"{key_of(path)} {alike}", f"{here}{show_path(path)}: {text}")


def _listed(point: Iterable[tuple[Axis, Value]]) -> str:
    return ", ".join(f"{axis.key}={shown(value)}" for axis, value in point)


def _position(axis: Axis, value: Value) -> KeyPath:
    return "matrix", axis.written, axis.values.index(value)
