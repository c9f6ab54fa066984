"""Undoing a run, from its journal, in reverse; as often as it takes.

Whoever undoes a run has it locked: its agent at the end of the run, the watch process when the
agent has died, or a person.  To undo what has been undone, or has never been done, does nothing.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from tcpf_lab.testbed.ssh.agent import journal, modules, namespaces, network, programs, system
from tcpf_lab.testbed.ssh.agent.journal import Record
from tcpf_lab.testbed.ssh.agent.system import AgentError, Left, Lost

#: How long modules may take to be free, s: other agents of this kernel may still be undoing.
PATIENCE_S = 15.0
#: The same where nobody waits for it.
LONG_PATIENCE_S = 90.0
#: How long somebody else may take to undo the same run, s.
LOCK_PATIENCE_S = 120.0


@dataclass
class Result:
    """What has been undone."""

    undone: int = 0
    stuck: list[str] = field(default_factory=list)  #: what could not be, and why
    lost: list[str] = field(default_factory=list)  #: what will never be

    @property
    def left(self) -> list[str]:
        """All that is not as it was before the run."""
        return [*self.stuck, *self.lost]


@dataclass
class Work:
    """One attempt to undo a run."""

    records: list[Record]
    patience: float
    stuck: set[str] = field(default_factory=set)  #: nodes that still hold an interface

    @property
    def nodes(self) -> list[str]:
        """Nodes of the run."""
        return [record["node"] for record in self.records if record["kind"] == "namespace"]

    def devices(self, name: str) -> set[str]:
        """Give the names of all interfaces that the run gives a node."""
        pairs = [end for r in self.records if r["kind"] == "veth" for end in r["ends"]]
        moved = [record for record in self.records if record["kind"] == "nic"]
        return {end["device"] for end in (*pairs, *moved) if end["node"] == name}


def undo(state: Path, token: str, patience: float = PATIENCE_S, agent: int | None = None) -> Result:
    """Undo a run, and remove its journal and files unless it has to be tried again.

    Parameters
    ----------
    state : Path
        The state directory.
    token : str
        The run.
    patience : float
        For modules that are in use, s.
    agent : int, optional
        Undo it only if it is the run of this process, and not a later one of the same name.

    Raises
    ------
    AgentError
        If another process is undoing it, or this one is not in the namespace of the run's agent.
    """
    root = journal.directory(state, token)
    with journal.locked(root, LOCK_PATIENCE_S) as there:
        if not there:
            return Result()
        records = journal.read(root)
        result = Result()
        if records and agent not in (None, records[0]["pid"]):
            return result
        if records and records[0]["boot_id"] == journal.boot_id():
            result = _undo(root, records, patience)
        _conclude(root, result)
        return result


def _undo(root: Path, records: list[Record], patience: float) -> Result:
    about = records[0]
    own = namespaces.number(namespaces.OWN)
    if about["namespace"] != own:
        raise AgentError(
            f"run {root.name} must be undone from the network namespace of its agent "
            f"({about['namespace']}), this is {own}"
        )
    work, result = Work(records, patience), Result()
    try:
        _kill(work, programs.mark(about["token"], about["pid"], about["started"]), result)
    except Exception as error:  # noqa: BLE001 - most can be undone all the same
        result.stuck.append(f"processes: {reason(error)}")
    with journal.noting(root) as done:
        for record in reversed(records[1:]):
            if not record["undone"] and _undo_one(work, record, result):
                done(record["n"])
    return result


def _undo_one(work: Work, record: Record, result: Result) -> bool:
    """Undo a record; return whether no later attempt is needed."""
    try:
        _UNDO[record["kind"]](work, record)
    except Lost as lost:
        result.lost.append(str(lost))
        return True
    except Left as left:
        result.stuck.append(str(left))
        return False
    except Exception as error:  # noqa: BLE001 - what comes after it is undone, whatever it is
        result.stuck.append(f"{record['kind']}: {reason(error)}")
        return False
    result.undone += 1
    return True


def _conclude(root: Path, result: Result) -> None:
    """Remove the journal and files, or write down what is left."""
    if not result.stuck:
        try:
            journal.remove(root)
        except OSError as error:
            result.stuck.append(f"the journal {root}: {error.strerror}")
    if result.stuck:
        journal.note_left(root, result.left)


def reason(error: Exception) -> str:
    """Return an error's message, with its type if it is unexpected."""
    expected = isinstance(error, (AgentError, OSError))
    return str(error) if expected else f"{type(error).__name__}: {error}"


