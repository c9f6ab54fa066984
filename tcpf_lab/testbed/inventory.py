"""Inventories: which host plays which role of a topology, and how it is reached.

An inventory says where to measure and nothing about what.  It names no password and holds no key:
those are the business of the SSH configuration and agent of whoever runs it.
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
        f"of a dumbbell S0, S1, ... and D0, D1, ... instead of S and D.{hint}"
    )


def checked_host(text: str) -> str:
    """Accept a host's name in the inventory."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", text):
        return text
    raise ValueError(f"'{text}' is not allowed; a host's name is letters, digits, '.', '_' and '-'")


def checked_address(text: str) -> str:
    """Accept what ``ssh`` takes for a host, without user and port."""
    if "@" in text:
        raise ValueError(f"'{text}' names a user; write it with the key 'user'")
    if re.fullmatch(r"[^:]+:[0-9]+", text):
        raise ValueError(f"'{text}' names a port; write it with the key 'port'")
    if re.fullmatch(r"[A-Za-z0-9:][A-Za-z0-9._:%-]{0,252}", text):
        return text
    raise ValueError(f"'{text}' is no name or address of a host")


def checked_user(text: str) -> str:
    """Accept the name of an account."""
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}", text):
        return text
    raise ValueError(f"'{text}' is no name of an account")


def checked_interface(text: str) -> str:
    """Accept a name that the kernel may give an interface."""
    if text in (".", "..") or not re.fullmatch(
        r"[^\s/:'\"\x00-\x1f-][^\s/:'\"\x00-\x1f]{0,14}", text
    ):
        raise ValueError(f"'{text}' is no interface; `ip -br link` on the host lists them")
    return text


def checked_path(text: str) -> str:
    """Accept the path of a file here."""
    if not text.strip() or "\0" in text or "PRIVATE KEY" in text:
        raise ValueError("must be the path of a file")
    return text


def checked_state_directory(text: str) -> str:
    """Accept a directory of the hosts that is the program's own."""
    place = PurePosixPath(text)
    if not re.fullmatch(r"/[A-Za-z0-9._/-]+", text) or ".." in place.parts or len(place.parts) < 3:
        raise ValueError(
            f"'{text}' is not allowed; it must be an absolute path of letters, digits and any of "
            "'._-', not directly below /, such as /var/lib/tcpf-lab"
        )
    return str(place)


def along_the_path(name: str) -> tuple[int, int]:
    """Order roles from the senders to the receivers."""
    kind = ("S", "R", "D").index(name[0])
    return kind, int(name[1:] or 0)


def missing_roles(roles: Iterable[str]) -> Iterator[str]:
    """Say which roles no host plays, of those that belong to what the others make."""
    played = set(roles)
    for name in CHAIN[1:4]:
        if name not in played:
            yield f"no host plays {name}"
    senders, receivers = _ends(played, "S"), _ends(played, "D")
    if "" in senders | receivers and len(senders | receivers) > 1:
        yield "S and D belong to a chain, S0, S1, ... and D0, D1, ... to a dumbbell: not both"
        return
    numbers = {int(number) for number in senders | receivers if number}
    wanted = [""] if not numbers else [str(number) for number in range(max(numbers) + 1)]
    for letter, there in (("S", senders), ("D", receivers)):
        for number in wanted:
            if number not in there:
                yield f"no host plays {letter}{number}"


def _ends(played: set[str], letter: str) -> set[str]:
    return {name[1:] for name in played if name[0] == letter}


#: Keys that somebody may want to write and that must not stand in a file.
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
    """A mapping that refuses credentials by name, and says where they belong instead."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_secrets(cls, value: Any) -> Any:
        sentence = (
            "no credential is kept in a file; use an SSH key with an agent (ssh-add), "
            "and ssh.identity to name its file"
        )
        found = [key for key in value if key in _SECRETS] if isinstance(value, dict) else []
        if found:
            raise RefusedError(tuple(((key,), sentence) for key in found))
        return value


class Host(WithoutSecrets):
    """A machine that is reached by SSH."""

    address: Annotated[str, AfterValidator(checked_address)] | None = Field(
        default=None,
        description="Name or address for `ssh`, or a `Host` of the SSH configuration; without it "
        "the host's own name in this file.",
    )
    user: Annotated[str, AfterValidator(checked_user)] | None = Field(
        default=None,
        description="Who logs in, root or somebody with `sudo` without a password; without it the "
        "SSH configuration decides.",
    )
    port: int | None = Field(
        default=None, ge=1, le=65535, description="Port of sshd; the SSH configuration decides."
    )
    control: Interface = Field(
        description="The interface by which the host is reached. It is never touched."
    )
    roles: Roles = Field(
        min_length=1, description="What the host plays: one or more of S, R0, R1, R2, D."
    )
    kernel: Name | None = Field(
        default=None,
        description="One word for hosts that are namespaces of one kernel and see each other's "
        "processes: between them a half-duplex link is a wire, and the cable is left alone.",
    )
    interfaces: dict[str, Interface] = Field(
        default={},
        description="`ROLE-PEER: INTERFACE`, the interface of the cable that leads from a role to "
        "the next. Roles that share a host need none: they get a pair of virtual interfaces.",
    )


class Links(SpecModel):
    """What the cables can carry."""

    rate: Rate | None = Field(default=None, description="Rate of every cable.")
    rates: dict[str, Rate] = Field(
        default={}, description="`ROLE-PEER: RATE` of cables with another one."
    )


class Ssh(WithoutSecrets):
    """Files of SSH that are not the usual ones; paths are relative to the inventory."""

    config: Place | None = Field(default=None, description="Instead of `~/.ssh/config`.")
    known_hosts: Place | None = Field(
        default=None,
        description="Looked into before `~/.ssh/known_hosts`. "
        "An unknown host key is always refused.",
    )
    identity: Place | None = Field(default=None, description="File of the private key to use.")


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
    hosts: dict[Annotated[str, AfterValidator(checked_host)], Host] = Field(
        min_length=1, description="The hosts by a name of your choice, which messages use."
    )
    links: Links = Field(default=Links(), description="What the cables can carry.")
    ssh: Ssh = Field(default=Ssh(), description="Files of SSH that are not the usual ones.")
    state_directory: Annotated[str, AfterValidator(checked_state_directory)] = Field(
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
        return tuple(sorted(found, key=along_the_path))

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
