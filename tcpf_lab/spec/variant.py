"""The experiment at one value of every axis: what runs are made from, checked as a file is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from pydantic import ValidationError

from tcpf_lab.spec.axis import Axis
from tcpf_lab.spec.explain import explain
from tcpf_lab.spec.matrix import Matrix
from tcpf_lab.spec.model import Experiment, case_slug, to_data
from tcpf_lab.spec.values import Value, shown
from tcpf_lab.spec.words import KeyPath

#: Values of a case's axes by the short form of their keys, in the order of the keys.
Values = dict[str, Value]
#: The same as text.
Settings = tuple[tuple[str, str], ...]
#: One value of each of some axes.
Point = tuple[tuple[Axis, Value], ...]

#: What is wrong with a path that goes on below a single value.
NO_KEYS = "is a single value without keys"
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
    cases = to_data(experiment)["cases"] if axes else {}
    return {
        name: tuple(axis for axis in axes if axis.touches(name, cases[name]))
        for name in experiment.selected_cases
    }


def points(axes: Sequence[Axis]) -> Iterator[Point]:
    """Yield every combination of the axes' values, the last axis fastest; one without axes."""
    for values in product(*(axis.values for axis in axes)):
        yield tuple(zip(axes, values, strict=True))


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
