"""All that is wrong with hosts, at once, each with the command that mends it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from tcpf_lab.base.errors import LabError, TestbedError
from tcpf_lab.results.command import command
from tcpf_lab.testbed.doctor import Check
from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.ssh import clock, modules, trial
from tcpf_lab.testbed.ssh.channel import Request
from tcpf_lab.testbed.ssh.checks import (
    HOST_CHECKS,
    NETWORK_CHECKS,
    Clock,
    End,
    Facts,
    Finding,
    Seen,
    Tried,
    cables,
    fine,
    install,
    leftovers,
)
from tcpf_lab.testbed.ssh.clock import Reference, Sample
from tcpf_lab.testbed.ssh.hosts import Host, SshHost, run
from tcpf_lab.testbed.ssh.needs import Needs
from tcpf_lab.testbed.ssh.session import BY_HAND, Connect, Session, start_agent

_OTHER = "correct the inventory, or look at another experiment: `doctor` takes its name, too"
#: Where a finding was made, what was looked at, what was found.
Row = tuple[str, str, Finding]


@dataclass(frozen=True)
class Fault:
    """Why a host could not be asked."""

    check: str
    message: str
    hint: str


@dataclass(frozen=True)
class Survey:
    """What was found out about the hosts of an inventory.

    Parameters
    ----------
    seen : mapping of str to Seen
        The hosts that could be asked.
    faults : mapping of str to Fault
        Why the others could not.
    tried : mapping of (str, str) to Tried
        The ends of cables that could be tried.
    untried : mapping of str to LabError
        Hosts whose ends could not, although they were asked; under an empty name all of them.
    left : tuple of str
        What could not be undone after the trial.
    """

    seen: Mapping[str, Seen]
    faults: Mapping[str, Fault] = field(default_factory=dict)
    tried: Mapping[End, Tried] = field(default_factory=dict)
    untried: Mapping[str, LabError] = field(default_factory=dict)
    left: tuple[str, ...] = ()


def diagnose(inventory: Inventory, needs: Needs, survey: Survey) -> tuple[Check, ...]:
    """Judge what was found.

    Returns
    -------
    tuple of Check
        What is the same on several hosts is one check; a fault names its hosts in front.
    """
    rows = [*_reached(survey), *_on_hosts(survey), *_trials(survey)]
    checks = list(merged(rows, tuple(inventory.hosts)))
    links = cables(inventory, needs, survey.tried)
    graph = needs.graph
    wires = [(link.a, link.b) for link in graph.links if link.ring]
    misfits = inventory.misfits([node.name for node in graph.nodes], graph.rates, wires)
    clean = command("clean", "--testbed", inventory.testbed)
    return (
        *checks,
        *(Check(name, finding.ok, finding.detail, finding.cure) for name, finding in links),
        *(Check("undone", False, each, _on_the_host(each) or clean) for each in survey.left),
        *(Check(f"for {needs.title}", False, problem, _OTHER) for problem in misfits),
    )


def _on_the_host(sentence: str) -> str:
    """Say what to do about something that no later attempt can undo."""
    return "look at the host: no record of it is kept" if BY_HAND in sentence else ""


def merged(rows: Sequence[Row], hosts: Sequence[str]) -> Iterator[Check]:
    """Join equal findings; faults of a check come before what is fine about it."""
    for name in dict.fromkeys(row[1] for row in rows):
        found: dict[Finding, list[str]] = {}
        for host, _, finding in (row for row in rows if row[1] == name):
            if host not in found.setdefault(finding, []):
                found[finding].append(host)
        for finding, where in found.items():
            if not finding.ok:
                yield Check(name, False, _on(where, hosts, finding.detail), finding.cure)
        good = [(finding, where) for finding, where in found.items() if finding.ok]
        if good:
            yield Check(name, True, _together(good, hosts))


def _together(good: Sequence[tuple[Finding, Sequence[str]]], hosts: Sequence[str]) -> str:
    if len(good) == 1:
        finding, where = good[0]
        return _on(where, hosts, finding.detail)
    return "; ".join(f"{', '.join(where)}: {finding.detail}" for finding, where in good)


def _on(where: Sequence[str], hosts: Sequence[str], detail: str) -> str:
    if not any(where) or len(where) == len(hosts):
        everywhere = f"all {len(hosts)} hosts: " if len(hosts) > 1 else ""
        return everywhere + detail
    return f"{', '.join(where)}: {detail}"


def _reached(survey: Survey) -> Iterator[Row]:
    for host, fault in survey.faults.items():
        yield host, fault.check, Finding(False, fault.message, fault.hint)
    for host in survey.seen:
        yield host, "login", fine("reached, host key known")


def _on_hosts(survey: Survey) -> Iterator[Row]:
    for name, look in HOST_CHECKS.items():
        for host, seen in survey.seen.items():
            finding = look(seen)
            if finding is not None:
                yield host, name, finding
    for looks in NETWORK_CHECKS:
        for host, seen in survey.seen.items():
            for name, finding in looks(seen):
                yield host, name, finding


def _trials(survey: Survey) -> Iterator[Row]:
    for host, error in survey.untried.items():
        yield host, "links", Finding(False, f"not tried: {error.message}", error.hint)


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
        trial.trial_side_by_side(self._session, self._ask, self._inventory.hosts)
        self._session.boot_ids = {name: host.boot_id for name, host in self._asked.items()}

    def attempt(self) -> None:
        """Try the cables between the hosts on which nothing is in the way."""
        free = [name for name in self._inventory.hosts if self._may_be_tried(name)]
        hosts = {name: self._inventory.hosts[name] for name in free}
        self._session.inventory = self._inventory.model_copy(update={"hosts": hosts})
        try:
            self._session.begin({})
            trial.trial_side_by_side(self._session, self._try_queues, free)
            self._tried, faults = trial.attempt(self._session, self._inventory, self._needs.mtu)
        except TestbedError as error:
            faults = {"": error}
        self._untried.update(faults)

    def _try_queues(self, name: str) -> None:
        seen = self._asked[name].seen
        known: dict[str, str] = seen.facts.raw["modules_here"]
        wanted = [each for each in seen.all_of(self._needs.modules) if known[each] == "missing"]
        try:
            found = trial.usable_queues(self._session.agents[name], wanted)
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

        return clock.measure(ask, self._reference.now)

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
    line = clock.line(before, after)
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
    key = modules.key(modules.sources(), *facts.kernel)
    return (modules.cache() / key).is_dir()
