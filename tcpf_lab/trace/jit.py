"""The one way this package compiles a function: numba, cached on disk where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

_Function = TypeVar("_Function", bound=Callable[..., Any])


def part(function: _Function) -> _Function:
    """Mark a function that only `compiled` ones of its module call: their cache holds it too."""
    return cast(_Function, numba.njit(nogil=True)(function))


def compiled(function: _Function) -> _Function:
    """Compile ``function`` to machine code at its first call.

    The machine code is kept beside the source, or in the user's cache directory when the package is
    read-only.  Where neither can be written, every process compiles for itself: slower by seconds,
    but with the same results.

    Notes
    -----
    The cache notices a change of the file the function stands in and of no other.  Compiled
    functions that call each other therefore stand in one module.
    """
    try:
        return cast(_Function, numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # numba found no directory to keep the machine code in
        return cast(_Function, numba.njit(nogil=True)(function))
