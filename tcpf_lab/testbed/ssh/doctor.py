"""All that is wrong with hosts, at once, each with the command that mends it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcpf_lab.results.command import command
from tcpf_lab.testbed.doctor import Check
from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.ssh.checks import (
    HOST_CHECKS,
    Finding,
    cables,
    fine,
    network,
)
from tcpf_lab.testbed.ssh.session import BY_HAND
from tcpf_lab.testbed.ssh.steps import Needs
from tcpf_lab.testbed.ssh.survey import Survey

_OTHER = "correct the inventory, or look at another experiment: `doctor` takes its name, too"
#: Where a finding was made, what was looked at, what was found.
Row = tuple[str, str, Finding]


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
    for host, seen in survey.seen.items():
        yield from ((host, name, finding) for name, finding in network(seen))


def _trials(survey: Survey) -> Iterator[Row]:
    for host, error in survey.untried.items():
        yield host, "links", Finding(False, f"not tried: {error.message}", error.hint)
