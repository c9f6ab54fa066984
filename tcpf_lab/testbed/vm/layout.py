"""The machines of the VM testbed: which guest has which roles, interfaces, wires and clock.

Every role is a host of its own, with a network card for control and one for each wire.  Wires
between guests are sockets that two emulators share; wires within a guest are veth pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.compat import StringIO

#: Along the path; a wire joins each with the next.
ROLES = ("S", "R0", "R1", "R2", "D")
CONTROL = "control"
#: Name of the inventory and of what `--testbed` calls it.
NAME = "vm"
#: An emulated machine with five hosts, on a busy one, answers nobody for half a minute at times.
SILENCE = "90 s"
#: Where a role's sshd listens, as the emulator's network for control has it.
ADDRESS, SSH_PORT = "10.0.2.15", 22
#: Where the ports of the roles' sshds are on this machine.
HERE = "127.0.0.1"
#: Directory of the guests' own files, in their roots.
PLACE = "/.tcpf-lab"


@dataclass(frozen=True)
class Guest:
    """One virtual machine."""

    name: str
    roles: tuple[str, ...]
    ahead_s: int  #: its clock is set so much ahead of this machine's
    faster_ppm: int  #: and runs so much faster


GUESTS = (Guest("ends", ("S", "D"), 0, 0), Guest("routers", ("R0", "R1", "R2"), 37, 40))


@dataclass(frozen=True)
class End:
    """One end of a wire: a role's interface."""

    role: str
    peer: str

    @property
    def interface(self) -> str:
        """``data0``, and ``data1`` on the side of the receiver if the role has two."""
        first = ROLES.index(self.role) == 0 or ROLES.index(self.peer) < ROLES.index(self.role)
        return "data0" if first else "data1"

    @property
    def mac(self) -> str:
        """Its Ethernet address."""
        return mac(self.role, 1 + int(self.interface.removeprefix("data")))


#: From the sender's side to the receiver's.
WIRES = tuple((End(a, b), End(b, a)) for a, b in pairwise(ROLES))


def mac(role: str, number: int) -> str:
    """Return the address of a role's network card; 0 is the one for control."""
    return f"52:54:00:1a:{ROLES.index(role):02x}:{number:02x}"


def host_name(role: str) -> str:
    """Return what a role's host is called, by itself and in the inventory."""
    return f"vm-{role}"


def guest_of(role: str) -> Guest:
    """Return the guest that has ``role``."""
    return next(guest for guest in GUESTS if role in guest.roles)


def crossing() -> tuple[tuple[End, End], ...]:
    """Return the wires between guests."""
    return tuple(wire for wire in WIRES if guest_of(wire[0].role) is not guest_of(wire[1].role))


def own_ends(guest: Guest) -> Iterator[tuple[int, End]]:
    """Yield the number and this guest's end of every wire to the other."""
    for number, wire in enumerate(crossing()):
        for end in wire:
            if end.role in guest.roles:
                yield number, end


def setup(guest: Guest) -> str:
    """Return the instructions for the guest's script ``connect``."""
    lines = [f"faster {guest.faster_ppm}"]
    lines += [f"card {mac(role, 0)} {role} {CONTROL}" for role in guest.roles]
    lines += [f"card {end.mac} {end.role} {end.interface}" for _, end in own_ends(guest)]
    for wire in WIRES:
        if all(end.role in guest.roles for end in wire):
            ends = (f"{end.role} {end.interface} {end.mac}" for end in wire)
            lines.append(f"wire {' '.join(ends)}")
    return "".join(f"{line}\n" for line in lines)


def inittab(guest: Guest) -> str:
    """Return what the guest's first process starts."""
    enter = f"{PLACE}/busybox unshare -n -m -u"
    lines = [f"::once:{PLACE}/connect"]
    lines += [f"::once:{enter} {PLACE}/role {role} {host_name(role)}" for role in guest.roles]
    lines += [f"::ctrlaltdel:{PLACE}/busybox poweroff -f"]
    return "".join(f"{line}\n" for line in lines)


def inventory(ports: Mapping[str, int], release: str) -> str:
    """Return the inventory, as YAML, for roles whose sshds are at these ports."""
    hosts = {}
    for role in ROLES:
        ends = [end for wire in WIRES for end in wire if end.role == role]
        hosts[host_name(role)] = {
            "address": HERE,
            "port": ports[role],
            "user": "root",
            "control": CONTROL,
            "roles": [role],
            "kernel": guest_of(role).name,
            "interfaces": {f"{end.role}-{end.peer}": end.interface for end in ends},
        }
    written = {
        "name": NAME,
        "title": f"two virtual machines with Linux {release}",
        "hosts": hosts,
        "silence": SILENCE,
        "ssh": {"config": "ssh_config", "known_hosts": "known_hosts", "identity": "keys/identity"},
    }
    text = StringIO()
    YAML().dump(written, text)
    return str(text.getvalue())


def ssh_config(ports: Mapping[str, int], directory: Path) -> str:
    """Return an SSH configuration in which every role's host has its name."""
    hosts = "".join(
        f"Host {host_name(role)}\n  HostName {HERE}\n  Port {port}\n"
        for role, port in ports.items()
    )
    return f"""{hosts}Host *
  User root
  IdentityFile "{directory / "keys/identity"}"
  IdentitiesOnly yes
  UserKnownHostsFile "{directory / "known_hosts"}"
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  PasswordAuthentication no
"""


def known_hosts(ports: Mapping[str, int], keys: Mapping[str, str]) -> str:
    """Return the roles' public host keys in the form of ``known_hosts``."""
    return "".join(f"[{HERE}]:{ports[role]} {keys[role]}\n" for role in ROLES)
