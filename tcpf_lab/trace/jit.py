"""The one way this package compiles a function: numba, cached on disk where that is possible.

numba is imported when the first of them is called: that takes a second, which a program that only
imports this package need not wait.
"""

from __future__ import annotations

import functools
import hashlib
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
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
_IMPORT = re.compile(r"^from ([\w.]+) import (\([^)]*\)|[^\n]*)", re.MULTILINE)


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
    that uses other modules takes its module's `stamp` as a closure variable, which is part of the
    key under which the machine code is kept.
    """
    return cast(_Function, _Compiled(function, _OPTIONS))


def allocating(function: _Function) -> _Function:
    """Compile, as `compiled` does, a function that makes arrays of its own."""
    return cast(_Function, _Compiled(function, {"nogil": True}))


class _Compiled:
    """A function that is compiled when it is first called."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.function, self._options = function, options
        functools.update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        return self._machine(*arguments)

    @functools.cached_property
    def _machine(self) -> Any:
        with _lock:
            bind(self.function)
            return self.dispatcher

    @functools.cached_property
    def dispatcher(self) -> Any:
        """What numba makes of the function; for other compiled functions, which call that."""
        import numba

        try:
            return numba.njit(cache=True, **self._options)(self.function)
        except RuntimeError:  # numba found no directory to keep the machine code in
            return numba.njit(**self._options)(self.function)


def bind(function: Callable[..., Any]) -> None:
    """Put what numba makes of functions in their place wherever parts, or ``function``, name them.

    Parameters
    ----------
    function : callable
        What is about to be compiled.
    """
    import numba

    while _told:
        one, options = _told.popitem()
        _made[one] = numba.njit(**options)(one)
    naming = [function, *_made]
    for one in naming:  # it grows
        names = cast(FunctionType, one).__globals__
        for name, value in names.items():
            if isinstance(value, FunctionType) and value in _made:
                names[name] = _made[value]
        for name in cast(FunctionType, one).__code__.co_names:
            value = names.get(name)
            if isinstance(value, _Compiled):
                names[name] = value.dispatcher
                naming.append(value.function)


def stamp(module: str) -> str:
    """Digest of a module's source and of all that it imports, at whatever remove.

    Parameters
    ----------
    module : str
        Its name.  What it imports counts as far as it is this package's, or of the same package.
    """
    digest = hashlib.sha256()
    for _, source in sorted(reached(module).items()):
        digest.update(source)
    return digest.hexdigest()


def reached(module: str) -> dict[str, bytes]:
    """Give the sources by which the `stamp` of a module is made, by their modules' names."""
    own, found, left = {__package__.partition(".")[0], module.partition(".")[0]}, {}, [module]
    while left:
        name = left.pop()
        path = getattr(sys.modules.get(name), "__file__", None)
        if path and name not in found and name.partition(".")[0] in own:
            found[name], imported = _source(path)
            left += imported
    return found


@functools.cache
def _source(path: str) -> tuple[bytes, tuple[str, ...]]:
    """Give a module's text, and what may be names of modules that it imports."""
    text = Path(path).read_bytes()
    names: list[str] = []
    for base, listed in _IMPORT.findall(text.decode()):
        names += [base, *(f"{base}.{word}" for word in re.findall(r"\w+", listed))]
    return text, tuple(names)
