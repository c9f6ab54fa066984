"""Agents on all hosts of an inventory, from connecting to the last thing undone, then or later."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tcpf_lab.base.errors import TestbedError
from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.ssh import agent as agent_on_host
from tcpf_lab.testbed.ssh import files, hosts
from tcpf_lab.testbed.ssh.channel import Agent, Note, Request, beside, side_by_side
from tcpf_lab.testbed.ssh.hosts import BROKEN, Host, run

#: An agent that has undone a run gets so long to exit, s.
EXIT_S = 5.0
#: Exit status of an agent that has undone everything, and of one that has left something.
UNDONE, LEFT = 0, 1
#: An agent gets so long to undo a run, s: queues and programs of an emulated machine are slow.
UNDO_S = 120.0
#: In front of what no later attempt can undo.
BY_HAND = "undo by hand: "
#: What runs as the packed agent, and the date of its files.
_MAIN = "from tcpf_lab.testbed.ssh.agent.__main__ import main\n\nmain()\n"
_WHEN = (1980, 1, 1, 0, 0, 0)
T = TypeVar("T")
#: Connects to the host of that name.
Connect = Callable[[Inventory, str], Host]


class Session:
    """The hosts of an inventory during one run.

    Parameters
    ----------
    inventory : Inventory
        Where they are.
    token : str
        Names the run in the hosts' records.
    connect : callable
        Connects to one of them.
    note : callable
        Called for every request.
    """

    def __init__(self, inventory: Inventory, token: str, connect: Connect, note: Note) -> None:
        self.inventory = inventory
        self.token = token
        self.hosts: dict[str, Host] = {}
        self.agents: dict[str, Agent] = {}
        self.boot_ids: dict[str, str] = {}
        self._files: dict[str, str] = {}
        self._connect = connect
        self._note = note
        self._lock = threading.Lock()
        self._over = threading.Event()

    @property
    def owner_of(self) -> dict[str, str]:
        """Host -> the first host of the same kernel, whose agent answers for the kernel."""
        first: dict[str, str] = {}
        for host in self.inventory.hosts:
            first.setdefault(self.boot_ids[host], host)
        return {host: first[self.boot_ids[host]] for host in self.inventory.hosts}

    @property
    def files(self) -> dict[str, str]:
        """Host -> directory of the run's files there, of the hosts where the run has begun so far.

        When one host has failed, others may still begin: this is a copy.
        """
        with self._lock:
            return dict(self._files)

    def open(self) -> None:
        """Connect to every host, and start its agent.

        Raises
        ------
        TestbedError
            Of the first host that cannot be used.
        """
        self.each(self.join, self.inventory.hosts)

    def begin(self, plugins: Mapping[str, str]) -> None:
        """Let every agent open the record of this run.

        Parameters
        ----------
        plugins : mapping of str to str
            Directory of the plugins of ``tc`` for the hosts that have them.
        """
        owner_of = self.owner_of

        def begin(host: str) -> None:
            words = {
                "token": self.token,
                "owner": owner_of[host] == host,
                "plugins": plugins.get(host),
            }
            value = self.agents[host].call(Request("begin", words, text="begin a run"))
            with self._lock:
                self._files[host] = value["files"]

        self.each(begin, self.inventory.hosts)

    def carry_out(self, requests: Mapping[str, Iterable[Request]]) -> None:
        """Execute requests: hosts in parallel, those of one host in order.

        Raises
        ------
        TestbedError
            Of the first request that fails; no further one is begun.
        KeyboardInterrupt
            If the runs are to stop.
        """

        def in_order(host: str) -> None:
            for request in requests[host]:
                if self._over.is_set():
                    return
                self.agents[host].call(request)

        self.each(in_order, requests)

    def each(self, work: Callable[[str], T], hosts: Iterable[str]) -> dict[str, T]:
        """Do ``work`` for hosts side by side, and watch over their agents meanwhile."""
        try:
            return side_by_side(work, hosts, self._look_around)
        except BaseException:
            self._over.set()
            raise

    def keep_host(self, name: str, host: Host) -> bool:
        """Add a connected host; if the session is over, close it and return False."""
        if self._added(self.hosts, name, host):
            return True
        host.close()
        return False

    def keep_agent(self, name: str, agent: Agent) -> bool:
        """Add a started agent; if the session is over, close it and return False."""
        if self._added(self.agents, name, agent):
            return True
        agent.close()
        return False

    def let_go(self, name: str) -> None:
        """Give up an agent on whose host nothing has begun that could be ended."""
        with self._lock:
            agent = self.agents.pop(name, None)
        if agent is not None:
            agent.close()

    def started(self) -> tuple[Agent, ...]:
        """Give the agents that have been started so far."""
        with self._lock:
            return tuple(self.agents.values())

    def _added(self, where: dict[str, T], name: str, thing: T) -> bool:
        with self._lock:
            if self._over.is_set():
                return False
            where[name] = thing
            return True

    def _look_around(self) -> None:
        for agent in self.started():
            agent.check()

    def end(self) -> tuple[str, ...]:
        """Have everything undone and let go of the hosts.

        Returns
        -------
        tuple of str
            A sentence for everything that could not be undone, or that is not known to be; with
            `BY_HAND` in it if the host has no record of it any more.
        """
        self._over.set()
        futures = [beside(partial(_end, agent)) for agent in self.started()]
        left = [sentence for future in futures for sentence in future.result()]
        with self._lock:
            hosts = [*self.hosts.values()]
        for host in hosts:
            host.close()
        return tuple(left)

    def join(self, name: str, look: Callable[[Host], None] = lambda _host: None) -> Agent | None:
        """Connect to a host, let ``look`` refuse it, and start its agent.

        Gives None if the session is over meanwhile.
        """
        host = self._connect(self.inventory, name)
        if not self.keep_host(name, host):
            return None
        look(host)
        agent = start_agent(host, self.inventory, self._note)
        if not self.keep_agent(name, agent):
            return None
        self.boot_ids[name] = agent.ready()["boot_id"]
        return agent


def start_agent(host: Host, inventory: Inventory, note: Note | None = None) -> Agent:
    """Send the agent's program to ``host`` if it is missing, and start it."""
    path = agent_path(host, inventory)
    options = ("--silence", f"{inventory.silence:g}", "--state", inventory.state_directory)
    process = host.start(("python3", path, "serve", *options))
    return Agent(host, process, inventory, note)


