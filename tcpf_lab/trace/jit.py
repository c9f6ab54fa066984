"""The one way this package compiles a function: numba, cached on disk where that is possible."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

import numba

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: Functions run beside other threads.  They get their arrays from outside and make none, so arrays
#: need not be counted on every call (numba's runtime is off): that alone made them four times as
#: fast.
_OPTIONS: dict[str, Any] = {"nogil": True, "_nrt": False}


def part(function: _Function) -> _Function:
    """Mark a function that only `compiled` ones call: their cache holds its machine code too."""
    return cast(_Function, numba.njit(**_OPTIONS)(function))


def inlined(function: _Function) -> _Function:
    """Mark a part that is copied into every caller: for what runs once per packet or more.

    A loop belongs into a part of its own: it keeps the compiler from joining what is around it.
    """
    return cast(_Function, numba.njit(forceinline=True, **_OPTIONS)(function))


def compiled(function: _Function) -> _Function:
    """Compile ``function`` to machine code at its first call.

    The machine code is kept beside the source, or in the user's cache directory when the package is
    read-only.  Where neither can be written, every process compiles for itself: slower by seconds,
    but with the same results.

    Notes
    -----
    The cache notices a change of the file the function stands in and of no other.  A function
    that calls parts from other modules takes their `stamp` as a closure variable, which is part of
    the key under which the machine code is kept.
    """
    return _kept(function, _OPTIONS)


def allocating(function: _Function) -> _Function:
    """Compile, as `compiled` does, a function that makes arrays of its own."""
    return _kept(function, {"nogil": True})


def _kept(function: _Function, options: dict[str, Any]) -> _Function:
    try:
        return cast(_Function, numba.njit(cache=True, **options)(function))
    except RuntimeError:  # numba found no directory to keep the machine code in
        return cast(_Function, numba.njit(**options)(function))


def stamp(*modules: ModuleType) -> str:
    """Digest of the modules' sources."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for module in modules:
        digest.update(Path(str(module.__file__)).read_bytes())
    return digest.hexdigest()
