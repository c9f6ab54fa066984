"""Collects the facts that the doctor judges, and tests which interface reaches which.

For a trial each interface is up for a moment, in a namespace of its own.  It is done as a run is:
recorded on the host before it is made, undone at the end or when the connection breaks.  No queue,
filter or offload of an interface of the host is touched; whether the kernel has a queue that no
list names is tried on the loopback interface of a namespace of its own.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tcpf_lab.base.errors import LabError, TestbedError
from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.ssh import builds, clock
from tcpf_lab.testbed.ssh.channel import Agent, Request, side_by_side
from tcpf_lab.testbed.ssh.checks import Clock, Facts, Seen, install, leftovers, network
from tcpf_lab.testbed.ssh.clock import Reference, Sample
from tcpf_lab.testbed.ssh.hosts import Host, run
from tcpf_lab.testbed.ssh.session import Connect, Session
from tcpf_lab.testbed.ssh.steps import Needs

#: An end of a cable: a role, and the role at the other end.
End = tuple[str, str]


@dataclass(frozen=True)
class Tried:
    """What was measured at one end of a cable, with the interface up for a moment."""

    carrier: bool
    rate: int | None = None  #: negotiated, bit/s
    half_duplex: bool = False
    reached: Mapping[End, float] = field(default_factory=dict)  #: round trip, s
    full_size: bool = True  #: whether a packet of the experiment's size came through


@dataclass(frozen=True)
class Fault:
    """Why a host could not be surveyed."""

    check: str
    message: str
    hint: str


@dataclass(frozen=True)
class Survey:
    """What was found out about the hosts of an inventory.

    Parameters
    ----------
    seen : mapping of str to Seen
        The hosts that could be surveyed.
    faults : mapping of str to Fault
        Why the others could not.
    tried : mapping of (str, str) to Tried
        The ends of cables that could be tried.
    untried : mapping of str to LabError
        Surveyed hosts whose ends could not be tested; an empty name means all.
    left : tuple of str
        What could not be undone after the trial.
    """

    seen: Mapping[str, Seen]
    faults: Mapping[str, Fault] = field(default_factory=dict)
    tried: Mapping[End, Tried] = field(default_factory=dict)
    untried: Mapping[str, LabError] = field(default_factory=dict)
    left: tuple[str, ...] = ()


#: Names the trial in the hosts' records.
_WHO = "doctor"
#: A drift that is known worse than this is not worth telling, ppm.
_WORST_KNOWN_DRIFT_PPM = 100.0


def survey(inventory: Inventory, needs: Needs, connect: Connect = Host) -> Survey:
    """Collect facts of every host, and test the cables between hosts without faults.

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
    work = _Survey(session, inventory, needs)
    try:
        work.ask()
        work.attempt()
        work.ask_clocks()
    finally:
        left = session.end()
    return replace(work.result(), left=left)


class _Survey:
    """One survey, from the first connection to the last question."""

    def __init__(self, session: Session, inventory: Inventory, needs: Needs) -> None:
        self._session = session
        self._inventory = inventory
        self._needs = needs
        self._reference = Reference()
        self._seen: dict[str, Seen] = {}
        self._before: dict[str, tuple[Sample, ...]] = {}
        self._faults: dict[str, Fault] = {}
        self._tried: dict[End, Tried] = {}
        self._untried: dict[str, LabError] = {}

    def ask(self) -> None:
        """Connect to every host, and request its facts and time."""
        trial_side_by_side(self._session, self._ask, self._inventory.hosts)

    def attempt(self) -> None:
        """Test the cables between hosts without faults."""
        free = [name for name in self._inventory.hosts if self._may_be_tried(name)]
        hosts = {name: self._inventory.hosts[name] for name in free}
        self._session.inventory = self._inventory.model_copy(update={"hosts": hosts})
        try:
            self._session.begin({})
            trial_side_by_side(self._session, self._try_queues, free)
            self._tried, faults = try_cables(self._session, self._inventory, self._needs.mtu)
        except TestbedError as error:
            faults = {"": error}
        self._untried.update(faults)

    def _try_queues(self, name: str) -> None:
        seen = self._seen[name]
        known: dict[str, str] = seen.facts.raw["modules_here"]
        wanted = [each for each in seen.all_of(self._needs.modules) if known[each] == "missing"]
        try:
            found = usable_queues(self._session.agents[name], wanted)
        except TestbedError as error:
            self._untried[name] = error
            return
        known.update(dict.fromkeys(found, "builtin"))

    def ask_clocks(self) -> None:
        """Request the time again: drift shows after a while."""
        for name, seen in self._seen.items():
            after: tuple[Sample, ...] = ()
            with suppress(TestbedError):  # lost only now: its earlier facts stand
                after = self._measure(name)
            self._seen[name] = replace(seen, clock=clock_of(self._before[name], after))

    def result(self) -> Survey:
        """Give what was found, hosts in the inventory's order."""
        seen = {n: self._seen[n] for n in self._inventory.hosts if n in self._seen}
        faults = {n: self._faults[n] for n in self._inventory.hosts if n in self._faults}
        return Survey(seen, faults, self._tried, self._untried)

    def _ask(self, name: str) -> None:
        try:
            agent = self._session.join(name, _require_python)
            if agent is None:
                return
            facts = Facts(agent.call(Request("facts", text="request facts")))
            self._before[name] = self._measure(name)
        except TestbedError as error:
            check = "login" if name not in self._session.hosts else "agent"
            self._faults[name] = Fault(check, error.message, error.hint)
            self._session.let_go(name)
            return
        held = self._inventory.holding((link.a, link.b) for link in self._needs.graph.links)
        self._seen[name] = Seen(name, held, self._needs, facts, built=_built(facts))

    def _measure(self, name: str) -> tuple[Sample, ...]:
        agent = self._session.agents[name]
        return clock.measure(lambda: agent.call(Request("clock")), self._reference.now)

    def _may_be_tried(self, name: str) -> bool:
        if name not in self._seen:
            return False
        seen = self._seen[name]
        found = [result for _, result in network(seen)]
        if all(result.ok for result in (*found, leftovers(seen))):
            return True
        self._untried[name] = TestbedError(
            "other faults come first", hint="fix the other faults of its interfaces"
        )
        return False


