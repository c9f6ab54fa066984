"""The default testbed: a User-Mode Linux kernel in virtual time, one per run.

The whole plan runs inside one guest whose five machines are network namespaces.  The guest's root
is the host's, read-only; it can write to the run's own directory.  Nothing here needs privileges.
"""

from __future__ import annotations

import os
import platform
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcpf_lab.plan.compose import Plan
from tcpf_lab.results import RunFiles
from tcpf_lab.testbed import guest_plan, guest_process, uml_console, uml_kernel

#: The guest's clock at boot, ns: fixed, so that no run depends on the date (2001-09-09 01:46:40
#: UTC).
CLOCK_START_NS = 1_000_000_000 * 10**9
MEMORY_MB = 512
#: Real seconds a guest may take: a constant for boot and set-up, and a share of its virtual time.
WATCHDOG_BASE_S = 60.0
WATCHDOG_PER_VIRTUAL_S = 2.0
#: Symbolic link in the run directory through which the guest finds the project's programs.
PROGRAMS_LINK = ".programs"
#: UML makes a directory of this name in HOME, which is the run directory: its working directory.
UML_DIRECTORY = ".uml"
GUEST_TOOLS = ("ip", "tc", "tcpdump", "stdbuf")
HOST_TOOLS = ("setpriv",)


@dataclass(frozen=True)
class UmlTestbed:
    """Run plans in User-Mode Linux guests built by ``tcpf-lab kernel build``."""

    kernel: uml_kernel.Kernel
    memory_mb: int = MEMORY_MB
    watchdog_base: float = WATCHDOG_BASE_S

    name = "uml"
    clock = "virtual"

    @property
    def identity(self) -> str:
        """The kernel's key: a hash of everything it and the guest's programs are made from."""
        return self.kernel.key

    def check(self, plan: Plan) -> tuple[str, ...]:
        """Return what can be seen to be wrong before a boot, one sentence per problem."""
        return tuple(
            problem
            for problem in (
                machine_problem(),
                tools_problem((*GUEST_TOOLS, *HOST_TOOLS, *plan.programs)),
                memory_problem(self.memory_mb),
                ptrace_problem(),
            )
            if problem
        )

    def execute(self, plan: Plan, run: RunFiles, seed: int) -> None:
        """Boot a guest, let it carry ``plan`` out, and make sure that nothing of it remains."""
        _prepare(run, plan, self.kernel)
        console = run.log / "console.txt"
        deadline = self.watchdog_base + WATCHDOG_PER_VIRTUAL_S * plan.virtual_seconds
        started = time.monotonic()
        try:
            with console.open("wb") as sink:
                status = guest_process.run(
                    self._command(seed), run.root, self._environment(), sink, deadline
                )
        finally:
            _clean(run)
        elapsed = time.monotonic() - started
        uml_console.judge(run, status, elapsed, deadline, self.memory_mb)

    def facts(self) -> dict[str, Any]:
        """Describe kernel and programs by version and content."""
        return {
            "kernel": self.kernel.version,
            "kernel_key": self.kernel.key,
            "kernel_sha256": self.kernel.sha256,
            "kernel_patches": list(self.kernel.patches),
            "memory_mb": self.memory_mb,
            "host_machine": platform.machine(),
        }

    def _command(self, seed: int) -> list[str]:
        """Give the command line; no path of this machine is in it."""
        return [
            str(self.kernel.path),
            f"mem={self.memory_mb}M",
            "time-travel=inf-cpu",
            f"time-travel-start={CLOCK_START_NS}",
            f"random_seed={seed}",
            "rootfstype=hostfs",
            "rootflags=/",
            "ro",
            "quiet",
            "con=null",
            "con0=null,fd:1",
            "ssl=null",
            f"init=/proc/self/cwd/{PROGRAMS_LINK}/tcpf-guest",
        ]

    def _environment(self) -> dict[str, str]:
        """UML keeps its memory in a file under TMPDIR and a directory of its own under HOME."""
        return {
            "PATH": os.defpath,
            "HOME": ".",
            "TMPDIR": str(_memory_directory(self.memory_mb) or "/tmp"),  # noqa: S108
        }


def _prepare(run: RunFiles, plan: Plan, kernel: uml_kernel.Kernel) -> None:
    instructions = run.root / guest_plan.INSTRUCTIONS
    instructions.write_text(guest_plan.render(plan), encoding="utf-8")
    link = run.root / PROGRAMS_LINK
    link.unlink(missing_ok=True)
    link.symlink_to(kernel.directory.resolve())  # the guest follows one link, not a chain


def _clean(run: RunFiles) -> None:
    (run.root / PROGRAMS_LINK).unlink(missing_ok=True)
    shutil.rmtree(run.root / UML_DIRECTORY, ignore_errors=True)


def machine_problem() -> str | None:
    """Say why this machine cannot run the kernel at all."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return (
            f"the virtual-time kernel runs on Linux x86_64, this is {platform.system()} "
            f"{platform.machine()}"
        )
    return None


def tools_problem(programs: tuple[str, ...]) -> str | None:
    """Name the programs that are missing."""
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    missing = sorted({p for p in programs if not shutil.which(p, path=path)})
    if not missing:
        return None
    return f"missing programs: {', '.join(missing)} (./lab setup installs them)"


def ptrace_problem() -> str | None:
    """Say whether this machine forbids tracing."""
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    if scope.exists() and scope.read_text().strip() == "3":
        return "kernel.yama.ptrace_scope is 3: tracing is forbidden, and UML needs it (set it to 1)"
    return None


def _memory_directory(memory_mb: int) -> Path | None:
    """Return the first directory that can hold a guest's memory: executable and large enough."""
    for candidate in ("/dev/shm", os.environ.get("TMPDIR", "/tmp"), "/var/tmp"):  # noqa: S108
        path = Path(candidate)
        if path.is_dir() and os.access(path, os.W_OK) and not _too_small(path, memory_mb):
            return path
    return None


def _too_small(path: Path, memory_mb: int) -> str | None:
    room = os.statvfs(path)
    if room.f_flag & os.ST_NOEXEC:
        return f"{path} is mounted noexec"
    free_mb = room.f_bavail * room.f_frsize // 10**6
    return f"{path} has {free_mb} MB free" if free_mb < memory_mb * 2**20 // 10**6 else None


def memory_problem(memory_mb: int) -> str | None:
    """Say why no directory can hold a guest's memory."""
    if _memory_directory(memory_mb):
        return None
    reasons = [
        reason
        for path in (Path("/dev/shm"), Path("/var/tmp"))  # noqa: S108
        if path.is_dir() and (reason := _too_small(path, memory_mb))
    ]
    return (
        f"no place for a guest's memory ({memory_mb} MB, executable): {'; '.join(reasons)} "
        "(try: mount -o remount,exec,size=2G /dev/shm, or set TMPDIR to a directory with room)"
    )
