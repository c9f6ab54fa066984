"""Programs that are run to their end: found, run, and quoted with what they said if they fail."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any

from tcpf_lab.agent import namespaces
from tcpf_lab.agent.errors import AgentError, Cancelled

#: Where programs are looked for: a shell without login has no directories for administrators.
PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
#: So many bytes of what a command says are given in the reply.
SAID_BYTES = 65536
_LOOK_S = 0.05


@dataclass(frozen=True)
class Said:
    """How a command ended."""

    status: int
    output: str
    errors: str


def resolve(argv: Sequence[str]) -> list[str]:
    """Replace the program's name by its path.

    Raises
    ------
    AgentError
        If it is nowhere to be found.
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
) -> Said:
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
    with _memory("input") as given, _memory("output") as said, _memory("errors") as errors:
        given.write(text.encode())
        given.seek(0)
        process = popen(argv, stdin=given, stdout=output or said, stderr=errors)
        status = _await(process, cancel)
        return Said(status, "" if output else _content(said), _content(errors))


def checked(argv: Sequence[str], **more: Any) -> Said:
    """Run as `run` does, and refuse any exit status but zero.

    Raises
    ------
    AgentError
        With the command, its status and what it said.
    """
    said = run(argv, **more)
    if said.status:
        text = said.errors if said.errors.strip() else said.output
        raise AgentError(f"{argv[0]} {ending(said.status)}", argv, said.status, text)
    return said


def popen(
    argv: Sequence[str],
    **files: Any,
) -> subprocess.Popen[bytes]:
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


def batch(
    program: str,
    node: str,
    lines: Sequence[Sequence[str]],
    cancel: threading.Event | None = None,
) -> None:
    """Give commands of ``ip`` or ``tc`` to one process.

    Raises
    ------
    AgentError
        Naming the command that failed.
    """
    if program not in ("ip", "tc"):
        raise AgentError(f"'{program}' has no batches; allowed: ip, tc")
    text = "".join(" ".join(map(_quoted, line)) + "\n" for line in lines)
    argv = [program, "-n", namespaces.name(node), "-batch", "-"]
    said = run(argv, text=text, cancel=cancel)
    if said.status == 0:
        return
    failed = re.search(r"Command failed -:(\d+)", said.errors)
    number = int(failed[1]) if failed else int(len(lines) == 1)
    if 1 <= number <= len(lines):
        command = [program, *lines[number - 1]]
        message = f"command {number} of {len(lines)} failed in node {node}"
    else:  # it was killed, could not enter the node, or `tc` misses a word and does not say where
        command = argv
        message = f"a batch of {len(lines)} commands {ending(said.status)} in node {node}"
    text = re.sub(r"Command failed -:\d+\n?", "", said.errors)
    raise AgentError(message, command, said.status, text or said.output)


def ending(status: int) -> str:
    """Say how a program ended."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


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


def _quoted(word: str) -> str:
    """Write a word such that the batch reader of iproute2 takes it as one.

    A ``#`` begins a comment there, quoted or not.
    """
    if "\n" in word or "#" in word or ('"' in word and "'" in word):
        raise AgentError(
            f"not a word of a batch: {word!r}; it may hold no newline, no '#', and "
            "one kind of quotes only"
        )
    if word and not re.search(r"[\s\"'\\]", word):
        return word
    quote = "'" if '"' in word else '"'
    return f"{quote}{word}{quote}"


def _memory(name: str) -> IO[bytes]:
    """Make a file without a name or a disk: pipes would have to be read meanwhile."""
    return os.fdopen(os.memfd_create(name), "w+b")


def _content(file: IO[bytes]) -> str:
    file.seek(0, os.SEEK_END)
    file.seek(max(0, file.tell() - SAID_BYTES))
    return file.read().decode(errors="replace")
