"""Checks before a guest boots: all problems at once, each with its fix.

Each function ``*_problem`` returns a sentence or None.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import re
import resource
import shutil
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tcpf_lab.base.errors import LabError, require_memory
from tcpf_lab.base.making import free_bytes
from tcpf_lab.plan.compose import CONGESTION, Plan
from tcpf_lab.plan.step import Sysctl
from tcpf_lab.results.command import command
from tcpf_lab.spec.tcp import ECN, LINUX22_SYSCTL
from tcpf_lab.spec.words import unknown
from tcpf_lab.testbed.base import Check
from tcpf_lab.testbed.uml import kernel
from tcpf_lab.testbed.uml.memory import kept_bytes
from tcpf_lab.testbed.uml.recipe import in_numbers, load

#: Programs of the host that every plan needs in the guest, and those that start it.
GUEST_TOOLS = ("ip", "tc", "tcpdump", "stdbuf")
HOST_TOOLS = ("setpriv",)
TOOL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PTRACE_TRACEME = 0
#: System calls of x86_64, and what they are given.
_CLOSE_RANGE, _SECCOMP = 436, 317
_PR_SET_NO_NEW_PRIVS, _RETURN, _ALLOW = 38, 0x06, 0x7FFF0000
#: First version whose guest processes seccomp can hold, at half the cost of ptrace.
WITH_SECCOMP = (6, 16)
#: Memory of a guest, without its plan's own addition, MB.
MEMORY_MB = 512
#: Address space of a guest beside its memory: the kernel's program and its own stacks, MB.
KERNEL_MB = 64
#: Open files of a guest's process: its memory, its disks, and files of the host that it reads.
OPEN_FILES = 256
#: The sysctl of accurate ECN, and the first Linux that takes it.
ACCURATE, ACCURATE_SINCE = ("net.ipv4.tcp_ecn", ECN["accurate"]), (6, 18)
#: Values of a sysctl without its bit of RACK, and the first Linux without it (1c120191dcec).
RACK_OFF = {("net.ipv4.tcp_recovery", value) for value in ("0", "2", "4", "6")}
RACK_ALWAYS = (6, 17)
#: In the place of a module's hash.
NOT_BUILT = "not built"


def machine_problem() -> str | None:
    """Return why this machine cannot run the kernel."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return (
            f"the virtual-time kernel needs Linux on x86_64, this is {platform.system()} "
            f"{platform.machine()}"
        )
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files < OPEN_FILES:
        return (
            f"the limit of open files is {files}, a guest needs {OPEN_FILES} "
            f"(`ulimit -n {OPEN_FILES}`; above the hard limit only root can raise it)"
        )
    return None


def tools_problem(programs: tuple[str, ...] = ()) -> str | None:
    """Name the programs that are missing, of those always needed and ``programs``."""
    needed = {*GUEST_TOOLS, *HOST_TOOLS, *programs}
    missing = sorted(name for name in needed if not shutil.which(name, path=TOOL_PATH))
    if not missing:
        return None
    return f"missing programs: {', '.join(missing)} (./lab setup installs them)"


def modules_problem(loaded: Mapping[str, str]) -> str | None:
    """Name the kernel modules and ``tc`` plugins of a plan that have not been built."""
    missing = [name for name, digest in loaded.items() if digest == NOT_BUILT]
    if not missing:
        return None
    return f"not built: {', '.join(missing)} ({command('doctor')} lists the built modules)"


#: Congestion controls whose kernel option has another name.
_OTHER_NAMES = {"hstcp": "highspeed"}
_CONGESTION = re.compile(r"^CONFIG_TCP_CONG_([A-Z0-9]+)=y$", re.MULTILINE)


def _options(config: Path) -> str | None:
    """Read a kernel's configuration.

    A kernel that was received comes without it; who sent it has checked the plan.
    """
    return config.read_text(encoding="ascii") if config.exists() else None


def congestion_problem(plan: Plan, config: Path) -> str | None:
    """Name the congestion controls of a plan that a kernel with this configuration lacks."""
    wanted = {
        step.value for step in plan.steps if isinstance(step, Sysctl) and step.key == CONGESTION
    }
    options = _options(config) if wanted else None
    if options is None:
        return None
    names = map(str.lower, _CONGESTION.findall(options))
    built = {_OTHER_NAMES.get(name, name) for name in names} - {"advanced"}
    missing = sorted(wanted - built - {"reno"})
    if not missing:
        return None
    return unknown(
        f"the kernel has no congestion control {', '.join(missing)}",
        missing[0],
        sorted(built | {"reno"}),
    )


