"""Inventories: which host plays which role of a topology, and how it is reached.

An inventory describes hosts, not experiments.  It holds no password and no key: the user's SSH
configuration and agent provide them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    WithJsonSchema,
    model_validator,
)

from tcpf_lab.base import shipped
from tcpf_lab.base.errors import RequestError, SpecError
from tcpf_lab.base.units import Duration, Rate, format_rate
from tcpf_lab.spec.load import load_as
from tcpf_lab.spec.model import Name, Title
from tcpf_lab.spec.words import KeyPath, RefusedError, SpecModel, closest, unknown
from tcpf_lab.spec.yaml_text import read_yaml

#: Roles of the chain, along the path; a dumbbell has S0, S1, ... for S and D0, D1, ... for D.
CHAIN = ("S", "R0", "R1", "R2", "D")
_ROLE = r"[SD](?:0|[1-9][0-9]?)?|R[012]"
ROLE_SCHEMA = {"type": "string", "pattern": f"^(?:{_ROLE})$"}


def checked_role(text: str) -> str:
    """Accept a role of a topology."""
    if re.fullmatch(_ROLE, text):
        return text
    meant = closest(text, CHAIN)
    hint = f" Did you mean '{meant}'?" if meant else ""
    raise ValueError(
        f"unknown role '{text}'; allowed: {', '.join(CHAIN)}; "
        f"in a dumbbell S0, S1, ... and D0, D1, ... replace S and D.{hint}"
    )


def checked_host(text: str) -> str:
    """Accept a host's name in the inventory."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", text):
        return text
    raise ValueError(f"'{text}' is not a host's name; allowed: letters, digits, '.', '_' and '-'")


def checked_address(text: str) -> str:
    """Accept a host name or address as ``ssh`` does, without user and port."""
    if "@" in text:
        raise ValueError(f"'{text}' names a user; write it with the key 'user'")
    if re.fullmatch(r"[^:]+:[0-9]+", text):
        raise ValueError(f"'{text}' names a port; write it with the key 'port'")
    if re.fullmatch(r"[A-Za-z0-9:][A-Za-z0-9._:%-]{0,252}", text):
        return text
    raise ValueError(f"'{text}' is not a host name or address")


def checked_user(text: str) -> str:
    """Accept the name of an account."""
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}", text):
        return text
    raise ValueError(f"'{text}' is not a user name")


def checked_interface(text: str) -> str:
    """Accept an interface name that the kernel allows."""
    if text in (".", "..") or not re.fullmatch(
        r"[^\s/:'\"\x00-\x1f-][^\s/:'\"\x00-\x1f]{0,14}", text
    ):
        raise ValueError(
            f"'{text}' is not an interface name; `ip -br link` on the host lists the interfaces"
        )
    return text


def checked_path(text: str) -> str:
    """Accept the path of a local file."""
    if not text.strip() or "\0" in text or "PRIVATE KEY" in text:
        raise ValueError("must be a file path")
    return text


def checked_state_directory(text: str) -> str:
    """Accept a directory on the hosts for the program's state."""
    place = PurePosixPath(text)
    if not re.fullmatch(r"/[A-Za-z0-9._/-]+", text) or ".." in place.parts or len(place.parts) < 3:
        raise ValueError(
            f"'{text}' is not allowed; use an absolute path of letters, digits, '.', '_' and '-', "
            "not directly below /, such as /var/lib/tcpf-lab"
        )
    return str(place)


def along_the_path(name: str) -> tuple[int, int, str]:
    """Order roles from the senders to the receivers."""
    kind = ("S", "R", "D").index(name[0])
    return kind, int(name[1:]) if name[1:].isdigit() else 0, name


def missing_roles(roles: Iterable[str]) -> Iterator[str]:
    """Yield the roles of the topology that no host plays."""
    played = set(roles)
    for name in CHAIN[1:4]:
        if name not in played:
            yield f"no host plays {name}"
    senders, receivers = _ends(played, "S"), _ends(played, "D")
    if "" in senders | receivers and len(senders | receivers) > 1:
        yield "S and D are roles of a chain, S0, S1, ... and D0, D1, ... of a dumbbell: use one set"
        return
    numbers = {int(number) for number in senders | receivers if number}
    wanted = [""] if not numbers else [str(number) for number in range(max(numbers) + 1)]
    for letter, there in (("S", senders), ("D", receivers)):
        for number in wanted:
            if number not in there:
                yield f"no host plays {letter}{number}"


def _ends(played: set[str], letter: str) -> set[str]:
    return {name[1:] for name in played if name[0] == letter}


#: Keys of credentials, which an inventory must not contain.
_SECRETS = ("password", "passphrase", "passwd", "secret", "key", "sudo_password")


def _listed(value: Any) -> Any:
    return (
        (value,) if isinstance(value, str) else tuple(value) if value.__class__ is list else value
    )


