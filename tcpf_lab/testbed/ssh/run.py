"""Real hosts: agents execute the plan, over SSH.

Each role of the topology is a network namespace on its host, and the host's interfaces are moved
into it, so that the control network cannot be touched by any step.  Whatever is changed on a host
is recorded there before, and undone at the end, whatever the end is.
"""

from __future__ import annotations

import contextlib
import json
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tcpf_lab.base.errors import LabError, TestbedError
from tcpf_lab.plan.compose import CONGESTION, Plan
from tcpf_lab.plan.step import (
    AddLink,
    AddNode,
    AgreeEpoch,
    LoadModule,
    ReadFile,
    Start,
    Sysctl,
)
from tcpf_lab.results.command import command
from tcpf_lab.results.layout import RunFiles, as_json, write_json
from tcpf_lab.spec.tcp import LINUX22_BEHAVIOURS, LINUX22_SYSCTL, NO_LIMITED_TRANSMIT, RENO_SYSCTL
from tcpf_lab.testbed.base import ON_HOSTS, is_of
from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.ssh import builds, files, hosts
from tcpf_lab.testbed.ssh import clock as ssh_clock
from tcpf_lab.testbed.ssh.agent import network
from tcpf_lab.testbed.ssh.agent.system import parsed
from tcpf_lab.testbed.ssh.channel import Request, side_by_side
from tcpf_lab.testbed.ssh.clock import Sample
from tcpf_lab.testbed.ssh.hosts import Host, run
from tcpf_lab.testbed.ssh.session import BY_HAND, Connect, Session
from tcpf_lab.testbed.ssh.steps import (
    OLDEST_PYTHON,
    Group,
    Placement,
    Translator,
    groups,
    programs_of,
    starts_ours,
)

#: Kernel parameters that patches of ours make, and what else can be done.
_PATCHED = {
    RENO_SYSCTL: "only the virtual-time kernel has it; use `tcp.recovery: newreno` on hosts",
    NO_LIMITED_TRANSMIT: "only the virtual-time kernel has it; remove `tcp.limited_transmit` on "
    "hosts",
    **{
        f"{LINUX22_SYSCTL}{name}": "only the virtual-time kernel has it; use `tcp.profile: "
        "sysctl-2.2` without `tcp.linux22` on hosts"
        for name in LINUX22_BEHAVIOURS
    },
}
_PROBE = files.script("probe")
_HERE = "lo"
T = TypeVar("T")


def probed_programs(plan: Plan, roles: tuple[str, ...]) -> tuple[str, ...]:
    """Name the programs of the system that ``plan`` runs on the nodes ``roles``."""
    steps = (step for step in plan.steps if getattr(step, "node", None) in roles)
    return tuple(sorted({"ip", "tc"}.union(*map(programs_of, steps))))


def parameters(plan: Plan, roles: tuple[str, ...]) -> tuple[str, ...]:
    """Name the kernel parameters of patches of ours that ``plan`` sets on the nodes ``roles``."""
    steps = (step for step in plan.steps if isinstance(step, Sysctl) and step.node in roles)
    return tuple(sorted({step.key for step in steps} & _PATCHED.keys()))


def congestion_controls(plan: Plan, roles: tuple[str, ...]) -> tuple[str, ...]:
    """Name the congestion controls that ``plan`` sets on the nodes ``roles``."""
    steps = (step for step in plan.steps if isinstance(step, Sysctl) and step.node in roles)
    return tuple(sorted({step.value for step in steps if step.key == CONGESTION}))


