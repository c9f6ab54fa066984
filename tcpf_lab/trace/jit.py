"""The one way this package compiles a function: numba, cached on disk where that is possible.

numba is imported when the first of them is called: that takes a second, which a program that only
imports this package need not wait.
"""

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, TypeVar, cast

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: Functions run beside other threads.  They get their arrays from outside and make none, so arrays
#: need not be counted on every call (numba's runtime is off): that alone made them four times as
#: fast.
_OPTIONS: dict[str, Any] = {"nogil": True, "_nrt": False}

#: Parts, with their options, that numba has not been told of; and what it made of the others.
_told: dict[Callable[..., Any], dict[str, Any]] = {}
_made: dict[Callable[..., Any], Any] = {}
_lock = threading.RLock()


def part(function: _Function) -> _Function:
    """Mark a function that only `compiled` ones call: their cache holds its machine code too."""
    _told[function] = _OPTIONS
    return function


def inlined(function: _Function) -> _Function:
    """Mark a part that is copied into every caller: for what runs once per packet or more.

    A loop belongs into a part of its own: it keeps the compiler from joining what is around it.
    """
    _told[function] = {"forceinline": True, **_OPTIONS}
    return function


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
    return cast(_Function, _Compiled(function, _OPTIONS))


def allocating(function: _Function) -> _Function:
    """Compile, as `compiled` does, a function that makes arrays of its own."""
    return cast(_Function, _Compiled(function, {"nogil": True}))


class _Compiled:
    """A function that is compiled when it is first called."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self._function, self._options = function, options
        functools.update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        return self._machine(*arguments)

    @functools.cached_property
    def _machine(self) -> Any:
        import numba

        with _lock:
            _bind(self._function)
            try:
                return numba.njit(cache=True, **self._options)(self._function)
            except RuntimeError:  # numba found no directory to keep the machine code in
                return numba.njit(**self._options)(self._function)


def _bind(function: Callable[..., Any]) -> None:
    """Put what numba makes of parts in their place wherever parts, or ``function``, name them."""
    import numba

    while _told:
        one, options = _told.popitem()
        _made[one] = numba.njit(**options)(one)
    for one in (function, *_made):
        names = cast(FunctionType, one).__globals__
        for name, value in names.items():
            if isinstance(value, FunctionType) and value in _made:
                names[name] = _made[value]


def stamp(*modules: ModuleType) -> str:
    """Digest of the modules' sources."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for module in modules:
        digest.update(Path(str(module.__file__)).read_bytes())
    return digest.hexdigest()