def clock_of(before: tuple[Sample, ...], after: tuple[Sample, ...]) -> Clock:
    """Judge a host's clock by two measurements; drift only if they are far enough apart."""
    line = clock.line(before, after)
    span = line.last.at_ns - line.first.at_ns
    known = 2e6 * line.uncertainty_ns / span if span else float("inf")
    drift = line.drift_ppm if known <= _WORST_KNOWN_DRIFT_PPM else None
    return Clock(line.first.offset_ns, line.uncertainty_ns, drift)


def _require_python(host: Host) -> None:
    """Refuse a host without Python before it is used."""
    if run(host, ("python3", "-c", "")).status != 0:
        system = run(host, ("cat", "/etc/os-release")).text
        words = dict(line.split("=", 1) for line in system.splitlines() if "=" in line)
        named = Facts({"os": {key: text.strip('"') for key, text in words.items()}})
        raise TestbedError("no python3", hint=install(named.distribution, ["python3"]))


def _built(facts: Facts) -> bool:
    """Return whether the cache has the project's modules for a host's kernel."""
    key = builds.key(builds.sources(), *facts.kernel)
    return (builds.cache() / key).is_dir()


#: Copper takes three seconds to agree on a rate.
CARRIER_S = 8.0
_LOOK_EVERY_S = 0.25
#: A packet that passes everywhere, bytes.
_SMALL = 84
#: Kernel module -> commands that only work with it, on an interface without queue.
_QUEUES = {
    "sch_tbf": ("root tbf rate 1mbit burst 5000 limit 5000",),
    "sch_netem": ("root netem delay 1ms limit 10",),
    "sch_red": ("root red limit 99000 min 9000 max 27000 avpkt 1000 burst 15 bandwidth 10mbit",),
    "sch_choke": ("root choke limit 100 min 10 max 30 avpkt 1000 burst 20 bandwidth 10mbit",),
    **{f"sch_{name}": (f"root {name}",) for name in ("codel", "fq_codel", "cake", "pie", "fq_pie")},
    **{f"sch_{name}": (f"root {name}",) for name in ("prio", "sfq", "fq", "hhf", "sfb")},
    "sch_ingress": ("clsact",),
    "cls_matchall": ("clsact", "ingress matchall action ok"),
    "act_mirred": ("clsact", "ingress matchall action mirred egress mirror dev lo"),
}


def trial_side_by_side(session: Session, work: Callable[[str], None], hosts: Iterable[str]) -> None:
    """Do ``work`` for hosts in parallel; a lost host does not stop the others."""

    def look() -> None:
        for agent in session.started():
            with suppress(TestbedError):  # the request's answer carries it
                agent.check()

    side_by_side(work, hosts, look)


def ends(inventory: Inventory) -> tuple[End, ...]:
    """List the ends of all cables."""
    pairs = inventory.links_of_roles()
    every = (end for pair in pairs for end in (pair, pair[::-1]))
    return tuple(end for end in every if inventory.interface(*end))


