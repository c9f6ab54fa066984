"""What plans need of hosts, and the requests to their agents.

Steps of one phase that concern single nodes go to their hosts side by side, each host keeping the
order; what begins or ends programs, agrees on the epoch or waits is a group of its own.  A group
begins when the one before has ended on every host.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields
from typing import Any, TypeGuard

from tcpf_lab.base.errors import TestbedError
from tcpf_lab.plan.compose import Plan, compose
from tcpf_lab.plan.step import (
    BATCH_PROGRAMS,
    EPOCH,
    PROGRAMS,
    AddLink,
    AddNode,
    AgreeEpoch,
    Command,
    Drained,
    End,
    Finish,
    LetPass,
    LoadModule,
    Offloads,
    ReadFile,
    ReadSysctls,
    Start,
    Step,
    Stop,
    Sysctl,
)
from tcpf_lab.spec.graph import Graph
from tcpf_lab.spec.model import Experiment
from tcpf_lab.spec.sweep import expand
from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.ssh import clock
from tcpf_lab.testbed.ssh.channel import PATIENCE_S, Request

#: The agent is written for this Python and newer ones.
OLDEST_PYTHON = (3, 9)
#: A program is given so much longer to be ready for each that is started with it, s.
READY_EACH_S = 0.3
#: Switches have packets without a tag in VLAN 1.
_FIRST_VLAN = 2
#: Requests of each host, in its order.
PerHost = dict[str, list[Request]]


@dataclass(frozen=True)
class Placement:
    """Where things are on the hosts of an inventory, as found once they are connected."""

    inventory: Inventory
    #: Host -> the host whose agent answers for its kernel.
    owner_of: Mapping[str, str]
    #: Host -> directory of the modules for its kernel; None loads what is installed.
    modules: Mapping[str, str | None] = field(default_factory=dict)
    #: Host -> directory of the project's programs.
    programs: Mapping[str, str] = field(default_factory=dict)
    #: Host -> process number of its agent.
    agents: Mapping[str, int] = field(default_factory=dict)

    @property
    def owners(self) -> tuple[str, ...]:
        """One host for each kernel, in the inventory's order."""
        return tuple(dict.fromkeys(self.owner_of[host] for host in self.inventory.hosts))


@dataclass(frozen=True)
class Group:
    """Steps that are executed together."""

    phase: str
    kind: str
    steps: tuple[Step, ...]


def groups(plan: Plan) -> Iterator[Group]:
    """Give the groups of ``plan`` in order."""
    for phase in plan.phases:
        for kind, steps in itertools.groupby(phase.steps, _kind):
            if kind == "alone":
                yield from (Group(phase.name, kind, (step,)) for step in steps)
            else:
                yield Group(phase.name, kind, tuple(steps))


def _kind(step: Step) -> str:
    match step:
        case Start():
            return "start"
        case Finish() | Stop():
            return type(step).__name__.lower()
        case AgreeEpoch() | LetPass() | Drained():
            return "alone"
        case AddLink() if step.ring:  # one agent reaches the nodes of two, which must be there
            return "alone"
        case _:
            return "nodes"


