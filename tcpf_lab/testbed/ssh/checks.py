"""What an agent says of its host, and the checks of a host."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tcpf_lab.base.units import format_size
from tcpf_lab.results.command import command
from tcpf_lab.spec.words import unknown
from tcpf_lab.testbed.inventory import Host, Inventory
from tcpf_lab.testbed.ssh.agent.network import configured
from tcpf_lab.testbed.ssh.steps import OLDEST_PYTHON, Needs

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

    def configured(self, name: str) -> list[tuple[str, str]]:
        """Say what is configured on an interface, each with the command that takes it away."""
        return [*configured(name, self.raw)]

    def device_of(self, address: str) -> str | None:
        """Give the interface that has an address."""
        for entry in self.raw.get("addresses", ()):
            if any(info.get("local") == address for info in entry.get("addr_info", ())):
                return str(entry["ifname"])
        return None


#: The modules are built for it and for newer ones.
OLDEST_KERNEL = (6, 1)
#: Captures and logs of one run, as they lie on a host.
ROOM_FOR_A_RUN = 200 * 10**6
#: What a queued packet without payload takes in the kernel: its descriptor and its buffer, bytes.
QUEUED_PACKET = 768
#: Timers finer than this are the high-resolution ones, ns.
COARSEST_TIMER_NS = 1000
#: A clock that is known worse than this is no use for comparing captures, ns.
WORST_CLOCK_NS = 10_000_000
#: No healthy crystal runs off so fast, and no correction by NTP is faster, ppm.
WORST_DRIFT_PPM = 500.0
#: What building a module takes.
BUILDING = ("make", "gcc")
#: Program -> its package, where that is not called the same: Debian's, Fedora's, Arch's.
_PACKAGES = {
    "ip": ("iproute2", "iproute", "iproute2"),
    "tc": ("iproute2", "iproute-tc", "iproute2"),
    "stdbuf": ("coreutils", "coreutils", "coreutils"),
    "gcc": ("gcc libc6-dev", "gcc", "gcc"),
    "python3": ("python3", "python3", "python"),
}
#: Architecture -> Debian's name of its usual kernel.
_FLAVOURS = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "armv7l": "armmp",
    "i686": "686-pae",
    "ppc64le": "powerpc64le",
}
_INSTALL = {"fedora": ("dnf install", 1), "arch": ("pacman -S", 2)}
_APT = ("apt-get install", 0)


@dataclass(frozen=True)
class Clock:
    """A host's clock against that of this machine."""

    offset_ns: int
    uncertainty_ns: int
    drift_ppm: float | None = None


@dataclass(frozen=True)
class Result:
    """What was found about one thing on one host."""

    ok: bool
    detail: str
    cure: str = ""


@dataclass(frozen=True)
class Seen:
    """All that is known about one host that could be reached."""

    name: str
    inventory: Inventory
    needs: Needs
    facts: Facts
    clock: Clock | None = None
    built: bool = False  #: whether the project's modules have been built for its kernel before

    @property
    def host(self) -> Host:
        """Its entry in the inventory."""
        return self.inventory.hosts[self.name]

    def all_of(self, wanted: Mapping[str, Iterable[str]]) -> list[str]:
        """Join what the host's roles want."""
        return sorted({item for role in self.host.roles for item in wanted.get(role, ())})


def fine(detail: str) -> Result:
    """Give a finding without fault."""
    return Result(True, detail)


def install(distribution: str, programs: Iterable[str]) -> str:
    """Give the command that installs programs."""
    command, column = _INSTALL.get(distribution, _APT)
    packages = {_PACKAGES.get(name, (name,) * 3)[column] for name in programs}
    return f"{command} {' '.join(sorted(packages))}"


def python(seen: Seen) -> Result:
    """Check that the agent's language is new enough."""
    text = str(seen.facts.raw.get("python", ""))
    version = tuple(int(part) for part in text.split(".")[:2] if part.isdigit())
    oldest = ".".join(map(str, OLDEST_PYTHON))
    cure = f"install Python {oldest} or newer: {install(seen.facts.distribution, ['python3'])}"
    return Result(version >= OLDEST_PYTHON, text, cure)


