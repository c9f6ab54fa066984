"""Errors that end in one readable message instead of a traceback."""

from __future__ import annotations

import os
import resource


def legible(text: str, keep: str = "\n\t\u00a0") -> str:
    r"""Write what a terminal would not show, or would obey, as escapes.

    Text of files and of other programs goes into messages: it must neither colour nor reorder them.

    Parameters
    ----------
    text : str
        Any.
    keep : str
        What is left as it is, though it is no letter: none of it in what is one line.

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
    r"""Give the name of a file as text: bytes of it that are no UTF-8 become escapes.

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
        ``file:line``, host, run or command the message is about; printed in front of it.
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
        """Survive the trip from a worker process (keyword arguments included)."""
        return _rebuild, (type(self), self.message, self.where, self.hint)

    def __str__(self) -> str:
        """Give ``where: message`` and, on a line of its own, the hint."""
        return legible(f"{self._said}\n  try: {self.hint}" if self.hint else self._said)

    @property
    def _said(self) -> str:
        """The message with its place in front, whose name of a file or host is on one line."""
        return f"{legible(self.where, keep='')}: {self.message}" if self.where else self.message


def _rebuild(kind: type[LabError], message: str, where: str, hint: str) -> LabError:
    return kind(message, where=where, hint=hint)


class RequestError(LabError):
    """The request itself is wrong: a missing file, an unknown name, a bad option."""

    exit_status = 2


class SpecError(RequestError):
    """An experiment file says something that is not allowed."""


class KernelBuildError(LabError):
    """The virtual-time kernel or a program for it could not be built."""


class TestbedError(LabError):
    """A testbed could not be used, or a run on it did not finish."""

    __test__ = False  # not a test case, whatever its name suggests to pytest
    #: How the command ended that the message is about; None if it is about none.  Only where it was
    #: raised: it does not make the trip from a worker process.
    status: int | None = None


class DiskFullError(LabError):
    """There is no room left where something is to be written."""

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        hint = hint or "free some space, or choose a place on another disk"
        super().__init__(message, where=where, hint=hint)


class InterruptedRunError(LabError):
    """The user ended the work; what was complete is kept."""

    exit_status = 130


class TraceError(LabError):
    """A capture or a record of a run cannot be read; one line, as there may be one per capture."""

    exit_status = 2

    def __str__(self) -> str:
        """Give ``where: message (hint)``."""
        return legible(f"{self._said} ({self.hint})" if self.hint else self._said)


#: Limits of this process under which libraries fail in the middle of being loaded, and bash's word.
_MEMORY_LIMITS = (
    (resource.RLIMIT_AS, "address space", "ulimit -v"),
    (resource.RLIMIT_DATA, "data", "ulimit -d"),
)


def require_memory(needed_mb: int, what: str) -> None:
    """Refuse what a limit of this process leaves too little memory for.

    OpenBLAS and LLVM end the process at once where they get none, so nothing can be caught then.

    Raises
    ------
    LabError
        Naming the limit in force.
    """
    for limit, noun, word in _MEMORY_LIMITS:
        mb = resource.getrlimit(limit)[0] // 2**20
        if 0 <= mb < needed_mb:  # RLIM_INFINITY is below 0
            raise LabError(
                f"memory is short: {what} needs {needed_mb} MB, "
                f"and {word}, the limit of {noun}, is {mb} MB",
                hint=f"{word} unlimited",
            )


def out_of_memory() -> LabError:
    """Give the error of a process that got no more memory, which names the limits in force."""
    found = [
        f"{word}, the limit of {noun}, is {size // 2**20} MB"
        for limit, noun, word in _MEMORY_LIMITS
        if (size := resource.getrlimit(limit)[0]) >= 0
    ]
    limits = " and ".join(found) or "no limit (ulimit -v) is in force, so the machine has no more"
    return LabError(f"memory is short: {limits}", hint="fewer --jobs, or more memory")
