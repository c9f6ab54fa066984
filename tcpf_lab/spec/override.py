"""``--set PATH=VALUE``: change single values of an experiment, with the same checks as a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tcpf_lab.errors import SpecError
from tcpf_lab.spec.base import KeyPath
from tcpf_lab.spec.load import check, each, raise_all, to_data
from tcpf_lab.spec.model import Experiment
from tcpf_lab.spec.suggest import unknown
from tcpf_lab.spec.yaml_text import read_yaml

#: Stands for every case in a path.
ANY = "*"


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
        every case that has the rest of the path, and there must be one.
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
        shared = [_shared(key, path) for key, _ in options]
        nearest = [i for i, depth in enumerate(shared) if depth == max(shared) > 0]
        return nearest[-1] if nearest else len(options)

    def place(path: KeyPath) -> str:
        at = position(path)
        return options[at][1] if at < len(options) else " ".join(text for _, text in options)

    return check(data, place, position, Experiment)


def _applied(data: dict[str, Any], setting: str, where: str) -> list[KeyPath]:
    """Change the data as a setting says; give the key paths that it meant."""
    pattern, value = _split(setting, where)
    paths = _meant(data, pattern, where)
    for path in paths:
        _put(data, path, value, where)
    return paths


def overlap(one: str, other: str) -> bool:
    """Tell whether two settings, ``PATH=VALUE`` each, change the same value or one within it.

    Examples
    --------
    >>> overlap("cases.*.queue.ewma=5", "cases.NoMark+FRED.queue={kind: bfifo}")
    True
    >>> overlap("tcp.sack=true", "tcp.rto_min=1 s")
    False
    """
    sides = (setting.partition("=")[0].split(".") for setting in (one, other))
    steps = [(a.strip(), b.strip()) for a, b in zip(*sides, strict=False)]
    return all(a == b or (at == 1 and ANY in (a, b)) for at, (a, b) in enumerate(steps))


def _split(setting: str, where: str) -> tuple[KeyPath, Any]:
    key, equals, text = setting.partition("=")
    path = tuple(key.strip().split("."))
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
        ("cases", name, *path[2:]) for name, case in data["cases"].items() if _has(case, path[2:])
    ]
    if not found:
        raise SpecError(f"no case has {'.'.join(map(str, path[2:]))}", where=where)
    return found


def _has(section: Any, path: KeyPath) -> bool:
    for key in path:
        if not isinstance(section, dict) or key not in section:
            return False
        section = section[key]
    return True


def _put(data: dict[str, Any], path: KeyPath, value: Any, where: str) -> None:
    """Set a value; sections that were left out come into being, cases do not."""
    if path[0] == "cases" and len(path) > 2 and path[1] not in data["cases"]:
        raise SpecError(
            unknown(f"unknown case '{path[1]}'", str(path[1]), data["cases"]), where=where
        )
    section: Any = data
    for depth, key in enumerate(path[:-1], start=1):
        section = section.setdefault(key, {})
        if not isinstance(section, dict):
            above = ".".join(str(step) for step in path[:depth])
            raise SpecError(f"{above} is a single value without keys", where=where)
    section[path[-1]] = value


def _shared(one: KeyPath, other: KeyPath) -> int:
    """How many steps two key paths have in common, from the start."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((depth for depth, (a, b) in pairs if a != b), min(len(one), len(other)))
