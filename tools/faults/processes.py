"""The processes of a command under fault: who they are, and that none of them outlives it.

Whoever calls `adopt` becomes the parent of every orphan among its descendants, so that none can
hide: what is left of a command is found among the caller's descendants.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_PDEATHSIG = 1
_LOOK_EVERY_S = 0.02
#: A word of every guest's command line.
_GUEST = "time-travel="


@dataclass(frozen=True)
class Process:
    """One process as ``/proc`` shows it."""

    pid: int
    parent: int
    state: str
    words: tuple[str, ...]

    @property
    def is_guest(self) -> bool:
        """Whether it belongs to a guest: its kernel, or a process that the kernel runs."""
        return any(word.startswith(_GUEST) for word in self.words)


def adopt() -> None:
    """Become the parent of all orphans among this process's descendants."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent() -> None:
    """Have this process killed when its parent dies."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def descendants(root: int | None = None) -> list[Process]:
    """Give all descendants of a process (this one without it), those that have ended too."""
    parents = _parents()
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in parents.items():
        children.setdefault(parent, []).append(pid)
    found: list[Process] = []
    waiting = list(children.get(root or os.getpid(), ()))
    while waiting:
        pid = waiting.pop()
        parent, state = parents[pid]
        found.append(Process(pid, parent, state, _words(pid)))
        waiting += children.get(pid, ())
    return found


def _parents() -> dict[int, tuple[int, str]]:
    found = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it has just ended
                text = Path(entry.path, "stat").read_text(encoding="utf-8", errors="replace")
                state, parent = text.rpartition(")")[2].split()[:2]
                found[int(entry.name)] = (int(parent), state)
    return found


def _words(pid: int) -> tuple[str, ...]:
    try:
        text = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ()
    return tuple(text.split("\0")[:-1])


def workers(controller: int) -> list[int]:
    """Give the worker processes of a command."""
    return [p.pid for p in descendants(controller) if p.parent == controller and p.state != "Z"]


def guest_kernels(controller: int) -> list[int]:
    """Give the guests of a command, the process that is the kernel of each."""
    every = descendants(controller)
    guests = {p.pid for p in every if p.is_guest}
    return [p.pid for p in every if p.is_guest and p.parent not in guests and p.state != "Z"]


def guest_programs(controller: int) -> list[int]:
    """Give the processes of the host that guests run their own processes in."""
    every = descendants(controller)
    guests = {p.pid for p in every if p.is_guest}
    return [p.pid for p in every if p.is_guest and p.parent in guests and p.state != "Z"]


def kill(pid: int, number: int = signal.SIGKILL) -> bool:
    """Send a signal; tell whether there was a process to get it."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def remaining(patience_s: float, known: Collection[int] = ()) -> list[Process]:
    """Wait until this process has no descendants but ``known`` ones, at most so long.

    Returns
    -------
    list of Process
        Those that are still there.
    """
    until = time.monotonic() + patience_s
    while True:
        found = [p for p in descendants() if p.pid not in known]
        alive = [p for p in found if p.state != "Z"]
        for process in found:
            if process.state == "Z" and process.parent == os.getpid():
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(process.pid, os.WNOHANG)
        if not alive or time.monotonic() > until:
            return alive
        time.sleep(_LOOK_EVERY_S)


def end(processes: Collection[Process]) -> None:
    """Kill what should have ended by itself, so that it does not spoil what follows."""
    for process in processes:
        kill(process.pid)
    remaining(5.0)
