"""The watch process: undoes a run when its agent has died, in whatever way.

It reads a pipe whose only writer is the agent.  The end of the pipe is the end of the agent; and an
agent that hangs is ended when nothing has come through the pipe for too long.
"""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from tcpf_lab.agent import processes
from tcpf_lab.agent.undo import LONG_PATIENCE_S, undo

#: An agent that undoes its run itself must have ended after so long, s.
_LONGEST_UNDO_S = 300.0
_BEAT, _RUN, _LEAVING = b".", b"r", b"l"


class Watch:
    """The agent's end: what it tells the watch process.

    Attributes
    ----------
    pid : int
        The watch process.
    gone : int
        Descriptor that is at its end when the watch process is.
    """

    def __init__(self, pid: int, writer: int, gone: int) -> None:
        self.pid = pid
        self.gone = gone
        self._writer = writer
        os.set_blocking(writer, False)

    def beat(self) -> None:
        """Say that the agent is alive."""
        self._say(_BEAT)

    def run(self, token: str) -> None:
        """Say which run is to be undone."""
        self._say(_RUN + token.encode())

    def leaving(self) -> None:
        """Say that the agent is undoing the run itself, by another program in the same process.

        The pipe stays open beyond the start of that program: its end is then that program's.
        """
        self._say(_LEAVING)
        os.set_inheritable(self._writer, True)

    def _say(self, message: bytes) -> None:
        try:
            os.write(self._writer, message + b"\n")
        except (BlockingIOError, BrokenPipeError):  # noticed by `gone`
            return


def start(state: Path, limit: float) -> Watch:
    """Start the watch process; to be called while there is but one thread.

    Parameters
    ----------
    state : Path
        The state directory.
    limit : float
        An agent that has not been heard of for so long hangs, s.
    """
    agent = os.getpid()
    started = processes.start_time(agent)
    reader, writer = os.pipe()
    gone, lives = os.pipe()
    first = os.fork()
    if first:
        os.close(reader)
        os.close(lives)
        os.waitpid(first, 0)  # the one between: the watch is nobody's child
        return Watch(int(os.read(gone, 32)), writer, gone)
    try:
        os.close(writer)
        os.close(gone)
        _daemon(lives, reader)
        _Guard(state, limit, reader, agent, started).keep()
    finally:
        os._exit(1)


def _daemon(lives: int, reader: int) -> None:
    """Leave session, terminal and standard streams, which an ssh server waits for."""
    os.setsid()
    if os.fork():
        os._exit(0)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    for path in list(Path("/proc/self/fd").iterdir()):
        if int(path.name) not in (0, 1, 2, lives, reader):
            with suppress(OSError):  # that of the listing itself
                os.close(int(path.name))
    with suppress(OSError):  # not allowed in a container
        Path("/proc/self/oom_score_adj").write_text("-1000")
    os.write(lives, str(os.getpid()).encode())


class _Guard:
    """The watch process itself."""

    def __init__(
        self, state: Path, limit: float, reader: int, agent: int, started: int | None
    ) -> None:
        self._state = state
        self._limit = limit
        self._reader = reader
        self._agent = agent
        self._started = started
        self._token: str | None = None
        self._rest = b""

    def keep(self) -> NoReturn:
        """Wait for the agent's end, then undo."""
        while self._listen():
            pass
        status = 0
        if self._token is not None:
            status = self._undo(self._token)
        os._exit(status)

    def _listen(self) -> bool:
        ready, _, _ = select.select([self._reader], [], [], self._limit)
        if not ready:
            self._end_agent()
            return True
        data = os.read(self._reader, 4096)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(_RUN):
                self._token = line[1:].decode()
            elif line.startswith(_LEAVING):
                self._limit = _LONGEST_UNDO_S
        return bool(data)

    def _end_agent(self) -> None:
        if self._started is not None and processes.alive(self._agent, self._started):
            with suppress(ProcessLookupError):  # it has ended since
                os.kill(self._agent, signal.SIGKILL)
        else:  # what it was starting holds the pipe open
            self._limit = 1.0
            if self._token is not None:
                mark = processes.mark(self._token, self._agent, self._started)
                processes.kill_all(mark, set())

    def _undo(self, token: str) -> int:
        """Undo, and once more after a while: a device may be late."""
        for pause in (0.0, 1.0, 5.0):
            time.sleep(pause)
            try:
                if not undo(self._state, token, LONG_PATIENCE_S, self._agent).left:
                    return 0
            except Exception:  # noqa: BLE001, S112 - left for `undo` by hand, which says why
                continue
        return 1