Interface = Annotated[str, AfterValidator(checked_interface)]
Roles = Annotated[
    tuple[Annotated[str, AfterValidator(checked_role)], ...],
    BeforeValidator(_listed),
    WithJsonSchema(
        {"anyOf": [ROLE_SCHEMA, {"type": "array", "items": ROLE_SCHEMA, "minItems": 1}]}
    ),
]
Place = Annotated[str, AfterValidator(checked_path)]


class WithoutSecrets(SpecModel):
    """A mapping that refuses keys of credentials."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_secrets(cls, value: Any) -> Any:
        sentence = (
            "an inventory holds no credentials; load an SSH key into an agent (ssh-add), "
            "or name its file with ssh.identity"
        )
        found = [key for key in value if key in _SECRETS] if isinstance(value, dict) else []
        if found:
            raise RefusedError(tuple(((key,), sentence) for key in found))
        return value


class Host(WithoutSecrets):
    """A machine that is reached by SSH."""

    address: Annotated[str, AfterValidator(checked_address)] | None = Field(
        default=None,
        description="Name or address for `ssh`, or a `Host` of the SSH configuration; default: "
        "the host's name in this file.",
    )
    user: Annotated[str, AfterValidator(checked_user)] | None = Field(
        default=None,
        description="Login user: root, or a user with passwordless `sudo`; default: from the SSH "
        "configuration.",
    )
    port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="Port of sshd; default: from the SSH configuration.",
    )
    control: Interface = Field(
        description="The interface that carries the SSH connection. It is never changed."
    )
    roles: Roles = Field(
        min_length=1, description="Roles of the host: one or more of S, R0, R1, R2, D."
    )
    kernel: Name | None = Field(
        default=None,
        description="The same word for hosts that are namespaces of one kernel and share a process "
        "namespace: a half-duplex link between them is an emulated wire, without their cable.",
    )
    interfaces: dict[str, Interface] = Field(
        default={},
        description="`ROLE-PEER: INTERFACE`, the interface of ROLE's end of the cable to PEER. "
        "Roles on one host need none: a veth pair joins them.",
    )


class Links(SpecModel):
    """What the cables can carry."""

    rate: Rate | None = Field(default=None, description="Rate of all cables.")
    rates: dict[str, Rate] = Field(
        default={}, description="`ROLE-PEER: RATE` of cables with another rate."
    )


class Ssh(WithoutSecrets):
    """Files of SSH that are not the usual ones; paths are relative to the inventory."""

    config: Place | None = Field(default=None, description="Replaces `~/.ssh/config`.")
    known_hosts: Place | None = Field(
        default=None,
        description="Read before `~/.ssh/known_hosts`. An unknown host key is always refused.",
    )
    identity: Place | None = Field(default=None, description="File of the private key.")


#: Names of testbeds that are not an inventory's.
RESERVED = ("uml",)
#: The virtual machines' own inventory: stem of its file and name, which no other may have.
GENERATED = ("inventory", "vm")
_FOLDER = "testbeds"
#: The controller sends a beat every 5 s; allowed values of ``silence``, s.
_SHORTEST_SILENCE_S, _LONGEST_SILENCE_S = 10.0, 3600.0


class Inventory(WithoutSecrets):
    """A whole inventory file."""

    noun: ClassVar[str] = "an inventory"
    _path: Path | None = PrivateAttr(None)

    name: Name = Field(
        description="The file name without `.yaml`: the argument of `--testbed` and the directory "
        "of the results, `results/<experiment>/<name>/`."
    )
    title: Title = Field(default="", description="One line that describes the testbed.")
    hosts: dict[Annotated[str, AfterValidator(checked_host)], Host] = Field(
        min_length=1, description="The hosts, by a name of your choice; messages use it."
    )
    links: Links = Field(default=Links(), description="Rates of the cables.")
    ssh: Ssh = Field(default=Ssh(), description="SSH files other than the default ones.")
    state_directory: Annotated[str, AfterValidator(checked_state_directory)] = Field(
        default="/var/lib/tcpf-lab",
        description="Directory on a host for the agent, built modules and programs, and the "
        "journal of changes to undo.",
    )
    silence: Duration = Field(
        default=20.0,
        description="A host that receives nothing from the controller for this time undoes all "
        "changes; the controller gives a host up after 1.5 times this time. Increase it for hosts "
        "that stall.",
    )
    programs: Literal["build", "push"] = Field(
        default="push",
        description="`build`: compile the native traffic generator on the host; `push`: compile it "
        "here, statically linked, and send it.",
    )

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield every role, cable and interface that does not fit the others."""
        if self.name in RESERVED:
            yield ("name",), f"'{self.name}' is a reserved testbed name"
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
        return tuple(sorted(found, key=along_the_path))

    def host_of(self, role: str) -> str:
        """Give the name of the host that plays ``role``.

        Raises
        ------
        KeyError
            If none does; `misfits` reports that beforehand.
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
        """Return whether two roles are namespaces of one kernel."""
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

    def holding(self, links: Iterable[tuple[str, str]]) -> Inventory:
        """Give the inventory with a place for the nodes of groups and probes.

        Those at R0 are on S's host and the others on D's, with a router R3 on R2's. Their links
        share the cable between S and R0, or R2 and D.

        Parameters
        ----------
        links : iterable of pair of str
            Nodes that a link joins.
        """
        if not {"S", "D"} <= {*self.roles}:
            return self
        roles = {name: [*host.roles] for name, host in self.hosts.items()}
        interfaces = {name: {**host.interfaces} for name, host in self.hosts.items()}
        rates = {**self.links.rates}
        for link in links:
            node, router = link if link[1][0] == "R" else link[::-1]
            if not re.fullmatch("[SD][a-z].*", node):
                continue
            cable = ("S", "R0") if router == "R0" else ("D", "R2")
            if (rate := self.rate(*cable)) is not None:
                rates[f"{node}-{router}"] = rate
            ends = ((node, router), cable), ((router, node), cable[::-1])
            for (own, peer), (role, other) in ends:
                host = self.host_of(role)
                if own not in roles[host]:
                    roles[host].append(own)
                if interface := self.interface(role, other):
                    interfaces[host][f"{own}-{peer}"] = interface
        hosts = {
            name: host.model_copy(
                update={"roles": tuple(roles[name]), "interfaces": interfaces[name]}
            )
            for name, host in self.hosts.items()
        }
        links_of_all = self.links.model_copy(update={"rates": rates})
        return self.model_copy(update={"hosts": hosts, "links": links_of_all})

    def misfits(
        self,
        roles: Iterable[str],
        rates: Mapping[tuple[str, str], int],
        wires: Iterable[tuple[str, str]] = (),
    ) -> tuple[str, ...]:
        """Return the requirements of an experiment that these hosts do not meet.

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
        if any(re.fullmatch("[SD][a-z].*", role) for role in missing):
            found = [
                f"groups and probes ({', '.join(missing)}) need hosts that play S, R0, R1, R2, D; "
                f"the inventory {self.name} has {', '.join(self.roles)}"
            ]
        cables: dict[frozenset[tuple[str, str | None]], list[tuple[str, str]]] = {}
        for a, b in rates:
            if not {a, b} & {*missing} and self.cable_rate(a, b) is not None:
                ends = {(self.host_of(x), self.interface(x, y)) for x, y in ((a, b), (b, a))}
                cables.setdefault(frozenset(ends), []).append((a, b))
        for links in cables.values():
            rate, carried = sum(rates[link] for link in links), self.cable_rate(*links[0])
            if carried is not None and carried < rate:
                needed, has = format_rate(rate), format_rate(carried)
                names, verb = ", ".join(map("-".join, links)), "need" if links[1:] else "needs"
                noun, owner = ("links", "their") if links[1:] else ("link", "its")
                found.append(f"{noun} {names} {verb} {needed}/s, {owner} cable carries {has}/s")
        there = (pair for pair in wires if not {*pair} & {*missing})
        if apart := [f"{a}-{b}" for a, b in there if not self.shares_kernel(a, b)]:
            found.append(
                f"half duplex is not possible between hosts ({', '.join(apart)}): the emulated "
                "wire needs one kernel; remove duplex and access_duplex, as full_duplex.yaml does "
                "for a switched network"
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
                sentence = f"is the same machine as '{first}'; list all of its roles under one host"
                yield ("hosts", name), sentence

    def _unfit_roles(self) -> Iterator[tuple[KeyPath, str]]:
        played: dict[str, str] = {}
        for name, host in self.hosts.items():
            for index, role in enumerate(host.roles):
                first = played.setdefault(role, name)
                if first != name or role in host.roles[:index]:
                    yield ("hosts", name, "roles", index), f"'{first}' already plays {role}"
        for sentence in missing_roles(self.roles):
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
                yield path, unknown(f"unknown link '{link}' for this host's roles", link, allowed)
            if interface == host.control:
                yield path, f"{interface} is the control interface; data needs another one"
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
                    f"{peer} is on another host, '{self.host_of(peer)}'"
                    if apart
                    else f"the other end, {peer}-{role}, has an interface"
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
    message = "no such inventory in ./testbeds or among those shipped with tcpf-lab"
    raise RequestError(unknown(message, path.name, inventories()), where=str(name))


def inventories() -> list[str]:
    """Return the names of all inventories."""
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
        All problems of the file at once, each with ``file:line``.
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
        message = f"name: '{name}' is a reserved testbed name"
        raise SpecError(message, where=where, hint="rename the file and its `name`")
    if name != path.stem:
        message = f"name: '{name}' differs from the file name"
        hint = f"write `name: {path.stem}`, or rename the file to {name}.yaml"
        raise SpecError(message, where=where, hint=hint)


def _folders() -> tuple[Path, Path]:
    return Path(_FOLDER), shipped.directory(_FOLDER)
