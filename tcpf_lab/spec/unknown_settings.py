"""What an unknown sets in an experiment, and which of its values the experiment has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tcpf_lab.errors import SpecError
from tcpf_lab.spec.axis import ANY, has, path_of
from tcpf_lab.spec.base import KeyPath
from tcpf_lab.spec.model import Experiment, to_data
from tcpf_lab.spec.override import apply_overrides
from tcpf_lab.spec.unknown import Unknown, grain, scalar, significant
from tcpf_lab.spec.values import measured, plain, shown, written

Places = Callable[[KeyPath], str]


def settings(one: Unknown, value: str, experiment: Experiment) -> tuple[str, ...]:
    """Give what a value of an unknown sets in an experiment, ``PATH=VALUE`` each.

    Raises
    ------
    SpecError
        If the value cannot be worked out: ``times`` names no single number there.
    """
    if one.times is None:
        return one.lines(value)
    base, quantity = _number_at(experiment, one.times)
    product = significant(float(base) * float(measured(scalar(value))[0]))
    if quantity is not None:
        product = round(product / grain(quantity)) * grain(quantity)
    text = shown(written(product, quantity))
    return tuple(f"{path}={text}" for path in one.paths)


def default_of(name: str, one: Unknown, experiments: Sequence[Experiment], place: Places) -> str:
    """Give the uncalibrated value: what the file says, or what the experiments have."""
    where = place(("unknowns", name))
    found = set().union(*(_found(one, experiment) for experiment in experiments))
    if one.default is not None:
        given = _given(name, one, where)
        # A level that sets nothing cannot undo what the experiments have.
        if any(one.levels.values()) and found and found != {given}:
            had = ", ".join(sorted(found))
            raise SpecError(
                f"unknowns.{name}.default: is {given}, but the experiments have {had}", where=where
            )
        return given
    if len(found) != 1:
        what = f"have {', '.join(sorted(found))}" if found else "do not say it"
        message = f"unknowns.{name}: missing key 'default': the experiments {what}"
        raise SpecError(message, where=where)
    (value,) = found
    if one.levels and value not in one.levels:
        message = f"unknowns.{name}.levels: lack {value}, which the experiments have"
        raise SpecError(message, where=where)
    problem = None if one.levels else one.why_not(measured(scalar(value))[0])
    if problem:
        message = f"unknowns.{name}: the experiments have {value}, which {problem}"
        raise SpecError(message, where=where)
    return value


def _given(name: str, one: Unknown, where: str) -> str:
    """Give the default that the file says: it is set as it stands, so it is one of the values."""
    assert one.default is not None
    text = shown(plain(one.default))
    if one.levels:
        return text
    number, _ = measured(one.default)
    problem = one.why_not(number)
    if problem:
        raise SpecError(f"unknowns.{name}.default: {text} {problem}", where=where)
    return one.text(float(number))


def _found(one: Unknown, experiment: Experiment) -> set[str]:
    """Give the values that an experiment has; none where it leaves something to the kernel."""
    if any(one.levels.values()):
        same = (value for value in one.levels if _is_as(experiment, one.levels[value]))
        return set(same)
    data = to_data(experiment)
    values = {shown(plain(value)) for path in one.paths for value in _at(data, path_of(path))}
    if one.times is None or not values:
        return values
    base, _ = _number_at(experiment, one.times)
    return {shown(written(significant(float(measured(v)[0] / base)), None)) for v in values}


def _is_as(experiment: Experiment, lines: tuple[str, ...]) -> bool:
    return apply_overrides(experiment, lines) == experiment


def _at(data: dict[str, Any], path: KeyPath) -> list[Any]:
    """Give the single values at a path; those of every case that has it, for ``*``."""
    if path[:2] == ("cases", ANY):
        paths = [("cases", name, *path[2:]) for name in data["cases"]]
    else:
        paths = [path]
    found = []
    for steps in paths:
        if has(data, steps):
            value: Any = data
            for step in steps:
                value = value[step]
            found += [value] if isinstance(value, str | int | float | bool) else []
    return found


def _number_at(experiment: Experiment, key: str) -> tuple[Any, Any]:
    values = {shown(value) for value in _at(to_data(experiment), path_of(key))}
    if len(values) != 1:
        what = f"has {len(values)} values" if values else "has no value"
        raise SpecError(f"times: {key} {what}; it must have one")
    try:
        return measured(scalar(values.pop()))
    except ValueError as error:
        raise SpecError(f"times: {key}: {error}") from None
