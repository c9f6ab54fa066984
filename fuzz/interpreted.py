"""Run what is otherwise compiled as plain Python, so that coverage sees every branch of it.

With ``NUMBA_DISABLE_JIT=1`` numba leaves functions as they are.  They read ``packet.seq`` of a row
of a structured array, which compiled code may and Python may not: the modules get arrays with such
rows from a stand-in for numpy.
"""

from __future__ import annotations

import functools
import os
import sys
from types import ModuleType
from typing import Any

import numpy as np

#: What makes arrays.
_MAKERS = ("zeros", "empty", "full", "concatenate", "empty_like", "zeros_like", "frombuffer")


def _column(name: str) -> property:
    def read(row: Any) -> Any:
        return row[name]

    def write(row: Any, value: Any) -> None:
        row[name] = value

    return property(read, write)


@functools.cache
def _row_kind(kind: np.dtype[Any]) -> np.dtype[Any]:
    """Give a type whose rows have columns as attributes, also those called like numpy's own."""
    row = type("Row", (np.void,), {name: _column(name) for name in kind.names or ()})
    return np.dtype((row, kind))


class _Records(ModuleType):
    """numpy, but arrays of records have rows with attributes."""

    def __init__(self) -> None:
        super().__init__("numpy")
        for name in _MAKERS:
            setattr(self, name, _with_columns(getattr(np, name)))

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        setattr(self, name, found)
        return found


def _with_columns(make: Any) -> Any:
    def made(*arguments: Any, **options: Any) -> Any:
        return as_records(make(*arguments, **options))

    return made


def as_records(array: Any) -> Any:
    """Give an array of records whose rows have attributes; any other array as it is."""
    kind = array.dtype
    return array.view(_row_kind(kind)) if kind.names and kind.type is np.void else array


#: Modules that make arrays of records, with all that are below them.
_USERS = ("tcpf_lab.trace", "fuzz.subject")


def asked_for() -> bool:
    """Whether numba was told to compile nothing."""
    return os.environ.get("NUMBA_DISABLE_JIT") == "1"


def prepare() -> None:
    """Let the modules that are loaded make arrays whose rows have attributes.

    Raises
    ------
    RuntimeError
        If functions are compiled: the stand-in would only slow them down.
    """
    if not asked_for():
        raise RuntimeError("set NUMBA_DISABLE_JIT=1 before numba is loaded")
    records = _Records()
    np.seterr(over="ignore")  # machine words wrap, as those of compiled code do
    for name, module in list(sys.modules.items()):
        if name.startswith(_USERS) and getattr(module, "np", None) is np:
            setattr(module, "np", records)  # noqa: B010
