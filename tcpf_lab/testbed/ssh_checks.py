"""Checks of a host by itself: its programs, its kernel, its clock, its room."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tcpf_lab.command import command
from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.inventory_parts import Host
from tcpf_lab.testbed.ssh_facts import Facts
from tcpf_lab.testbed.ssh_needs import Needs
from tcpf_lab.testbed.ssh_probe import OLDEST_PYTHON
from tcpf_lab.units import format_size

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
class Finding:
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


def fine(detail: str) -> Finding:
    """Give a finding without fault."""
    return Finding(True, detail)


def install(distribution: str, programs: Iterable[str]) -> str:
    """Give the command that installs programs."""
    command, column = _INSTALL.get(distribution, _APT)
    packages = {_PACKAGES.get(name, (name,) * 3)[column] for name in programs}
    return f"{command} {' '.join(sorted(packages))}"


def python(seen: Seen) -> Finding:
    """Check that the agent's language is new enough."""
    text = str(seen.facts.raw.get("python", ""))
    version = tuple(int(part) for part in text.split(".")[:2] if part.isdigit())
    oldest = ".".join(map(str, OLDEST_PYTHON))
    cure = f"install Python {oldest} or newer: {install(seen.facts.distribution, ['python3'])}"
    return Finding(version >= OLDEST_PYTHON, text, cure)


def privileges(seen: Seen) -> Finding:
    """Check that root may do there what root may do."""
    lacking = seen.facts.lacking
    if not lacking:
        return fine("root, with all that is needed")
    cure = "give the container these capabilities (--cap-add), or use the machine itself"
    return Finding(False, f"root lacks {', '.join(lacking)}", cure)


def tools(seen: Seen) -> Finding:
    """Check the programs that the plan starts there."""
    wanted = seen.all_of(seen.needs.programs)
    missing = [name for name in wanted if seen.facts.tool(name) is None]
    if missing:
        cure = install(seen.facts.distribution, missing)
        return Finding(False, f"missing: {', '.join(missing)}", cure)
    return fine(", ".join(wanted))


def machine(seen: Seen) -> Finding:
    """Check that programs built here can run there, if one of ours is started there."""
    theirs, ours = seen.facts.machine, platform.machine()
    if not seen.needs.started & {*seen.host.roles}:
        return fine(theirs)
    if seen.inventory.programs == "push" and theirs != ours:
        detail = f"{theirs}; programs that are pushed are built for {ours}"
        return Finding(False, detail, "set `programs: build` in the inventory")
    if seen.inventory.programs == "build" and (missing := _without(seen, BUILDING)):
        detail = f"{theirs}; `programs: build` needs {', '.join(missing)}"
        return Finding(False, detail, install(seen.facts.distribution, missing))
    return fine(theirs)


def kernel(seen: Seen) -> Finding:
    """Check the kernel's version, and that its modules are still there."""
    facts = seen.facts
    if facts.version < OLDEST_KERNEL:
        oldest = ".".join(map(str, OLDEST_KERNEL))
        return Finding(False, facts.release, f"install a kernel {oldest} or newer, and boot it")
    if facts.raw.get("modules") and facts.raw.get("modules_directory") is False:
        detail = f"{facts.release} runs, its modules are gone: another one was installed since"
        return Finding(False, detail, "systemctl reboot")
    return fine(facts.release)


def queues(seen: Seen) -> Finding:
    """Check that the kernel has the queues and classifiers that the plan uses."""
    wanted = seen.all_of(seen.needs.modules)
    missing = [name for name in wanted if seen.facts.module(name) == "missing"]
    if not missing:
        return fine(", ".join(wanted) or "none needed")
    cures = {
        "ubuntu": f"apt-get install linux-modules-extra-{seen.facts.release}",
        "fedora": f"dnf install kernel-modules-extra-{seen.facts.release}",
        "debian": f"apt-get install linux-image-{_flavour(seen.facts.machine)}, and boot it",
    }
    options = ", ".join(f"CONFIG_NET_{name.upper()}" for name in missing)
    cure = cures.get(seen.facts.distribution, f"boot a kernel with {options}")
    return Finding(False, f"the kernel lacks {', '.join(missing)}", cure)


def _flavour(machine: str) -> str:
    """Say what Debian calls its kernel for an architecture."""
    return _FLAVOURS.get(machine, "$(dpkg --print-architecture)")


