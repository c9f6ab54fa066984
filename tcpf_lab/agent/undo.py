"""Undoing a run, from its journal, in reverse; as often as it takes.

Whoever undoes a run has it locked: its agent at the end of the run, the watch process when the
agent has died, or a person.  To undo what has been undone, or has never been done, does nothing.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tcpf_lab.agent import (
    journal,
    modules,
    namespaces,
    netns_directory,
    nic,
    node,
    processes,
    sysctl,
)
from tcpf_lab.agent.errors import AgentError, Left, Lost
from tcpf_lab.agent.journal import Record

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


def undo(
    state: Path,
    token: str,
    patience: float = PATIENCE_S,
    agent: int | None = None,
) -> Result:
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
            f"run {root.name} is to be undone from the network namespace its agent was in "
            f"({about['namespace']}), not from {own}"
        )
    work, result = Work(records, patience), Result()
    try:
        _kill(work, processes.mark(about["token"], about["pid"], about["started"]), result)
    except Exception as error:  # noqa: BLE001 - most can be undone all the same
        result.stuck.append(f"processes: {told(error)}")
    with journal.noting(root) as done:
        for record in reversed(records[1:]):
            if not record["undone"] and _undo_one(work, record, result):
                done(record["n"])
    return result


def _undo_one(work: Work, record: Record, result: Result) -> bool:
    """Undo a record; say whether nothing is left to be tried again."""
    try:
        _UNDO[record["kind"]](work, record)
    except Lost as lost:
        result.lost.append(str(lost))
        return True
    except Left as left:
        result.stuck.append(str(left))
        return False
    except Exception as error:  # noqa: BLE001 - what comes after it is undone, whatever it is
        result.stuck.append(f"{record['kind']}: {told(error)}")
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


def told(error: Exception) -> str:
    """Give what an error says; one that nobody has foreseen has to say its kind too."""
    foreseen = isinstance(error, (AgentError, OSError))
    return str(error) if foreseen else f"{type(error).__name__}: {error}"


def _kill(work: Work, mark: str, result: Result) -> None:
    """End all processes first: nothing can be undone under their feet."""
    for name in work.nodes:
        with suppress(AgentError, OSError):
            node.hurry(name)
    own = namespaces.number(namespaces.OWN)
    places = [namespaces.place(name) for name in work.nodes]
    numbers = {namespaces.number(place) for place in places if namespaces.is_one(place)}
    within = {number for number in numbers if number not in (None, own)}
    left = processes.kill_all(mark, {n for n in within if n is not None})
    result.stuck += [f"process {pid} cannot be killed" for pid in left]


def _namespace(work: Work, record: Record) -> None:
    if record["node"] in work.stuck:
        raise Left(f"node {record['node']}, which still holds an interface of the host")
    node.delete(record["node"])


def _veth(_work: Work, record: Record) -> None:
    node.part(record["ends"])


def _nic(work: Work, record: Record) -> None:
    name, device = record["node"], record["device"]
    try:
        nic.give_back(record["state"], name, device, work.devices(name) - {device})
    finally:
        if node.has(name, device):
            work.stuck.add(name)


def _sysctl(_work: Work, record: Record) -> None:
    key, value = record["key"], record["value"]

    def restore() -> None:
        if sysctl.read(key) != value:
            sysctl.write(key, value)
        if sysctl.read(key) != value:
            raise Left(f"{key} is {sysctl.read(key)!r}, was {value!r}")

    namespaces.inside(namespaces.FIRST, restore)


def _module(work: Work, record: Record) -> None:
    modules.unload(record["name"], work.patience)


def _modules_before(work: Work, record: Record) -> None:
    modules.unload_new(record["names"], work.patience)


def _directory(_work: Work, _record: Record) -> None:
    netns_directory.release()


_UNDO: dict[str, Callable[[Work, Record], None]] = {
    "namespace": _namespace,
    "veth": _veth,
    "nic": _nic,
    "sysctl": _sysctl,
    "module": _module,
    "modules_before": _modules_before,
    "netns_directory": _directory,
}


def by_hand(state: Path, token: str | None, force: bool) -> list[dict[str, Any]]:
    """Undo one run or all; leave alone those whose agent still runs, unless ``force``.

    Returns
    -------
    list of dict
        ``token``, ``undone``, ``left`` and, for one that was left alone, ``refused`` of each.
    """
    found = []
    for run in journal.unfinished(state):
        if token not in (None, run["token"]):
            continue
        report: dict[str, Any] = {"token": run["token"], "undone": 0, "left": []}
        if run["alive"] and run["pid"] != os.getpid() and not force:
            report["refused"] = f"its agent still runs, as process {run['pid']}"
        else:
            _stop_agent(run)
            report.update(_attempt(state, run["token"]))
        found.append(report)
    return found


def _stop_agent(run: dict[str, Any]) -> None:
    if run["alive"] and run["pid"] != os.getpid():
        with suppress(ProcessLookupError):  # it has ended since
            os.kill(run["pid"], signal.SIGKILL)


def _attempt(state: Path, token: str) -> dict[str, Any]:
    try:
        result = undo(state, token)
    except Exception as error:  # noqa: BLE001 - told, whatever it is
        return {"left": [told(error)]}
    return {"undone": result.undone, "left": result.left, "lost": result.lost}
