"""The experiments that a collection names, as it wants them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tcpf_lab.base.errors import RequestError, SpecError
from tcpf_lab.spec.collection import Collection, Member
from tcpf_lab.spec.load import apply_overrides, each, find, load_any, places, raise_all
from tcpf_lab.spec.matrix import Matrix
from tcpf_lab.spec.model import Experiment
from tcpf_lab.spec.narrow import narrow, narrow_each
from tcpf_lab.spec.values import shown
from tcpf_lab.spec.variant import touching
from tcpf_lab.spec.words import KeyPath

Places = Callable[[KeyPath], str]


@dataclass(frozen=True)
class Level:
    """An experiment, and which level of which factor it is; both empty for an unchanged one.

    ``settings`` are the changes that make the level, ``PATH=VALUE`` each.
    """

    experiment: Experiment
    factor: str = ""
    level: str = ""
    settings: tuple[str, ...] = ()

    @property
    def published(self) -> bool:
        """Whether it is a configuration of the published tables."""
        return self.experiment.config is not None

    @property
    def config(self) -> str:
        """The configuration of the published tables, or the experiment's own name."""
        return self.experiment.config or self.experiment.name


def members(collection: Collection, source: Path) -> tuple[Level, ...]:
    """Give the collection's experiments, changed and narrowed as it says.

    One of which only cases are changed, or varied, is narrowed to these.

    Parameters
    ----------
    collection : Collection
        What the file says.
    source : Path
        The file: experiments are looked for beside it first.

    Raises
    ------
    RequestError, SpecError, SpecErrors
        If experiments cannot be found or read, or changes of them are not allowed; of those that
        the collection itself has wrong, all.
    """
    place = places(source)
    levels: list[Level] = []
    problems: list[SpecError] = []
    for index in range(len(collection.experiments)):
        try:
            levels.append(_level(collection, index, source.parent, place))
        except SpecError as error:
            problems += each(error)
    raise_all(problems)
    return _narrowed(collection, levels, place)


def _level(collection: Collection, index: int, folder: Path, place: Places) -> Level:
    member = collection.experiments[index]
    above: KeyPath = ("experiments", index)
    experiment = _read(member, folder, place((*above, "spec")))
    changed = apply_overrides(
        experiment, member.settings, lambda at: f"{place((*above, 'set', at))}: set"
    )
    touched = _touched(experiment, changed, place((*above, "set")))
    name = collection.named(member, changed.name)
    named = touched.model_copy(update={"name": name})
    return Level(named, member.factor, member.level, member.settings)


def _read(member: Member, folder: Path, where: str) -> Experiment:
    try:
        path = find(member.spec, beside=folder)
    except RequestError as error:
        raise SpecError(f"{error.where}: {error.message}", where=where) from None
    read = load_any(path)
    if not isinstance(read, Experiment):
        message = f"{member.spec}: a collection cannot contain {read.noun}"
        raise SpecError(message, where=where, hint="name its experiments one by one")
    return read


def _touched(before: Experiment, after: Experiment, where: str) -> Experiment:
    """Keep of the matrix the cases that changed or vary, where nothing but cases did."""
    varied = [axis for axis in after.matrix.axes if axis not in before.matrix.axes]
    cases_alone = before.model_copy(
        update={"cases": after.cases, "matrix": _with_axes(before, after)}
    )
    if before == after or cases_alone != after or any(a.path[0] != "cases" for a in varied):
        return after
    has = touching(after)
    different = [
        name
        for name, case in after.cases.items()
        if case != before.cases.get(name) or any(axis in varied for axis in has.get(name, ()))
    ]
    cases = tuple(name for name in after.selected_cases if name in different)
    if not cases:
        message = f"changes {', '.join(different)}, which the matrix does not run"
        raise SpecError(message, where=where)
    return narrow(after, {"case": ",".join(cases)})


def _with_axes(before: Experiment, after: Experiment) -> Matrix:
    """Give the matrix before with the axes after."""
    axes = {axis.written: axis.values for axis in after.matrix.axes}
    known = {name: getattr(before.matrix, name) for name in Matrix.model_fields}
    return Matrix.model_validate({**known, **axes})


def _narrowed(collection: Collection, levels: list[Level], place: Places) -> tuple[Level, ...]:
    only = {key: shown(value) for key, value in collection.only.items()}
    experiments = [level.experiment for level in levels]
    found, problems = [], []
    narrowed = narrow_each(
        experiments,
        only,
        collection.seeds,
        lambda key: place((key,) if key == "seeds" else ("only", key)),
    )
    for index, (level, experiment) in enumerate(zip(levels, narrowed, strict=True)):
        if experiment is None:
            message = f"experiments[{index}]: runs nothing of what `only` names"
            problems.append(SpecError(message, where=place(("experiments", index))))
        else:
            found.append(replace(level, experiment=experiment))
    raise_all(problems)
    return tuple(found)
