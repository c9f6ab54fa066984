"""One run on this host: what each request does, and what it has to write down before."""

from __future__ import annotations

import inspect
import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tcpf_lab.testbed.ssh.agent import journal, modules, namespaces, network, programs, system
from tcpf_lab.testbed.ssh.agent.programs import Programs
from tcpf_lab.testbed.ssh.agent.system import AgentError, Cancelled

#: So much of what a command says is given in the reply.
OUTPUT_CHARACTERS = 65536
_LOOK_AT_QUEUE_S = 0.25
_VARIABLE = b"SSH_CONNECTION="


def refuse(interface: str) -> None:
    """Refuse an interface that carries the connection to the controller.

    Raises
    ------
    AgentError
        If it does.
    """
    ends = connection()
    if ends is None:
        return
    client, server = ends
    shown = system.report(["ip", "-j", "address", "show", "dev", interface])
    own = [info.get("local") for entry in shown for info in entry["addr_info"]]
    if server in own or interface == way_to(client):
        raise AgentError(
            f"interface {interface} carries the control connection ({server} to {client})"
        )


def way_to(client: str) -> str | None:
    """Give the interface by which the kernel would send to an address, all its rules considered."""
    result = system.run(["ip", "-j", "route", "get", client])
    routes = system.parsed(result.output) if result.status == 0 else []
    return next((str(route["dev"]) for route in routes if "dev" in route), None)


def connection() -> tuple[str, str] | None:
    """Give the addresses of the ssh client and server this was started by; None if by none.

    ``sudo`` removes the variable, so the parent processes are read too.
    """
    pid = os.getpid()
    while pid > 0:
        entries = programs.environment(pid)
        found = [each[len(_VARIABLE) :].split() for each in entries if each.startswith(_VARIABLE)]
        if found and len(found[0]) == 4:
            client, _, server, _ = (word.decode() for word in found[0])
            return _plain(client), _plain(server)
        fields = programs.stat(pid)
        pid = int(fields[1]) if fields else 0
    return None


def _plain(address: str) -> str:
    """Leave a zone away; write an IPv4 address that came in by an IPv6 socket as what it is."""
    return re.sub(r"^::ffff:(?=\d+\.)", "", address.partition("%")[0])


T = TypeVar("T")


