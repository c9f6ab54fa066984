"""Programs that run beside the plan until they finish or are stopped.

Each has a thread, which is in the program's namespace, starts the program there and waits for its
end: waiting takes no processor at all.
"""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from tcpf_lab.testbed.ssh.agent import namespaces, system
from tcpf_lab.testbed.ssh.agent.system import AgentError, Cancelled

NSEC = 1_000_000_000
#: The clock may be set meanwhile: it is looked at so often, s.
_LONGEST_SLEEP_S = 0.5
_TIME = struct.Struct("=q")
_ERROR = struct.Struct("=i")


@dataclass(frozen=True)
class Launch:
    """A process that waits for its instant."""

    pid: int
    report: int  #: descriptor of the pipe that reports the start

    def await_start(self, argv: Sequence[str], at_ns: int) -> float:
        """Wait until it has become the program; return how late that was, s.

        Raises
        ------
        AgentError
            If it could not become the program, or was ended before.
        """
        with os.fdopen(self.report, "rb") as pipe:
            data = pipe.read()
        if len(data) < _TIME.size:
            raise AgentError("ended before its start time", argv)
        if len(data) > _TIME.size:
            (number,) = _ERROR.unpack_from(data, _TIME.size)
            raise AgentError(f"cannot be started: {os.strerror(number)}", argv)
        return float(_TIME.unpack(data)[0] - at_ns) / NSEC