def privileges(seen: Seen) -> Result:
    """Check that root may do there what root may do."""
    lacking = seen.facts.lacking
    if not lacking:
        return fine("root, with all that is needed")
    cure = "give the container these capabilities (--cap-add), or use the machine itself"
    return Result(False, f"root lacks {', '.join(lacking)}", cure)


def tools(seen: Seen) -> Result:
    """Check the programs that the plan starts there."""
    wanted = seen.all_of(seen.needs.programs)
    missing = [name for name in wanted if seen.facts.tool(name) is None]
    if missing:
        cure = install(seen.facts.distribution, missing)
        return Result(False, f"missing: {', '.join(missing)}", cure)
    return fine(", ".join(wanted))


def machine(seen: Seen) -> Result:
    """Check that programs built here can run there, if one of ours is started there."""
    theirs, ours = seen.facts.machine, platform.machine()
    if not seen.needs.started & {*seen.host.roles}:
        return fine(theirs)
    if seen.inventory.programs == "push" and theirs != ours:
        detail = f"{theirs}; programs that are pushed are built for {ours}"
        return Result(False, detail, "set `programs: build` in the inventory")
    if seen.inventory.programs == "build" and (missing := _without(seen, BUILDING)):
        detail = f"{theirs}; `programs: build` needs {', '.join(missing)}"
        return Result(False, detail, install(seen.facts.distribution, missing))
    return fine(theirs)


def kernel(seen: Seen) -> Result:
    """Check the kernel's version, and that its modules are still there."""
    facts = seen.facts
    if facts.version < OLDEST_KERNEL:
        oldest = ".".join(map(str, OLDEST_KERNEL))
        return Result(False, facts.release, f"install a kernel {oldest} or newer, and boot it")
    if facts.raw.get("modules") and facts.raw.get("modules_directory") is False:
        detail = f"{facts.release} runs, its modules are gone: another one was installed since"
        return Result(False, detail, "systemctl reboot")
    return fine(facts.release)


def queues(seen: Seen) -> Result:
    """Check that the kernel has the queues and classifiers that the plan uses."""
    wanted = seen.all_of(seen.needs.modules)
    missing = [name for name in wanted if seen.facts.module(name) == "missing"]
    if not missing:
        return fine(", ".join(wanted) or "none needed")
    flavour = _FLAVOURS.get(seen.facts.machine, "$(dpkg --print-architecture)")
    cures = {
        "ubuntu": f"apt-get install linux-modules-extra-{seen.facts.release}",
        "fedora": f"dnf install kernel-modules-extra-{seen.facts.release}",
        "debian": f"apt-get install linux-image-{flavour}, and boot it",
    }
    options = ", ".join(f"CONFIG_NET_{name.upper()}" for name in missing)
    cure = cures.get(seen.facts.distribution, f"boot a kernel with {options}")
    return Result(False, f"the kernel lacks {', '.join(missing)}", cure)


def modules(seen: Seen) -> Result | None:
    """Check that the project's own modules are there, or can be built there and loaded."""
    facts, wanted = seen.facts, seen.all_of(seen.needs.built)
    if not wanted:
        return None
    names = ", ".join(wanted)
    installed = all(facts.module(name) != "missing" for name in wanted)
    signed_only = facts.raw.get("sig_enforce") or facts.raw.get("lockdown") not in (None, "none")
    if not installed and signed_only:
        cure = (
            "install them by DKMS and enrol its key: mokutil --import /var/lib/dkms/mok.pub "
            "(docs/queues.md), or switch Secure Boot off"
        )
        return Result(False, "this kernel loads signed modules only", cure)
    if seen.built:
        return fine(f"{names}: built for this kernel")
    if not installed and not facts.raw.get("headers"):
        detail = f"{names} cannot be built: no headers of {facts.release}"
        return Result(False, detail, _headers(facts))
    if missing := _without(seen, BUILDING):
        what = f"the plugins of tc for {names}" if installed else names
        cure = install(facts.distribution, missing)
        return Result(False, f"{what} cannot be built: no {', '.join(missing)}", cure)
    return fine(f"{names}: {'installed' if installed else 'can be built'}")


