"""What can be seen of a host without changing anything on it, in one round trip."""

from __future__ import annotations

from collections.abc import Iterator

from tcpf_lab.command import command
from tcpf_lab.errors import TestbedError
from tcpf_lab.plan.compose import Plan
from tcpf_lab.plan.step import Sysctl
from tcpf_lab.spec.tcp import (
    LINUX22_BEHAVIOURS,
    LINUX22_SYSCTL,
    NO_LIMITED_TRANSMIT,
    RENO_SYSCTL,
)
from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.ssh_needs import programs_of
from tcpf_lab.testbed.ssh_process import Host, Reply, run

#: The agent is written for this Python and newer ones.
OLDEST_PYTHON = (3, 9)
#: Kernel parameters that patches of ours make, and what else can be done.
_PATCHED = {
    RENO_SYSCTL: "only the virtual-time kernel has it; `tcp.recovery: newreno` runs here",
    NO_LIMITED_TRANSMIT: "only the virtual-time kernel has it; without `tcp.limited_transmit` the "
    "experiment runs here",
    **{
        f"{LINUX22_SYSCTL}{name}": "only the virtual-time kernel has it; `tcp.profile: sysctl-2.2` "
        "without `tcp.linux22` runs here"
        for name in LINUX22_BEHAVIOURS
    },
}
#: $1 is the address we come from, $2 the interfaces, $3 the programs, $4 kernel parameters:
#: lists of words, in which a star is no pattern.
_PROBE = """
set -f
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
python3 -c 'import sys; print("python", *sys.version_info[:2])' 2>/dev/null || echo python 0 0
[ -z "$1" ] || ip -o route get "$1" 2>/dev/null | sed -n 's/.* dev \\([^ ]*\\).*/route \\1/p'
for name in $2; do ip link show dev "$name" >/dev/null 2>&1 || echo interface "$name"; done
for name in $3; do command -v "$name" >/dev/null || echo program "$name"; done
for name in $4; do [ -e "/proc/sys/$(echo "$name" | tr . /)" ] || echo parameter "$name"; done
"""
_HERE = "lo"


def programs(plan: Plan, roles: tuple[str, ...]) -> tuple[str, ...]:
    """Name the programs of the system that ``plan`` runs on the nodes ``roles``."""
    steps = (step for step in plan.steps if getattr(step, "node", None) in roles)
    return tuple(sorted({"ip", "tc"}.union(*map(programs_of, steps))))


def parameters(plan: Plan, roles: tuple[str, ...]) -> tuple[str, ...]:
    """Name the kernel parameters of patches of ours that ``plan`` sets on the nodes ``roles``."""
    steps = (step for step in plan.steps if isinstance(step, Sysctl) and step.node in roles)
    return tuple(sorted({step.key for step in steps} & _PATCHED.keys()))


def problems(host: Host, inventory: Inventory, plan: Plan) -> Iterator[str]:
    """Yield a sentence for everything on ``host`` that is in the way of ``plan``.

    Raises
    ------
    TestbedError
        If the host cannot be asked.
    """
    entry = inventory.hosts[host.name]
    interfaces = tuple(entry.interfaces.values())
    asked = (interfaces, programs(plan, entry.roles), parameters(plan, entry.roles))
    wanted = map(" ".join, asked)
    oldest = ".".join(map(str, OLDEST_PYTHON))
    reply = run(host, ("sh", "-c", _PROBE, "sh", host.client_address, *wanted))
    for line in _lines(reply):
        word, *rest = line
        if word == "python" and tuple(map(int, rest)) < OLDEST_PYTHON:
            yield f"{host.name}: no Python {oldest} or newer (apt-get install python3)"
        elif word == "route" and rest:
            yield from _route(host.name, entry.control, interfaces, rest[0])
        elif word == "interface":
            yield (
                f"{host.name}: no interface {rest[0]} (compare `ip -br link` there; an interrupted "
                f"run may hold it: {command('clean', '--testbed', inventory.testbed)})"
            )
        elif word == "program":
            yield (
                f"{host.name}: no {rest[0]} "
                f"({command('doctor', '--testbed', inventory.testbed)} names its package)"
            )
        elif word == "parameter":
            yield f"{host.name}: its kernel has no {rest[0]} ({_PATCHED[rest[0]]})"


def refuse(host: Host, inventory: Inventory, plan: Plan) -> None:
    """Refuse a host that something is in the way on.

    Raises
    ------
    TestbedError
        Naming everything.
    """
    found = tuple(problems(host, inventory, plan))
    if found:
        raise TestbedError(
            "; ".join(found),
            where=f"host {host.name}",
            hint=f"`{command('doctor', '--testbed', inventory.testbed)}` looks at all hosts",
        )


def _lines(reply: Reply) -> Iterator[list[str]]:
    for line in reply.text.splitlines():
        if words := line.split():
            yield words


def _route(host: str, control: str, interfaces: tuple[str, ...], used: str) -> Iterator[str]:
    """Refuse to take away the interface by which the host is reached."""
    if used in interfaces:
        yield (
            f"{host}: {used} is to carry data, but the host is reached by it (the control network "
            "must stand by itself)"
        )
    elif used not in (control, _HERE):
        yield (f"{host}: it is reached by {used}, not by {control} (correct `control` of {host})")