def problems(host: Host, inventory: Inventory, plan: Plan) -> Iterator[str]:
    """Yield a sentence for each problem of ``host`` that prevents ``plan``.

    Raises
    ------
    TestbedError
        If the host cannot be reached.
    """
    entry = inventory.hosts[host.name]
    interfaces = tuple(dict.fromkeys(entry.interfaces.values()))
    of_roles = (probed_programs, parameters, congestion_controls)
    lists = (interfaces, *(named(plan, entry.roles) for named in of_roles))
    wanted = map(" ".join, lists)
    oldest = ".".join(map(str, OLDEST_PYTHON))
    queries = (f"{key} {words}" for key, each in network.SHOWN.items() for words in each)
    reply = run(host, ("sh", "-c", _PROBE, "sh", host.client_address, *wanted, *queries))
    clean, doctor = (command(verb, "--testbed", inventory.testbed) for verb in ("clean", "doctor"))
    lines = reply.text.splitlines()
    for line in lines:
        match line.split():
            case ["python", *version] if tuple(map(int, version)) < OLDEST_PYTHON:
                yield f"{host.name}: no Python {oldest} or newer (apt-get install python3)"
            case ["linux", release] if plan.kernel and not is_of(release, plan.kernel):
                yield (
                    f"{host.name}: it runs Linux {release}, the experiment needs {plan.kernel} "
                    "(remove `kernel` to take what the hosts run)"
                )
            case ["route", used] if used in interfaces:
                yield (
                    f"{host.name}: the inventory uses {used} for data, but it carries the control "
                    "connection (the control network must be separate)"
                )
            case ["route", used] if used not in (entry.control, _HERE):
                yield (
                    f"{host.name}: the control connection uses {used}, not {entry.control} "
                    f"(set `control: {used}` of {host.name} in the inventory)"
                )
            case ["interface", name]:
                yield (
                    f"{host.name}: no interface {name} (`ip -br link` lists the host's interfaces; "
                    f"if an interrupted run holds it: {clean})"
                )
            case ["program", name]:
                yield f"{host.name}: no {name} ({doctor} names its package)"
            case ["congestion", name]:
                yield (
                    f"{host.name}: its kernel has no congestion control {name} "
                    f"(`modprobe tcp_{name}` there says why)"
                )
            case ["parameter", name]:
                yield f"{host.name}: its kernel has no {name} ({_PATCHED[name]})"
    # The configuration of the control interface belongs to the control network.
    data = [name for name in interfaces if f"route {name}" not in lines]
    yield from (f"{host.name}: {problem}" for problem in _configured(data, lines))


def _configured(interfaces: Iterable[str], lines: Iterable[str]) -> Iterator[str]:
    """Yield for each configured interface what a run would delete, from the probe's lines."""
    shown: dict[str, list[network.Entry]] = {key: [] for key in network.SHOWN}
    for line in lines:
        key, _, answer = line.partition(" ")
        if key in shown:
            with suppress(ValueError):  # not an answer of iproute2
                shown[key] += parsed(answer)
    for name in interfaces:
        if problem := network.would_be_lost(name, shown):
            yield problem


def refuse(host: Host, inventory: Inventory, plan: Plan) -> None:
    """Refuse a host with problems.

    Raises
    ------
    TestbedError
        Naming all problems.
    """
    found = tuple(problems(host, inventory, plan))
    if found:
        raise TestbedError(
            "; ".join(found),
            where=f"host {host.name}",
            hint=f"`{command('doctor', '--testbed', inventory.testbed)}` checks all hosts",
        )


#: Between the agreement on the epoch and the epoch the plan's programs are started.  On top of what
#: the plan gives, a host gets so long, and so long again for each program, s.
LEAD_MORE_S = 4.0
LEAD_EACH_S = 0.1
#: Files of the run directory.
REQUESTS = "log/requests.jsonl"
CLOCK = "stats/clock.json"
HOSTS = "stats/hosts.json"
LATENESS = "stats/lateness.json"
COUNTED_BEFORE = "stats/dev-before-{}.txt"