def _kill(work: Work, mark: str, result: Result) -> None:
    """End all processes first: nothing can be undone under their feet."""
    for name in work.nodes:
        with suppress(AgentError, OSError):
            network.hurry(name)
    own = namespaces.number(namespaces.OWN)
    places = [namespaces.place(name) for name in work.nodes]
    numbers = {namespaces.number(place) for place in places if namespaces.is_one(place)}
    within = {number for number in numbers if number not in (None, own)}
    left = programs.kill_all(mark, {n for n in within if n is not None})
    result.stuck += [f"process {pid} cannot be killed" for pid in left]


def _namespace(work: Work, record: Record) -> None:
    if record["node"] in work.stuck:
        raise Left(f"node {record['node']}, which still holds an interface of the host")
    network.delete(record["node"])


def _nic(work: Work, record: Record) -> None:
    name, device = record["node"], record["device"]
    try:
        network.give_back(record["state"], name, device, work.devices(name) - {device})
    finally:
        if network.has(name, device):
            work.stuck.add(name)


def _sysctl(_work: Work, record: Record) -> None:
    key, value = record["key"], record["value"]

    def restore() -> None:
        if system.read(key) != value:
            system.write(key, value)
        if system.read(key) != value:
            raise Left(f"{key} is {system.read(key)!r}, was {value!r}")

    namespaces.inside(namespaces.FIRST, restore)


#: Kind of a change -> what undoes it.
_UNDO: dict[str, Callable[[Work, Record], None]] = {
    "namespace": _namespace,
    "veth": lambda _work, record: network.part(record["ends"]),
    "nic": _nic,
    "sysctl": _sysctl,
    "module": lambda work, record: modules.unload(record["name"], work.patience),
    "modules_before": lambda work, record: modules.unload_new(record["names"], work.patience),
    "netns_directory": lambda _work, _record: namespaces.release(),
}


def by_hand(state: Path, token: str | None, force: bool) -> list[dict[str, Any]]:
    """Undo one run or all; skip those whose agent still runs, unless ``force``.

    Returns
    -------
    list of dict
        ``token``, ``undone``, ``left`` and, for a run that is skipped, ``refused`` of each.
    """
    found = []
    for run in journal.unfinished(state):
        if token not in (None, run["token"]):
            continue
        report: dict[str, Any] = {"token": run["token"], "undone": 0, "left": []}
        another = run["alive"] and run["pid"] != os.getpid()
        if another and not force:
            report["refused"] = f"the run's agent still runs as process {run['pid']}"
        else:
            if another:
                with suppress(ProcessLookupError):  # it has ended since
                    os.kill(run["pid"], signal.SIGKILL)
            report.update(_attempt(state, run["token"]))
        found.append(report)
    return found


def _attempt(state: Path, token: str) -> dict[str, Any]:
    try:
        result = undo(state, token)
    except Exception as error:  # noqa: BLE001 - reported, whatever it is
        return {"left": [reason(error)]}
    return {"undone": result.undone, "left": result.left, "lost": result.lost}


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
    started = programs.start_time(agent)
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
        os._exit(0 if self._token is None else self._undo(self._token))

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
        if self._started is not None and programs.alive(self._agent, self._started):
            with suppress(ProcessLookupError):  # it has ended since
                os.kill(self._agent, signal.SIGKILL)
        else:  # what it was starting holds the pipe open
            self._limit = 1.0
            if self._token is not None:
                mark = programs.mark(self._token, self._agent, self._started)
                programs.kill_all(mark, set())

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
