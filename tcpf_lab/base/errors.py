"""Errors that end in one readable message instead of a traceback."""

from __future__ import annotations

import os
import resource


def legible(text: str, keep: str = "\n\t\u00a0") -> str:
    r"""Replace control and other unprintable characters by escapes.

    Messages quote files and other programs, whose text must neither colour nor reorder them.

    Parameters
    ----------
    text : str
        Any.
    keep : str
        Unprintable characters that stay; empty for text of one line.

    Examples
    --------
    >>> print(legible("case '\x1b[2Jx\u202e' is\nunknown: ü"))
    case '\x1b[2Jx\u202e' is
    unknown: ü
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text
    )


def path_text(path: os.PathLike[str] | str) -> str:
    r"""Return a path as text; bytes that are not UTF-8 become escapes.

    Examples
    --------
    >>> print(path_text("bad\udcff.pcap"))
    bad\xff.pcap
    """
    return os.fsencode(path).decode("utf-8", "backslashreplace")


class LabError(Exception):
    """A failure that the user can understand and act on.

    Parameters
    ----------
    message : str
        What went wrong, in one sentence.
    where : str, optional
        ``file:line``, host, run or command; printed before the message.
    hint : str, optional
        What to try next.
    """

    #: Exit status of the command line: 1 a run failed, 2 the request was wrong.
    exit_status = 1

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle with the keyword arguments, for worker processes."""
        return _rebuild, (type(self), self.message, self.where, self.hint)

    def __str__(self) -> str:
        """Return ``where: message``, and the hint on a line of its own."""
        return legible(f"{self._line}\n  try: {self.hint}" if self.hint else self._line)

    @property
    def _line(self) -> str:
        """The place, on one line, and the message."""
        return f"{legible(self.where, keep='')}: {self.message}" if self.where else self.message


def _rebuild(kind: type[LabError], message: str, where: str, hint: str) -> LabError:
    return kind(message, where=where, hint=hint)


class RequestError(LabError):
    """The request itself is wrong: a missing file, an unknown name, a bad option."""

    exit_status = 2


class SpecError(RequestError):
    """An experiment file is not valid."""


class KernelBuildError(LabError):
    """The virtual-time kernel or a program for it could not be built."""


class KernelAbsentError(KernelBuildError):
    """A kernel cannot be built here: no source can be had, or tools are missing."""


class NoRoomError(KernelBuildError):
    """The disk has no room for a build."""


class TestbedError(LabError):
    """A testbed could not be used, or a run on it did not finish."""

    __test__ = False  # not a test case, whatever its name suggests to pytest
    #: Exit status of the command that failed, if one did; not pickled to other processes.
    status: int | None = None


class DiskFullError(LabError):
    """The disk is full, or would be."""

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        hint = hint or "free some space, or choose a directory on another disk"
        super().__init__(message, where=where, hint=hint)


class InterruptedRunError(LabError):
    """The user interrupted the work; complete runs stay."""

    exit_status = 130


class TraceError(LabError):
    """A capture or a record of a run cannot be read; printed on one line, one per capture."""

    exit_status = 2

    def __str__(self) -> str:
        """Return ``where: message (hint)``."""
        return legible(f"{self._line} ({self.hint})" if self.hint else self._line)


#: Memory limits of this process: resource, name, and the shell command that sets it.
_MEMORY_LIMITS = (
    (resource.RLIMIT_AS, "address space", "ulimit -v"),
    (resource.RLIMIT_DATA, "data", "ulimit -d"),
)


def require_memory(needed_mb: int, what: str) -> None:
    """Refuse work that needs more memory than this process may use.

    OpenBLAS and LLVM abort when an allocation fails; that cannot be caught.

    Raises
    ------
    LabError
        Naming the limit in force.
    """
    for limit, noun, word in _MEMORY_LIMITS:
        mb = resource.getrlimit(limit)[0] // 2**20
        if 0 <= mb < needed_mb:  # RLIM_INFINITY is below 0
            raise LabError(
                f"not enough memory: {what} needs {needed_mb} MB, "
                f"but {word} (limit of {noun}) allows {mb} MB",
                hint=f"`{word} unlimited`",
            )


def out_of_memory() -> LabError:
    """Return the error of a process out of memory, naming the limits in force."""
    found = [
        f"{word} (limit of {noun}) allows {size // 2**20} MB"
        for limit, noun, word in _MEMORY_LIMITS
        if (size := resource.getrlimit(limit)[0]) >= 0
    ]
    limits = " and ".join(found) or "no limit (ulimit -v) is set, so the machine has no more"
    return LabError(f"not enough memory: {limits}", hint="use fewer --jobs, or a larger machine")
