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
    """Say whether there is an interface, in any namespace, that goes with a module."""
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
#: What the kernel loads by itself at the words of a plan: queues, classifiers, actions, congestion
#: control, devices, what ``ss`` asks.
_BY_ITSELF = re.compile(r"(sch|cls|act|em|tcp)_\w+|\w+_diag|veth|ifb|dummy")
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
    """Give the name by which the kernel lists a module."""
    return name.replace("-", "_")


def load(path: str | None, name: str) -> None:
    """Load a module from a file, or the distribution's of that name.

    Raises
    ------
    AgentError
        With what the kernel said.
    """
    system.checked(["insmod", path] if path else ["modprobe", name])


def unload(name: str, patience: float) -> None:
    """Unload a module, which may still be used by a namespace that is about to vanish.

    One whose interfaces others have is left to them.

    Raises
    ------
    Left
        If it is still in use after ``patience`` seconds.
    """
    until = time.monotonic() + patience
    while called(name) in loaded():
        others = held(called(name))
        said = None if others else _remove(called(name))
        late = time.monotonic() > until
        if said is None and (late or not others):
            return
        if late:
            raise Left(f"module {name}: {said}")
        time.sleep(_LOOK_S)


def new(before: list[str]) -> list[str]:
    """Give the modules that the kernel has loaded by itself since, without what they brought."""
    return [name for name in loaded() if name not in before and _BY_ITSELF.fullmatch(name)]


def unload_new(before: list[str], patience: float) -> None:
    """Unload what the kernel has loaded by itself since, unless something uses it.

    Interfaces of whatever namespace use the module of their kind.

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
        refused = {name: said for name in free if (said := _remove(name)) is not None}
        if len(refused) == len(free) and time.monotonic() > until:
            if refused:
                raise Left("; ".join(f"module {name}: {said}" for name, said in refused.items()))
            return  # somebody else uses them by now
        if len(refused) == len(free):
            time.sleep(_LOOK_S)


def _remove(name: str) -> str | None:
    """Unload a module now; give what speaks against it."""
    try:
        said = system.run(["rmmod", name])
    except AgentError as error:
        return error.message
    return None if said.status == 0 else (said.errors.strip() or system.ending(said.status))