class Translator:
    """Makes requests of the groups of one plan.

    Parameters
    ----------
    plan : Plan
        The whole plan: a program is stopped where it was started.
    placement : Placement
        Where things are.
    """

    def __init__(self, plan: Plan, placement: Placement) -> None:
        self._placement = placement
        self._host_of = placement.inventory.host_of
        self._started = {s.name: self._host_of(s.node) for s in plan.steps if isinstance(s, Start)}
        self._loaded: set[tuple[str, str]] = set()
        self._offloads = _offloads(plan.steps)
        self._offloads_on = {s.device for s in plan.steps if isinstance(s, Offloads) and s.on}
        self._nodes = {step.node for step in plan.steps if isinstance(step, AddNode)}
        #: Host and interface -> the links on its cable.
        self._cables: defaultdict[tuple[str, str], list[AddLink]] = defaultdict(list)
        for step in plan.steps:
            if isinstance(step, AddLink):
                for end, peer in (step.ends, step.ends[::-1]):
                    if interface := placement.inventory.interface(end.node, peer.node):
                        self._cables[self._host_of(end.node), interface].append(step)
        for (host, interface), links in self._cables.items():
            if len({self._joins(link) for link in links}) > 1:
                raise TestbedError(
                    "links with offloads and links without share this interface, which would merge"
                    " the packets of all",
                    where=f"{host}, {interface}",
                    hint="give `offloads: on` to all groups or to none, or use another interface",
                )

    def requests(self, group: Group, epochs: Mapping[str, int]) -> PerHost:
        """Translate a group.

        Parameters
        ----------
        group : Group
            Any but that of `AgreeEpoch`, which hosts do not execute.
        epochs : mapping of str to int
            The epoch on each host's clock, ns; empty before it has been agreed on.
        """
        by_host = self._by_host(group.steps).items()
        if group.kind == "start":
            return {host: [self._starts(host, steps, epochs)] for host, steps in by_host}
        return {host: [*self._in_order(host, steps, epochs)] for host, steps in by_host}

    def _by_host(self, steps: Iterable[Step]) -> dict[str, list[Step]]:
        found: dict[str, list[Step]] = {}
        for step in steps:
            for host in self._hosts(step):
                found.setdefault(host, []).append(step)
        return found

    def _hosts(self, step: Step) -> tuple[str, ...]:
        match step:
            case AddLink(ends=ends) if step.ring:
                return (self._host_of(ends[0].node),)
            case AddLink(ends=ends):
                return tuple(dict.fromkeys(self._host_of(end.node) for end in ends))
            case LoadModule(node, _):
                return (self._placement.owner_of[self._host_of(node)],)
            case Finish(names, _) | Stop(names):
                return tuple(dict.fromkeys(self._started[name] for name in names))
            case Sysctl(None):
                return self._placement.owners
            case LetPass():
                return self._placement.owners[:1]
            case Command(None):
                raise TestbedError(
                    "a command on hosts needs a node; only kernel parameters may go without one",
                    where=f"`{_text(step)}`",
                )
            case _:
                return (self._host_of(getattr(step, "node")),)  # noqa: B009 - all others have one

    def _in_order(
        self, host: str, steps: Sequence[Step], epochs: Mapping[str, int]
    ) -> Iterator[Request]:
        for (program, node), same in itertools.groupby(steps, _batch_key):
            if program:
                yield _batch(program, node, [s for s in same if isinstance(s, Command)])
                continue
            for step in same:
                yield from self._request(host, step, epochs)

    def _request(self, host: str, step: Step, epochs: Mapping[str, int]) -> Iterator[Request]:
        match step:
            case AddLink():
                yield from self._link(host, step)
            case Command(node, argv, output):
                words = self._words(host, argv, epochs)
                yield _of(step, "run", node, argv=words, output=output)
            case LoadModule(_, name):
                yield from self._module(host, step, name)
            case Finish(names, deadline):
                at = epochs[host] + round(deadline * clock.NSEC)
                own = self._own(host, names)
                patience = deadline + 2 * PATIENCE_S
                yield _of(step, "finish", None, patience, names=own, deadline_ns=at)
            case Stop(names):
                yield _of(step, "stop", None, names=self._own(host, names))
            case Drained(node, device, timeout):
                patience = timeout + PATIENCE_S
                yield _of(step, "drained", node, patience, device=device, timeout=timeout)
            case LetPass(seconds):
                patience = seconds + PATIENCE_S
                yield Request("pass", {"seconds": seconds}, None, _text(step), patience)
            case _:
                yield _plain(step)

    def _link(self, host: str, step: AddLink) -> Iterator[Request]:
        """Move a host's interface into each node, or join two nodes of one kernel."""
        inventory = self._placement.inventory
        near, far = step.ends
        if step.ring or inventory.interface(near.node, far.node) is None:
            ends: list[dict[str, Any]] = [
                {"node": e.node, "device": e.device, "mac": e.mac} for e in step.ends
            ]
            words: dict[str, Any] = {"ends": ends, "mtu": step.mtu}
            if step.ring:
                rate = step.rate // 10**6
                words["wire"] = {"rate": rate, "seed": step.seed, "ring": step.ring}
            if (other := self._host_of(far.node)) != host:
                ends[1]["agent"] = self._agent(other, host)
            yield Request("veth", words, near.node, _text(step))
            return
        for end, peer in ((near, far), (far, near)):
            interface = inventory.interface(end.node, peer.node)
            if self._host_of(end.node) != host or interface is None:
                continue
            if len(self._cables[host, interface]) > 1:
                yield from self._vlan(host, interface, step, end)
            else:
                yield _nic(interface, end.node, end.device, end.mac, step.mtu)

    def _vlan(self, host: str, interface: str, step: AddLink, end: End) -> Iterator[Request]:
        """Give one of the links on a cable a VLAN of its own; the first takes the interface.

        A VLAN is point to point and lets its offloads be switched; macvlan does not. It has only
        those that its interface has on.
        """
        links = self._cables[host, interface]
        keys = self._placement.inventory.hosts[host].interfaces
        base = next(key for key, used in keys.items() if used == interface)
        node = base.split("-")[0]
        if step is links[0]:
            if node not in self._nodes:
                yield _plain(AddNode(node))
            yield _plain(Sysctl(node, "net.ipv6.conf.all.disable_ipv6", "1"))
            mac = re.sub("^02:00", "02:01", end.mac)
            yield _nic(interface, node, base, mac, max(link.mtu for link in links))
            output = f"stats/offload-{base}.txt"
            yield _plain(Offloads(node, base, self._offloads, output, self._joins(step)))
            up = ("ip", "link", "set", "dev", base, "up")
            yield _of(Command(node, up), "run", node, argv=up, output=None)
        words = {"node": end.node, "device": end.device, "mac": end.mac, "mtu": step.mtu}
        number = _FIRST_VLAN + links.index(step)
        below = {"node": node, "device": base, "number": number}
        text = f"VLAN {number} of {interface} in {end.node} as {end.device}"
        yield Request("vlan", {**words, "below": below}, end.node, text)

    def _joins(self, link: AddLink) -> bool:
        """Whether the devices of a link join segments to packets."""
        return any(end.device in self._offloads_on for end in link.ends)

    def _agent(self, other: str, host: str) -> int:
        """Give the process by which ``host`` reaches the nodes of another host of its kernel."""
        owner_of = self._placement.owner_of
        if owner_of[other] != owner_of[host]:
            raise TestbedError(
                f"the inventory gives {host} and {other} the same `kernel`, but they run two",
                where=f"testbed {self._placement.inventory.name}",
                hint="correct `kernel` of these hosts in the inventory",
            )
        return self._placement.agents[other]

    def _module(self, host: str, step: LoadModule, name: str) -> Iterator[Request]:
        """Load a module once into each kernel, whichever nodes need it."""
        if (host, name) in self._loaded:
            return
        self._loaded.add((host, name))
        directory = self._placement.modules[host]
        path = f"{directory}/{name}.ko" if directory else None
        yield Request("module", {"path": path, "name": name}, step.node, _text(step))

    def _starts(self, host: str, steps: Sequence[Step], epochs: Mapping[str, int]) -> Request:
        starts = [step for step in steps if isinstance(step, Start)]
        more = READY_EACH_S * len(starts)
        every = [self._start(host, start, epochs, more) for start in starts]
        longest = max((start.ready.timeout for start in starts if start.ready), default=0.0)
        text = _text(starts[0]) if len(starts) == 1 else f"start {len(starts)} programs"
        node = starts[0].node if len(starts) == 1 else None
        return Request("start", {"starts": every}, node, text, longest + more + PATIENCE_S)

    def _start(
        self, host: str, start: Start, epochs: Mapping[str, int], more: float
    ) -> dict[str, Any]:
        ready = start.ready and {
            "path": start.ready.path,
            "text": start.ready.text,
            "timeout": start.ready.timeout + more,
        }
        at = None if start.at is None else epochs[host] + round(start.at * clock.NSEC)
        return {
            "node": start.node,
            "name": start.name,
            "argv": self._words(host, start.argv, epochs),
            "output": start.output,
            "errors": start.errors,
            "at_ns": at,
            "ready": ready,
        }

    def _own(self, host: str, names: Iterable[str]) -> list[str]:
        return [name for name in names if self._started[name] == host]

    def _words(self, host: str, argv: Iterable[str], epochs: Mapping[str, int]) -> list[str]:
        programs = self._placement.programs.get(host, "")
        words = [word.replace(PROGRAMS, programs) for word in argv]
        if host in epochs:
            words = [word.replace(EPOCH, clock.seconds(epochs[host])) for word in words]
        return words