def _headers(facts: Facts) -> str:
    package = {"fedora": "kernel-devel", "arch": "linux-headers"}.get(facts.distribution)
    return install(facts.distribution, [package or f"linux-headers-{facts.release}", *BUILDING])


def _without(seen: Seen, programs: Iterable[str]) -> list[str]:
    return [name for name in programs if seen.facts.tool(name) is None]


def timers(seen: Seen) -> Result:
    """Check that rates and delays are not rounded to ticks."""
    clock = seen.facts.raw.get("clock") or {}
    resolution, source = clock.get("resolution_ns"), clock.get("source")
    hz = f", {clock['hz']} Hz" if clock.get("hz") else ""
    if resolution is not None and resolution > COARSEST_TIMER_NS:
        detail = f"a tick of {resolution / 1e6:g} ms{hz}: delays and rates would be rounded to it"
        cure = "boot without highres=off and nohz=off, with CONFIG_HIGH_RES_TIMERS=y"
        return Result(False, detail, cure)
    if source in ("jiffies", "refined-jiffies"):
        detail = f"time is counted in ticks (clock source {source})"
        return Result(False, detail, "boot without clocksource=jiffies")
    return fine(f"high resolution, clock source {source or 'unknown'}{hz}")


def memory(seen: Seen) -> Result | None:
    """Check that the packets under way fit into memory: netem holds them where it delays."""
    packets = sum(seen.needs.delayed.get(role, 0) for role in seen.host.roles)
    free = (seen.facts.raw.get("memory") or {}).get("MemAvailable")
    if not packets or free is None:
        return None
    needed = packets * QUEUED_PACKET
    detail = f"{packets} packets, up to {needed // 10**6} MB of {free // 10**6} MB free"
    return Result(2 * needed <= free, detail, "a host with more memory, or a shorter delay")


def disk(seen: Seen) -> Result:
    """Check that the captures of a run fit where they are written."""
    disk = seen.facts.raw.get("disk") or {}
    free, path = disk.get("free"), disk.get("path", seen.inventory.state_directory)
    if free is None:
        return fine("not known")
    detail = f"{free // 10**6} MB free in {path}, {format_size(ROOM_FOR_A_RUN)} needed"
    return Result(
        free >= ROOM_FOR_A_RUN, detail, "free some space, or set `state_directory` in the inventory"
    )


def clock(seen: Seen) -> Result:
    """Check that the clock can be compared with ours; how far off it is does not matter."""
    if seen.clock is None:
        return Result(False, "not measured", "look at the other faults first")
    known = seen.clock.uncertainty_ns
    drift = seen.clock.drift_ppm
    detail = f"{seen.clock.offset_ns / 1e9:+.6f} s from ours, known to {known / 1e6:.2f} ms"
    if drift is not None:
        detail += f", drifts {drift:+.1f} ppm"
    if known > WORST_CLOCK_NS:
        return Result(False, detail, "a control network with a shorter round trip")
    if drift is not None and abs(drift) > WORST_DRIFT_PPM:
        return Result(False, detail, "something turns the clock meanwhile: chronyc tracking")
    return fine(detail)


def leftovers(seen: Seen) -> Result:
    """Check that no earlier run is still to be undone, and none is under way."""
    runs = seen.facts.raw.get("unfinished") or ()
    if alive := [run for run in runs if run.get("alive")]:
        detail = f"run {alive[0].get('run')} is under way (process {alive[0].get('pid')})"
        return Result(False, detail, "wait for its end")
    if runs:
        detail = f"not undone: {', '.join(str(run.get('run')) for run in runs)}"
        return Result(False, detail, command("clean", "--testbed", seen.inventory.testbed))
    return fine("nothing")


#: Name of the check -> what looks; in the order in which a user would mend things.
HOST_CHECKS: dict[str, Callable[[Seen], Result | None]] = {
    "leftovers": leftovers,
    "privileges": privileges,
    "python": python,
    "programs": tools,
    "machine": machine,
    "kernel": kernel,
    "queues": queues,
    "modules": modules,
    "timers": timers,
    "netem limit": memory,
    "disk": disk,
    "clock": clock,
}


