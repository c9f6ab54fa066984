"""The files of a run on this host."""

from __future__ import annotations

from pathlib import Path

from tcpf_lab.agent.errors import AgentError, tail

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
    """Give the last lines of a file, and none if it is not there."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            return tail(file.read().decode(errors="replace"))
    except OSError:
        return ""


def holds(path: Path, text: str) -> bool:
    """Say whether a text stands in a file."""
    try:
        return text.encode() in path.read_bytes()
    except OSError:
        return False


def content(path: str) -> bytes:
    """Read a file, of ``/proc`` for example, whose size nobody knows before."""
    return Path(path).read_bytes()


def of_this_thread(path: str) -> str:
    """Replace the names by which ``/proc`` means the whole agent's namespace, not the thread's."""
    for start in ("/proc/net/", "/proc/self/net/"):
        if path.startswith(start):
            return f"/proc/thread-self/net/{path[len(start) :]}"
    return path