def _nic(interface: str, node: str, device: str, mac: str, mtu: int) -> Request:
    moved = {"node": node, "interface": interface, "device": device, "mac": mac, "mtu": mtu}
    return Request("nic", moved, node, f"move {interface} into {node} as {device}")


def _batch_key(step: Step) -> tuple[str | None, str | None]:
    """Commands with equal keys that follow each other go to a single process."""
    match step:
        case Command(node, (program, *_), None) if program in BATCH_PROGRAMS:
            return program, node
        case _:
            return None, None


def _batch(program: str, node: str | None, commands: Sequence[Command]) -> Request:
    lines = [list(command.argv[1:]) for command in commands]
    text = _text(commands[0]) if len(commands) == 1 else f"{len(commands)} commands of {program}"
    return Request("batch", {"node": node, "program": program, "lines": lines}, node, text)


#: Step -> the request whose arguments are the step's own fields.
_SAME_WORDS: dict[type[Step], str] = {
    AddNode: "node",
    Sysctl: "sysctl",
    ReadSysctls: "sysctls",
    ReadFile: "read",
    Offloads: "offloads",
}


def _plain(step: Step) -> Request:
    words = {each.name: getattr(step, each.name) for each in fields(step)}
    words = {key: list(v) if isinstance(v, tuple) else v for key, v in words.items()}
    return _of(step, _SAME_WORDS[type(step)], words.pop("node"), **words)


