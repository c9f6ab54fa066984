"""Kernel modules: loaded for a run, and gone after it, with those that came by themselves."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tcpf_lab.testbed.ssh.agent import namespaces, system
from tcpf_lab.testbed.ssh.agent.system import AgentError, Left

_PROC = Path("/proc")
#: The kinds of interfaces that a module is for, where they are not called as it is.
_OF_MODULE = {
    "bonding": {"bond"},
    "8021q": {"vlan"},
    "ip_gre": {"gre", "gretap", "erspan"},
    "ip6_gre": {"ip6gre", "ip6gretap", "ip6erspan"},
    "ip6_tunnel": {"ip6tnl"},
    "ip_vti": {"vti"},
    "macvtap": {"macvtap", "macvlan"},
}
_SAME_NAME = {
    *("veth", "dummy", "ifb", "team", "bridge", "vcan", "vxcan", "nlmon", "vrf", "netkit"),
    *("macvlan", "ipvlan", "ipvtap", "vxlan", "geneve", "bareudp", "wireguard", "macsec"),
    *("ipip", "sit", "tun"),
}


def held(module: str) -> bool:
    """Return whether an interface in any namespace uses a module."""
    kinds = {module} if module in _SAME_NAME else _OF_MODULE.get(module)
    return kinds is not None and not kinds.isdisjoint(everywhere())


def everywhere() -> set[str]:
    """Give the kinds of all interfaces in all network namespaces that can be seen.

    These are that of this process, that of the first one, all that have a name, and those of all
    processes.
    """
    seen: set[int] = set()
    kinds: set[str] = set()
    for place in _places():
        number = namespaces.number(place)
        if number is not None and number not in seen:
            with suppress(AgentError, OSError):  # it has just ended
                kinds |= namespaces.inside(place, _here)
                seen.add(number)
    return kinds


def _places() -> Iterator[Path]:
    yield from (namespaces.OWN, namespaces.FIRST)
    if namespaces.NAMED.is_dir():
        with suppress(OSError):
            yield from filter(namespaces.is_one, list(namespaces.NAMED.iterdir()))
    for path in _PROC.iterdir():
        if path.name.isdigit():
            yield path / "ns" / "net"


def _here() -> set[str]:
    links = system.report(["ip", "-j", "-d", "link", "show"])
    return {link.get("linkinfo", {}).get("info_kind", "") for link in links}


LOADED = Path("/proc/modules")
#: Modules that the kernel loads on demand for a plan: queues, classifiers, actions, congestion
#: control, devices (8021q uses garp, mrp, stp and llc), socket diagnostics of ``ss``.
_BY_ITSELF = re.compile(r"(sch|cls|act|em|tcp)_\w+|\w+_diag|veth|ifb|dummy|8021q|garp|mrp|stp|llc")
_LOOK_S = 0.1


def loaded() -> dict[str, tuple[int, list[str]]]:
    """Give the modules that are loaded: how often each is used, and by which modules."""
    try:
        lines = LOADED.read_text().splitlines()
    except FileNotFoundError:  # a kernel without modules
        return {}
    rows = (line.split() for line in lines)
    return {
        row[0]: (int(row[2]), [n for n in row[3].split(",") if n not in ("", "-")]) for row in rows
    }


def called(name: str) -> str:
    """Return the name by which the kernel lists a module."""
    return name.replace("-", "_")


def load(path: str | None, name: str) -> None:
    """Load a module from a file, or the distribution's of that name.

    Raises
    ------
    AgentError
        With the kernel's message.
    """
    system.checked(["insmod", path] if path else ["modprobe", name])


def unload(name: str, patience: float) -> None:
    """Unload a module, which may still be used by a namespace that is about to vanish.

    A module whose interfaces are in use elsewhere stays loaded.

    Raises
    ------
    Left
        If it is still in use after ``patience`` seconds.
    """
    until = time.monotonic() + patience
    while called(name) in loaded():
        others = held(called(name))
        reason = None if others else _remove(called(name))
        late = time.monotonic() > until
        if reason is None and (late or not others):
            return
        if late:
            raise Left(f"module {name}: {reason}")
        time.sleep(_LOOK_S)


def new(before: list[str]) -> list[str]:
    """Return the modules that the kernel has loaded on demand since, without dependencies."""
    return [name for name in loaded() if name not in before and _BY_ITSELF.fullmatch(name)]


def unload_new(before: list[str], patience: float) -> None:
    """Unload modules that the kernel has loaded on demand since and that are not in use.

    Interfaces of any namespace use the module of their kind.

    Raises
    ------
    Left
        If one is neither used nor can be unloaded.
    """
    until = time.monotonic() + patience
    ours: set[str] = set()
    while True:
        now = loaded()
        ours |= set(new(before))
        ours |= {name for name in now if name not in before and ours & set(now[name][1])}
        there = [name for name in now if name in ours]
        if not there:
            return
        free = [name for name in there if now[name][0] == 0 and not held(name)]
        refused = {name: reason for name in free if (reason := _remove(name)) is not None}
        if len(refused) == len(free) and time.monotonic() > until:
            if refused:
                raise Left("; ".join(f"module {name}: {why}" for name, why in refused.items()))
            return  # another user has them by now
        if len(refused) == len(free):
            time.sleep(_LOOK_S)


def _remove(name: str) -> str | None:
    """Unload a module now; return why that fails, None if it does not."""
    try:
        result = system.run(["rmmod", name])
    except AgentError as error:
        return error.message
    return None if result.status == 0 else (result.errors.strip() or system.ending(result.status))