def linux22_problem(plan: Plan, version: str, patches: Sequence[str]) -> str | None:
    """Refuse behaviour of Linux 2.2 on a kernel without the patch for it."""
    wanted = any(isinstance(s, Sysctl) and s.key.startswith(LINUX22_SYSCTL) for s in plan.steps)
    if not wanted or any("linux-2.2" in patch for patch in patches):
        return None
    return f"Linux {version} has no tcp.linux22: use kernel '6.12', or --set 'tcp.linux22={{}}'"


def newer_problem(plan: Plan, version: str, config: Path) -> str | None:
    """Refuse what came with Linux 6.17 and 6.18 on a kernel without it."""
    accurate = any(isinstance(s, Sysctl) and (s.key, s.value) == ACCURATE for s in plan.steps)
    if accurate and in_numbers(version) < ACCURATE_SINCE:
        return f'Linux {version} has no tcp.ecn: accurate: use kernel: "7.3", or ecn: classic'
    dualpi2 = plan.expect.get("qdisc", {}).get("kind") == "dualpi2"
    options = _options(config) if dualpi2 else None
    if options is None or "CONFIG_NET_SCH_DUALPI2=y" in options:
        return None
    return f'Linux {version} has no queue of kind dualpi2: use kernel: "7.3"'


def effect_problem(plan: Plan, version: str) -> str | None:
    """Name the sysctl of a plan that a kernel takes, but heeds no more."""
    if in_numbers(version) < RACK_ALWAYS:
        return None
    for step in plan.steps:
        if isinstance(step, Sysctl) and (step.key, step.value) in RACK_OFF:
            return (
                f"{step.key} = {step.value} does not switch RACK off on Linux {version}: "
                "it is on from 6.17"
            )
    return None


@functools.cache
def versions() -> dict[str, str]:
    """Return the versions of the guest's programs, which are the host's."""
    commands = {"iproute2": ("ip", "-V"), "tcpdump": ("tcpdump", "--version")}
    found = {}
    for name, words in commands.items():
        path = shutil.which(words[0], path=TOOL_PATH)
        if path:
            reply = subprocess.run([path, *words[1:]], capture_output=True, text=True, check=False)
            found[name] = (reply.stdout or reply.stderr).partition("\n")[0]
    return found


def hold_problem(version: str, seccomp: str = "auto") -> str | None:
    """Return why this machine lets a kernel hold its guest processes neither way.

    Parameters
    ----------
    version : str
        Of Linux: from 6.16 on seccomp can hold them; then nothing needs ptrace.
    seccomp : str
        ``auto``, or ``off`` for ptrace only.
    """
    either = seccomp == "auto" and in_numbers(version) >= WITH_SECCOMP
    if either and seccomp_permitted():
        return None
    forbidden = _ptrace_forbidden()
    if forbidden is None:
        return None
    what, fix = forbidden
    if either:
        what = "seccomp filters or ptrace, neither of which is permitted"
        fix += ", or --security-opt seccomp=unconfined"
    elif seccomp_permitted():
        fix += '; or kernel: "7.3", which needs seccomp filters only'
    return f"Linux {version} needs {what} ({fix})"


def seccomp_permitted() -> bool:
    """Tell whether a process may set a filter as the kernel does, after close_range(2)."""
    rule = ctypes.create_string_buffer(struct.pack("HBBI", _RETURN, 0, 0, _ALLOW))
    filters = struct.pack("HP", 1, ctypes.addressof(rule))
    child = os.fork()
    if child == 0:
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        closed = libc.syscall(_CLOSE_RANGE, 1, ctypes.c_ulong(2**32 - 1), 0)
        os._exit((closed or libc.syscall(_SECCOMP, 1, 1, filters)) != 0)
    return os.waitpid(child, 0)[1] == 0


