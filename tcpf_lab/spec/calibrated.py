"""The experiments that a calibration names, at any setting of its unknowns."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tcpf_lab.base.errors import SpecError
from tcpf_lab.spec.axis import ANY, has, measured, path_of, plain, shown, written
from tcpf_lab.spec.calibration import (
    FEWEST_POINTS,
    ID_LENGTH,
    Calibration,
    Unknown,
    Variant,
    grain,
    name_problem,
    scalar,
    significant,
)
from tcpf_lab.spec.load import apply_overrides, each, load_named, places, raise_all
from tcpf_lab.spec.model import Experiment, to_data
from tcpf_lab.spec.sweep import narrow_each
from tcpf_lab.spec.words import KeyPath, unknown

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
            message = f"unknowns.{name}.default: is '{given}', but the experiments have '{had}'"
            raise SpecError(f"{message}: this level sets nothing, so it must agree", where=where)
        return given
    if len(found) != 1:
        what = f"differ: {', '.join(sorted(found))}" if found else "set no value"
        message = f"unknowns.{name}: missing key 'default': the experiments {what}"
        raise SpecError(message, where=where)
    (value,) = found
    if one.levels and value not in one.levels:
        message = f"unknowns.{name}.levels: must include {value}, the value in the experiments"
        raise SpecError(message, where=where)
    problem = None if one.levels else one.why_not(measured(scalar(value))[0])
    if problem:
        message = f"unknowns.{name}: the value in the experiments, {value}, {problem}"
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
        levels = one.levels.items()
        return {name for name, lines in levels if apply_overrides(experiment, lines) == experiment}
    data = to_data(experiment)
    values = {shown(plain(value)) for path in one.paths for value in _at(data, path_of(path))}
    if one.times is None or not values:
        return values
    base, _ = _number_at(experiment, one.times)
    return {shown(written(significant(float(measured(v)[0] / base)), None)) for v in values}


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
        what = f"has {len(values)} different values" if values else "has no value"
        raise SpecError(f"times: {key} {what} in this experiment; it must have one")
    try:
        return measured(scalar(values.pop()))
    except ValueError as error:
        raise SpecError(f"times: {key}: {error}") from None


#: The value of each unknown, as text, by its name.
Values = Mapping[str, str]


@dataclass(frozen=True)
class Subject:
    """A calibration with its experiments, each narrowed to what the file wants of it.

    ``held`` has the unknowns that are none in this search, each with the value that it is held at;
    ``permuted`` is the seed that the published rows are shuffled by among the cells; None where
    they stand as published. ``defaults`` is the setting of the uncalibrated experiments. ``reach``
    has for each unknown, and each experiment by name, the cases that it changes. ``whole`` has each
    experiment by name as its file and ``base`` have it.
    """

    calibration: Calibration
    source: Path
    fit: tuple[Experiment, ...]
    test: tuple[Experiment, ...]
    defaults: Values
    reach: Mapping[str, Mapping[str, frozenset[str]]]
    whole: Mapping[str, Experiment]
    held: Mapping[str, tuple[Unknown, str]] = field(default_factory=dict)
    permuted: int | None = None

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        """All of them, those of `fit` first."""
        return (*self.fit, *self.test)

    def point_id(self, values: Values) -> str:
        """Identify a setting by what it sets, whatever the unknowns are called."""
        lines = sorted(
            f"{line} x {one.times}" if one.times else line
            for one, value in self._set(values)
            for line in one.lines(value)
        )
        return hashlib.sha256(json.dumps(lines).encode()).hexdigest()[:ID_LENGTH]

    def at(self, experiment: Experiment, values: Values) -> Experiment:
        """Give an experiment at a setting, under the name of its own that results have.

        Raises
        ------
        SpecError, SpecErrors
            If the values, allowed each, are not allowed together.
        """
        lines = [
            line for one, value in self._set(values) for line in settings(one, value, experiment)
        ]
        changed = apply_overrides(experiment, lines)
        name = f"{self.calibration.name}-{experiment.name}-{self.point_id(values)}"
        return changed.model_copy(update={"name": name})

    def _set(self, values: Values) -> Iterator[tuple[Unknown, str]]:
        """Yield each unknown with its value, those that are held too."""
        for name, one in self.calibration.unknowns.items():
            yield one, values[name]
        yield from self.held.values()


def read_subject(calibration: Calibration, source: Path, variant: Variant | None = None) -> Subject:
    """Read the experiments of a calibration, and try every unknown on each of them.

    Parameters
    ----------
    calibration : Calibration
        What the file says.
    source : Path
        The file: experiments are looked for beside it first.
    variant : Variant, optional
        In what the search differs from the file's.

    Raises
    ------
    RequestError, SpecError, SpecErrors
        If the variant names what the file has not got, or experiments cannot be found or read; or
        all that is not allowed in them of what the unknowns set: at both ends of a range, at every
        level.
    """
    place = places(source)
    variant = variant or Variant()
    calibration, held = variant.of(calibration)
    problems: list[SpecError] = []
    fit = _experiments(calibration, "fit", source, place, problems)
    test = _experiments(calibration, "test", source, place, problems)
    raise_all(problems)
    experiments = [*fit, *test]
    _refuse_twice(fit, test, place)
    _check_seen(calibration, test, place)
    defaults: dict[str, str] = {}
    reach: dict[str, dict[str, frozenset[str]]] = {}
    for name, one in calibration.unknowns.items():
        try:
            reach[name] = _tried(name, one, experiments, place)
            defaults[name] = default_of(name, one, experiments, place)
        except SpecError as error:
            problems += each(error)
    raise_all(problems)
    _refuse_few(calibration, place)
    narrowed = _narrowed(calibration, experiments, place)
    parts = tuple(narrowed[: len(fit)]), tuple(narrowed[len(fit) :])
    whole = {experiment.name: experiment for experiment in experiments}
    return Subject(calibration, source, *parts, defaults, reach, whole, held, variant.permuted)


def _experiments(
    calibration: Calibration, key: str, source: Path, place: Places, problems: list[SpecError]
) -> list[Experiment]:
    found = []
    for index, spec in enumerate(getattr(calibration, key)):
        try:
            read = _read(calibration, spec, source, place((key, index)))
            base = calibration.base
            found.append(apply_overrides(read, base, lambda number: place(("base", number))))
        except SpecError as error:
            problems += each(error)
    return found


def _read(calibration: Calibration, spec: str, source: Path, where: str) -> Experiment:
    read = load_named(spec, source, where)
    if not isinstance(read, Experiment):
        raise SpecError(f"{spec}: is {read.noun}; name its experiments one by one", where=where)
    if read.matrix.axes:
        axes = ", ".join(axis.written for axis in read.matrix.axes)
        message = f"{spec}: its matrix has the axis {axes}; only case, flows and seed are allowed"
        raise SpecError(message, where=where)
    problem = name_problem(calibration.name, read.name)
    if problem:
        raise SpecError(f"{spec}: {problem}", where=where)
    return read


def label(experiment: Experiment) -> str:
    """Return what tables call an experiment: its configuration, or its name."""
    return experiment.config or experiment.name


def _refuse_twice(fit: Sequence[Experiment], test: Sequence[Experiment], place: Places) -> None:
    """Refuse experiments whose results, or whose cells in tables, could not be distinguished."""
    known: dict[str, str] = {}
    for key, experiments in (("fit", fit), ("test", test)):
        for index, experiment in enumerate(experiments):
            where = place((key, index))
            if experiment.name in known.values():
                message = f"two experiments have the name '{experiment.name}'"
                raise SpecError(f"{message}: their results would share a directory", where=where)
            other = known.setdefault(label(experiment), experiment.name)
            if other != experiment.name:
                message = f"{other} and {experiment.name} both appear as {label(experiment)}"
                hint = "remove one of them, or the key `reference` from one"
                raise SpecError(f"{message} in tables; {hint}", where=where)


def _refuse_few(calibration: Calibration, place: Places) -> None:
    """Refuse unknowns of which there are too few settings to learn from."""
    settings = math.prod(one.most for one in calibration.unknowns.values())
    if settings < FEWEST_POINTS:
        message = f"unknowns: allow only {settings} settings; a search needs at least"
        message = f"{message} {FEWEST_POINTS}"
        raise SpecError(message, where=place(("unknowns",)))


def _check_seen(calibration: Calibration, test: Sequence[Experiment], place: Places) -> None:
    cases = dict.fromkeys(case for experiment in test for case in experiment.cases)
    raise_all(
        SpecError(
            f"seen: {unknown(f'unknown case {name!r}', name, cases)}", where=place(("seen", name))
        )
        for name in calibration.seen
        if name not in cases
    )


def _narrowed(
    calibration: Calibration, experiments: Sequence[Experiment], place: Places
) -> list[Experiment]:
    """Take of each experiment what `only` wants, with enough seeds for everything."""
    only = {key: shown(value) for key, value in calibration.only.items()}
    least = min(len(experiment.matrix.seed) for experiment in experiments)
    wanted = {("seeds",): calibration.seeds, ("check", "seeds"): calibration.check_.seeds}
    raise_all(
        SpecError(
            f"{'.'.join(path)}: must be at most {least}, the number of seeds in the experiments, "
            f"not {seeds}",
            where=place(path),
        )
        for path, seeds in wanted.items()
        if seeds > least
    )
    found = narrow_each(experiments, only, None, lambda key: place(("only", key)))
    raise_all(
        SpecError(f"only: selects no run of {experiment.name}", where=place(("only",)))
        for experiment, narrowed in zip(experiments, found, strict=True)
        if narrowed is None
    )
    return [narrowed for narrowed in found if narrowed is not None]


def _tried(
    name: str, one: Unknown, experiments: Iterable[Experiment], place: Places
) -> dict[str, frozenset[str]]:
    """Set each value in each experiment; give the cases of each that they change."""
    reach: dict[str, frozenset[str]] = {}
    problems: dict[tuple[str, str], SpecError] = {}  # reported of the first experiment only
    for experiment in experiments:
        changed = []
        for value in one.choices:
            where = f"{place(_position(name, one, value))}: {experiment.name}:"
            try:
                lines = settings(one, value, experiment)
                changed.append(apply_overrides(experiment, lines, lambda _, at=where: at))  # type: ignore[misc]
            except SpecError as error:
                for problem in each(error):
                    found = SpecError(problem.message, where=problem.where or where.rstrip(":"))
                    setting = value if problem.where else ""
                    problems.setdefault((setting, problem.message), found)
        reach[experiment.name] = _changed(changed)
    raise_all(problems.values())
    return reach


def _position(name: str, one: Unknown, value: str) -> KeyPath:
    """Key path of a value of an unknown."""
    if any(one.levels.values()):
        return ("unknowns", name, "levels", value)
    if one.levels:
        return ("unknowns", name, "levels", list(one.levels).index(value))
    return ("unknowns", name, "from" if value == one.choices[0] else "to")


def _changed(variants: Sequence[Experiment]) -> frozenset[str]:
    """Name the cases in which variants of one experiment differ."""
    data = [to_data(variant) for variant in variants]
    if not data:
        return frozenset()
    cases = [one.pop("cases") for one in data]
    alike = all(one == data[0] for one in data)
    return frozenset(
        case for case in cases[0] if not alike or any(one[case] != cases[0][case] for one in cases)
    )
