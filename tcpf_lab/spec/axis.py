"""An axis of the matrix: a key of the experiment and the values that it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tcpf_lab.spec.values import Value
from tcpf_lab.spec.words import KeyPath

#: Stands for every case in a key.
ANY = "*"
#: Sections of a case: a key that begins with one of them is meant for every case.
CASE_SECTIONS = ("queue", "marker", "background")
#: What a key can begin with, if it is to be an axis.
HEADS = ("topology", "tcp", "traffic", "cases", *CASE_SECTIONS)


@dataclass(frozen=True)
class Axis:
    """A key of the experiment, as the matrix has it, and its values in order."""

    written: str
    values: tuple[Value, ...]

    @property
    def path(self) -> KeyPath:
        """The steps to the value; ``*`` stands for every case."""
        return path_of(self.written)

    @property
    def key(self) -> str:
        """The key as a single case's run has it: without ``cases`` and the case's name."""
        return key_of(self.path)

    def touches(self, name: str, case: Mapping[str, Any]) -> bool:
        """Tell whether a case has the key: any has what belongs to no case.

        Parameters
        ----------
        name : str
            Of the case.
        case : mapping
            The case as plain data, defaults included.
        """
        if self.path[0] != "cases":
            return True
        if self.path[1] != ANY:
            return self.path[1] == name
        return has(case, self.path[2:])


def path_of(key: str) -> KeyPath:
    """Give the steps of a key; ``queue``, ``marker``, ``background``: those of every case.

    Examples
    --------
    >>> path_of("queue.max"), path_of("tcp.sack")
    (('cases', '*', 'queue', 'max'), ('tcp', 'sack'))
    """
    steps = tuple(step.strip() for step in key.split("."))
    return ("cases", ANY, *steps) if steps[0] in CASE_SECTIONS and len(steps) > 1 else steps


def key_of(path: KeyPath) -> str:
    """Give the short form of a key.

    Examples
    --------
    >>> key_of(("cases", "NoMark+RED", "queue", "max")), key_of(("tcp", "sack"))
    ('queue.max', 'tcp.sack')
    """
    return ".".join(map(str, path[2:] if path[0] == "cases" and len(path) > 2 else path))


def may_be_axis(path: KeyPath) -> bool:
    """Tell whether a path leads into a section that is measured under: not a name, not a case."""
    return path[0] in HEADS and len(path) >= (4 if path[0] == "cases" else 2)


def has(section: Any, path: KeyPath) -> bool:
    """Tell whether plain data has every key of a path."""
    for key in path:
        if not isinstance(section, dict) or key not in section:
            return False
        section = section[key]
    return True


def meet(one: KeyPath, other: KeyPath) -> bool:
    """Tell whether two paths lead to the same value, or one to a section with the other's.

    Examples
    --------
    >>> meet(path_of("queue.ewma"), path_of("cases.NoMark+FRED.queue"))
    True
    >>> meet(path_of("tcp.sack"), path_of("tcp.rto_min"))
    False
    """
    steps = enumerate(zip(one, other, strict=False))
    return all(a == b or (at == 1 and ANY in (a, b)) for at, (a, b) in steps)


def shared(one: KeyPath, other: KeyPath) -> int:
    """Give how many steps two key paths have in common, from the start."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((depth for depth, (a, b) in pairs if a != b), min(len(one), len(other)))
