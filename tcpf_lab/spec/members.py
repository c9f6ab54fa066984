"""The experiments that a collection names, as it wants them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tcpf_lab.spec.collection import Collection, Member
from tcpf_lab.spec.load import find, load
from tcpf_lab.spec.model import Experiment
from tcpf_lab.spec.override import apply_overrides
from tcpf_lab.spec.sweep import narrow


@dataclass(frozen=True)
class Level:
    """An experiment, and which level of which factor it is; both empty for an unchanged one."""

    experiment: Experiment
    factor: str = ""
    level: str = ""

    @property
    def config(self) -> str:
        """The configuration of the published tables, or the experiment's own name."""
        reference = self.experiment.reference
        return reference.config if reference else self.experiment.name


def members(collection: Collection, source: Path) -> Iterator[Level]:
    """Yield the collection's experiments, changed and narrowed as it says.

    One of which only cases are changed is narrowed to these.

    Parameters
    ----------
    collection : Collection
        What the file says.
    source : Path
        The file: experiments are looked for beside it first.

    Raises
    ------
    RequestError, SpecError, SpecErrors
        If an experiment cannot be found or read, or a change of it is not allowed.
    """
    for member in collection.experiments:
        experiment = load(_file(member, source))
        label = f"{source}: {member.factor} {member.level}: set"
        changed = _touched(experiment, apply_overrides(experiment, member.settings, label))
        name = collection.named(member, changed.name)
        named = changed.model_copy(update={"name": name})
        only = {key: str(value) for key, value in collection.only.items()}
        yield Level(narrow(named, only, collection.seeds), member.factor, member.level)


def _touched(before: Experiment, after: Experiment) -> Experiment:
    """Keep of the matrix the cases that changed, where nothing but cases did."""
    if before == after or before.model_copy(update={"cases": after.cases}) != after:
        return after
    different = [name for name, case in after.cases.items() if case != before.cases.get(name)]
    cases = tuple(name for name in after.selected_cases if name in different)
    matrix = after.matrix.model_copy(update={"case": cases})
    return after.model_copy(update={"matrix": matrix})


def _file(member: Member, source: Path) -> Path:
    for beside in (source.parent / member.spec, source.parent / f"{member.spec}.yaml"):
        if beside.is_file():
            return beside
    return find(member.spec)