class Session:
    """A run that has begun.

    Parameters
    ----------
    state : Path
        The state directory.
    token : str
        The run.
    owner : bool
        Whether this agent answers for what exists once per kernel.
    plugins : str, optional
        Directory of the plugins of ``tc``.
    cancel : Event
        Set when the run is being ended.
    """

    def __init__(
        self, state: Path, token: str, owner: bool, plugins: str | None, cancel: threading.Event
    ) -> None:
        self.token = token
        self.owner = owner
        self.cancel = cancel
        self._journal = journal.Journal.create(state, token, owner=owner)
        self.files = self._journal.root / journal.FILES
        self.files.mkdir()
        os.chdir(self.files)  # a plan's programs name files of the run
        # What is started has the agent's own environment.
        pid = os.getpid()
        os.environ[programs.VARIABLE] = programs.mark(token, pid, programs.start_time(pid))
        if plugins:
            os.environ["TC_LIB_DIR"] = plugins
            os.environ["IP_LIB_DIR"] = plugins
        self.programs = Programs(self.files, cancel)
        self._nodes: set[str] = set()
        self._modules: set[str] = set()
        if owner:
            self._journal.add("modules_before", names=sorted(modules.loaded()))

    def close(self) -> None:
        """Write nothing more: the run is about to be undone."""
        self.programs.settle()
        self._journal.close()

    def inside(self, name: str, function: Callable[[], T]) -> T:
        """Call a function within a node of the run: outside of all there is the control network.

        Raises
        ------
        AgentError
            If the run has no such node.
        """
        return namespaces.inside(self.place(name), function)

    def place(self, name: str) -> Path:
        """Say how a node of the run is reached.

        Raises
        ------
        AgentError
            If the run has no such node.
        """
        if name not in self._nodes:
            raise AgentError(
                f"the run has no node {name!r}, only {', '.join(sorted(self._nodes)) or 'none'}"
            )
        return namespaces.place(name)

    def output(self, name: str) -> Path:
        """Give the path of a file of the run."""
        return system.within(self.files, name)

    def add_node(self, node: str) -> None:
        """Make a node."""
        if namespaces.exists(node):
            raise AgentError(
                f"File exists: the namespace {namespaces.name(node)} exists already, "
                "left by another run or made by another program"
            )
        # The first name of a namespace makes a mount.
        if not self._nodes and namespaces.to_be_released():
            self._journal.add("netns_directory")
            namespaces.claim()
        self._journal.add("namespace", node=node)
        network.make(node)
        self._nodes.add(node)

    def add_veth(
        self, ends: Sequence[Mapping[str, Any]], mtu: int, wire: Mapping[str, int] | None = None
    ) -> None:
        """Join two nodes of this kernel, by a half-duplex wire if requested.

        An end in a node of another agent goes with that node.
        """
        own = [end for end in ends if "agent" not in end]
        for end in own:
            self._refuse_taken(end["node"], end["device"])
        recorded = [{"node": end["node"], "device": end["device"]} for end in own]
        self._journal.add("veth", ends=recorded)
        network.join(ends, mtu, wire)

    def take_nic(self, interface: str, node: str, device: str, mac: str, mtu: int) -> None:
        """Move an interface of the host into a node."""
        self._refuse_taken(node, device)
        link = network.find(interface)
        if link is None:
            raise AgentError(f"Cannot find device {interface!r} on this host")
        refuse(interface)
        network.refuse(link)
        self._journal.add("nic", node=node, device=device, state=network.describe(link))
        network.take(interface, node, device, mac, mtu)

    def add_vlan(
        self, node: str, device: str, mac: str, mtu: int, below: Mapping[str, Any]
    ) -> None:
        """Give a node a VLAN of an interface that has been moved into another node."""
        self.place(below["node"])
        self._refuse_taken(node, device)
        self._journal.add("veth", ends=[{"node": node, "device": device}])
        network.tag(below, node, device, mac, mtu)

    def _refuse_taken(self, node: str, device: str) -> None:
        self.place(node)
        if network.has(node, device):
            raise AgentError(f"File exists: node {node} has an interface {device} already")

    def run(self, node: str, argv: Sequence[str], output: str | None = None) -> dict[str, str]:
        """Run a program to its end; return its output, unless a file gets it."""
        if output is None:
            output = self.inside(node, lambda: system.checked(argv, cancel=self.cancel)).output
            return {"output": output[-OUTPUT_CHARACTERS:]}
        with self.output(output).open("wb") as file:
            self.inside(node, lambda: system.checked(argv, output=file, cancel=self.cancel))
        return {"output": ""}

    def batch(self, node: str, program: str, lines: Sequence[Sequence[str]]) -> None:
        """Give commands of ``ip`` or ``tc`` to one process."""
        self.place(node)
        network.batch(program, node, lines, cancel=self.cancel)

    def set_sysctl(self, node: str | None, key: str, value: str) -> None:
        """Set a kernel parameter: of a node, whose end is also its end, or of the kernel."""
        if node is not None:
            self.inside(node, lambda: system.write(key, value))
            return
        self._refuse_unless_owner(f"set {key}")

        def change() -> None:
            old = system.read(key)
            if old.split() != value.split():
                self._journal.add("sysctl", key=key, value=old)
                system.write(key, value)

        namespaces.inside(namespaces.FIRST, change)

    def read_sysctls(self, node: str, keys: list[str], output: str) -> None:
        """Write kernel parameters of a node to a file."""
        self.output(output).write_text(self.inside(node, lambda: system.lines(keys)))

    def read(self, node: str, path: str, output: str, optional: bool = False) -> None:
        """Copy a file as a node has it, such as one in ``/proc/net``."""
        place = Path(system.of_this_thread(path))
        try:
            content = self.inside(node, place.read_bytes)
        except OSError as error:
            if optional and isinstance(error, FileNotFoundError):
                return
            raise AgentError(f"cannot read {path}: {error.strerror}") from None
        self.output(output).write_bytes(content)

    def switch_offloads(
        self, node: str, device: str, features: Sequence[str], output: str, on: bool = False
    ) -> None:
        """Switch offloads, and write those in force to a file."""
        text = self.inside(node, lambda: network.switch(device, features, on=on))
        self.output(output).write_text(text)

    def load_module(self, path: str | None, name: str) -> dict[str, bool]:
        """Load a module; say whether that was necessary."""
        self._refuse_unless_owner(f"load the module {name}")
        name = modules.called(name)
        if name in modules.loaded():
            if path is None or name in self._modules:
                return {"loaded": False}
            raise AgentError(
                f"File exists: the module {name} is loaded already, and not by this run: "
                f"`rmmod {name}`"
            )
        self._journal.add("module", name=name)
        self._modules.add(name)
        modules.load(path, name)
        return {"loaded": True}

    def _refuse_unless_owner(self, what: str) -> None:
        if not self.owner:
            raise AgentError(f"cannot {what}: another agent manages this kernel")

    def start(self, starts: Sequence[Mapping[str, Any]]) -> None:
        """Start programs in nodes of the run."""
        for start in starts:
            self.place(start["node"])
        self.programs.start(starts)

    def drain(self, node: str, device: str, timeout: float) -> None:
        """Wait until the queues are empty; what is under way needs a moment before the first look.

        Raises
        ------
        AgentError
            If they are not after ``timeout`` seconds.
        """
        until = time.monotonic() + timeout
        argv = ["tc", "-s", "-j", "qdisc", "show", "dev", device]
        while True:
            self.sleep(_LOOK_AT_QUEUE_S)
            shown = self.inside(node, lambda: system.report(argv, cancel=self.cancel))
            queues = [queue for queue in shown if queue.get("qlen")]
            if not queues:
                return
            if time.monotonic() > until:
                left = ", ".join(f"{queue['qlen']} packets in {queue['kind']}" for queue in queues)
                raise AgentError(f"the queue on {device} is not empty after {timeout:g} s: {left}")

    def ping(self, node: str, address: str, size: int, packets: int) -> float | None:
        """Give the shortest round trip of a node's packets, s; None if nothing came back."""
        try:
            return self.inside(node, lambda: network.ping(address, size, packets, self.cancel))
        except OSError as error:
            text = f"no packet can be sent: {type(error).__name__}: {error}"
            raise AgentError(text) from None

    def sleep(self, seconds: float) -> None:
        """Let time pass.

        Raises
        ------
        Cancelled
            If the run is being ended.
        """
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self.cancel.wait(left):
                raise Cancelled


