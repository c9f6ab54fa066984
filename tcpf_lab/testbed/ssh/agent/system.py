"""Programs run to their end, kernel parameters, files of a run, and why a request failed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

#: Where programs are looked for: a shell without login has no directories for administrators.
PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
_LOOK_S = 0.05
#: So many lines of what a command says an error gives.
TAIL_LINES = 20


class AgentError(Exception):
    """A request that could not be carried out.

    Parameters
    ----------
    message : str
        What went wrong.
    command : sequence of str, optional
        The command that failed.
    status : int, optional
        Its exit status, negative for a signal.
    output : str, optional
        Its output; the last lines are stored.
    """

    def __init__(
        self,
        message: str,
        command: Sequence[str] | None = None,
        status: int | None = None,
        output: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.command = None if command is None else list(command)
        self.status = status
        self.output = tail(output)

    @property
    def reason(self) -> str:
        """The command's output, or else the message."""
        return self.output or self.message

    def reply(self) -> dict[str, Any]:
        """Give it as the ``error`` of a reply."""
        return {
            "message": self.message,
            "command": self.command,
            "status": self.status,
            "output": self.output,
        }


class Cancelled(AgentError):  # noqa: N818 - it is not the request that is wrong
    """A request that was cancelled because the run is ending."""

    def __init__(self) -> None:
        super().__init__("cancelled: the run is ending")


class Left(Exception):  # noqa: N818 - names what is left, which is not always an error
    """A change that could not be undone."""


class Lost(Left):
    """A change that no later attempt can undo: its subject is gone."""


def tail(text: str) -> str:
    """Return the last lines of a text."""
    return "\n".join(text.rstrip().splitlines()[-TAIL_LINES:])


@dataclass(frozen=True)
class Output:
    """Exit status and output of a command."""

    status: int
    output: str
    errors: str


def resolve(argv: Sequence[str]) -> list[str]:
    """Replace the program's name by its path.

    Raises
    ------
    AgentError
        If it is not found.
    """
    if not argv:
        raise AgentError("a command without a program")
    path = os.pathsep.join(part for part in (os.environ.get("PATH", ""), PATH) if part)
    found = shutil.which(argv[0], path=path)
    if found is None:
        raise AgentError(f"there is no program '{argv[0]}' on this host", argv, 127)
    return [found, *argv[1:]]


def run(
    argv: Sequence[str],
    text: str = "",
    output: IO[bytes] | None = None,
    cancel: threading.Event | None = None,
) -> Output:
    """Run a program to its end, in the namespace of the calling thread.

    Parameters
    ----------
    argv : sequence of str
        Program and arguments.
    text : str
        Its standard input.
    output : file, optional
        Gets standard output.
    cancel : Event, optional
        The program is killed when this is set.

    Raises
    ------
    AgentError
        If there is no such program, or it cannot be started.
    Cancelled
        If it was killed.
    """
    with _memory("input") as given, _memory("output") as printed, _memory("errors") as errors:
        given.write(text.encode())
        given.seek(0)
        process = popen(argv, stdin=given, stdout=output or printed, stderr=errors)
        status = _await(process, cancel)
        return Output(status, "" if output else _content(printed), _content(errors))


def checked(argv: Sequence[str], **more: Any) -> Output:
    """Run as `run` does, and refuse any exit status but zero.

    Raises
    ------
    AgentError
        With the command, its status and output.
    """
    result = run(argv, **more)
    if result.status:
        text = result.errors if result.errors.strip() else result.output
        raise AgentError(f"{argv[0]} {ending(result.status)}", argv, result.status, text)
    return result


def report(argv: Sequence[str], **more: Any) -> list[dict[str, Any]]:
    """Run a program of iproute2 with ``-j``, and return its entries.

    Raises
    ------
    AgentError
        As `checked` does.
    """
    return parsed(checked(argv, **more).output)


def parsed(output: str) -> list[dict[str, Any]]:
    """Parse the JSON of a program of iproute2; an empty answer may be an empty object."""
    return [entry for entry in json.loads(output or "[]") if entry]


