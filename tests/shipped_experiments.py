"""The experiments that are shipped, of whichever kind, as what they run."""

from collections.abc import Sequence
from pathlib import Path

from tcpf_lab.base import shipped
from tcpf_lab.spec.calibrated import Subject, read_subject
from tcpf_lab.spec.calibration import Calibration
from tcpf_lab.spec.collection import Collection
from tcpf_lab.spec.load import load_any, members
from tcpf_lab.spec.model import Experiment

SHIPPED = sorted(shipped.directory("experiments").glob("*.yaml"))


def experiments_of(path: Path) -> Sequence[Experiment]:
    """Give what a file runs; a calibration's at settings that have every value of every unknown."""
    read = load_any(path)
    if isinstance(read, Calibration):
        return _at_every_value(read_subject(read, path))
    if isinstance(read, Collection):
        return [level.experiment for level in members(read, path)]
    return [read]


def _at_every_value(subject: Subject) -> list[Experiment]:
    choices = {name: one.choices for name, one in subject.calibration.unknowns.items()}
    settings = [
        {name: values[turn % len(values)] for name, values in choices.items()}
        for turn in range(max(map(len, choices.values())))
    ]
    return [
        subject.at(experiment, values)
        for values in (subject.defaults, *settings)
        for experiment in subject.experiments
    ]