def actions(session: Session) -> dict[str, Callable[..., Any]]:
    """Give what carries each request out, whose parameters are the request's other words."""
    return {
        "node": session.add_node,
        "veth": session.add_veth,
        "vlan": session.add_vlan,
        "nic": session.take_nic,
        "run": session.run,
        "batch": session.batch,
        "sysctl": session.set_sysctl,
        "sysctls": session.read_sysctls,
        "read": session.read,
        "offloads": session.switch_offloads,
        "module": session.load_module,
        "start": session.start,
        "finish": session.programs.finish,
        "stop": session.programs.stop,
        "drained": session.drain,
        "ping": session.ping,
        "pass": session.sleep,
        "lateness": session.programs.lateness,
    }


def carry_out(session: Session, request: Mapping[str, Any]) -> Any:
    """Do what a request asks for, and return the reply's value.

    Raises
    ------
    AgentError
        If it cannot be done.
    """
    action = actions(session).get(request["do"])
    if action is None:
        raise AgentError(f"unknown request '{request['do']}'")
    wanted = list(inspect.signature(action).parameters.values())
    for parameter in wanted:
        if parameter.default is parameter.empty and parameter.name not in request:
            raise AgentError(f"the request '{request['do']}' lacks '{parameter.name}'")
    return action(**{p.name: request[p.name] for p in wanted if p.name in request})