def prepare(argv: Sequence[str], at_ns: int, output: int, errors: int) -> Launch:
    """Make a process that becomes the program ``argv`` at ``at_ns``.

    Parameters
    ----------
    argv : sequence of str
        The program's path, and its arguments.
    at_ns : int
        ``CLOCK_REALTIME``, ns.
    output, errors : int
        Descriptors of what are to be its standard output and standard error.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become(argv, at_ns, output, errors, writer)
    os.close(writer)
    return Launch(pid, reader)


def _become(argv: Sequence[str], at_ns: int, output: int, errors: int, writer: int) -> NoReturn:
    """Wait, then become the program; only what is safe in a child of many threads is done here."""
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(errors, 2)
        if writer != 3:
            os.dup2(writer, 3, inheritable=False)
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))  # the watch's pipe among them
        while (left := at_ns - time.time_ns()) > 0:
            time.sleep(min(left / NSEC, _LONGEST_SLEEP_S))
        os.write(3, _TIME.pack(time.time_ns()))
        os.execve(argv[0], list(argv), os.environ)
    except OSError as error:
        os.write(3, _ERROR.pack(error.errno or 0))
    finally:
        os._exit(127)


#: A program that has been interrupted must have written everything after so long, s.
STOP_S = 10.0
_LOOK_S = 0.02
_LONGEST_WAIT_S = 0.5


class Program(threading.Thread):
    """One program, from before its start to its end."""

    def __init__(self, wish: Mapping[str, Any], root: Path, changed: threading.Condition) -> None:
        super().__init__(daemon=True, name=f"program {wish['name']}")
        self.label: str = wish["name"]
        self.argv: Sequence[str] = wish["argv"]
        self.at_ns: int | None = wish.get("at_ns")
        self.ready: Mapping[str, Any] | None = wish.get("ready")
        self.pid: int | None = None
        self.begun = False  #: whether the process exists, or never will
        self.late_s: float | None = None
        self.status: int | None = None
        self.interrupted = False
        self.fault: AgentError | None = None
        self._node: str = wish["node"]
        self._changed = changed
        self._files = {
            kind: system.within(root, wish[kind]) for kind in ("errors", "output") if wish.get(kind)
        }

    @property
    def over(self) -> bool:
        """Whether there is nothing more to wait for."""
        return self.status is not None or (self.begun and self.pid is None)

    @property
    def failed(self) -> bool:
        """Whether it could not be started, or has ended as it should not."""
        harmless = (None, 0, -signal.SIGINT) if self.interrupted else (None, 0)
        return self.fault is not None or self.status not in harmless

    def run(self) -> None:
        """Start the program, and await its end."""
        try:
            namespaces.enter(namespaces.place(self._node))
            with _opened(self._files, "output") as output, _opened(self._files, "errors") as errors:
                self._run(output, errors)
        except AgentError as error:
            self._note(fault=error)
        except OSError as error:
            self._note(fault=AgentError(f"cannot be started: {error}", self.argv))

    def _run(self, output: int, errors: int) -> None:
        if self.at_ns is None:
            process = system.popen(
                self.argv, stdin=subprocess.DEVNULL, stdout=output, stderr=errors
            )
            self._note(pid=process.pid)
            self._note(status=process.wait())
            return
        waiting = prepare(system.resolve(self.argv), self.at_ns, output, errors)
        self._note(pid=waiting.pid)
        try:
            late = waiting.await_start(self.argv, self.at_ns)
        except AgentError as error:
            self._note(fault=error, status=_ended(waiting.pid))
        else:
            self._note(late_s=late)
            self._note(status=_ended(waiting.pid))

    def _note(self, **values: Any) -> None:
        """Let all who wait know that something has changed."""
        with self._changed:
            for name, value in values.items():
                setattr(self, name, value)
            self.begun = True
            self._changed.notify_all()

    def failure(self) -> AgentError:
        """Describe how it ended."""
        if self.fault is not None:
            return AgentError(f"{self.label} {self.fault}", self.argv, self.status, self._words())
        how = system.ending(self.status or 0)
        return AgentError(f"{self.label} {how}", self.argv, self.status, self._words())

    def late(self, message: str) -> AgentError:
        """Describe that something has not happened in time."""
        return AgentError(f"{self.label} {message}", self.argv, None, self._words())

    def _words(self) -> str:
        """Return the last lines of its errors, or else of its output."""
        tails = [system.last_lines(path) for path in self._files.values()]
        return next((text for text in tails if text), "")


class Programs:
    """All programs of a run.

    Parameters
    ----------
    root : Path
        Directory of the run's files.
    cancel : Event
        Set when the run is being ended: nothing is started or awaited from then on.
    """

    def __init__(self, root: Path, cancel: threading.Event) -> None:
        self._root = root
        self._cancel = cancel
        self._changed = threading.Condition()
        self._programs: dict[str, Program] = {}

    def start(self, wishes: Sequence[Mapping[str, Any]]) -> None:
        """Start programs, then await that those which have a condition are ready.

        Raises
        ------
        AgentError
            If one cannot be started, ends before it is ready, or is not ready in time.
        """
        started = [self._begin(wish) for wish in wishes]
        self._await(lambda: all(program.begun for program in started), None)
        for program in started:
            if program.fault is not None:
                raise program.failure()
        begun = time.monotonic()
        for program in started:
            if program.ready is not None:
                self._await_ready(program, begun)

    def _begin(self, wish: Mapping[str, Any]) -> Program:
        if wish["name"] in self._programs:
            raise AgentError(f"a program called '{wish['name']}' has been started already")
        system.resolve(wish["argv"])  # now, not when the time has come
        if self._cancel.is_set():
            raise Cancelled
        program = Program(wish, self._root, self._changed)
        self._programs[program.label] = program
        program.start()
        return program

    def finish(self, names: Sequence[str], deadline_ns: int) -> None:
        """Wait until programs have ended by themselves.

        Raises
        ------
        AgentError
            As soon as one ends with another status than zero, or at the deadline.
        """
        programs = self._called(names)
        while True:
            left = (deadline_ns - time.time_ns()) / NSEC
            self._await(lambda: _failed(programs) or _over(programs), min(left, _LONGEST_WAIT_S))
            _refuse_failed(programs)
            running = [program for program in programs if not program.over]
            if not running:
                return
            if left <= 0:
                raise running[0].late(f"did not end in time{_and_more(running)}")

    def stop(self, names: Sequence[str]) -> None:
        """Interrupt programs, and wait until they have written everything.

        Raises
        ------
        AgentError
            If one had failed before, fails now, or does not end.  To be ended by the interrupt
            itself is no failure.
        """
        programs = self._called(names)
        _refuse_failed(programs)
        for program in programs:
            if program.pid is not None and not program.over:
                program.interrupted = True
                system.signal_all(program.pid, signal.SIGINT)
        self._await(lambda: _over(programs), STOP_S)
        _refuse_failed(programs)
        for program in programs:
            if not program.over:
                raise program.late(f"did not end within {STOP_S:g} s after SIGINT")

    def lateness(self) -> dict[str, float]:
        """Return how late each program with a start time was started, s."""
        return {p.label: p.late_s for p in self._programs.values() if p.late_s is not None}

    def settle(self) -> None:
        """Wait, once the run is ending, until no program is being started any more."""
        with self._changed:
            self._changed.wait_for(lambda: all(p.begun for p in self._programs.values()), STOP_S)

    def _called(self, names: Sequence[str]) -> list[Program]:
        unknown = [name for name in names if name not in self._programs]
        if unknown:
            raise AgentError(f"no program called '{unknown[0]}' has been started")
        return [self._programs[name] for name in names]

    def _await(self, condition: Callable[[], bool], timeout: float | None) -> None:
        """Wait until the condition holds, at most so long; the run's end ends it."""
        until = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not condition():
                if self._cancel.is_set():
                    raise Cancelled
                left = _LONGEST_WAIT_S if until is None else until - time.monotonic()
                if left <= 0:
                    return
                self._changed.wait(min(left, _LONGEST_WAIT_S))

    def _await_ready(self, program: Program, begun: float) -> None:
        assert program.ready is not None
        path = system.within(self._root, program.ready["path"])
        text, timeout = program.ready["text"], float(program.ready.get("timeout", 10))
        while not system.holds(path, text):
            if program.over:
                raise program.failure()
            if time.monotonic() - begun > timeout:
                raise program.late(f"did not print {text!r} within {timeout:g} s")
            if self._cancel.wait(_LOOK_S):
                raise Cancelled