def packed() -> bytes:
    """Pack the agent as one file that ``python3`` runs, the same bytes for the same sources."""
    directory = Path(agent_on_host.__file__).parent
    content = {
        "__main__.py": _MAIN.encode(),
        **{f"tcpf_lab/{part}__init__.py": b"" for part in ("", "testbed/", "testbed/ssh/")},
        **{
            f"tcpf_lab/testbed/ssh/agent/{path.name}": path.read_bytes()
            for path in directory.glob("*.py")
        },
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(content):
            info = zipfile.ZipInfo(name, _WHEN)
            info.create_system = 3
            info.external_attr = 0o644 << 16
            archive.writestr(info, content[name])
    return buffer.getvalue()


def agent_path(host: Host, inventory: Inventory) -> str:
    """Send the agent's program to ``host`` if it is missing; return its path.

    Raises
    ------
    TestbedError
        If others can write to the state directory; nothing is sent then.
    """
    files.refuse_state(host, inventory.state_directory)
    program = packed()
    digest = hashlib.sha256(program).hexdigest()
    path = f"{inventory.state_directory}/agent/{digest}.pyz"
    files.put(host, program, path)
    return path


def _end(agent: Agent) -> list[str]:
    """End an agent by request; if it does not answer that, by the end of its input."""
    try:
        answer = agent.call(Request("end", text="end the run", patience=UNDO_S))
    except TestbedError:
        return _hang_up(agent)
    agent.finished()
    agent.process.status(EXIT_S)
    agent.close()
    return [f"host {agent.host.name}: not undone: {thing}" for thing in left_by(answer)]


def left_by(report: Mapping[str, Any]) -> list[str]:
    """Return the changes that an agent reports as left, marking those to undo by hand."""
    lost = report.get("lost", ())
    return [f"{BY_HAND}{thing}" if thing in lost else str(thing) for thing in report["left"]]


def _hang_up(agent: Agent) -> list[str]:
    """Close an agent's input, and judge by its exit status whether it undid everything."""
    name = agent.host.name
    agent.finished()
    try:
        agent.process.end_input()  # it undoes everything and ends
        status = agent.process.status(UNDO_S)
    except BROKEN:
        status = None
    agent.close()
    if status in (UNDONE, LEFT):
        return [f"host {name}: not undone: {agent.process.errors()}"] if status == LEFT else []
    return [f"host {name} does not answer; it undoes all changes when the connection times out"]


#: Queues and programs of an emulated machine are slow to go, s.
_UNDO_SILENCE_S = 300.0


@dataclass(frozen=True)
class Remainder:
    """What one run has left on one host, and its state.

    Parameters
    ----------
    host, run : str
        Where, and of which run.
    changes : int
        Recorded changes that have not been undone.
    state : str
        ``undone``; ``to undo`` if it was only listed; ``under way`` if its agent lives; ``left`` if
        something could not be undone; ``not reached`` if there was no connection.
    detail : str
        What could not be undone, or why.
    records : tuple of str
        What would be undone, in that order, if it was only listed.
    """

    host: str
    run: str
    changes: int
    state: str
    detail: str = ""
    records: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing remains to do."""
        return self.state in ("undone", "to undo")


def clean(
    inventory: Inventory, *, dry_run: bool = False, force: bool = False, connect: Connect = Host
) -> tuple[Remainder, ...]:
    """Undo the recorded changes on all hosts, in parallel.

    Parameters
    ----------
    inventory : Inventory
        The hosts.
    dry_run : bool
        Only list.
    force : bool
        Also of runs that are under way: their agents are ended.
    connect : callable
        Connects to a host.

    Returns
    -------
    tuple of Remainder
        In the inventory's order; nothing of hosts on which nothing was left.
    """

    def each(name: str) -> list[Remainder]:
        try:
            with contextlib.closing(connect(inventory, name)) as host:
                return [*_host(host, inventory, dry_run, force)]
        except TestbedError as error:
            return [Remainder(name, "-", 0, "not reached", f"{error.message} ({error.hint})")]

    every = side_by_side(each, inventory.hosts).values()
    return tuple(one for found in every for one in found)


def _host(host: Host, inventory: Inventory, dry_run: bool, force: bool) -> Iterator[Remainder]:
    state = inventory.state_directory
    if run(host, ("test", "-d", f"{state}/runs")).status != 0:
        return
    agent = ("python3", agent_path(host, inventory))
    for found in _ask(host, inventory, (*agent, "list", "--state", state)):
        token, changes = str(found["token"]), int(found["entries"])
        if found["alive"] and not force:
            detail = f"process {found['pid']}; end it with --force"
            yield Remainder(host.name, token, changes, "under way", detail)
        elif dry_run:
            listed = tuple(_words(record) for record in found.get("records", ()))
            yield Remainder(host.name, token, changes, "to undo", records=listed)
        else:
            words = ("undo", "--state", state, "--run", token, *(("--force",) if force else ()))
            yield _undone(host, (*agent, *words), token, changes)


def _undone(host: Host, argv: tuple[str, ...], token: str, changes: int) -> Remainder:
    reply = run(host, argv, silence=_UNDO_SILENCE_S)
    try:
        (report,) = json.loads(reply.text)
    except ValueError:  # no report at all, or of no run: it was undone meanwhile
        errors = "; ".join(reply.errors.strip().splitlines())
        return Remainder(host.name, token, changes, "left" if reply.status else "undone", errors)
    left = (*left_by(report), *((report["refused"],) if "refused" in report else ()))
    return Remainder(host.name, token, changes, "left" if left else "undone", "; ".join(left))


def _words(record: Mapping[str, str]) -> str:
    """Describe a record; the last one is the journal itself, with the run's files."""
    kind = "files" if record["kind"] == "run" else record["kind"]
    return f"{kind} {record['name']}".strip()


def _ask(host: Host, inventory: Inventory, argv: tuple[str, ...]) -> list[dict[str, Any]]:
    reply = run(host, argv)
    if reply.status != 0:
        where = f"host {host.name}"
        raise hosts.failed(where, inventory.testbed, argv, reply.status, reply.errors)
    found: list[dict[str, Any]] = json.loads(reply.text)
    return found
