"""Asking hosts everything that the doctor wants to know."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from tcpf_lab.errors import LabError, TestbedError
from tcpf_lab.testbed import ssh_clock, ssh_modules, ssh_trial
from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.ssh_channel import Request
from tcpf_lab.testbed.ssh_checks import Clock, Seen, install, leftovers
from tcpf_lab.testbed.ssh_clock import Reference, Sample
from tcpf_lab.testbed.ssh_doctor import Fault, Survey
from tcpf_lab.testbed.ssh_facts import Facts
from tcpf_lab.testbed.ssh_hosts import SshHost
from tcpf_lab.testbed.ssh_needs import Needs
from tcpf_lab.testbed.ssh_network_checks import NETWORK_CHECKS, End, Tried
from tcpf_lab.testbed.ssh_process import Host, run
from tcpf_lab.testbed.ssh_session import Connect, Session, start_agent

#: Names the trial in the hosts' records.
_WHO = "doctor"
#: A drift that is known worse than this is not worth telling, ppm.
_WORST_KNOWN_DRIFT_PPM = 100.0


@dataclass
class _Asked:
    """A host that could be asked."""

    seen: Seen
    boot_id: str
    before: tuple[Sample, ...]


def survey(inventory: Inventory, needs: Needs, connect: Connect = SshHost) -> Survey:
    """Ask every host, and try the cables between those on which nothing is in the way.

    Parameters
    ----------
    inventory : Inventory
        The hosts.
    needs : Needs
        What they are to have.
    connect : callable
        Connects to a host.
    """
    session = Session(inventory, f"{_WHO}-{secrets.token_hex(4)}", connect, lambda *_: None)
    work = _Survey(session, inventory, needs, connect)
    try:
        work.ask()
        work.attempt()
        work.ask_clocks()
    finally:
        left = session.end()
    return replace(work.result(), left=left)


class _Survey:
    """One survey, from the first connection to the last question."""

    def __init__(
        self, session: Session, inventory: Inventory, needs: Needs, connect: Connect
    ) -> None:
        self._session = session
        self._inventory = inventory
        self._needs = needs
        self._connect = connect
        self._reference = Reference()
        self._asked: dict[str, _Asked] = {}
        self._faults: dict[str, Fault] = {}
        self._tried: dict[End, Tried] = {}
        self._untried: dict[str, LabError] = {}

    def ask(self) -> None:
        """Connect to every host, and ask it for facts and time."""
        ssh_trial.side_by_side(self._session, self._ask, self._inventory.hosts)
        self._session.boot_ids = {name: host.boot_id for name, host in self._asked.items()}

    def attempt(self) -> None:
        """Try the cables between the hosts on which nothing is in the way."""
        free = [name for name in self._inventory.hosts if self._may_be_tried(name)]
        hosts = {name: self._inventory.hosts[name] for name in free}
        self._session.inventory = self._inventory.model_copy(update={"hosts": hosts})
        try:
            self._session.begin({})
            ssh_trial.side_by_side(self._session, self._try_queues, free)
            self._tried, faults = ssh_trial.attempt(self._session, self._inventory, self._needs.mtu)
        except TestbedError as error:
            faults = {"": error}
        self._untried.update(faults)

    def _try_queues(self, name: str) -> None:
        seen = self._asked[name].seen
        known: dict[str, str] = seen.facts.raw["modules_here"]
        wanted = [each for each in seen.all_of(self._needs.modules) if known[each] == "missing"]
        try:
            found = ssh_trial.usable_queues(self._session.agents[name], wanted)
        except TestbedError as error:
            self._untried[name] = error
            return
        known.update(dict.fromkeys(found, "builtin"))

    def ask_clocks(self) -> None:
        """Ask for the time again: how fast a clock drifts shows after a while."""
        for name, host in self._asked.items():
            after: tuple[Sample, ...] = ()
            with suppress(TestbedError):  # lost only now: what it has said before stands
                after = self._measure(name)
            host.seen = replace(host.seen, clock=clock_of(host.before, after))

    def result(self) -> Survey:
        """Give what was found, hosts in the inventory's order."""
        seen = {n: self._asked[n].seen for n in self._inventory.hosts if n in self._asked}
        faults = {n: self._faults[n] for n in self._inventory.hosts if n in self._faults}
        return Survey(seen, faults, self._tried, self._untried)

    def _ask(self, name: str) -> None:
        try:
            host = self._connect(self._inventory, name)
            if not self._session.keep_host(name, host):
                return
            _require_python(host)
            agent = start_agent(host, self._inventory)
            if not self._session.keep_agent(name, agent):
                return
            boot_id = str(agent.ready()["boot_id"])
            facts = Facts(agent.call(Request("facts", text="ask for facts")))
            before = self._measure(name)
        except TestbedError as error:
            check = "login" if name not in self._session.hosts else "agent"
            self._faults[name] = Fault(check, error.message, error.hint)
            self._session.let_go(name)
            return
        seen = Seen(name, self._inventory, self._needs, facts, built=_built(facts))
        self._asked[name] = _Asked(seen, boot_id, before)

    def _measure(self, name: str) -> tuple[Sample, ...]:
        agent = self._session.agents[name]

        def ask() -> Mapping[str, int]:
            value: Mapping[str, int] = agent.call(Request("clock"))
            return value

        return ssh_clock.measure(ask, self._reference.now)

    def _may_be_tried(self, name: str) -> bool:
        if name not in self._asked:
            return False
        seen = self._asked[name].seen
        found = [finding for looks in NETWORK_CHECKS for _, finding in looks(seen)]
        if all(finding.ok for finding in (*found, leftovers(seen))):
            return True
        self._untried[name] = TestbedError(
            "something else is in the way", hint="mend the other faults of its interfaces first"
        )
        return False


def clock_of(before: tuple[Sample, ...], after: tuple[Sample, ...]) -> Clock:
    """Judge a host's clock by two measurements; the drift only if they say enough about it."""
    line = ssh_clock.line(before, after)
    span = line.last.at_ns - line.first.at_ns
    known = 2e6 * line.uncertainty_ns / span if span else float("inf")
    drift = line.drift_ppm if known <= _WORST_KNOWN_DRIFT_PPM else None
    return Clock(line.first.offset_ns, line.uncertainty_ns, drift)


def _require_python(host: Host) -> None:
    """Say that there is no Python before anything is made with it."""
    if run(host, ("python3", "-c", "")).status != 0:
        system = run(host, ("cat", "/etc/os-release")).text
        words = dict(line.split("=", 1) for line in system.splitlines() if "=" in line)
        named = Facts({"os": {key: text.strip('"') for key, text in words.items()}})
        raise TestbedError("no python3", hint=install(named.distribution, ["python3"]))


def _built(facts: Facts) -> bool:
    """Tell whether the project's modules are kept here for the kernel of a host."""
    key = ssh_modules.key(ssh_modules.sources(), *facts.kernel)
    return (ssh_modules.cache() / key).is_dir()
