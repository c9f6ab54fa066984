"""Inventories: which host plays which role of a topology, and how it is reached.

An inventory says where to measure and nothing about what.  It names no password and holds no key:
those are the business of the SSH configuration and agent of whoever runs it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, PrivateAttr

from tcpf_lab import shipped
from tcpf_lab.errors import RequestError, SpecError
from tcpf_lab.spec.base import KeyPath
from tcpf_lab.spec.load import load_as
from tcpf_lab.spec.model import Name, Title
from tcpf_lab.spec.suggest import unknown
from tcpf_lab.spec.yaml_text import read_yaml
from tcpf_lab.testbed import inventory_words as words
from tcpf_lab.testbed.inventory_parts import Host, Links, Ssh, WithoutSecrets
from tcpf_lab.units import Duration, format_rate

#: Names of testbeds that are not an inventory's.
RESERVED = ("uml",)
#: The virtual machines' own inventory: stem of its file and name, which no other may have.
GENERATED = ("inventory", "vm")
_FOLDER = "testbeds"
#: Hosts hear from here every 5 s, s.
_SHORTEST_SILENCE_S, _LONGEST_SILENCE_S = 10.0, 3600.0


class Inventory(WithoutSecrets):
    """A whole inventory file."""

    noun: ClassVar[str] = "an inventory"
    _path: Path | None = PrivateAttr(None)

    name: Name = Field(
        description="As the file without `.yaml`, which `--testbed` takes; also the directory of "
        "the results, `results/<experiment>/<name>/`."
    )
    title: Title = Field(default="", description="One line for people.")
    hosts: dict[Annotated[str, AfterValidator(words.host)], Host] = Field(
        min_length=1, description="The hosts by a name of your choice, which messages use."
    )
    links: Links = Field(default=Links(), description="What the cables can carry.")
    ssh: Ssh = Field(default=Ssh(), description="Files of SSH that are not the usual ones.")
    state_directory: Annotated[str, AfterValidator(words.state_directory)] = Field(
        default="/var/lib/tcpf-lab",
        description="Where a host keeps the agent, what it built, and the record of what to undo.",
    )
    silence: Duration = Field(
        default=20.0,
        description="A host that has heard nothing from here for so long undoes everything; one "
        "that has said nothing for half as long again is lost. Longer for a host that stalls.",
    )
    programs: Literal["build", "push"] = Field(
        default="push",
        description="Where the native traffic generator comes from: built on the host, or built "
        "here, linked statically, and sent.",
    )

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield every role, cable and interface that does not fit the others."""
        if self.name in RESERVED:
            yield ("name",), f"'{self.name}' is the name of another testbed"
        if not _SHORTEST_SILENCE_S <= self.silence <= _LONGEST_SILENCE_S:
            yield ("silence",), "must be from 10 s to 1 h"
        yield from self._doubled_hosts()
        yield from self._unfit_roles()
        for name, host in self.hosts.items():
            yield from self._unfit_interfaces(name, host)
        yield from self._missing_interfaces()
        allowed = [f"{a}-{b}" for a, b in self.links_of_roles()]
        for link in self.links.rates:
            if link not in allowed:
                yield ("links", "rates", link), unknown(f"unknown link '{link}'", link, allowed)

    @property
    def roles(self) -> tuple[str, ...]:
        """All roles, from the senders to the receivers."""
        found = {role for host in self.hosts.values() for role in host.roles}
        return tuple(sorted(found, key=words.along_the_path))

    def host_of(self, role: str) -> str:
        """Give the name of the host that plays ``role``.

        Raises
        ------
        KeyError
            If none does; `misfits` says so beforehand.
        """
        for name, host in self.hosts.items():
            if role in host.roles:
                return name
        raise KeyError(role)

    def address(self, host: str) -> str:
        """Give what is handed to ``ssh`` to reach the host called ``host``."""
        return self.hosts[host].address or host

    def interface(self, role: str, peer: str) -> str | None:
        """Give the interface that leads from ``role`` to ``peer``; None means a virtual pair."""
        return self.hosts[self.host_of(role)].interfaces.get(f"{role}-{peer}")

    def shares_kernel(self, a: str, b: str) -> bool:
        """Say whether two roles are namespaces of one kernel."""
        one, other = self.host_of(a), self.host_of(b)
        kernel = self.hosts[one].kernel
        return one == other or (kernel is not None and kernel == self.hosts[other].kernel)

    def rate(self, a: str, b: str) -> int | None:
        """Give what the cable between two roles carries, bit/s; None if that is not known."""
        rates = self.links.rates
        return rates.get(f"{a}-{b}", rates.get(f"{b}-{a}", self.links.rate))

    def links_of_roles(self) -> tuple[tuple[str, str], ...]:
        """Give the pairs of neighbours among the roles, along the path."""
        senders = [role for role in self.roles if role[0] == "S"]
        receivers = [role for role in self.roles if role[0] == "D"]
        pairs = (
            *((sender, "R0") for sender in senders),
            *(("R0", "R1"), ("R1", "R2")),
            *(("R2", receiver) for receiver in receivers),
        )
        return tuple(pairs)

    def misfits(
        self,
        roles: Iterable[str],
        rates: Mapping[tuple[str, str], int],
        wires: Iterable[tuple[str, str]] = (),
    ) -> tuple[str, ...]:
        """Say what is asked for that these hosts have not got.

        Parameters
        ----------
        roles : iterable of str
            Names of nodes.
        rates : mapping of pair of str to int
            Rate of the link between two of them, bit/s.
        wires : iterable of pair of str
            Those that are to be half duplex.
        """
        missing = [role for role in roles if role not in self.roles]
        found = [
            f"no host plays {role}; the inventory {self.name} has {', '.join(self.roles)}"
            for role in missing
        ]
        for (a, b), rate in rates.items():
            carried = None if {a, b} & {*missing} else self.cable_rate(a, b)
            if carried is not None and carried < rate:
                asked, has = format_rate(rate), format_rate(carried)
                found.append(f"the link {a}-{b} is to have {asked}/s, its cable {has}/s")
        there = (pair for pair in wires if not {*pair} & {*missing})
        if apart := [f"{a}-{b}" for a, b in there if not self.shares_kernel(a, b)]:
            found.append(
                f"half duplex cannot be had between hosts ({', '.join(apart)}): a wire is shared "
                "within one kernel; leave out duplex and access_duplex, as full_duplex.yaml does: "
                "the same on a switched network"
            )
        return tuple(found)

    def cable_rate(self, a: str, b: str) -> int | None:
        """Give the rate of a cable; None for a virtual pair, and if it is not known."""
        return self.rate(a, b) if self.interface(a, b) else None

    @property
    def testbed(self) -> str:
        """What ``--testbed`` takes: its name, or its path if the name alone does not find it."""
        return self.name if self._path is None else str(self._path)

    def _doubled_hosts(self) -> Iterator[tuple[KeyPath, str]]:
        seen: dict[tuple[str, int | None], str] = {}
        for name, host in self.hosts.items():
            first = seen.setdefault((self.address(name), host.port), name)
            if first != name:
                sentence = f"is the same machine as '{first}'; give all of its roles to one of them"
                yield ("hosts", name), sentence

    def _unfit_roles(self) -> Iterator[tuple[KeyPath, str]]:
        played: dict[str, str] = {}
        for name, host in self.hosts.items():
            for index, role in enumerate(host.roles):
                first = played.setdefault(role, name)
                if first != name or role in host.roles[:index]:
                    yield ("hosts", name, "roles", index), f"{role} is played by '{first}' already"
        for sentence in words.missing_roles(self.roles):
            yield ("hosts",), sentence

    def _unfit_interfaces(self, name: str, host: Host) -> Iterator[tuple[KeyPath, str]]:
        allowed = [
            f"{role}-{peer}"
            for pair in self.links_of_roles()
            for role, peer in (pair, pair[::-1])
            if role in host.roles
        ]
        uses = Counter(host.interfaces.values())
        for link, interface in host.interfaces.items():
            path = ("hosts", name, "interfaces", link)
            if link not in allowed:
                yield path, unknown(f"no link of this host's roles is '{link}'", link, allowed)
            if interface == host.control:
                yield path, f"{interface} is the control interface, which carries no data"
            elif uses[interface] > 1:
                others = [key for key, used in host.interfaces.items() if used == interface]
                yield path, f"{interface} is used more than once: {', '.join(others)}"

    def _missing_interfaces(self) -> Iterator[tuple[KeyPath, str]]:
        for pair in self.links_of_roles():
            if any(role not in self.roles for role in pair):
                continue
            apart = self.host_of(pair[0]) != self.host_of(pair[1])
            ends = {end: self.interface(*end) for end in (pair, pair[::-1])}
            for (role, peer), interface in ends.items():
                if interface or not (apart or any(ends.values())):
                    continue
                why = (
                    f"'{self.host_of(peer)}' plays {peer}"
                    if apart
                    else f"{peer}-{role} has one, and a cable has two ends"
                )
                path = ("hosts", self.host_of(role), "interfaces")
                yield path, f"missing key '{role}-{peer}': {why}"


