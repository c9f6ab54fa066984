"""What an experiment needs of the hosts that it is to run on, read from its plans."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import TypeGuard

from tcpf_lab.plan.compose import Plan, compose
from tcpf_lab.plan.step import PROGRAMS, Command, LoadModule, OffloadsOff, Start, Step
from tcpf_lab.spec.graph import Graph
from tcpf_lab.spec.model import Experiment
from tcpf_lab.spec.sweep import expand

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
_WRAPPERS = {"stdbuf": 3}


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
    started : set of str
        Roles that start programs of this project, such as the native generator.
    """

    title: str
    programs: Mapping[str, Set[str]]
    modules: Mapping[str, Set[str]]
    built: Mapping[str, Set[str]]
    graph: Graph
    delayed: Mapping[str, int]
    offloads: tuple[str, ...]
    started: Set[str] = frozenset()

    @property
    def mtu(self) -> int:
        """Largest IP packet, bytes."""
        return max(link.mtu for link in self.graph.links)

    def rate(self, a: str, b: str) -> int:
        """Give the rate of a link, bit/s; 0 if the experiment has no such link."""
        return next((link.rate for link in self.graph.links if {a, b} == {link.a, link.b}), 0)


def needs(experiment: Experiment) -> Needs:
    """Work out what all cases of an experiment need together."""
    graph = experiment.topology.graph()
    steps = tuple(step for plan in _plans(experiment) for step in plan.steps)
    programs: defaultdict[str, set[str]] = defaultdict(set)
    modules: defaultdict[str, set[str]] = defaultdict(set)
    built: defaultdict[str, set[str]] = defaultdict(set)
    delayed: dict[str, int] = {}
    for node in graph.nodes:
        programs[node.name] |= ALWAYS | (ENDS if node.role in ("sender", "receiver") else set())
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
        started=frozenset(step.node for step in steps if starts_ours(step)),
    )


def _plans(experiment: Experiment) -> Iterable[Plan]:
    """Compose one run of every case and setting; flows and seed make no difference here."""
    different = {(run.case_name, run.settings): run for run in expand(experiment)}
    return tuple(compose(run) for run in different.values())


def starts_ours(step: Step) -> TypeGuard[Start]:
    """Tell whether a step starts a program of this project."""
    return isinstance(step, Start) and any(PROGRAMS in word for word in step.argv)


def programs_of(step: Step) -> set[str]:
    """Name the programs of the system that a step starts."""
    if isinstance(step, OffloadsOff):
        return {"ethtool"}
    return _programs(step.argv) if isinstance(step, Command | Start) else set()


def _programs(argv: tuple[str, ...]) -> set[str]:
    if argv[0].startswith(PROGRAMS) or "/" in argv[0]:
        return set()
    inner = argv[_WRAPPERS[argv[0]] :] if argv[0] in _WRAPPERS else ()
    return {argv[0]} | (_programs(inner) if inner else set())


def _offloads(steps: tuple[Step, ...]) -> tuple[str, ...]:
    found = [step.features for step in steps if isinstance(step, OffloadsOff)]
    return tuple(dict.fromkeys(feature for features in found for feature in features))
