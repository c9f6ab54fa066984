"""All faults of hosts at once, each with the command that fixes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tcpf_lab.base.units import format_rate
from tcpf_lab.results.command import command
from tcpf_lab.testbed.base import Check
from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.ssh.checks import HOST_CHECKS, Result, fine, network
from tcpf_lab.testbed.ssh.session import BY_HAND
from tcpf_lab.testbed.ssh.steps import Needs
from tcpf_lab.testbed.ssh.survey import End, Survey, Tried

_OTHER = "correct the inventory, or check another experiment: `doctor` takes its name"
#: Host, name of the check, result.
Row = tuple[str, str, Result]


def diagnose(inventory: Inventory, needs: Needs, survey: Survey) -> tuple[Check, ...]:
    """Judge a survey.

    Returns
    -------
    tuple of Check
        Equal results of several hosts are one check; a fault begins with its hosts.
    """
    rows = [*_reached(survey), *_on_hosts(survey), *_trials(survey)]
    checks = list(merged(rows, tuple(inventory.hosts)))
    links = cables(inventory, needs, survey.tried)
    graph = needs.graph
    wires = [(link.a, link.b) for link in graph.links if link.ring]
    held = inventory.holding((link.a, link.b) for link in graph.links)
    misfits = held.misfits([node.name for node in graph.nodes], graph.rates, wires)
    clean = command("clean", "--testbed", inventory.testbed)
    return (
        *checks,
        *(Check(name, finding.ok, finding.detail, finding.fix) for name, finding in links),
        *(Check("undone", False, each, _on_the_host(each) or clean) for each in survey.left),
        *(Check(f"for {needs.title}", False, problem, _OTHER) for problem in misfits),
    )


def _on_the_host(sentence: str) -> str:
    """Return the fix of what no later attempt can undo."""
    return "undo it on the host: no record of it is left" if BY_HAND in sentence else ""


def merged(rows: Sequence[Row], hosts: Sequence[str]) -> Iterator[Check]:
    """Join equal results; faults of a check come before good results."""
    for name in dict.fromkeys(row[1] for row in rows):
        found: dict[Result, list[str]] = {}
        for host, _, finding in (row for row in rows if row[1] == name):
            if host not in found.setdefault(finding, []):
                found[finding].append(host)
        for finding, where in found.items():
            if not finding.ok:
                yield Check(name, False, _on(where, hosts, finding.detail), finding.fix)
        good = [(finding, where) for finding, where in found.items() if finding.ok]
        if good:
            yield Check(name, True, _together(good, hosts))


def _together(good: Sequence[tuple[Result, Sequence[str]]], hosts: Sequence[str]) -> str:
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
        yield host, fault.check, Result(False, fault.message, fault.hint)
    for host in survey.seen:
        yield host, "login", fine("connected, host key known")


def _on_hosts(survey: Survey) -> Iterator[Row]:
    for name, look in HOST_CHECKS.items():
        for host, seen in survey.seen.items():
            finding = look(seen)
            if finding is not None:
                yield host, name, finding
    for host, seen in survey.seen.items():
        yield from ((host, name, finding) for name, finding in network(seen))


def _trials(survey: Survey) -> Iterator[Row]:
    for host, error in survey.untried.items():
        yield host, "links", Result(False, f"not tested: {error.message}", error.hint)


def cables(
    inventory: Inventory, needs: Needs, tried: Mapping[End, Tried]
) -> Iterator[tuple[str, Result]]:
    """Judge every cable by the measurements of its two ends: one result for each link.

    A link with an untested end is left out: that host has a result of its own.
    """
    for a, b in inventory.links_of_roles():
        cable = _Cable(inventory, needs, tried, ((a, b), (b, a)))
        if inventory.interface(a, b) and all(end in tried for end in cable.ends):
            yield f"link {a}-{b}", cable.result()


@dataclass(frozen=True)
class _Cable:
    """A cable whose two ends have been tested."""

    inventory: Inventory
    needs: Needs
    tried: Mapping[End, Tried]
    ends: tuple[End, End]

    def result(self) -> Result:
        """Return the first fault, or else the cable's rate and delay."""
        for check in (self._no_carrier, self._elsewhere, self._too_slow, self._too_small):
            if result := check():
                return result
        near = self.tried[self.ends[0]]
        rate = f"{format_rate(near.rate)}/s" if near.rate else "rate unknown"
        seconds = near.reached[self.ends[1]]
        detail = f"{rate}, {seconds * 1e3:.2f} ms, packets of {self.needs.mtu} B pass"
        shared = len(near.reached) > 1
        return fine(f"{detail}, network shared with other links" if shared else detail)

    def _no_carrier(self) -> Result | None:
        dead = [self._place(end) for end in self.ends if not self.tried[end].carrier]
        fix = "plug in the cable at both ends"
        return Result(False, f"no carrier at {', '.join(dead)}", fix) if dead else None

    def _elsewhere(self) -> Result | None:
        """Return where the cable leads instead, or that nothing answers."""
        for end, other in (self.ends, self.ends[::-1]):
            reached = self.tried[end].reached
            if other in reached:
                continue
            if reached:
                detail = f"{self._place(end)} leads to {', '.join(map(self._place, reached))}"
                return Result(False, detail, "swap the cables, or the interfaces in the inventory")
            detail = f"no packet from {self._place(end)} arrives at {self._place(other)}"
            fix = "check the cable, and VLANs and address learning of a switch in between"
            return Result(False, detail, fix)
        return None

    def _too_slow(self) -> Result | None:
        pair = self.ends[0]
        wanted = max(self.needs.rate(*pair), self.inventory.rate(*pair) or 0)
        for end in self.ends:
            measured, interface = self.tried[end], self.inventory.interface(*end)
            fix = f"on {self.inventory.host_of(end[0])}: ethtool -s {interface} autoneg on"
            if measured.half_duplex:
                return Result(False, f"{self._place(end)} is half duplex", fix)
            if measured.rate is not None and measured.rate < wanted:
                detail = f"{format_rate(measured.rate)}/s, not {format_rate(wanted)}/s"
                return Result(False, detail, f"{fix}; or use another cable")
        return None

    def _too_small(self) -> Result | None:
        if all(self.tried[end].full_size for end in self.ends):
            return None
        detail = f"packets of {self.needs.mtu} B do not pass, smaller packets do"
        fix = "raise the MTU of the switch in between, or lower the topology's `mtu`"
        return Result(False, detail, fix)

    def _place(self, end: End) -> str:
        interface = self.inventory.interface(*end)
        return f"{self.inventory.host_of(end[0])} {interface} ({end[0]}-{end[1]})"
