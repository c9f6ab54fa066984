"""The emulator: its command line for a guest, and whether the processor can help it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tcpf_lab.base.errors import RequestError, TestbedError
from tcpf_lab.testbed.vm import root
from tcpf_lab.testbed.vm.kernel import GuestKernel
from tcpf_lab.testbed.vm.layout import ADDRESS, CONTROL, HERE, SSH_PORT, Guest, mac, own_ends
from tcpf_lab.testbed.vm.root import Layers

EMULATOR = "qemu-system-x86_64"
PACKAGE = "qemu-system-x86"
#: Programs beside the emulator -> Debian package.
PROGRAMS = {
    EMULATOR: PACKAGE,
    "setpriv": "util-linux",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "ip": "iproute2",
}
TOOL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ACCELERATORS = ("auto", "kvm", "tcg")
KVM = Path("/dev/kvm")
#: A guest that has not spoken by then would not get anywhere.
PROBE_S = 5.0
ALIVE = "tcpf-lab: alive"
NO_ANSWER = f"a guest printed nothing for {PROBE_S:g} s"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
PARAMETERS = (
    "console=ttyS0",
    "panic=-1",
    # An emulated processor stands still whenever this machine's is busy; that is no fault.
    "tsc=reliable",
    "no_timer_check",
    "rcupdate.rcu_cpu_stall_timeout=300",
    "mitigations=off",
)
#: The emulated processor: all that the emulator can do, but cmpxchg16b. After it QEMU 7.2 now and
#: then leaves a part of a pointer in the flags register, and the guest's allocator, which uses it
#: for every packet, dies of that within minutes. The kernel does without where there is none.
EMULATED = "max,cx16=off"
#: Translated code that the emulator keeps, MiB; by default as much as a guest has memory.
TRANSLATIONS_MB = 256


@dataclass(frozen=True)
class Size:
    """What every guest gets."""

    processors: int = 1
    memory_mb: int = 1024


def require_programs() -> None:
    """Name all programs that are missing.

    Raises
    ------
    TestbedError
        If any is.
    """
    missing = {name: p for name, p in PROGRAMS.items() if not shutil.which(name, path=TOOL_PATH)}
    if missing:
        raise TestbedError(
            f"missing programs: {', '.join(missing)}",
            where="testbed vm",
            hint=f"sudo apt-get install {' '.join(dict.fromkeys(missing.values()))}",
        )


def command(
    guest: Guest,
    layers: Layers,
    directory: Path,
    ports: Mapping[str, int],
    accelerator: str,
    size: Size,
) -> list[str]:
    """Return how the emulator is started for a guest.

    Its root archive is ``directory/GUEST.cpio``, its console goes to ``directory/GUEST.console``.
    ``{wire0}``, ``{wire1}``, ... stand for the descriptors of the sockets to the other guest.
    """
    clock = datetime.now(UTC) + timedelta(seconds=guest.ahead_s)
    return [
        *_machine(accelerator, size, layers.kernel, directory / f"{guest.name}.cpio"),
        *("-name", f"tcpf-lab-{guest.name}"),
        *("-serial", f"file:{_escaped(directory / f'{guest.name}.console')}"),
        *("-rtc", f"base={clock:%Y-%m-%dT%H:%M:%S}"),
        *_share("root", Path("/")),
        *_share("kernel", layers.kernel.directory),
        *_share("programs", layers.programs),
        *_cards(guest, ports),
    ]


def _machine(accelerator: str, size: Size, kernel: GuestKernel, archive: Path) -> list[str]:
    emulated = (f"tcg,thread=multi,tb-size={TRANSLATIONS_MB}", EMULATED)
    how, processor = ("kvm", "host") if accelerator == "kvm" else emulated
    return [
        EMULATOR,
        *("-accel", how, "-cpu", processor),
        *("-smp", str(size.processors), "-m", f"{size.memory_mb}M"),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-kernel", str(kernel.image), "-initrd", str(archive)),
        *("-append", " ".join(PARAMETERS)),
    ]


def _share(name: str, directory: Path) -> tuple[str, str]:
    # remap: the file systems below the root may have the same inode numbers.
    how = "readonly=on,security_model=none,multidevs=remap"
    return "-virtfs", f"local,id={name},mount_tag={name},path={_escaped(directory)},{how}"


def _cards(guest: Guest, ports: Mapping[str, int]) -> list[str]:
    words: list[str] = []
    for role in guest.roles:
        # restrict: only what comes in through the port passes.
        forward = f"hostfwd=tcp:{HERE}:{ports[role]}-{ADDRESS}:{SSH_PORT}"
        own = f"{CONTROL}{role}"
        words += ["-netdev", f"user,id={own},ipv6=off,restrict=on,{forward}"]
        words += ["-device", f"virtio-net-pci,netdev={own},mac={mac(role, 0)},romfile="]
    for number, end in own_ends(guest):
        words += ["-netdev", f"socket,id=wire{number},fd={{wire{number}}}"]
        words += ["-device", f"virtio-net-pci,netdev=wire{number},mac={end.mac},romfile="]
    return words


def check_accelerator(wanted: str) -> None:
    """Refuse a word that is none of `ACCELERATORS`.

    Raises
    ------
    RequestError
        Listing them.
    """
    if wanted not in ACCELERATORS:
        allowed = ", ".join(ACCELERATORS)
        raise RequestError(f"unknown accelerator '{wanted}'; allowed: {allowed}")


def accelerator(wanted: str, layers: Layers) -> str:
    """Return ``kvm`` if it is wanted (``auto``) and a guest comes alive under it, else ``tcg``.

    Raises
    ------
    TestbedError
        If ``kvm`` is insisted on and does not work.
    """
    if wanted == "tcg":
        return wanted
    problem = _kvm_problem(layers)
    if problem and wanted == "kvm":
        raise TestbedError(f"KVM does not work here: {problem}", hint="use --accelerator tcg")
    return "tcg" if problem else "kvm"


def _kvm_problem(layers: Layers) -> str | None:
    if not os.access(KVM, os.R_OK | os.W_OK):
        return f"no access to {KVM}" if KVM.exists() else f"there is no {KVM}"
    # As long as this machine runs, a probe's result holds for emulator and kernel.
    emulator = Path(shutil.which(EMULATOR, path=TOOL_PATH) or EMULATOR)
    boot = BOOT_ID.read_text().strip()
    key = f"{boot} {emulator.stat().st_mtime_ns}\n"
    remembered = layers.kernel.directory / "kvm-hangs"
    if remembered.exists() and remembered.read_text() == key:
        return NO_ANSWER
    if _probe(layers):
        return None
    remembered.write_text(key)
    return NO_ANSWER


def _probe(layers: Layers) -> bool:
    """Whether a guest comes alive under KVM."""
    with tempfile.TemporaryDirectory(prefix="tcpf-lab-probe-") as name:
        archive, console = Path(name, "cpio"), Path(name, "console")
        archive.write_bytes(root.cpio(root.common(layers)))
        words = _machine("kvm", Size(memory_mb=256), layers.kernel, archive)
        words[words.index("-append") + 1] += " tcpf.probe"
        words += ["-serial", f"file:{_escaped(console)}"]
        return _speaks(words, console)


def _speaks(words: list[str], console: Path) -> bool:
    nothing = subprocess.DEVNULL
    probe = subprocess.Popen(words, stdin=nothing, stdout=nothing, stderr=nothing)
    try:
        until = time.monotonic() + PROBE_S
        while time.monotonic() < until:
            ended = probe.poll() is not None
            with contextlib.suppress(FileNotFoundError):
                if ALIVE in console.read_text(errors="replace"):
                    return True
            if ended:
                return False
            time.sleep(0.05)
        return False
    finally:
        probe.kill()
        # One that hangs in the kernel may not even end by that.
        with contextlib.suppress(subprocess.TimeoutExpired):
            probe.wait(PROBE_S)


def _escaped(path: Path) -> str:
    """Write a path as the emulator's options want it, where a comma ends a value."""
    return str(path).replace(",", ",,")