class RequestLog:
    """Writes a line for every request that a host has answered."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._clock = ssh_clock.Reference()

    def __call__(self, host: str, request: Request, seconds: float, fault: str | None) -> None:
        """Note a request, how long its answer took, and the error if there was one."""
        record = {
            "time_ns": self._clock.now(),
            "host": host,
            "node": request.node,
            "do": request.do,
            "text": request.text,
            "seconds": round(seconds, 6),
            **({"error": fault} if fault else {}),
        }
        with self._lock, self._path.open("a", encoding="utf-8") as log:
            log.write(json.dumps(record) + "\n")


class HostRun:
    """Carries one plan out in an open session.

    Parameters
    ----------
    plan : Plan
        What to do.
    session : Session
        The hosts, connected, no run begun.
    run : RunFiles
        Where everything is brought.
    """

    def __init__(self, plan: Plan, session: Session, run: RunFiles) -> None:
        self._plan = plan
        self._session = session
        self._run = run
        self._inventory = session.inventory
        self._reference = ssh_clock.Reference()
        self._before: dict[str, tuple[Sample, ...]] = {}
        self._epoch: int | None = None
        self._epochs: dict[str, int] = {}
        self._facts: dict[str, Any] = {}

    def carry_out(self) -> dict[str, Any]:
        """Do all of it but the undoing; return the facts of the hosts.

        Raises
        ------
        TestbedError
            Of the first thing that fails.
        """
        self._look()
        placement = self._prepare()
        translator = Translator(self._plan, placement)
        self._before = self._clocks()
        for group in groups(self._plan):
            if isinstance(group.steps[0], AgreeEpoch):
                self._session.carry_out(translator.requests(self._counted_before(), {}))
                self._agree(group.steps[0])
                continue
            self._session.carry_out(translator.requests(group, self._epochs))
            self._refuse_lateness(group)
        self._bring()
        return self._facts

    def bring_logs(self) -> None:
        """Fetch the logs of programs, as far as possible after a failure."""
        for name, directory in self._session.files.items():
            if not self._session.agents[name].usable:
                continue
            with suppress(TestbedError, OSError):
                host = self._session.hosts[name]
                files.fetch(host, f"{directory}/log", self._run.log)

    def _look(self) -> None:
        """Collect facts, and refuse hosts whose data interfaces carry the control connection."""

        def look(name: str) -> Any:
            session = self._session
            refuse(session.hosts[name], self._inventory, self._plan)
            return session.agents[name].call(Request("facts", text="facts of the host"))

        found = self._session.each(look, self._inventory.hosts)
        self._facts = {
            name: {"roles": list(self._inventory.hosts[name].roles), **facts}
            for name, facts in found.items()
        }

    def _prepare(self) -> Placement:
        """See to modules, plugins and programs; begin the run on every host."""
        owner_of = self._session.owner_of
        modules: dict[str, str | None] = {}
        plugins: dict[str, str] = {}
        for name, names in self._modules().items():
            for host in dict.fromkeys((name, owner_of[name])):
                products = self._provide(host, names)
                plugins[host] = products.plugins
                if host == owner_of[name]:
                    modules[host] = products.modules
        programs = {name: self._provide_programs(name) for name in self._with_programs()}
        self._session.begin(plugins)
        agents = {name: agent.ready()["pid"] for name, agent in self._session.agents.items()}
        return Placement(self._inventory, owner_of, modules, programs, agents)

    def _modules(self) -> dict[str, tuple[str, ...]]:
        """Name the modules that the roles of each host need, and need the plugins of."""
        found: dict[str, dict[str, None]] = {}
        for step in self._plan.steps:
            match step:
                case LoadModule(node, name):
                    found.setdefault(self._inventory.host_of(node), {})[name] = None
                case AddLink(ends=ends) if step.ring:
                    for end in ends:
                        found.setdefault(self._inventory.host_of(end.node), {})["csma"] = None
        return {host: tuple(names) for host, names in found.items()}

    def _with_programs(self) -> tuple[str, ...]:
        """Name the hosts on which programs of the project are started."""
        needing = filter(starts_ours, self._plan.steps)
        return tuple(dict.fromkeys(self._inventory.host_of(step.node) for step in needing))

    def _provide(self, name: str, modules: tuple[str, ...]) -> builds.Products:
        uname = self._facts[name]["uname"]
        state, testbed = self._inventory.state_directory, self._inventory.testbed
        kernel = (uname["release"], uname["version"], uname["machine"])
        host = self._session.hosts[name]
        products = self._alone(
            name, lambda: builds.provide_modules(host, modules, kernel, state, testbed)
        )
        self._facts[name]["project_modules"] = products.hashes
        return products

    def _provide_programs(self, name: str) -> str:
        machine = self._facts[name]["uname"]["machine"]
        state, testbed = self._inventory.state_directory, self._inventory.testbed
        host, build = self._session.hosts[name], self._inventory.programs == "build"
        return self._alone(
            name, lambda: builds.provide_programs(host, machine, state, testbed, build=build)
        )

    def _alone(self, name: str, work: Callable[[], T]) -> T:
        """Do ``work`` for one host, and watch over the agents of all meanwhile."""
        return self._session.each(lambda _name: work(), (name,))[name]

    def _clocks(self) -> dict[str, tuple[Sample, ...]]:
        """Measure the clocks one after the other: side by side they would disturb each other."""

        def measured(name: str) -> tuple[Sample, ...]:
            agent = self._session.agents[name]
            clock = Request("clock", text="the host's time")
            return ssh_clock.measure(lambda: agent.call(clock), self._reference.now)

        return {name: self._alone(name, partial(measured, name)) for name in self._inventory.hosts}

    def _agree(self, step: AgreeEpoch) -> None:
        """Choose an epoch late enough for everything that has to be started before it."""
        self._before = self._clocks()
        steps = self._plan.steps
        programs = sum(isinstance(each, Start) for each in steps[steps.index(step) :])
        lead = step.lead + LEAD_MORE_S + LEAD_EACH_S * programs
        self._epoch = self._reference.now() + round(lead * ssh_clock.NSEC)
        self._epochs = {
            name: self._epoch + ssh_clock.best(samples).offset_ns
            for name, samples in self._before.items()
        }

    def _counted_before(self) -> Group:
        """Read what the interfaces have counted so far: a host's may have done so for days."""
        nodes = [step.node for step in self._plan.steps if isinstance(step, AddNode)]
        reads = (ReadFile(name, "/proc/net/dev", COUNTED_BEFORE.format(name)) for name in nodes)
        return Group("counters before the traffic", "nodes", tuple(reads))

    def _refuse_lateness(self, group: Group) -> None:
        """Refuse to go on if programs were not started, and ready, by their time."""
        if self._epoch is None or group.kind != "start":
            return
        at = min(getattr(step, "at", None) or 0.0 for step in group.steps)  # after the epoch, s
        late = (self._reference.now() - self._epoch) / ssh_clock.NSEC - at
        if late > 0:
            raise TestbedError(
                f"{len(group.steps)} programs were ready {late:.1f} s after their start time",
                where=f"testbed {self._inventory.name}, {group.phase}",
                hint="the hosts are too slow: use fewer flows, or the native generator",
            )

    def _bring(self) -> None:
        """Measure the clocks again, bring the files of all hosts, and write down the facts."""
        after = self._clocks()
        samples = {name: self._samples(name, after[name]) for name in after}
        for name, found in samples.items():
            ssh_clock.refuse_step(name, found)
        self._write_clocks(samples, after)
        self._write_lateness()
        write_json(self._run.root / HOSTS, self._facts)

        def bring(name: str) -> int:
            host, directory = self._session.hosts[name], self._session.files[name]
            return files.fetch(host, directory, self._run.root)

        self._session.each(bring, self._inventory.hosts)

    def _samples(self, name: str, after: tuple[Sample, ...]) -> tuple[Sample, ...]:
        """Return both measurements of a host's clock and the readings between them."""
        before = self._before[name]
        readings = map(self._reference.sample, self._session.agents[name].exchanges)
        return (*before, *ssh_clock.between(before, readings, after), *after)

    def _write_clocks(
        self, samples: Mapping[str, tuple[Sample, ...]], after: Mapping[str, tuple[Sample, ...]]
    ) -> None:
        of_nodes = {
            role: [each.as_json() for each in samples[name]]
            for name, host in self._inventory.hosts.items()
            for role in host.roles
        }
        write_json(self._run.root / CLOCK, of_nodes)
        output = next((s.output for s in self._plan.steps if isinstance(s, AgreeEpoch)), None)
        if output is None or self._epoch is None:
            return
        nodes = {
            role: ssh_clock.node(self._epoch, ssh_clock.line(self._before[name], after[name]))
            for name, host in self._inventory.hosts.items()
            for role in host.roles
        }
        write_json(self._run.root / output, {"epoch_ns": self._epoch, "nodes": nodes})

    def _write_lateness(self) -> None:
        def ask(name: str) -> dict[str, float]:
            value = self._session.agents[name].call(Request("lateness", text="lateness"))
            return dict(value)

        found = self._session.each(ask, self._inventory.hosts)
        merged = {program: late for each in found.values() for program, late in each.items()}
        write_json(self._run.root / LATENESS, merged)


