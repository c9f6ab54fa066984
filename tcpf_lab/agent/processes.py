"""The processes of a run, found by what they cannot easily lose: environment and namespace.

A child of a child is found like any other, whether it has left its session or its parent is gone;
nothing needs to be written down before a process is made.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

PROC = Path("/proc")
#: In the environment of all that an agent starts for a run.
VARIABLE = "TCPF_LAB_RUN"
#: How long killed processes may take to vanish, s.
PATIENCE_S = 10.0
_LOOK_S = 0.01


def start_time(pid: int) -> int | None:
    """Tell when a process was started, in ticks since boot; None if there is none.

    With its number it identifies a process for as long as the machine runs.
    """
    fields = _stat(pid)
    return None if fields is None or fields[0] in "ZX" else int(fields[19])


def alive(pid: int, started: int) -> bool:
    """Say whether a process still runs, and is not another one of the same number."""
    return start_time(pid) == started


def mark(token: str, pid: int, started: int | None) -> str:
    """Tell what an agent starts from what the agents of the same run for other nodes start here."""
    return f"{token}:{pid}:{started}"


def of_run(mark: str, namespaces: set[int]) -> list[int]:
    """List the processes of a run.

    Parameters
    ----------
    mark : str
        What bears it in its environment belongs to the run.
    namespaces : set of int
        Network namespaces all of whose processes are its own.
    """
    entry = f"{VARIABLE}={mark}".encode()
    spared = {os.getpid(), 1}
    return [
        pid
        for pid in _every()
        if pid not in spared and (_marked(pid, entry) or _within(pid, namespaces))
    ]


def kill_all(mark: str, namespaces: set[int]) -> list[int]:
    """Kill the processes of a run and await their end; return those that cannot be killed.

    One that is just being started is seen at the second look at the latest.
    """
    until = time.monotonic() + PATIENCE_S
    unseen = 0
    while True:
        reap()
        found = of_run(mark, namespaces)
        unseen = 0 if found else unseen + 1
        if unseen == 2 or (found and time.monotonic() > until):
            return found
        _kill(found)
        time.sleep(_LOOK_S)


def reap() -> None:
    """Take note of the end of children, which else stay listed."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _every() -> Iterator[int]:
    for path in PROC.iterdir():
        if path.name.isdigit():
            fields = _stat(int(path.name))
            if fields is not None and fields[0] not in "ZX":
                yield int(path.name)


def _stat(pid: int) -> list[str] | None:
    """Read the fields after the program's name, which may hold blanks and brackets."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def _marked(pid: int, entry: bytes) -> bool:
    try:
        return entry in (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or is a thread of the kernel
        return False


def _within(pid: int, namespaces: set[int]) -> bool:
    try:
        return (PROC / str(pid) / "ns" / "net").stat().st_ino in namespaces
    except OSError:
        return False
