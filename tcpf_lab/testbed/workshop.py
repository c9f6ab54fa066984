"""A directory in which build programs run, with a log, a progress callback and no leftovers."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tcpf_lab.base.errors import KernelBuildError, LabError, NoRoomError
from tcpf_lab.base.making import free_bytes, opened
from tcpf_lab.testbed.base import bound

#: Called with a phase's name and the share of it that is done (0 to 1).
Progress = Callable[[str, float], None]
#: How much of the log an error shows.
TAIL_LINES = 15
#: Begins the line that names a command in the log.
_COMMAND = "$ "
_NO_SPACE = "No space left on device"


@contextmanager
def one_at_a_time(root: Path, progress: Progress, wait: str = "wait") -> Iterator[int]:
    """Let one process at a time work in ``root``; give the descriptor that is locked.

    The lock is the system's and belongs to the open file: it ends with the last process that has it
    open, so one left behind by a killed build does not exist.

    Parameters
    ----------
    root : Path
        The directory.
    progress : callable
        Called with ``wait`` while another process is at work.
    wait : str
        That phase.
    """
    with opened(root / "lock", "a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(wait, 0.0)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle.fileno()


def require_room(directory: Path, needed: int, refused: type[LabError], what: str) -> None:
    """Raise if the disk has not enough free space.

    Parameters
    ----------
    directory : Path
        Where the space is needed.
    needed : int
        Bytes.
    refused : type of LabError
        The error to raise.
    what : str
        Message; ``{}`` stands for the size.
    """
    free = free_bytes(directory)
    if free < needed:
        raise refused(
            f"{what.format(f'{needed / 1e9:.1f} GB')}, {free / 1e9:.1f} GB are free",
            where=str(directory),
            hint="free disk space, or set XDG_CACHE_HOME to a directory on a larger disk",
        )


@dataclass(frozen=True)
class Workshop:
    """Runs programs in ``tree`` and appends their output to ``log``.

    ``keep_open`` are file descriptors that every program inherits: a lock held through one of them
    lasts until the last program has ended, even if this process is killed.
    """

    tree: Path
    log: Path
    progress: Progress
    environment: Mapping[str, str] = field(default_factory=dict)
    keep_open: tuple[int, ...] = ()

    def run(self, command: Sequence[str]) -> None:
        """Run ``command`` to its end; raise `KernelBuildError` if it fails."""
        with self.log.open("ab") as log, self._started(command, stdout=log) as process:
            self._finish(process, command)

    def run_counting(self, command: Sequence[str], line_read: Callable[[str], None]) -> None:
        """Run ``command`` and hand every line that it prints to ``line_read``."""
        with (
            self.log.open("ab", buffering=0) as log,
            self._started(command, stdout=subprocess.PIPE) as process,
        ):
            assert process.stdout is not None
            for line in process.stdout:
                log.write(line)
                line_read(line.decode("utf-8", "replace"))
            self._finish(process, command)

    def run_fed(self, command: Sequence[str], blocks: Iterator[bytes]) -> None:
        """Run ``command`` with ``blocks`` on its standard input."""
        with (
            self.log.open("ab") as log,
            self._started(command, stdin=subprocess.PIPE, stdout=log) as process,
        ):
            assert process.stdin is not None
            try:
                for block in blocks:
                    process.stdin.write(block)
                process.stdin.close()
            except BrokenPipeError:
                pass  # it ended before its input did; its status is checked below
            self._finish(process, command)

    @contextmanager
    def _started(
        self, command: Sequence[str], *, stdout: int | IO[bytes], stdin: int = subprocess.DEVNULL
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Start a program in a process group of its own, which ends with this block.

        It gets SIGTERM if this process is killed: `make` then ends its compilers.
        """
        with self.log.open("ab") as log:
            log.write(f"{_COMMAND}{' '.join(command)}\n".encode())
        process = subprocess.Popen(
            bound(command, "TERM"),
            cwd=self.tree,
            env=dict(self.environment),
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            pass_fds=self.keep_open,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            _end_group(process)

    def _finish(self, process: subprocess.Popen[bytes], command: Sequence[str]) -> None:
        status = process.wait()
        if status == 0:
            return
        tail = last_lines(self.log)
        how = f"status {status}" if status > 0 else f"signal {-status}"
        if any(_NO_SPACE in line for line in tail):
            raise NoRoomError(
                "the disk is full", where=str(self.tree), hint="free disk space, then build again"
            )
        output = "".join(f"\n    {line}" for line in tail)
        raise KernelBuildError(
            f"'{_short(command)}' failed with {how}; last lines of its output:{output}",
            where=str(self.log),
            hint=f"the full output is in {self.log}",
        )


def last_lines(log: Path, count: int = TAIL_LINES) -> list[str]:
    """Return the last lines of the output of the last command in ``log``."""
    tail: deque[str] = deque(maxlen=count)
    with log.open(encoding="utf-8", errors="replace") as handle:
        for line in handle:
            if line.startswith(_COMMAND):
                tail.clear()
            else:
                tail.append(line.rstrip())
    return list(tail)


def _short(command: Sequence[str]) -> str:
    words = [Path(command[0]).name, *(w for w in command[1:] if not w.startswith("--exclude"))]
    return " ".join(words)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Leave nothing of the program behind: a compiler that make started may outlive it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            break
        _signal_group(process.pid, number)
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            continue
    _signal_group(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe and not pipe.closed:
            with suppress(BrokenPipeError):  # what is still buffered may have no reader
                pipe.close()


def _signal_group(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # the whole group may have ended
        os.killpg(pid, number)
