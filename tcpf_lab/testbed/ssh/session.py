"""Agents on all hosts of an inventory, from connecting to the last thing undone."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from tcpf_lab.base.errors import TestbedError
from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.ssh import files
from tcpf_lab.testbed.ssh.agent.pack import packed
from tcpf_lab.testbed.ssh.beside import beside, side_by_side
from tcpf_lab.testbed.ssh.channel import Agent, Note, Request
from tcpf_lab.testbed.ssh.hosts import BROKEN, Host

#: An agent that has undone a run gets so long to exit, s.
EXIT_S = 5.0
#: Exit status of an agent that has undone everything, and of one that has left something.
UNDONE, LEFT = 0, 1
#: An agent gets so long to undo a run, s: queues and programs of an emulated machine are slow.
UNDO_S = 120.0
#: In front of what no later attempt can undo.
BY_HAND = "mend by hand: "
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
        Told of every request.
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
        self.each(self._join, self.inventory.hosts)

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
        """Carry requests out: hosts side by side, those of one host one after the other.

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
        """Take a host that has been connected; if the session is over, let go of it and say so."""
        if self._kept(self.hosts, name, host):
            return True
        host.close()
        return False

    def keep_agent(self, name: str, agent: Agent) -> bool:
        """Take an agent that has been started; if the session is over, let go of it and say so."""
        if self._kept(self.agents, name, agent):
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

    def _kept(self, where: dict[str, T], name: str, thing: T) -> bool:
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

    def _join(self, name: str) -> None:
        host = self._connect(self.inventory, name)
        if not self.keep_host(name, host):
            return
        agent = start_agent(host, self.inventory, self._note)
        if self.keep_agent(name, agent):
            self.boot_ids[name] = agent.ready()["boot_id"]


def start_agent(host: Host, inventory: Inventory, note: Note | None = None) -> Agent:
    """Send the agent's program to ``host`` unless it is there, and start it."""
    path = agent_path(host, inventory)
    options = ("--silence", f"{inventory.silence:g}", "--state", inventory.state_directory)
    process = host.start(("python3", path, "serve", *options))
    return Agent(host, process, inventory, note)


def agent_path(host: Host, inventory: Inventory) -> str:
    """Send the agent's program to ``host`` unless it is there; return its path.

    Raises
    ------
    TestbedError
        If others can write to the state directory there: nothing is sent.
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
    agent.status(EXIT_S)
    agent.close()
    return [f"host {agent.host.name}: not undone: {thing}" for thing in left_by(answer)]


def left_by(report: Mapping[str, Any]) -> list[str]:
    """Give what an agent's report says is left, with the word of what is to be done by hand."""
    lost = report.get("lost", ())
    return [f"{BY_HAND}{thing}" if thing in lost else str(thing) for thing in report["left"]]


def _hang_up(agent: Agent) -> list[str]:
    """Let an agent read the end of its input, and judge by its exit status what it has done."""
    name = agent.host.name
    agent.finished()
    try:
        agent.hang_up()
        status = agent.status(UNDO_S)
    except BROKEN:
        status = None
    agent.close()
    if status in (UNDONE, LEFT):
        return [f"host {name}: not undone: {agent.said()}"] if status == LEFT else []
    return [f"host {name} could not be told to end; it undoes everything by itself after a while"]