def _of(
    step: Step, do: str, node: str | None, patience: float = PATIENCE_S, **arguments: Any
) -> Request:
    if do not in ("finish", "stop"):
        arguments = {"node": node, **arguments}
    return Request(do, arguments, node, _text(step), patience)


def _text(step: Step) -> str:
    """Give the plan's words for a step, without its node, which messages name by themselves."""
    return " ".join(str(step).split("  #")[0].split()[1:])


#: Word of ``tc`` -> the distribution's kernel module behind it.
MODULES = {
    "tbf": "sch_tbf",
    "netem": "sch_netem",
    "red": "sch_red",
    **{name: f"sch_{name}" for name in ("prio", "codel", "fq_codel", "cake", "pie", "fq_pie")},
    **{name: f"sch_{name}" for name in ("sfq", "choke", "fq", "hhf", "sfb")},
    "clsact": "sch_ingress",
    "matchall": "cls_matchall",
    "mirred": "act_mirred",
}
#: Programs that every host needs, whatever it plays.
ALWAYS = frozenset(("ip", "tc", "ethtool"))
#: The generator of traffic that every host can have from its distribution.
ENDS = frozenset(("iperf3",))
#: Programs that run another one, which stands behind their options.
_WRAPPERS = {"stdbuf": 3, "sh": 5}
#: Programs that no host is without.
_EVERYWHERE = frozenset(("sh",))