#: Keys of an inventory that do not affect results.
_NOT_IDENTITY = {"title", "ssh", "state_directory"}
_NOT_IDENTITY_OF_HOSTS = {"user", "port", "control", "kernel"}


@dataclass(frozen=True)
class SshTestbed:
    """Run plans on the hosts of an inventory."""

    inventory: Inventory
    kernel: str = ""  #: release of the hosts' kernels, where it is known without asking them
    connect: Connect = hosts.Host
    _seen: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    clock = "real"
    generator = ON_HOSTS
    parallel = False

    @property
    def name(self) -> str:
        """The inventory's name."""
        return self.inventory.name

    def identity(self, plan: Plan) -> dict[str, str]:
        """Identify the inventory, the kernel, and the sources of what ``plan`` loads and starts.

        It connects to no host: the state of results is known without them.  Kernels that are not
        known beforehand are recorded in the facts of each run.
        """
        parts = {"inventory": as_json(_what_matters(self.inventory)), "kernel": self.kernel}
        if plan.modules:
            parts["modules"] = builds.source_hash(builds.sources())
        if any(map(starts_ours, plan.steps)):
            parts["programs"] = builds.program_hash()
        return parts

    def check(self, plan: Plan) -> tuple[str, ...]:
        """Check the plan and every host without changing anything; return all problems."""
        roles = [step.node for step in plan.steps if isinstance(step, AddNode)]
        links = [step for step in plan.steps if isinstance(step, AddLink)]
        rates = {(link.ends[0].node, link.ends[1].node): link.rate for link in links}
        wires = [(link.ends[0].node, link.ends[1].node) for link in links if link.ring]
        inventory = _holding(self.inventory, plan)
        found = [*inventory.misfits(roles, rates, wires)]
        files = builds.sources()
        found += [
            f"tcpf-lab has no kernel module {name} (kernel/sched/{name}.c)"
            for name in builds.missing(plan.modules, files)
        ]
        return (*found, *self._problems_of_hosts(plan, inventory))

    def execute(self, plan: Plan, run: RunFiles, seed: int) -> None:  # noqa: ARG002 - in the plan
        """Execute ``plan``; in any case undo all changes on all hosts."""
        token = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}"
        inventory = _holding(self.inventory, plan)
        session = Session(inventory, token, self.connect, RequestLog(run.root / REQUESTS))
        work = HostRun(plan, session, run)
        try:
            session.open()
            self._seen["hosts"] = work.carry_out()
        except LabError as error:
            work.bring_logs()
            raise _with_remainder(error, session.end(), self.inventory.testbed, run) from None
        except BaseException:
            _warn(session.end())
            raise
        if left := session.end():
            raise _with_remainder(
                TestbedError("some changes could not be undone"), left, self.inventory.testbed, run
            )

    def facts(self, plan: Plan) -> dict[str, Any]:
        """Describe the inventory and, after a run of this process, the hosts as they were then."""
        return {
            "inventory": _what_matters(self.inventory),
            "modules": list(plan.modules),
            "hosts": {name: _brief(facts) for name, facts in self._seen.get("hosts", {}).items()},
        }

    def _problems_of_hosts(self, plan: Plan, inventory: Inventory) -> list[str]:
        def look(name: str) -> list[str]:
            try:
                with contextlib.closing(self.connect(inventory, name)) as host:
                    return [*problems(host, inventory, plan)]
            except TestbedError as error:
                return [f"{error.where}: {error.message} ({error.hint})"]

        found = side_by_side(look, self.inventory.hosts)
        return [sentence for each in found.values() for sentence in each]