def _ptrace_forbidden() -> tuple[str, str] | None:
    """Say why ptrace is not permitted, as in some containers, and what to do."""
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    if scope.exists() and scope.read_text().strip() == "3":
        return (
            "ptrace, which kernel.yama.ptrace_scope = 3 forbids",
            "set kernel.yama.ptrace_scope = 1 in /etc/sysctl.d, then reboot: "
            "the running kernel does not accept it",
        )
    child = os.fork()
    if child == 0:
        os._exit(ctypes.CDLL(None).ptrace(PTRACE_TRACEME, 0, 0, 0) != 0)
    if os.waitpid(child, 0)[1]:
        return "ptrace, which is not permitted", "in a container: --cap-add SYS_PTRACE"
    return None


def memory_directory(memory_mb: int) -> Path | None:
    """Return the first directory fit for guests' memory: writable, executable, large enough."""
    return next((path for path in _candidates() if not _unfit(path, memory_mb)), None)


def memory_problem(memory_mb: int) -> str | None:
    """Return why no directory, or no process, can hold the memory of one guest per core."""
    try:
        require_memory(memory_mb + KERNEL_MB, "a guest")
    except LabError as error:
        return f"{error.message} ({error.hint})"
    if memory_directory(memory_mb):
        return None
    reasons = "; ".join(str(_unfit(path, memory_mb)) for path in _candidates())
    return (
        f"no directory can hold guest memory, {memory_mb} MB per core, executable: {reasons} "
        "(mount -o remount,exec,size=2G /dev/shm, or set TMPDIR to a directory with enough space)"
    )


def _candidates() -> list[Path]:
    names = ("/dev/shm", os.environ.get("TMPDIR", "/tmp"), "/var/tmp")  # noqa: S108
    return [Path(name) for name in dict.fromkeys(names)]


def _unfit(path: Path, memory_mb: int) -> str | None:
    if not path.is_dir():
        return f"{path} is not a directory"
    if not os.access(path, os.W_OK):
        return f"{path} is not writable"
    space = os.statvfs(path)
    if space.f_flag & os.ST_NOEXEC:
        return f"{path} is mounted noexec"
    free_mb = (space.f_bavail * space.f_frsize + kept_bytes(path)) // 2**20
    if free_mb < memory_mb * len(os.sched_getaffinity(0)):
        return f"{path} has only {free_mb} MB free"
    return None


#: A run with its captures, before they are deleted.
ROOM_FOR_RUNS_MB = 500


def diagnose_uml(results: Path = Path()) -> tuple[Check, ...]:
    """Check what the virtual-time testbed needs on this machine."""
    return (
        _python(),
        _problem("machine", machine_problem(), "Linux on x86_64"),
        _problem("programs", tools_problem(("iperf3",)), "all found"),
        _kernel(),
        _modules(),
        _problem("memory for guests", memory_problem(MEMORY_MB), "enough"),
        _problem("guest processes", hold_problem(load().version), "can be held"),
        _disk(results),
    )


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    return Check("python", sys.version_info >= (3, 11), version, "install Python 3.11 or newer")


def _problem(name: str, problem: str | None, fine: str) -> Check:
    """Split ``what is wrong (the fix)``."""
    if problem is None:
        return Check(name, True, fine)
    what, _, fix = problem.partition(" (")
    return Check(name, False, what, fix.removesuffix(")"))


def _kernel() -> Check:
    status = kernel.status()
    if status["built"]:
        return Check("kernel", True, f"Linux {status['version']}, {status['path']}")
    missing = status["missing_packages"]
    fix = command("kernel", "build")
    if missing:
        fix = f"apt-get install {' '.join(missing)}, then {fix}"
    return Check("kernel", False, "; ".join(kernel.damaged()) or "not built", fix)


def _modules() -> Check:
    status = kernel.status()
    built = [*(status["modules"] or ()), *(status["plugins"] or ())]
    detail = ", ".join(built) or "not built"
    return Check("modules and tc plugins", bool(built), detail, command("kernel", "build"))


def _disk(results: Path) -> Check:
    free = free_bytes(results) // 10**6
    cores = len(os.sched_getaffinity(0))
    needed = ROOM_FOR_RUNS_MB * cores
    detail = f"{free} MB free in {results.absolute()}, {needed} MB needed for {cores} parallel runs"
    return Check("disk", free >= needed, detail, "free disk space, or use --results DIR elsewhere")
