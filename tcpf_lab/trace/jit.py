"""The one way this package compiles a function: numba, cached on disk where that is possible."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

import numba

_Function = TypeVar("_Function", bound=Callable[..., Any])


def part(function: _Function) -> _Function:
    """Mark a function that only `compiled` ones call: their cache holds its machine code too."""
    return cast(_Function, numba.njit(nogil=True)(function))


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
    try:
        return cast(_Function, numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # numba found no directory to keep the machine code in
        return cast(_Function, numba.njit(nogil=True)(function))


def stamp(*modules: ModuleType) -> str:
    """Digest of the modules' sources."""
    digest = hashlib.sha256()
    for module in modules:
        digest.update(Path(str(module.__file__)).read_bytes())
    return digest.hexdigest()
