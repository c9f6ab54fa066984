"""Boot the guest in the emulator, follow its journal, end it when its time is up."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tcpf_lab.base.errors import TestbedError
from tcpf_lab.testbed.steal import TimeWithoutSteal
from tcpf_lab.testbed.vm import root
from tcpf_lab.testbed.vm.machine import EMULATED
from tools.stress.kernel import SmpKernel

EMULATOR = "qemu-system-x86_64"
PACKAGE = "qemu-system-x86"
MEMORY_MB = 1024
#: Within how many times the load asked for everything must have happened.
PATIENCE = 4
#: Boot with the kernel's own self-tests, setup and teardown, on a busy machine.
ALLOWANCE_S = 400
PARAMETERS = (
    "console=ttyS0",
    "panic=-1",
    "tsc=reliable",
    # One of so many accesses is watched, for so many us at most: of a command's for longer than a
    # processor of a busy machine stands still, of a packet's for less than a packet takes.
    "kcsan.skip_watch=30",
    "kcsan.udelay_task=4000",
    "kcsan.udelay_interrupt=40",
    "slab_debug=FZP,kmalloc-*",
    # What waits for a grace period waits no longer than it must: that is where commands spend their
    # time, and where memory is freed too early if it is.
    "rcupdate.rcu_expedited=1",
    "rcupdate.rcu_cpu_stall_timeout=60",
)

#: Told how many seconds the load has lasted, and how many commands and packets there were.
Follow = Callable[[int, int, int], None]
#: Told the kernel's messages so far; whether there need not be more.
Enough = Callable[[str], bool]


@dataclass(frozen=True)
class Guest:
    """What to boot, and what it is to do."""

    kernel: SmpKernel
    modules: tuple[Path, ...]
    plugins: tuple[Path, ...]
    init: Path
    tsc_khz: int  #: of this machine's time stamp counter, which the guest reads
    scenario: str
    seconds: int
    processors: int


@dataclass(frozen=True)
class Outcome:
    """What a guest left behind."""

    console: str
    journal: str


def run(
    guest: Guest, directory: Path, follow: Follow, enough: Enough = lambda _console: False
) -> Outcome:
    """Run ``guest`` to its end, or until it has said enough; its files are in ``directory``.

    Raises
    ------
    TestbedError
        If the emulator is not there, or does not start.
    """
    if not shutil.which(EMULATOR):
        raise TestbedError(f"'{EMULATOR}' is not installed", hint=f"sudo apt-get install {PACKAGE}")
    _write_root(guest, directory)
    console, journal = directory / "console.txt", directory / "journal.txt"
    console.touch()
    journal.touch()
    command = _command(guest, directory)
    with (directory / "emulator.txt").open("wb") as said:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT
        )
        try:
            _wait(
                process,
                journal,
                guest.seconds * PATIENCE + ALLOWANCE_S,
                follow,
                lambda: enough(_read(console)),
            )
        finally:
            process.kill()
            process.wait()
    outcome = Outcome(_read(console), _read(journal))
    if not outcome.console:
        raise TestbedError(
            "the guest printed nothing", where=str(directory / "emulator.txt"), hint="see that file"
        )
    return outcome


def _write_root(guest: Guest, directory: Path) -> None:
    files = {f"modules/{path.name}": path for path in guest.modules}
    files |= {f"tc/{path.name}": path for path in guest.plugins}
    files |= programs() | {"init": guest.init}
    (directory / "scenario.txt").write_text(guest.scenario, encoding="ascii")
    write(directory / "initramfs", files, {"scenario": guest.scenario})


def _command(guest: Guest, directory: Path) -> list[str]:
    cpus = guest.processors
    # The guest finds its processors by the table of the firmware, which has one for each socket.
    return [
        EMULATOR,
        *("-accel", "tcg,thread=multi"),
        *("-cpu", EMULATED),
        *("-smp", f"{cpus},sockets={cpus},cores=1,threads=1"),
        *("-m", f"{MEMORY_MB}M"),
        *("-nodefaults", "-display", "none", "-no-reboot"),
        *("-serial", f"file:{directory / 'console.txt'}"),
        *("-serial", f"file:{directory / 'journal.txt'}"),
        *("-kernel", str(guest.kernel.image)),
        *("-initrd", str(directory / "initramfs")),
        *("-append", " ".join((*PARAMETERS, f"tsc_early_khz={guest.tsc_khz}"))),
    ]


def _wait(
    process: subprocess.Popen[bytes],
    journal: Path,
    seconds: float,
    follow: Follow,
    done: Callable[[], bool],
) -> None:
    passed, told = TimeWithoutSteal(), ""
    while process.poll() is None and passed.seconds() < seconds and not done():
        time.sleep(1)
        lines = [line for line in _read(journal).splitlines() if line.startswith("progress ")]
        if lines and lines[-1] != told and len(words := lines[-1].split()) == 4:
            told = lines[-1]
            follow(*map(int, words[1:]))


def _read(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace").replace("\r", "")


# The guest's root: an archive that its kernel unpacks into memory.

#: Programs of the host that the guest runs.
PROGRAMS = {"ip": "iproute2", "tc": "iproute2"}


def write(target: Path, files: dict[str, Path], texts: dict[str, str]) -> None:
    """Write the archive.

    Parameters
    ----------
    target : Path
        The archive.
    files : dict
        Name in the guest, without a slash in front, to file of the host.
    texts : dict
        Name in the guest to content.
    """
    contents = {name: path.read_bytes() for name, path in files.items()}
    contents |= {name: text.encode() for name, text in texts.items()}
    entries = {name: root.program(content) for name, content in contents.items()}
    # Where `ip netns` keeps its names.
    entries["var/run"] = root.link("../run")
    target.write_bytes(root.cpio(entries, ("dev", "proc", "sys", "run", "tmp")))


def programs() -> dict[str, Path]:
    """Return ``ip``, ``tc`` and their libraries by their name in the guest."""
    files: dict[str, Path] = {}
    for name, package in PROGRAMS.items():
        found = shutil.which(name, path="/usr/sbin:/sbin:/usr/bin:/bin")
        if found is None:
            raise TestbedError(f"'{name}' is not installed", hint=f"sudo apt-get install {package}")
        files[f"bin/{name}"] = Path(found)
        # The loader looks in the same places here and there.
        files |= {str(library).lstrip("/"): library for library in libraries(Path(found))}
    return files


def libraries(program: Path) -> tuple[Path, ...]:
    """Return the shared libraries that a program loads, the loader among them."""
    reply = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True)
    words = reply.stdout.split()
    return tuple(dict.fromkeys(Path(word) for word in words if word.startswith("/")))