def find_inventory(name: str | Path) -> Path:
    """Give the path of an inventory.

    Parameters
    ----------
    name : str or Path
        A path as it is; a bare name is looked up in ``./testbeds`` and among the inventories that
        come with tcpf-lab, with or without ``.yaml``.

    Raises
    ------
    RequestError
        If there is no such file.
    """
    path = Path(name).expanduser()
    if path.suffix and path.exists():
        return path
    if len(path.parts) != 1:
        raise RequestError("no such file", where=str(name))
    for folder in _folders():
        for candidate in (folder / path, folder / f"{path}.yaml"):
            if candidate.is_file():
                return candidate
    message = "no such inventory in ./testbeds and among those that come with tcpf-lab"
    raise RequestError(unknown(message, path.name, inventories()), where=str(name))


def inventories() -> list[str]:
    """Give the names by which inventories can be asked for."""
    return sorted({file.stem for folder in _folders() for file in folder.glob("*.yaml")})


def load_inventory(name: str | Path) -> Inventory:
    """Read an inventory, by path or by name.

    Returns
    -------
    Inventory
        With the paths of its ``ssh`` absolute.

    Raises
    ------
    RequestError
        If there is no such file or it cannot be read.
    SpecError, SpecErrors
        If it says something that is not allowed: everything at once, each with ``file:line``.
    """
    path = find_inventory(name)
    inventory = load_as(path, Inventory)
    _refuse_name(path, inventory.name)
    beside = path.absolute().parent
    anchored = {
        key: str(beside / Path(place).expanduser())
        for key, place in inventory.ssh.values().items()
        if place is not None
    }
    found = inventory.model_copy(update={"ssh": inventory.ssh.model_copy(update=anchored)})
    by_name = path.parent in _folders() or (path.stem, inventory.name) == GENERATED
    found._path = None if by_name else path
    return found


def _refuse_name(path: Path, name: str) -> None:
    """Refuse a name by which ``--testbed`` would not find the file, or would find another."""
    if (path.stem, name) == GENERATED:
        return
    where = f"{path}:{read_yaml(path.read_text(encoding='utf-8')).line(('name',))}"
    if name == GENERATED[1]:
        message = f"name: '{name}' is the name of another testbed"
        raise SpecError(message, where=where, hint="give the file and its `name` another name")
    if name != path.stem:
        message = f"name: '{name}' is not what the file is called"
        hint = f"write `name: {path.stem}`, or call the file {name}.yaml: --testbed takes the file"
        raise SpecError(message, where=where, hint=hint)


def _folders() -> tuple[Path, Path]:
    return Path(_FOLDER), shipped.directory(_FOLDER)