def _holding(inventory: Inventory, plan: Plan) -> Inventory:
    links = (step.ends for step in plan.steps if isinstance(step, AddLink))
    return inventory.holding((near.node, far.node) for near, far in links)


def _what_matters(inventory: Inventory) -> dict[str, Any]:
    """Give what of an inventory may change results."""
    data: dict[str, Any] = inventory.model_dump(mode="json", exclude=_NOT_IDENTITY)
    for host in data["hosts"].values():
        for key in _NOT_IDENTITY_OF_HOSTS:
            host.pop(key, None)
    return data


def _brief(facts: dict[str, Any]) -> dict[str, Any]:
    keys = ("roles", "uname", "os", "cpus", "virtualization", "tools", "project_modules")
    return {key: facts[key] for key in keys if key in facts}


def _with_remainder(error: LabError, left: tuple[str, ...], name: str, run: RunFiles) -> LabError:
    """Return the first error followed by what could not be undone."""
    more = "".join(f"\n  {sentence}" for sentence in left)
    hints = [error.hint] if error.hint else []
    if any(BY_HAND not in sentence for sentence in left):
        hints.append(f"`{command('clean', '--testbed', name)}` undoes the rest")
    if any(BY_HAND in sentence for sentence in left):
        hints.append("no record is left of what is to be undone by hand")
    message = f"{error.message}{more}\n  log: {run.log}"
    return type(error)(message, where=error.where, hint="; ".join(hints))


def _warn(left: tuple[str, ...]) -> None:
    """Log what could not be undone where no error can be raised."""
    for sentence in left:
        logging.getLogger(__name__).warning(sentence)
