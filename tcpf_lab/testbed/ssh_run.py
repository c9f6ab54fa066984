"""One run on hosts: what is prepared, the groups of its plan, what is recorded and brought back."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tcpf_lab.errors import TestbedError
from tcpf_lab.plan.compose import Plan
from tcpf_lab.plan.step import AddLink, AddNode, AgreeEpoch, LoadModule, ReadFile, Start, Step
from tcpf_lab.results import RunFiles, write_json
from tcpf_lab.testbed import (
    ssh_clock,
    ssh_files,
    ssh_modules,
    ssh_needs,
    ssh_probe,
    ssh_programs,
)
from tcpf_lab.testbed.ssh_channel import Request
from tcpf_lab.testbed.ssh_clock import Sample
from tcpf_lab.testbed.ssh_session import Session
from tcpf_lab.testbed.ssh_steps import Group, Placement, Translator, groups

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
        """Bring what the programs have said, as far as that is possible after a failure."""
        for name, directory in self._session.files.items():
            if not self._session.agents[name].usable:
                continue
            with suppress(TestbedError, OSError):
                host = self._session.hosts[name]
                ssh_files.fetch(host, f"{directory}/log", self._run.log)

    def _look(self) -> None:
        """Collect facts, and refuse hosts whose data interfaces carry the way to us."""

        def look(name: str) -> Any:
            session = self._session
            ssh_probe.refuse(session.hosts[name], self._inventory, self._plan)
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
        needing = filter(ssh_needs.starts_ours, self._plan.steps)
        return tuple(dict.fromkeys(self._inventory.host_of(step.node) for step in needing))

    def _provide(self, name: str, modules: tuple[str, ...]) -> ssh_modules.Products:
        uname = self._facts[name]["uname"]
        state, testbed = self._inventory.state_directory, self._inventory.testbed
        kernel = (uname["release"], uname["version"], uname["machine"])
        host = self._session.hosts[name]

        def provide(_name: str) -> ssh_modules.Products:
            return ssh_modules.provide(host, modules, kernel, state, testbed)

        products = self._session.each(provide, (name,))[name]
        self._facts[name]["project_modules"] = products.hashes
        return products

    def _provide_programs(self, name: str) -> str:
        machine = self._facts[name]["uname"]["machine"]
        state, testbed = self._inventory.state_directory, self._inventory.testbed
        host, build = self._session.hosts[name], self._inventory.programs == "build"

        def provide(_name: str) -> str:
            return ssh_programs.provide(host, machine, state, testbed, build=build)

        return self._session.each(provide, (name,))[name]

    def _clocks(self) -> dict[str, tuple[Sample, ...]]:
        """Measure the clocks one after the other: side by side they would disturb each other."""

        def measured(name: str) -> tuple[Sample, ...]:
            agent = self._session.agents[name]
            clock = Request("clock", text="the host's time")
            return ssh_clock.measure(lambda: agent.call(clock), self._reference.now)

        return {name: self._session.each(measured, (name,))[name] for name in self._inventory.hosts}

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
        at = min(_due(step) for step in group.steps)
        late = (self._reference.now() - self._epoch) / ssh_clock.NSEC - at
        if late > 0:
            raise TestbedError(
                f"{len(group.steps)} programs were ready {late:.1f} s after the agreed time",
                where=f"testbed {self._inventory.name}, {group.phase}",
                hint="the hosts are too slow for so many: fewer flows, or the native generator",
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
            return ssh_files.fetch(host, directory, self._run.root)

        self._session.each(bring, self._inventory.hosts)

    def _samples(self, name: str, after: tuple[Sample, ...]) -> tuple[Sample, ...]:
        """Give both measurements of a host's clock and what its beats have told between them."""
        before = self._before[name]
        told = map(self._reference.sample, self._session.agents[name].exchanges)
        return (*before, *ssh_clock.between(before, told, after), *after)

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


def _due(step: Step) -> float:
    """Give when a program must have been started, seconds after the epoch."""
    at = getattr(step, "at", None)
    return 0.0 if at is None else float(at)
