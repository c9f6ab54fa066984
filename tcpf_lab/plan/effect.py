"""Refuse an axis or a setting without effect: one that changes the plan of no run.

Plans are composed and compared up to the first two that differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice, repeat
from pathlib import Path
from typing import Any

from tcpf_lab.base.errors import RequestError, SpecError
from tcpf_lab.plan.compose import compose
from tcpf_lab.plan.step import Drained
from tcpf_lab.spec.axis import ANY, Axis, has, key_of, may_be_axis, meet, path_of
from tcpf_lab.spec.explain import show_path
from tcpf_lab.spec.load import apply_overrides, places
from tcpf_lab.spec.model import Experiment, to_data
from tcpf_lab.spec.queue import KINDS, Queue
from tcpf_lab.spec.sweep import Point, Run, at, points, touching
from tcpf_lab.spec.tcp import ECN, REQUESTING
from tcpf_lab.spec.words import KeyPath

#: Pairs of equal plans after which an axis counts as having an effect elsewhere.
_MOST_PAIRS = 2000


def refuse_idle_axes(
    experiments: Sequence[Experiment], overrides: Sequence[str], source: Path
) -> None:
    """Refuse an axis whose values give equal plans in every case, all else equal.

    Parameters
    ----------
    experiments : sequence of Experiment
        The selected experiments, overrides applied.
    overrides : sequence of str
        ``PATH=VALUE`` each, from the command line.
    source : Path
        The experiment file.

    Raises
    ------
    RequestError
        If there is such an axis.
    """
    varied = [(one, axis) for one in experiments for axis in one.matrix.axes]
    for key in dict.fromkeys(axis.written for _, axis in varied if len(axis.values) > 1):
        own = [(one, axis) for one, axis in varied if axis.written == key]
        if any(_acts(*pair) for pair in own):
            continue
        options = [one for one in overrides if _path(one.removeprefix("matrix.")) == path_of(key)]
        place = places(source)(("matrix", key)) if source.is_file() else str(source)
        raise RequestError(
            "this axis has no effect: all its values give the same plan",
            where=f"--set {options[-1]}" if options else f"{place}: {key}",
            hint=_acting(own[0][0], own[0][1].key),
        )


def refuse_idle_settings(
    before: Sequence[Experiment], after: Sequence[Experiment], overrides: Sequence[str]
) -> None:
    """Refuse a setting that replaces a value and changes the plan of no run.

    Settings of one section are judged together, as some keys of a queue describe others.

    Parameters
    ----------
    before, after : sequence of Experiment
        The selected experiments without and with the settings.
    overrides : sequence of str
        ``PATH=VALUE`` each.

    Raises
    ------
    RequestError
        If there is such a setting.
    """
    for setting in overrides:
        path = _path(setting)
        others = [one for one in overrides if not meet(_section(_path(one)), path)]
        pairs = zip(before, after, strict=True)
        if may_be_axis(path) and not any(_may_act(*pair, path, others) for pair in pairs):
            raise RequestError(
                "has no effect: it changes the plan of no run",
                where=f"--set {setting}",
                hint=_acting(after[0], key_of(path)),
            )


def _path(setting: str) -> KeyPath:
    return path_of(setting.partition("=")[0])


def _section(path: KeyPath) -> KeyPath:
    return path[:-1] if may_be_axis(path) else path


def _acting(experiment: Experiment, key: str) -> str:
    """Return a hint: the key that has an effect, if one is known."""
    section, _, own = key.partition(".")
    queues = [experiment.cases[name].queue for name in experiment.selected_cases]
    instead = [one.overruled[own] for one in queues if section == "queue" and own in one.overruled]
    if instead:
        return f"this kind of queue ignores {key}: change queue.{instead[0]}"
    return "remove it; `plan` prints the commands of a run"


def _acts(experiment: Experiment, axis: Axis) -> bool:
    """Return whether any two values of an axis give different plans."""
    pairs = islice(_pairs(experiment, axis), _MOST_PAIRS + 1)
    return any(one != other or n == _MOST_PAIRS for n, (one, other) in enumerate(pairs))


def _pairs(experiment: Experiment, axis: Axis) -> Iterator[tuple[Any, Any]]:
    """Yield the steps at the first value and at each other value, for every case with the axis."""
    for case, own in touching(experiment).items():
        others = [one for one in own if one != axis]
        every = points((*others, axis), experiment.traffic.groups) if axis in own else ()
        for _, line in groupby(every, key=lambda point: point[:-1]):
            done = (_done(experiment, case, point) for point in line)
            yield from zip(repeat(next(done)), done, strict=False)


def _may_act(before: Experiment, after: Experiment, path: KeyPath, others: Sequence[str]) -> bool:
    """Return whether a setting may have an effect; ``others`` are those of other sections."""
    try:
        without = apply_overrides(before, others).on(after.traffic.generator or "native")
    except SpecError:  # only together are they an experiment
        return True
    data = to_data(without)
    own = [("cases", name, *path[2:]) for name in without.cases] if ANY in path else [path]
    if without == after or not any(has(data, one) for one in own):
        return True
    if without.matrix != after.matrix or without.cases.keys() != after.cases.keys():
        return True
    return any(
        _done(without, case, point) != _done(after, case, point)
        for case, axes in touching(after).items()
        for point in islice(points(axes, after.traffic.groups), 1)
    )


def _done(experiment: Experiment, case: str, point: Point) -> Any:
    """Return the steps of one run (first seed, most flows), except waiting for queues to drain."""
    changed, _ = at(experiment, case, point)
    matrix = experiment.matrix
    plan = compose(Run(changed, case, changed.cases[case], max(changed.flows), matrix.seed[0]))
    steps = [step for step in plan.steps if not isinstance(step, Drained)]
    return steps, plan.window, plan.kernel


def refuse_ecn_without_marks(experiments: Sequence[Experiment], source: Path) -> None:
    """Refuse an experiment that requests ECN where no queue marks.

    Each cell of the matrix is judged by its own queue and senders. One that requests ECN over a
    queue that cannot mark is what others are compared with, so another cell has to mark.

    Raises
    ------
    RequestError
        If ``tcp.ecn`` or that of a group requests ECN in some cells, and marks are in none of them.
    """
    for experiment in experiments:
        for path, mode in _requesting_ecn(experiment):
            cells = [cell for cell in _cells(experiment) if _requests(cell, path)]
            if not cells or any(_queue(cell).may_mark for cell in cells):
                continue
            place = places(source)(path) if source.is_file() else str(source)
            with_ecn = [kind for kind, model in KINDS.items() if "ecn" in model.model_fields]
            raise RequestError(
                f"{mode} has no effect: no cell with it has a queue that marks",
                where=f"{place}: {key_of(path)}",
                hint=f"add ecn: true to a queue of kind {', '.join(with_ecn)}, or use one that "
                "marks by default: fq_codel, dualpi2, cake, sfb",
            )


def refuse_marks_without_ecn(runs: Iterable[Run], source: Path) -> None:
    """Refuse a run whose queue is configured to mark where no sender requests ECN.

    Raises
    ------
    RequestError
        If there is such a run: it would be invalid (``ecn_in_use``).
    """
    for run in runs:
        if run.case.queue.marks and not any(map(_is_capable, _settings(run.experiment))):
            path = ("cases", run.case_name, "queue")
            place = places(source)(path) if source.is_file() else str(source)
            raise RequestError(
                f"is configured to mark, but no sender of {run.id} requests ECN",
                where=f"{place}: {show_path(path)}",
                hint="set tcp.ecn or ecn of a group to classic, or do not run this cell",
            )


def _settings(experiment: Experiment) -> Iterator[dict[str, str]]:
    """Yield the sysctls of each kind of sender."""
    groups = experiment.traffic.groups
    if groups is None:
        yield experiment.tcp.sysctls()
    for group in (groups or {}).values():
        if group.flows:
            yield group.settings(experiment.tcp)


def _is_capable(sysctls: dict[str, str]) -> bool:
    """Whether connections request ECN: by the sysctl, or by DCTCP, which does so always."""
    own = sysctls.get("net.ipv4.tcp_congestion_control")
    requesting = {ECN[mode] for mode in REQUESTING}
    return sysctls.get("net.ipv4.tcp_ecn") in requesting or own == "dctcp"


def _requesting_ecn(experiment: Experiment) -> Iterator[tuple[KeyPath, str]]:
    """Yield the keys that request ECN, in the file or by an axis, with the first such value."""
    given = {"tcp.ecn": experiment.tcp.ecn}
    groups = experiment.traffic.groups or {}
    given |= {f"traffic.groups.{name}.ecn": group.ecn for name, group in groups.items()}
    axes = {axis.key: axis.values for axis in experiment.matrix.axes}
    for key, value in given.items():
        if requesting := [one for one in axes.get(key, (value,)) if one in REQUESTING]:
            yield path_of(key), requesting[0]


def _cells(experiment: Experiment) -> Iterator[Experiment]:
    """Yield the experiment of each case at each point of its axes."""
    for case, axes in touching(experiment).items():
        yield from (at(experiment, case, one)[0] for one in points(axes, experiment.traffic.groups))


def _requests(cell: Experiment, path: KeyPath) -> bool:
    """Whether flows of a cell request ECN by this key."""
    groups = cell.traffic.groups
    if path == ("tcp", "ecn"):
        using = groups is None or any(one.flows and one.ecn is None for one in groups.values())
        return cell.tcp.ecn in REQUESTING and using
    own = (groups or {})[str(path[2])]
    return own.ecn in REQUESTING and own.flows > 0


def _queue(cell: Experiment) -> Queue:
    (case,) = cell.cases.values()
    return case.queue
