"""The facts of a host and the checks on them."""

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
from tcpf_lab.testbed.base import is_of
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
        """Name of the service that configures the interface, if any."""
        for service in ("NetworkManager", "systemd-networkd"):
            if self.more.get(service) == "managed":
                return service
        return None

    def stuck(self, features: Sequence[str], *, on: bool) -> list[str]:
        """List the features that are on, or off, and cannot be switched."""
        states = {name: self.features.get(name, {}) for name in features}
        return [name for name, s in states.items() if s.get("on") == on and s.get("fixed")]


@dataclass(frozen=True)
class Facts:
    """The value of the agent's ``facts``."""

    raw: Mapping[str, Any]

    def tool(self, name: str) -> str | None:
        """Return a program's version, or its path if it has none; None if it is missing."""
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
        """The interface with the address that the controller connects to."""
        return self.device_of(self._control.get("server") or "")

    @property
    def back(self) -> str | None:
        """The interface of the kernel's route to the controller."""
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
        """List the capabilities that root lacks, as in a container."""
        mask = int(str(self.raw.get("capabilities", "ffffffffffffffff")), 16)
        return [name for name, bit in CAPABILITIES.items() if not mask >> bit & 1]

    def module(self, name: str) -> str:
        """Return ``loaded``, ``builtin``, ``available`` or ``missing`` for a kernel module."""
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
        """Return the configuration of an interface, each item with the command that removes it."""
        return [*configured(name, self.raw)]

    def device_of(self, address: str) -> str | None:
        """Give the interface that has an address."""
        for entry in self.raw.get("addresses", ()):
            if any(info.get("local") == address for info in entry.get("addr_info", ())):
                return str(entry["ifname"])
        return None


#: The modules are built for it and for newer ones.
OLDEST_KERNEL = (6, 1)
#: Space of the captures and logs of one run on a host, bytes.
RUN_BYTES = 200 * 10**6
#: Kernel memory of a queued packet without payload: descriptor and buffer, bytes.
QUEUED_PACKET = 768
#: Timers finer than this are the high-resolution ones, ns.
COARSEST_TIMER_NS = 1000
#: Above this uncertainty of a clock captures cannot be compared, ns.
WORST_CLOCK_NS = 10_000_000
#: No healthy crystal drifts faster, and NTP corrects no faster, ppm.
WORST_DRIFT_PPM = 500.0
#: Programs that build a module.
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
    """The result of one check of one host."""

    ok: bool
    detail: str
    fix: str = ""


@dataclass(frozen=True)
class Seen:
    """All that is known about a reachable host."""

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
    """Return a result without fault."""
    return Result(True, detail)


def install(distribution: str, programs: Iterable[str]) -> str:
    """Give the command that installs programs."""
    command, column = _INSTALL.get(distribution, _APT)
    packages = {_PACKAGES.get(name, (name,) * 3)[column] for name in programs}
    return f"{command} {' '.join(sorted(packages))}"


def python(seen: Seen) -> Result:
    """Check that Python is new enough for the agent."""
    text = str(seen.facts.raw.get("python", ""))
    version = tuple(int(part) for part in text.split(".")[:2] if part.isdigit())
    oldest = ".".join(map(str, OLDEST_PYTHON))
    fix = f"install Python {oldest} or newer: {install(seen.facts.distribution, ['python3'])}"
    return Result(version >= OLDEST_PYTHON, text, fix)


def privileges(seen: Seen) -> Result:
    """Check that root has its capabilities."""
    lacking = seen.facts.lacking
    if not lacking:
        return fine("root, with all capabilities needed")
    fix = "give the container these capabilities (--cap-add), or run outside a container"
    return Result(False, f"root lacks {', '.join(lacking)}", fix)


def tools(seen: Seen) -> Result:
    """Check the programs that the plan starts there."""
    wanted = seen.all_of(seen.needs.programs)
    missing = [name for name in wanted if seen.facts.tool(name) is None]
    if missing:
        fix = install(seen.facts.distribution, missing)
        return Result(False, f"missing: {', '.join(missing)}", fix)
    return fine(", ".join(wanted))


def machine(seen: Seen) -> Result:
    """Check that programs built here can run there, if one of ours is started there."""
    theirs, ours = seen.facts.machine, platform.machine()
    if not seen.needs.started & {*seen.host.roles}:
        return fine(theirs)
    if seen.inventory.programs == "push" and theirs != ours:
        detail = f"{theirs}, but `programs: push` sends programs for {ours}"
        return Result(False, detail, "set `programs: build` in the inventory")
    if seen.inventory.programs == "build" and (missing := _without(seen, BUILDING)):
        detail = f"{theirs}, `programs: build` needs {', '.join(missing)}"
        return Result(False, detail, install(seen.facts.distribution, missing))
    return fine(theirs)


