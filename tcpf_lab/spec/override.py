"""``--set PATH=VALUE``: change single values of an experiment, with the same checks as a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tcpf_lab.errors import SpecError
from tcpf_lab.spec.axis import ANY, has, key_of, may_be_axis, meet, path_of, shared
from tcpf_lab.spec.base import KeyPath
from tcpf_lab.spec.explain import show_path
from tcpf_lab.spec.load import check, each, raise_all
from tcpf_lab.spec.model import Experiment, to_data
from tcpf_lab.spec.suggest import unknown
from tcpf_lab.spec.values import is_range
from tcpf_lab.spec.variant import NO_KEYS, put
from tcpf_lab.spec.yaml_text import read_yaml


def apply_overrides(
    experiment: Experiment,
    settings: Sequence[str],
    label: Callable[[int], str] = lambda _: "--set",
) -> Experiment:
    """Give the experiment with some values changed.

    Parameters
    ----------
    experiment : Experiment
        Where to start from; it is not changed.
    settings : sequence of str
        ``PATH=VALUE`` each: keys joined by dots, as in ``cases.NoMark+RED.queue.max``, and YAML, as
        in ``100 kB`` or ``{kind: bfifo, limit: 30 kB}``.  Later ones win.  ``cases.*`` stands for
        every case that has the rest of the path, and there must be one; ``queue.X`` and
        ``marker.X`` are short for ``cases.*.queue.X`` and ``cases.*.marker.X``.  A list or a range
        makes the key an axis of the matrix.
    label : callable
        Gives what messages put in front of a setting, by its index.

    Raises
    ------
    SpecError, SpecErrors
        As for a file; ``where`` is the option instead of ``file:line``.
    """
    if not settings:
        return experiment
    data = to_data(experiment)
    options: list[tuple[KeyPath, str]] = []
    problems: list[SpecError] = []
    for index, setting in enumerate(settings):
        where = f"{label(index)} {setting}"
        try:
            options += [(path, where) for path in _applied(data, setting, where)]
        except SpecError as error:
            problems += each(error)
    raise_all(problems)

    def position(path: KeyPath) -> int:
        """Index of the option nearest to a key path, the latest of several."""
        depths = [shared(key, path) for key, _ in options]
        nearest = [i for i, depth in enumerate(depths) if depth == max(depths) > 0]
        return nearest[-1] if nearest else len(options)

    def place(path: KeyPath) -> str:
        at = position(path)
        return options[at][1] if at < len(options) else " ".join(text for _, text in options)

    try:
        return check(data, place, position, Experiment)
    except SpecError as error:
        raise_all(list(_of_other_kinds(each(error), options)))
        raise


def _of_other_kinds(
    problems: Sequence[SpecError], options: Sequence[tuple[KeyPath, str]]
) -> Iterator[SpecError]:
    """Say once that keys are of another kind than a setting's, not of each of them."""
    kinds = {where: path for path, where in options if path[-1] == "kind"}
    several = Counter(problem.where for problem in problems)
    for where, count in several.items():
        if where in kinds and count > 1:
            said = f"{show_path(kinds[where])}: the keys beside it are those of another kind"
            hint = "set the section with all keys of this kind, as {kind: ..., ...}"
            yield SpecError(said, where=where, hint=hint)
        else:
            yield from (problem for problem in problems if problem.where == where)


def _applied(data: dict[str, Any], setting: str, where: str) -> list[KeyPath]:
    """Change the data as a setting says; give the key paths that it meant."""
    pattern, value = _split(setting, where)
    matrix = data["matrix"] if isinstance(data["matrix"], dict) else {}
    if pattern[0] == "matrix" and len(pattern) > 2:
        return [_vary(matrix, pattern[1:], value)]
    if may_be_axis(pattern) and (isinstance(value, list) or is_range(value)):
        return [_vary(matrix, pattern, value)]
    _settle(matrix, pattern, where)
    paths = _meant(data, pattern, where)
    for path in paths:
        _put(data, path, value, where)
    return paths


def _vary(matrix: dict[str, Any], path: KeyPath, value: Any) -> KeyPath:
    """Make a key an axis of the matrix, in place of one that it has for the same key."""
    new = key_of(path) if path[:2] == ("cases", ANY) else ".".join(map(str, path))
    for key in [key for key in matrix if path_of(key) == path_of(new)]:
        del matrix[key]
    matrix[new] = value
    return "matrix", new


def _settle(matrix: dict[str, Any], path: KeyPath, where: str) -> None:
    """Take an axis out of the matrix whose key gets a single value."""
    for key in [key for key in matrix if len(path_of(key)) == len(path) > 1]:
        axis = path_of(key)
        if axis == path or (meet(axis, path) and path[1] == ANY):
            del matrix[key]
        elif meet(axis, path):
            raise SpecError(
                f"the matrix varies {key}, which would overrule this",
                where=where,
                hint=f"--set {key}=... without a range ends that",
            )


def overlap(one: str, other: str) -> bool:
    """Tell whether two settings, ``PATH=VALUE`` each, change the same value or one within it.

    Examples
    --------
    >>> overlap("queue.ewma=5", "cases.NoMark+FRED.queue={kind: bfifo}")
    True
    >>> overlap("tcp.sack=true", "tcp.rto_min=1 s")
    False
    """
    return meet(*(path_of(setting.partition("=")[0]) for setting in (one, other)))


def _split(setting: str, where: str) -> tuple[KeyPath, Any]:
    key, equals, text = setting.partition("=")
    path = path_of(key)
    if not equals or not all(path):
        message = "write PATH=VALUE, as traffic.duration=20s; PATH is keys joined by dots"
        raise SpecError(message, where=where)
    document = read_yaml(text)
    raise_all(SpecError(sentence, where=where) for _, _, sentence in document.problems)
    return path, document.data


def _meant(data: dict[str, Any], path: KeyPath, where: str) -> list[KeyPath]:
    """Give the path, or one for each case that has it where ``*`` stands for the case."""
    if path[:2] != ("cases", ANY) or len(path) < 3:
        return [path]
    found: list[KeyPath] = [
        ("cases", name, *path[2:]) for name, case in data["cases"].items() if has(case, path[2:])
    ]
    if not found:
        raise SpecError(f"no case has {'.'.join(map(str, path[2:]))}", where=where)
    return found


def _put(data: dict[str, Any], path: KeyPath, value: Any, where: str) -> None:
    """Set a value; sections that were left out come into being, cases do not."""
    if path[0] == "cases" and len(path) > 2 and path[1] not in data["cases"]:
        raise SpecError(
            unknown(f"unknown case '{path[1]}'", str(path[1]), data["cases"]), where=where
        )
    obstacle = put(data, path, value)
    if obstacle:
        raise SpecError(f"{show_path(obstacle)} {NO_KEYS}", where=where)