def try_cables(
    session: Session, inventory: Inventory, mtu: int
) -> tuple[dict[End, Tried], dict[str, TestbedError]]:
    """Put the interfaces of a session's hosts up, and see what each reaches.

    Parameters
    ----------
    session : Session
        Begun, with those hosts that may be tried.
    inventory : Inventory
        All hosts, also those that are not in the session.
    mtu : int
        Size of the largest packet that is to pass, bytes.

    Returns
    -------
    tuple of (dict of end to Tried, dict of host to TestbedError)
        What the ends found, and why some hosts could not try.
    """
    trials = {
        host: [Trial(session.agents[host], inventory, end, mtu) for end in _of(inventory, host)]
        for host in session.inventory.hosts
    }
    faults: dict[str, TestbedError] = {}
    found: dict[End, Tried] = {}

    def each(step: str, host: str) -> None:
        try:
            for trial in trials[host]:
                getattr(trial, step)()
        except TestbedError as error:
            faults[host] = error

    for step in ("place", "await_carrier", "measure"):
        trial_side_by_side(session, partial(each, step), set(trials) - set(faults))
    for host, those in trials.items():
        if host not in faults:
            found.update({trial.end: trial.result for trial in those})
    return found, faults


def _of(inventory: Inventory, host: str) -> Iterator[End]:
    return (end for end in ends(inventory) if inventory.host_of(end[0]) == host)


class Trial:
    """One interface's trial."""

    def __init__(self, agent: Agent, inventory: Inventory, end: End, mtu: int) -> None:
        self.end = end
        self.result = Tried(carrier=False)
        self._agent = agent
        self._inventory = inventory
        self._mtu = mtu
        self._name = "-".join(end)

    def place(self) -> None:
        """Move the interface into its namespace, give it an address, put it up."""
        number = ends(self._inventory).index(self.end)
        mac = f"02:00:00:ff:{number >> 8:02x}:{number & 255:02x}"
        interface = self._inventory.interface(*self.end)
        words = {"interface": interface, "device": self._name, "mac": mac, "mtu": self._mtu}
        self._ask("node")
        self._ask("nic", **words)
        self._run(
            "ip", "address", "add", f"{_address(self._inventory, self.end)}/16", "dev", self._name
        )
        self._run("ip", "link", "set", self._name, "up")

    def await_carrier(self) -> None:
        """Wait until the interface has a link, and note its rate."""
        deadline = time.monotonic() + CARRIER_S
        while not self._carrier():
            if time.monotonic() > deadline:
                return
            self._ask("pass", seconds=_LOOK_EVERY_S)
        output = self._run("ethtool", self._name)
        rate = re.search(r"Speed: (\d+)Mb/s", output)
        self.result = Tried(
            carrier=True,
            rate=int(rate[1]) * 10**6 if rate else None,
            half_duplex="Duplex: Half" in output,
        )

    def measure(self) -> None:
        """Ping the interface at the other end; if it does not answer, all the others."""
        if not self.result.carrier:
            return
        reached = self._reached((self.end[::-1],), packets=3)
        if not reached:
            others = [end for end in ends(self._inventory) if end not in (self.end, self.end[::-1])]
            reached = self._reached(others, packets=1)
        full = all(self._ping(end, self._mtu, 1) is not None for end in reached)
        self.result = replace(self.result, reached=reached, full_size=full)

    def _reached(self, others: Any, packets: int) -> dict[End, float]:
        found = {end: self._ping(end, _SMALL, packets) for end in others}
        return {end: seconds for end, seconds in found.items() if seconds is not None}

    def _ping(self, end: End, size: int, packets: int) -> float | None:
        """Give the shortest round trip, s; None if nothing came back."""
        words = {"address": _address(self._inventory, end), "size": size, "packets": packets}
        try:
            seconds: float | None = self._ask("ping", **words)
        except TestbedError as error:
            raise TestbedError(error.message.rpartition("`: ")[2], hint=error.hint) from None
        return seconds

    def _carrier(self) -> bool:
        (link,) = json.loads(self._run("ip", "-j", "link", "show", "dev", self._name))
        return "LOWER_UP" in link["flags"]

    def _run(self, *argv: str) -> str:
        return str(self._ask("run", argv=argv, output=None)["output"])

    def _ask(self, action: str, **words: Any) -> Any:
        arguments = {"node": self._name, **words}
        return _call(self._agent, Request(action, arguments, node=self.end[0]), self._name)


def usable_queues(agent: Agent, names: Iterable[str]) -> list[str]:
    """Try kernel modules that no list names: a kernel may have all that it has built in.

    Returns
    -------
    list of str
        Those whose queue or classifier can be used.
    """
    found = []
    for name in names:
        node = f"doctor-{name}"
        _call(agent, Request("node", {"node": node}), node)
        try:
            for words in _QUEUES.get(name, ("",)):
                kind = "filter" if "matchall" in words else "qdisc"
                argv = ("tc", kind, "add", "dev", "lo", *words.split())
                request = Request("run", {"node": node, "argv": argv, "output": None})
                _call(agent, request, node)
        except TestbedError:
            continue
        found.append(name)
    return found


def _call(agent: Agent, request: Request, name: str) -> Any:
    text = " ".join(request.arguments.get("argv", ())) or f"{request.do} {name}"
    return agent.call(replace(request, text=text))


def _address(inventory: Inventory, end: End) -> str:
    number = ends(inventory).index(end) + 1
    return f"10.255.{number >> 8}.{number & 255}"