def _refuse_failed(programs: Sequence[Program]) -> None:
    for program in programs:
        if program.failed:
            raise program.failure()


def _failed(programs: Sequence[Program]) -> bool:
    return any(program.failed for program in programs)


def _over(programs: Sequence[Program]) -> bool:
    return all(program.over for program in programs)


def _and_more(programs: Sequence[Program]) -> str:
    return f", nor did {len(programs) - 1} more" if len(programs) > 1 else ""


def _ended(pid: int) -> int:
    """Await the end of a child; give its status, negative for a signal."""
    try:
        status = os.waitpid(pid, 0)[1]
    except ChildProcessError:
        return 0
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


@contextmanager
def _opened(files: Mapping[str, Path], kind: str) -> Iterator[int]:
    """Open a file to write, or nowhere."""
    handle = os.open(
        files.get(kind, os.devnull), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644
    )
    try:
        yield handle
    finally:
        os.close(handle)


PROC = Path("/proc")
#: In the environment of all that an agent starts for a run.
VARIABLE = "TCPF_LAB_RUN"
#: How long killed processes may take to vanish, s.
PATIENCE_S = 10.0
_PROCESS_LOOK_S = 0.01


def start_time(pid: int) -> int | None:
    """Tell when a process was started, in ticks since boot; None if there is none.

    With its number it identifies a process for as long as the machine runs.
    """
    fields = stat(pid)
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
        if pid not in spared and (entry in environment(pid) or _within(pid, namespaces))
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
        time.sleep(_PROCESS_LOOK_S)


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
            fields = stat(int(path.name))
            if fields is not None and fields[0] not in "ZX":
                yield int(path.name)


def stat(pid: int) -> list[str] | None:
    """Read the fields after the program's name, which may hold blanks and brackets."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def environment(pid: int) -> list[bytes]:
    """Read what a process was started with; nothing if it has ended, or is one of the kernel's."""
    try:
        return (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _within(pid: int, namespaces: set[int]) -> bool:
    try:
        return (PROC / str(pid) / "ns" / "net").stat().st_ino in namespaces
    except OSError:
        return False
