"""Refuse an axis or a setting without effect: one that changes the plan of no run.

Plans are composed and compared up to the first two that differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, repeat
from pathlib import Path
from typing import Any

from tcpf_lab.base.errors import RequestError, SpecError
from tcpf_lab.plan.compose import compose
from tcpf_lab.plan.step import Drained
from tcpf_lab.spec.axis import ANY, Axis, has, key_of, may_be_axis, meet, path_of
from tcpf_lab.spec.load import apply_overrides, places
from tcpf_lab.spec.model import Experiment, to_data
from tcpf_lab.spec.queue import KINDS
from tcpf_lab.spec.sweep import Point, Run, at, points, touching
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
        for point in points(others) if axis in own else ():
            done = (_done(experiment, case, (*point, (axis, value))) for value in axis.values)
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
        for point in islice(points(axes), 1)
    )


def _done(experiment: Experiment, case: str, point: Point) -> Any:
    """Return the steps of one run (first seed, most flows), except waiting for queues to drain."""
    changed, _ = at(experiment, case, point)
    matrix = experiment.matrix
    plan = compose(Run(changed, case, changed.cases[case], max(changed.flows), matrix.seed[0]))
    return [step for step in plan.steps if not isinstance(step, Drained)], plan.window


def refuse_ecn_without_marks(experiments: Sequence[Experiment], source: Path) -> None:
    """Refuse a file that requests ECN and has no queue that marks, in any case of any experiment.

    Where an axis varies queues, any of its values may mark.

    Raises
    ------
    RequestError
        If ``tcp.ecn`` or that of a group is ``classic``, or an axis makes it so, without effect.
    """
    requesting = next((path for one in experiments if (path := _requesting_ecn(one))), None)
    if requesting is None or any(_may_mark(one) for one in experiments):
        return
    with_ecn = [kind for kind, model in KINDS.items() if "ecn" in model.model_fields]
    place = places(source)(requesting) if source.is_file() else str(source)
    raise RequestError(
        "classic has no effect: no case has a queue that marks",
        where=f"{place}: {key_of(requesting)}",
        hint=f"add ecn: true to a queue of kind {', '.join(with_ecn)}, or use one that marks by "
        "default: fq_codel, cake, sfb",
    )


def _requesting_ecn(experiment: Experiment) -> KeyPath | None:
    """Give the key that requests ECN, if one does."""
    given = {"tcp.ecn": experiment.tcp.ecn}
    groups = experiment.traffic.groups or {}
    given |= {f"traffic.groups.{name}.ecn": group.ecn for name, group in groups.items()}
    requested: dict[str, set[object]] = {key: {value} for key, value in given.items()}
    requested |= {a.key: set(a.values) for a in experiment.matrix.axes if a.key in given}
    found = (key for key, values in requested.items() if "classic" in values)
    return next(map(path_of, found), None)


def _may_mark(experiment: Experiment) -> bool:
    if any(axis.written.startswith(("queue", "cases")) for axis in experiment.matrix.axes):
        return True
    return any(experiment.cases[name].queue.may_mark for name in experiment.selected_cases)