def control(seen: Seen) -> Result:
    """Refuse an inventory by which a run would cut the connection that it is driven by."""
    wanted, facts = seen.host.control, seen.facts
    data = {interface: link for link, interface in seen.host.interfaces.items()}
    if wanted not in facts.nics:
        return Result(False, unknown(f"no interface '{wanted}'", wanted, facts.nics), _EDIT)
    arrives = facts.arrives
    for device in (arrives, facts.back):
        if device in data:
            detail = f"{device} carries the connection from here, and is to be {data[device]}"
            cure = "reach the host by another interface, or take another one for that link"
            return Result(False, detail, cure)
    if arrives not in (None, wanted) and arrives != "lo":
        detail = f"the connection from here comes in by {arrives}, not by {wanted}"
        return Result(False, detail, f"`control: {arrives}` in the inventory")
    return fine(f"{wanted} carries the connection from here")


_EDIT = "correct the inventory: `ip -br link` on the host lists the interfaces"


def network(seen: Seen) -> Iterator[tuple[str, Result]]:
    """Check the host's network: each interface of the inventory is there, and free to be moved."""
    yield "control", control(seen)
    for link, name in seen.host.interfaces.items():
        nic = seen.facts.nics.get(name)
        if nic is None:
            yield "interfaces", _absent(seen, link, name)
            continue
        yield "interfaces", _movable(seen, name, nic)
        yield "network services", _left_alone(name, nic)
        yield "offloads", _offloads(seen, name, nic)
        yield "MTU", _mtu(seen, name, nic)


def _absent(seen: Seen, link: str, name: str) -> Result:
    if seen.facts.raw.get("unfinished"):
        cure = command("clean", "--testbed", seen.inventory.testbed)
        return Result(False, f"no interface '{name}' for {link}: a run may have it", cure)
    return Result(False, unknown(f"no interface '{name}' for {link}", name, seen.facts.nics), _EDIT)


def _movable(seen: Seen, name: str, nic: Nic) -> Result:
    control = name in (seen.facts.arrives, seen.facts.back)  # which another check tells
    if not control and (found := seen.facts.configured(name)):
        kinds, commands = zip(*found, strict=True)
        return Result(False, f"{name} {', '.join(kinds)}", "; ".join(commands))
    if nic.more.get("wireless"):
        return Result(False, f"{name} is wireless", "use a wired interface")
    if nic.features.get("netns-local", {}).get("on"):
        return Result(False, f"{name} cannot be moved into a namespace", "use another interface")
    return fine(name)


def _left_alone(name: str, nic: Nic) -> Result:
    """Tell of a service that would configure the interface again when it comes back."""
    if nic.manager == "NetworkManager":
        cure = f"nmcli device set {name} managed no"
        return Result(False, f"NetworkManager manages {name}", cure)
    if nic.manager is not None:
        file = f"/etc/systemd/network/10-tcpf-lab-{name}.network"
        text = rf"[Match]\nName={name}\n[Link]\nUnmanaged=yes\n"
        cure = f"printf '{text}' > {file}; networkctl reload"
        return Result(False, f"{nic.manager} manages {name}", cure)
    return fine("leave these interfaces alone")


def _offloads(seen: Seen, name: str, nic: Nic) -> Result:
    stuck = nic.stuck_on(seen.needs.offloads)
    cure = "use an interface with another driver: packets must not be joined"
    return Result(
        not stuck,
        f"{name} cannot switch off {', '.join(stuck)}" if stuck else "can all be switched off",
        cure,
    )


def _mtu(seen: Seen, name: str, nic: Nic) -> Result:
    wanted = seen.needs.mtu
    low, high = int(nic.link.get("min_mtu", 0)), int(nic.link.get("max_mtu", 0))
    if wanted < low or (high and wanted > high):
        detail = f"{name} takes from {low} to {high} B, {seen.needs.title} asks for {wanted} B"
        return Result(False, detail, "change `mtu` of the topology, or use another interface")
    return fine(f"{wanted} B")
