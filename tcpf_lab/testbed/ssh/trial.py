"""Which interface reaches which: each is up for a moment, in a namespace of its own.

It is done as a run is: recorded on the host before it is made, undone at the end or when the
connection breaks.  No queue, filter or offload of an interface of the host is touched; whether the
kernel has a queue that no list names is tried on the loopback interface of a namespace of its own.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tcpf_lab.base.errors import TestbedError
from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.ssh import beside, hosts, ping
from tcpf_lab.testbed.ssh.beside import side_by_side
from tcpf_lab.testbed.ssh.channel import Agent, Request
from tcpf_lab.testbed.ssh.checks import End, Tried
from tcpf_lab.testbed.ssh.hosts import Host, SshHost, run
from tcpf_lab.testbed.ssh.session import Connect, Session, agent_path, left_by

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
    """Do ``work`` for hosts side by side; one that is lost keeps none of the others from it."""

    def look() -> None:
        for agent in session.started():
            with suppress(TestbedError):  # whoever awaits its answer gets it
                agent.check()

    beside.side_by_side(work, hosts, look)


def ends(inventory: Inventory) -> tuple[End, ...]:
    """List the ends of all cables."""
    pairs = inventory.links_of_roles()
    every = (end for pair in pairs for end in (pair, pair[::-1]))
    return tuple(end for end in every if inventory.interface(*end))


def attempt(
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
        self._name = _name(end)

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
        said = self._run("ethtool", self._name)
        rate = re.search(r"Speed: (\d+)Mb/s", said)
        self.result = Tried(
            carrier=True,
            rate=int(rate[1]) * 10**6 if rate else None,
            half_duplex="Duplex: Half" in said,
        )

    def measure(self) -> None:
        """Ask the interface at the other end; if it does not answer, all the others."""
        if not self.result.carrier:
            return
        reached = self._reached((self.end[::-1],), packets=3)
        if not reached:
            others = [end for end in ends(self._inventory) if end not in (self.end, self.end[::-1])]
            reached = self._reached(others, packets=1)
        full = all(self._ping(end, self._mtu, 1) is not None for end in reached)
        self.result = Tried(True, self.result.rate, self.result.half_duplex, reached, full)

    def _reached(self, others: Any, packets: int) -> dict[End, float]:
        found = {end: self._ping(end, _SMALL, packets) for end in others}
        return {end: seconds for end, seconds in found.items() if seconds is not None}

    def _ping(self, end: End, size: int, packets: int) -> float | None:
        """Give the shortest round trip, s; None if nothing came back."""
        program = Path(ping.__file__).read_text(encoding="utf-8")
        words = (_address(self._inventory, end), str(size), str(packets))
        try:
            return float(self._run("python3", "-c", program, *words))
        except TestbedError as error:
            if "Traceback" not in error.message and error.status == 1:
                return None
            last = error.message.rpartition("| ")[2].strip()
            raise TestbedError(f"no packet can be sent: {last}", hint=error.hint) from None

    def _carrier(self) -> bool:
        (link,) = json.loads(self._run("ip", "-j", "link", "show", "dev", self._name))
        return "LOWER_UP" in link["flags"]

    def _run(self, *argv: str) -> str:
        value = self._ask("run", argv=argv, output=None)
        return str(value.get("output", "") if isinstance(value, Mapping) else value or "")

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
    argv = request.arguments.get("argv", ())
    short = "python3 -c ..." if argv[:2] == ("python3", "-c") else " ".join(argv)
    return agent.call(replace(request, text=short or f"{request.do} {name}"))


def _name(end: End) -> str:
    return "-".join(end)


def _address(inventory: Inventory, end: End) -> str:
    number = ends(inventory).index(end) + 1
    return f"10.255.{number >> 8}.{number & 255}"


#: Queues and programs of an emulated machine are slow to go, s.
_UNDO_SILENCE_S = 300.0


@dataclass(frozen=True)
class Remainder:
    """What one run has left on one host, and what became of it.

    Parameters
    ----------
    host, run : str
        Where, and of which run.
    changes : int
        Changes that are written down and have not been undone.
    state : str
        ``undone``; ``to undo`` if it was only listed; ``under way`` if its agent lives; ``left`` if
        something could not be undone; ``not reached`` if the host could not be asked.
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
        """Whether nothing is left to be done about it."""
        return self.state in ("undone", "to undo")


def clean(
    inventory: Inventory,
    *,
    dry_run: bool = False,
    force: bool = False,
    connect: Connect = SshHost,
) -> tuple[Remainder, ...]:
    """Undo what is written down on all hosts, side by side.

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
            detail = f"process {found['pid']}; --force ends it"
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
        said = "; ".join(reply.errors.strip().splitlines())
        return Remainder(host.name, token, changes, "left" if reply.status else "undone", said)
    left = (*left_by(report), *((report["refused"],) if "refused" in report else ()))
    return Remainder(host.name, token, changes, "left" if left else "undone", "; ".join(left))


def _words(record: Mapping[str, str]) -> str:
    """Say what a record is about; the last one is the record itself, with the run's files."""
    kind = "files" if record["kind"] == "run" else record["kind"]
    return f"{kind} {record['name']}".strip()


def _ask(host: Host, inventory: Inventory, argv: tuple[str, ...]) -> list[dict[str, Any]]:
    reply = run(host, argv)
    if reply.status != 0:
        where = f"host {host.name}"
        raise hosts.failed(where, inventory.testbed, argv, reply.status, reply.errors)
    found: list[dict[str, Any]] = json.loads(reply.text)
    return found
