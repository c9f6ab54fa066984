"""What an agent says of its host, as the doctor reads it: every field may be missing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

#: Linux capabilities by their bit: what moving interfaces and making namespaces takes.
CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13, "CAP_SYS_MODULE": 16, "CAP_SYS_ADMIN": 21}


@dataclass(frozen=True)
class Nic:
    """An interface of a host."""

    link: Mapping[str, Any]  #: its element of ``ip -j -d link show``
    more: Mapping[str, Any] = field(default_factory=dict)  #: of sysfs, and who manages it
    features: Mapping[str, Mapping[str, bool]] = field(default_factory=dict)  #: of ``ethtool -k``

    @property
    def rate(self) -> int | None:
        """Negotiated rate, bit/s; None if there is no link or the driver knows of no rate."""
        speed = self.more.get("speed")
        return speed * 10**6 if isinstance(speed, int) and 0 < speed < 2**31 else None

    @property
    def stands_on(self) -> str | None:
        """Name the interface that this one is built on, as a VLAN is; a veth's peer is not that."""
        kind = self.link.get("linkinfo", {}).get("info_kind")
        return self.link.get("link") if kind != "veth" else None

    @property
    def manager(self) -> str | None:
        """Name the service that would configure the interface by itself, if one does."""
        for service in ("NetworkManager", "systemd-networkd"):
            if self.more.get(service) == "managed":
                return service
        return None

    def stuck_on(self, features: Sequence[str]) -> list[str]:
        """List the features that are on and cannot be switched off."""
        states = {name: self.features.get(name, {}) for name in features}
        return [name for name, s in states.items() if s.get("on") and s.get("fixed")]


@dataclass(frozen=True)
class Facts:
    """The value of the agent's ``facts``."""

    raw: Mapping[str, Any]

    def tool(self, name: str) -> str | None:
        """Give a program's version, or its path if it tells none; None if it is missing."""
        found = self.raw.get("tools", {}).get(name)
        return (found.get("version") or found.get("path")) if found else None

    @property
    def release(self) -> str:
        """The kernel's release."""
        return str(self.raw["uname"]["release"])

    @property
    def machine(self) -> str:
        """The processor's architecture."""
        return str(self.raw["uname"]["machine"])

    @property
    def arrives(self) -> str | None:
        """The interface that has the address by which we reach the host."""
        return self.device_of(self._control.get("server") or "")

    @property
    def back(self) -> str | None:
        """The interface by which the kernel would answer us, as it says itself."""
        return self._control.get("device")

    @property
    def _control(self) -> Mapping[str, str | None]:
        return self.raw.get("control") or {}

    @property
    def kernel(self) -> tuple[str, str, str]:
        """Release, build and architecture of the kernel: what ``uname -r -v -m`` prints."""
        return self.release, str(self.raw["uname"]["version"]), self.machine

    @property
    def version(self) -> tuple[int, int]:
        """The kernel's version, to compare."""
        match = re.match(r"(\d+)\.(\d+)", self.release)
        return (int(match[1]), int(match[2])) if match else (0, 0)

    @property
    def distribution(self) -> str:
        """``debian``, ``ubuntu``, ``fedora``, ``arch`` or ``other``, relatives included."""
        system = self.raw.get("os") or {}
        words = f"{system.get('ID', '')} {system.get('ID_LIKE', '')}".split()
        known = ("ubuntu", "debian", "fedora", "rhel", "centos", "arch")
        found = next((word for word in words if word in known), "other")
        return "fedora" if found in ("rhel", "centos") else found

    @property
    def lacking(self) -> list[str]:
        """List the capabilities that root has not got, as in a container."""
        mask = int(str(self.raw.get("capabilities", "ffffffffffffffff")), 16)
        return [name for name, bit in CAPABILITIES.items() if not mask >> bit & 1]

    def module(self, name: str) -> str:
        """Say of a kernel module: ``loaded``, ``builtin``, ``available`` or ``missing``."""
        return str(self.raw.get("modules_here", {}).get(name, "missing"))

    @cached_property
    def nics(self) -> dict[str, Nic]:
        """The interfaces by name."""
        links = [link for link in self.raw.get("links", ()) if "ifname" in link]
        more, features = self.raw.get("drivers", {}), self.raw.get("offloads", {})
        return {
            link["ifname"]: Nic(
                link, more.get(link["ifname"], {}), features.get(link["ifname"], {})
            )
            for link in links
        }

    def above(self, name: str) -> list[str]:
        """List the interfaces that are built on another one: bridges, bonds, VLANs."""
        master = self.nics[name].link.get("master")
        stacked = [n for n, other in self.nics.items() if other.stands_on == name]
        return [*([master] if master else []), *stacked]

    def device_of(self, address: str) -> str | None:
        """Give the interface that has an address."""
        for entry in self.raw.get("addresses", ()):
            if any(info.get("local") == address for info in entry.get("addr_info", ())):
                return str(entry["ifname"])
        return None