@dataclass(frozen=True)
class Needs:
    """What the hosts must have.

    Parameters
    ----------
    title : str
        Whose needs these are.
    programs, modules, built : mapping of str to set of str
        For each role, programs of the system, kernel modules of the distribution, and kernel
        modules of this project.
    graph : Graph
        Nodes and links.
    delayed : mapping of str to int
        For each role, packets that netem may have to hold.
    offloads : tuple of str
        What has to be switched off on every interface.
    joining : set of str
        Devices on which the same has to be switched on in some run.
    started : set of str
        Roles that start programs of this project, such as the native generator.
    kernels : tuple of str
        Versions of Linux that runs need.
    """

    title: str
    programs: Mapping[str, Set[str]]
    modules: Mapping[str, Set[str]]
    built: Mapping[str, Set[str]]
    graph: Graph
    delayed: Mapping[str, int]
    offloads: tuple[str, ...]
    joining: Set[str] = frozenset()
    started: Set[str] = frozenset()
    kernels: tuple[str, ...] = ()

    @property
    def mtu(self) -> int:
        """Largest IP packet, bytes."""
        return max(link.mtu for link in self.graph.links)

    def rate(self, a: str, b: str) -> int:
        """Give the rate of a link, bit/s; 0 if the experiment has no such link."""
        return next((link.rate for link in self.graph.links if {a, b} == {link.a, link.b}), 0)


def needs(experiment: Experiment) -> Needs:
    """Work out what all cases of an experiment need together."""
    graph = experiment.graph
    plans = tuple(_plans(experiment))
    steps = tuple(step for plan in plans for step in plan.steps)
    programs: defaultdict[str, set[str]] = defaultdict(set)
    modules: defaultdict[str, set[str]] = defaultdict(set)
    built: defaultdict[str, set[str]] = defaultdict(set)
    delayed: dict[str, int] = {}
    for node in graph.nodes:
        programs[node.name] |= ALWAYS | (ENDS if node.role in ("sender", "receiver") else set())
        if experiment.traffic.groups is not None:
            modules[node.name].add("8021q")
    for step in steps:
        if isinstance(step, Command | Start) and step.node is not None:
            programs[step.node] |= programs_of(step)
            modules[step.node] |= {MODULES[word] for word in step.argv if word in MODULES}
        if isinstance(step, Command) and step.node is not None and "netem" in step.argv:
            held = int(step.argv[step.argv.index("limit") + 1])
            delayed[step.node] = max(held, delayed.get(step.node, 0))
        if isinstance(step, LoadModule):
            built[step.node].add(step.name)
    return Needs(
        title=experiment.name,
        programs=programs,
        modules=modules,
        built=built,
        graph=graph,
        delayed=delayed,
        offloads=_offloads(steps),
        joining=frozenset(s.device for s in steps if isinstance(s, Offloads) and s.on),
        started=frozenset(step.node for step in steps if starts_ours(step)),
        kernels=tuple(dict.fromkeys(plan.kernel for plan in plans if plan.kernel)),
    )


def _plans(experiment: Experiment) -> Iterable[Plan]:
    """Compose one run of every case and setting; flows and seed make no difference here."""
    different = {(run.case_name, run.settings): run for run in expand(experiment)}
    return tuple(compose(run) for run in different.values())


def starts_ours(step: Step) -> TypeGuard[Start]:
    """Return whether a step starts a program of this project."""
    return isinstance(step, Start) and any(PROGRAMS in word for word in step.argv)


def programs_of(step: Step) -> set[str]:
    """Name the programs of the system that a step starts."""
    if isinstance(step, Offloads):
        return {"ethtool"}
    return _programs(step.argv) if isinstance(step, Command | Start) else set()


def _programs(argv: tuple[str, ...]) -> set[str]:
    if argv[0].startswith(PROGRAMS) or "/" in argv[0]:
        return set()
    inner = argv[_WRAPPERS[argv[0]] :] if argv[0] in _WRAPPERS else ()
    return ({argv[0]} - _EVERYWHERE) | (_programs(inner) if inner else set())


def _offloads(steps: tuple[Step, ...]) -> tuple[str, ...]:
    found = [step.features for step in steps if isinstance(step, Offloads)]
    return tuple(dict.fromkeys(feature for features in found for feature in features))
