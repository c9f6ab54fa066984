"""Which interface reaches which: each is up for a moment, in a namespace of its own.

It is done as a run is: recorded on the host before it is made, undone at the end or when the
connection breaks.  No queue, filter or offload of an interface of the host is touched; whether the
kernel has a queue that no list names is tried on the loopback interface of a namespace of its own.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tcpf_lab.errors import TestbedError
from tcpf_lab.testbed import beside, host_ping
from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.ssh_channel import Agent, Request
from tcpf_lab.testbed.ssh_network_checks import End, Tried
from tcpf_lab.testbed.ssh_session import Session

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


def side_by_side(session: Session, work: Callable[[str], None], hosts: Iterable[str]) -> None:
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
        side_by_side(session, partial(each, step), set(trials) - set(faults))
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
        program = Path(host_ping.__file__).read_text(encoding="utf-8")
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