def popen(argv: Sequence[str], **files: Any) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own.

    Descriptors are closed by the program's start itself: so long as a child is not yet the program
    it is to become, it holds the agent's end of the pipe that the watch process reads.

    Raises
    ------
    AgentError
        If it cannot be started.
    """
    words = resolve(argv)
    try:
        return subprocess.Popen(  # the plan's own words, which no shell reads
            words, close_fds=False, start_new_session=True, **files
        )
    except OSError as error:
        raise AgentError(f"cannot be started: {error.strerror}", argv) from None


def ending(status: int) -> str:
    """Describe how a program ended."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def signal_all(pid: int, number: int) -> None:
    """Send a signal to a program and those of its children that are in its group."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def _await(process: subprocess.Popen[bytes], cancel: threading.Event | None) -> int:
    if cancel is None:
        return process.wait()
    while True:
        try:
            return process.wait(_LOOK_S)
        except subprocess.TimeoutExpired:
            if cancel.is_set():
                signal_all(process.pid, signal.SIGKILL)
                process.wait()
                raise Cancelled from None


def _memory(name: str) -> IO[bytes]:
    """Make a file without a name or a disk: pipes would have to be read meanwhile."""
    return os.fdopen(os.memfd_create(name), "w+b")


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


ROOT = Path("/proc/sys")
_PART = re.compile(r"[\w-][\w.@-]*", re.ASCII)
#: Below ``net``, with a directory for each interface.
_PER_DEVICE = ("ipv4/conf", "ipv6/conf", "ipv4/neigh", "ipv6/neigh")


def path(key: str) -> Path:
    """Say which file is the parameter ``key``, such as ``net.ipv4.tcp_sack``.

    A name with slashes, as ``sysctl`` takes it too, may have dots in its parts.

    Raises
    ------
    AgentError
        If it cannot be the name of one.
    """
    parts = key.split("/" if "/" in key else ".")
    if len(parts) < 2 or not all(map(_PART.fullmatch, parts)):
        raise AgentError(f"{key!r} is not the name of a kernel parameter")
    return ROOT.joinpath(*parts)


def read(key: str) -> str:
    """Read a parameter, without the line's end.

    Raises
    ------
    AgentError
        If there is none of that name.
    """
    try:
        return path(key).read_text().rstrip("\n")
    except OSError as error:
        raise AgentError(f"cannot read {key}: {error.strerror}") from None


def write(key: str, value: str) -> None:
    """Set a parameter.

    Raises
    ------
    AgentError
        If there is none of that name, or the kernel refuses the value.
    """
    try:
        path(key).write_text(value + "\n")
    except OSError as error:
        raise AgentError(f"cannot set {key} to {value!r}: {error.strerror}") from None


def lines(keys: list[str]) -> str:
    """Give ``key = value`` lines, as ``sysctl`` prints them, with single blanks."""
    return "".join(f"{key} = {read(key).replace(chr(9), ' ')}\n" for key in keys)


def of_device(name: str) -> dict[str, str]:
    """Read all parameters of one interface, by their paths below ``/proc/sys/net``."""
    found = {}
    for directory in _PER_DEVICE:
        for file in _files(ROOT / "net" / directory / name):
            try:
                found[f"{directory}/{file.name}"] = file.read_text()
            except OSError:  # not set, such as stable_secret, or only to be written
                continue
    return found


def restore_device(name: str, before: dict[str, str]) -> None:
    """Write those parameters of an interface that are not as they were.

    Some only tell a state, such as an interface's MTU; the kernel refuses these, or has set them
    already.
    """
    now = of_device(name)
    for key, value in before.items():
        directory, _, parameter = key.rpartition("/")
        if now.get(key, value) == value:
            continue
        try:
            (ROOT / "net" / directory / name / parameter).write_text(value)
        except OSError:
            continue


def _files(directory: Path) -> Iterator[Path]:
    try:
        yield from sorted(directory.iterdir())
    except OSError:  # without IPv6, say
        return


_TAIL_BYTES = 8192


def within(root: Path, name: str) -> Path:
    """Give the path of a file of the run, and make the directories that lead to it.

    Raises
    ------
    AgentError
        If it would lie elsewhere.
    """
    path = Path(name)
    if not name or path.is_absolute() or ".." in path.parts:
        raise AgentError(f"{name!r} is not a path within the run's files")
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def last_lines(path: Path) -> str:
    """Return the last lines of a file, empty if it is missing."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            return tail(file.read().decode(errors="replace"))
    except OSError:
        return ""


def holds(path: Path, text: str) -> bool:
    """Return whether a file contains a text."""
    try:
        return text.encode() in path.read_bytes()
    except OSError:
        return False


def of_this_thread(path: str) -> str:
    """Replace paths in ``/proc`` of the agent's namespace by those of the thread's."""
    for start in ("/proc/net/", "/proc/self/net/"):
        if path.startswith(start):
            return f"/proc/thread-self/net/{path[len(start) :]}"
    return path