def modules(seen: Seen) -> Finding | None:
    """Check that the project's own modules are there, or can be built there and loaded."""
    facts, wanted = seen.facts, seen.all_of(seen.needs.built)
    if not wanted:
        return None
    names = ", ".join(wanted)
    installed = all(facts.module(name) != "missing" for name in wanted)
    if not installed and _takes_signed_only(facts):
        cure = (
            "install them by DKMS and enrol its key: mokutil --import /var/lib/dkms/mok.pub "
            "(docs/queues-and-markers.md), or switch Secure Boot off"
        )
        return Finding(False, "this kernel loads signed modules only", cure)
    if seen.built:
        return fine(f"{names}: built for this kernel")
    if not installed and not facts.raw.get("headers"):
        detail = f"{names} cannot be built: no headers of {facts.release}"
        return Finding(False, detail, _headers(facts))
    if missing := _without(seen, BUILDING):
        what = f"the plugins of tc for {names}" if installed else names
        cure = install(facts.distribution, missing)
        return Finding(False, f"{what} cannot be built: no {', '.join(missing)}", cure)
    return fine(f"{names}: {'installed' if installed else 'can be built'}")


def _takes_signed_only(facts: Facts) -> bool:
    return bool(facts.raw.get("sig_enforce")) or facts.raw.get("lockdown") not in (None, "none")


def _headers(facts: Facts) -> str:
    package = {"fedora": "kernel-devel", "arch": "linux-headers"}.get(facts.distribution)
    return install(facts.distribution, [package or f"linux-headers-{facts.release}", *BUILDING])


def _without(seen: Seen, programs: Iterable[str]) -> list[str]:
    return [name for name in programs if seen.facts.tool(name) is None]


def timers(seen: Seen) -> Finding:
    """Check that rates and delays are not rounded to ticks."""
    clock = seen.facts.raw.get("clock") or {}
    resolution, source = clock.get("resolution_ns"), clock.get("source")
    hz = f", {clock['hz']} Hz" if clock.get("hz") else ""
    if resolution is not None and resolution > COARSEST_TIMER_NS:
        detail = f"a tick of {resolution / 1e6:g} ms{hz}: delays and rates would be rounded to it"
        cure = "boot without highres=off and nohz=off, with CONFIG_HIGH_RES_TIMERS=y"
        return Finding(False, detail, cure)
    if source in ("jiffies", "refined-jiffies"):
        detail = f"time is counted in ticks (clock source {source})"
        return Finding(False, detail, "boot without clocksource=jiffies")
    return fine(f"high resolution, clock source {source or 'unknown'}{hz}")


def memory(seen: Seen) -> Finding | None:
    """Check that the packets under way fit into memory: netem holds them where it delays."""
    packets = sum(seen.needs.delayed.get(role, 0) for role in seen.host.roles)
    free = (seen.facts.raw.get("memory") or {}).get("MemAvailable")
    if not packets or free is None:
        return None
    needed = packets * QUEUED_PACKET
    detail = f"{packets} packets, up to {needed // 10**6} MB of {free // 10**6} MB free"
    return Finding(2 * needed <= free, detail, "a host with more memory, or a shorter delay")


def disk(seen: Seen) -> Finding:
    """Check that the captures of a run fit where they are written."""
    disk = seen.facts.raw.get("disk") or {}
    free, path = disk.get("free"), disk.get("path", seen.inventory.state_directory)
    if free is None:
        return fine("not known")
    detail = f"{free // 10**6} MB free in {path}, {format_size(ROOM_FOR_A_RUN)} needed"
    return Finding(
        free >= ROOM_FOR_A_RUN, detail, "free some space, or set `state_directory` in the inventory"
    )


def clock(seen: Seen) -> Finding:
    """Check that the clock can be compared with ours; how far off it is does not matter."""
    if seen.clock is None:
        return Finding(False, "not measured", "look at the other faults first")
    known = seen.clock.uncertainty_ns
    drift = seen.clock.drift_ppm
    detail = f"{seen.clock.offset_ns / 1e9:+.6f} s from ours, known to {known / 1e6:.2f} ms"
    if drift is not None:
        detail += f", drifts {drift:+.1f} ppm"
    if known > WORST_CLOCK_NS:
        return Finding(False, detail, "a control network with a shorter round trip")
    if drift is not None and abs(drift) > WORST_DRIFT_PPM:
        return Finding(False, detail, "something turns the clock meanwhile: chronyc tracking")
    return fine(detail)


def leftovers(seen: Seen) -> Finding:
    """Check that no earlier run is still to be undone, and none is under way."""
    runs = seen.facts.raw.get("unfinished") or ()
    if alive := [run for run in runs if run.get("alive")]:
        detail = f"run {alive[0].get('run')} is under way (process {alive[0].get('pid')})"
        return Finding(False, detail, "wait for its end")
    if runs:
        detail = f"not undone: {', '.join(str(run.get('run')) for run in runs)}"
        return Finding(False, detail, command("clean", "--testbed", seen.inventory.testbed))
    return fine("nothing")


#: Name of the check -> what looks; in the order in which a user would mend things.
HOST_CHECKS: dict[str, Callable[[Seen], Finding | None]] = {
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