def kernel(seen: Seen) -> Result:
    """Check the kernel's version, and that its modules are still there."""
    facts = seen.facts
    if facts.version < OLDEST_KERNEL:
        oldest = ".".join(map(str, OLDEST_KERNEL))
        return Result(False, facts.release, f"install a kernel {oldest} or newer, and reboot")
    if other := [one for one in seen.needs.kernels if not is_of(facts.release, one)]:
        hint = f"boot Linux {other[0]}, or remove `kernel`"
        return Result(False, f"{facts.release}, but runs need Linux {', '.join(other)}", hint)
    if facts.raw.get("modules") and facts.raw.get("modules_directory") is False:
        detail = f"no modules of the running kernel {facts.release}: another kernel replaced it"
        return Result(False, detail, "systemctl reboot")
    return fine(facts.release)


def queues(seen: Seen) -> Result:
    """Check that the kernel has the queues and classifiers that the plan uses."""
    wanted = seen.all_of(seen.needs.modules)
    missing = [name for name in wanted if seen.facts.module(name) == "missing"]
    if not missing:
        return fine(", ".join(wanted) or "none needed")
    flavour = _FLAVOURS.get(seen.facts.machine, "$(dpkg --print-architecture)")
    fixes = {
        "ubuntu": f"apt-get install linux-modules-extra-{seen.facts.release}",
        "fedora": f"dnf install kernel-modules-extra-{seen.facts.release}",
        "debian": f"apt-get install linux-image-{flavour}, and reboot",
    }
    options = ", ".join(f"CONFIG_NET_{name.upper()}" for name in missing)
    fix = fixes.get(seen.facts.distribution, f"boot a kernel with {options}")
    return Result(False, f"the kernel lacks {', '.join(missing)}", fix)


def modules(seen: Seen) -> Result | None:
    """Check that the project's own modules are there, or can be built there and loaded."""
    facts, wanted = seen.facts, seen.all_of(seen.needs.built)
    if not wanted:
        return None
    names = ", ".join(wanted)
    installed = all(facts.module(name) != "missing" for name in wanted)
    signed_only = facts.raw.get("sig_enforce") or facts.raw.get("lockdown") not in (None, "none")
    if not installed and signed_only:
        fix = (
            "install the modules with DKMS and enrol its key (docs/queues.md): "
            "mokutil --import /var/lib/dkms/mok.pub; or disable Secure Boot"
        )
        return Result(False, "the kernel loads signed modules only", fix)
    if seen.built:
        return fine(f"{names}: built for this kernel")
    if not installed and not facts.raw.get("headers"):
        detail = f"{names} cannot be built: no headers for {facts.release}"
        return Result(False, detail, _headers(facts))
    if missing := _without(seen, BUILDING):
        what = f"tc plugins for {names}" if installed else names
        fix = install(facts.distribution, missing)
        return Result(False, f"{what} cannot be built: no {', '.join(missing)}", fix)
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
        detail = f"timer resolution {resolution / 1e6:g} ms{hz}: it would round delays and rates"
        fix = "boot a kernel with CONFIG_HIGH_RES_TIMERS=y, without highres=off and nohz=off"
        return Result(False, detail, fix)
    if source in ("jiffies", "refined-jiffies"):
        detail = f"clock source {source}: time advances in timer ticks"
        return Result(False, detail, "boot without clocksource=jiffies")
    return fine(f"high resolution, clock source {source or 'unknown'}{hz}")


def memory(seen: Seen) -> Result | None:
    """Check that the packets that netem delays fit into memory."""
    packets = sum(seen.needs.delayed.get(role, 0) for role in seen.host.roles)
    free = (seen.facts.raw.get("memory") or {}).get("MemAvailable")
    if not packets or free is None:
        return None
    needed = packets * QUEUED_PACKET
    detail = f"{packets} packets, up to {needed // 10**6} MB of {free // 10**6} MB free memory"
    return Result(2 * needed <= free, detail, "use a host with more memory, or a shorter delay")


def disk(seen: Seen) -> Result:
    """Check that the captures of a run fit where they are written."""
    disk = seen.facts.raw.get("disk") or {}
    free, path = disk.get("free"), disk.get("path", seen.inventory.state_directory)
    if free is None:
        return fine("not known")
    detail = f"{free // 10**6} MB free in {path}, {format_size(RUN_BYTES)} needed"
    return Result(
        free >= RUN_BYTES, detail, "free disk space, or set `state_directory` in the inventory"
    )


def clock(seen: Seen) -> Result:
    """Check the uncertainty and drift of the clock against ours; its offset does not matter."""
    if seen.clock is None:
        return Result(False, "not measured", "fix the other faults first")
    known = seen.clock.uncertainty_ns
    drift = seen.clock.drift_ppm
    detail = f"offset {seen.clock.offset_ns / 1e9:+.6f} s, uncertainty {known / 1e6:.2f} ms"
    if drift is not None:
        detail += f", drift {drift:+.1f} ppm"
    if known > WORST_CLOCK_NS:
        return Result(False, detail, "use a control network with a shorter round trip")
    if drift is not None and abs(drift) > WORST_DRIFT_PPM:
        return Result(False, detail, "a time service steps the clock, see `chronyc tracking`")
    return fine(detail)


