"""Everything a testbed needs, checked at once, with the cure for each fault."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from tcpf_lab.results.command import command
from tcpf_lab.testbed.uml import guest, kernel, preflight

#: A run with its captures, before they are deleted.
ROOM_FOR_RUNS_MB = 500


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str
    cure: str = ""


def diagnose_uml(results: Path = Path()) -> tuple[Check, ...]:
    """Check what the virtual-time testbed needs on this machine."""
    return (
        _python(),
        _problem("machine", preflight.machine_problem(), "Linux on x86_64"),
        _problem("programs", preflight.tools_problem(("iperf3",)), "all found"),
        _kernel(),
        _modules(),
        _problem("memory for guests", preflight.memory_problem(guest.MEMORY_MB), "room enough"),
        _problem("ptrace", preflight.ptrace_problem(), "allowed"),
        _disk(results),
    )


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    return Check("python", sys.version_info >= (3, 11), version, "install Python 3.11 or newer")


def _problem(name: str, problem: str | None, fine: str) -> Check:
    """Split ``what is wrong (the cure)``."""
    if problem is None:
        return Check(name, True, fine)
    what, _, cure = problem.partition(" (")
    return Check(name, False, what, cure.removesuffix(")"))


def _kernel() -> Check:
    status = kernel.status()
    if status["built"]:
        return Check("kernel", True, f"Linux {status['version']}, {status['path']}")
    missing = status["missing_packages"]
    cure = command("kernel", "build")
    if missing:
        cure = f"apt-get install {' '.join(missing)}, then {cure}"
    return Check("kernel", False, "not built", cure)


def _modules() -> Check:
    status = kernel.status()
    built = [*(status["modules"] or ()), *(status["plugins"] or ())]
    detail = ", ".join(built) or "not built"
    return Check("modules and tc plugins", bool(built), detail, command("kernel", "build"))


def _disk(results: Path) -> Check:
    free = shutil.disk_usage(results.absolute()).free // 10**6
    cores = len(os.sched_getaffinity(0))
    needed = ROOM_FOR_RUNS_MB * cores
    detail = (
        f"{free} MB free in {results.absolute()}, {needed} MB needed for {cores} runs at a time"
    )
    return Check("disk", free >= needed, detail, "free some space, or give --results DIR elsewhere")