def leftovers(seen: Seen) -> Result:
    """Check that no earlier run has left changes, and none is under way."""
    runs = seen.facts.raw.get("unfinished") or ()
    if alive := [run for run in runs if run.get("alive")]:
        detail = f"run {alive[0].get('run')} is under way (process {alive[0].get('pid')})"
        return Result(False, detail, "wait until it ends")
    if runs:
        detail = f"not undone: {', '.join(str(run.get('run')) for run in runs)}"
        return Result(False, detail, command("clean", "--testbed", seen.inventory.testbed))
    return fine("nothing")


#: Name -> check, in the order in which a user would fix faults.
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
    """Refuse an inventory by which a run would cut its own control connection."""
    wanted, facts = seen.host.control, seen.facts
    data = {interface: link for link, interface in seen.host.interfaces.items()}
    if wanted not in facts.nics:
        return Result(False, unknown(f"no interface '{wanted}'", wanted, facts.nics), _EDIT)
    arrives = facts.arrives
    for device in (arrives, facts.back):
        if device in data:
            detail = f"{device} carries the control connection, and the data of {data[device]}"
            fix = "reach the host through another interface, or use another one for that link"
            return Result(False, detail, fix)
    if arrives not in (None, wanted) and arrives != "lo":
        detail = f"the control connection uses {arrives}, not {wanted}"
        return Result(False, detail, f"set `control: {arrives}` in the inventory")
    return fine(f"{wanted} carries the control connection")


_EDIT = "correct the inventory: `ip -br link` on the host lists the interfaces"


def network(seen: Seen) -> Iterator[tuple[str, Result]]:
    """Check each interface of the inventory: it exists and can be moved."""
    yield "control", control(seen)
    for link, name in seen.host.interfaces.items():
        nic = seen.facts.nics.get(name)
        if nic is None:
            yield "interfaces", _absent(seen, link, name)
            continue
        yield "interfaces", _movable(seen, name, nic)
        yield "network services", _left_alone(name, nic)
        yield "offloads", _offloads(seen, link, name, nic)
        yield "MTU", _mtu(seen, name, nic)


def _absent(seen: Seen, link: str, name: str) -> Result:
    if seen.facts.raw.get("unfinished"):
        fix = command("clean", "--testbed", seen.inventory.testbed)
        return Result(False, f"no interface '{name}' for {link}: a run may hold it", fix)
    return Result(False, unknown(f"no interface '{name}' for {link}", name, seen.facts.nics), _EDIT)


def _movable(seen: Seen, name: str, nic: Nic) -> Result:
    control = name in (seen.facts.arrives, seen.facts.back)  # reported by another check
    if not control and (found := seen.facts.configured(name)):
        kinds, commands = zip(*found, strict=True)
        return Result(False, f"{name} {', '.join(kinds)}", "; ".join(commands))
    if nic.more.get("wireless"):
        return Result(False, f"{name} is wireless", "use a wired interface")
    if nic.features.get("netns-local", {}).get("on"):
        return Result(False, f"{name} cannot be moved into a namespace", "use another interface")
    return fine(name)


def _left_alone(name: str, nic: Nic) -> Result:
    """Report a service that would configure the interface after the run."""
    if nic.manager == "NetworkManager":
        fix = f"nmcli device set {name} managed no"
        return Result(False, f"NetworkManager manages {name}", fix)
    if nic.manager is not None:
        file = f"/etc/systemd/network/10-tcpf-lab-{name}.network"
        text = rf"[Match]\nName={name}\n[Link]\nUnmanaged=yes\n"
        fix = f"printf '{text}' > {file}; networkctl reload"
        return Result(False, f"{nic.manager} manages {name}", fix)
    return fine("manage none of these interfaces")


def _offloads(seen: Seen, link: str, name: str, nic: Nic) -> Result:
    needs = seen.needs
    if stuck := nic.stuck(needs.offloads, on=True):
        fix = "use an interface with another driver: the host must not merge packets"
        return Result(False, f"{name} cannot switch off {', '.join(stuck)}", fix)
    if link in needs.joining and (stuck := nic.stuck(needs.offloads, on=False)):
        fix = "use an interface with another driver, or `offloads: off`"
        return Result(False, f"{name} cannot switch on {', '.join(stuck)}", fix)
    return fine("can all be switched")


def _mtu(seen: Seen, name: str, nic: Nic) -> Result:
    wanted = seen.needs.mtu
    low, high = int(nic.link.get("min_mtu", 0)), int(nic.link.get("max_mtu", 0))
    if wanted < low or (high and wanted > high):
        detail = f"{name} supports {low} to {high} B, {seen.needs.title} needs {wanted} B"
        return Result(False, detail, "change the topology's `mtu`, or use another interface")
    return fine(f"{wanted} B")
