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
from typing import Any

from tcpf_lab.plan.compose import Plan
from tcpf_lab.plan.step import LoadModule
from tcpf_lab.results import RunFiles
from tcpf_lab.testbed import (
    guest_plan,
    guest_process,
    uml_console,
    uml_kernel,
    uml_modules,
    uml_preflight,
)
from tcpf_lab.testbed.base import IN_VIRTUAL_TIME

#: The guest's clock at boot, ns: fixed, so that no run depends on the date (2001-09-09 01:46:40
#: UTC).
CLOCK_START_NS = 1_000_000_000 * 10**9
MEMORY_MB = 512
#: Real seconds a guest may take for boot and set-up; the plan says how many a virtual second may.
WATCHDOG_BASE_S = 60.0
#: What of the kernel's messages the console shows: reports of the kasan variant are warnings, and
#: its first one must not silence the others.
MESSAGES = {
    "standard": ("quiet",),
    "kasan": ("loglevel=7", "kasan_multi_shot"),
    "unlogged": ("quiet",),
}
#: Symbolic link in the run directory through which the guest finds the project's programs.
PROGRAMS_LINK = ".programs"
#: UML makes a directory of this name in HOME, which is the run directory: its working directory.
UML_DIRECTORY = ".uml"


@dataclass(frozen=True)
class UmlTestbed:
    """Run plans in User-Mode Linux guests built by ``tcpf-lab kernel build``."""

    kernel: uml_kernel.Kernel
    memory_mb: int = MEMORY_MB
    watchdog_base: float = WATCHDOG_BASE_S

    name = "uml"
    clock = "virtual"
    generator = IN_VIRTUAL_TIME
    parallel = True

    def identity(self, plan: Plan) -> dict[str, str]:
        """Name the kernel, its command line, the guest programs, and the modules ``plan`` loads."""
        _, *parameters = self._command(plan, seed=0)
        return {
            "kernel": self.kernel.kernel_key,
            "kernel command line": " ".join(parameters),
            **self.kernel.programs,
            **self._loaded(plan),
        }

    def check(self, plan: Plan) -> tuple[str, ...]:
        """Return what can be seen to be wrong before a boot, one sentence per problem."""
        return tuple(
            problem
            for problem in (
                uml_preflight.machine_problem(),
                uml_preflight.tools_problem(plan.programs),
                uml_preflight.modules_problem(self._loaded(plan)),
                uml_preflight.memory_problem(self._memory_mb(plan)),
                uml_preflight.ptrace_problem(),
            )
            if problem
        )

    def execute(self, plan: Plan, run: RunFiles, seed: int) -> None:
        """Boot a guest, let it carry ``plan`` out, and make sure that nothing of it remains."""
        _prepare(run, plan, self.kernel)
        console = run.log / "console.txt"
        deadline = self.watchdog_base + plan.slowness * plan.virtual_seconds
        started = time.monotonic()
        try:
            with console.open("wb") as sink:
                status = guest_process.run(
                    self._command(plan, seed), run.root, self._environment(plan), sink, deadline
                )
        finally:
            _clean(run)
        elapsed = time.monotonic() - started
        uml_console.judge(run, status, elapsed, deadline, self._memory_mb(plan))

    def facts(self, plan: Plan) -> dict[str, Any]:
        """Describe kernel, programs, and the modules that ``plan`` loads by version and content."""
        return {
            "kernel": self.kernel.version,
            "kernel_key": self.kernel.key,
            "kernel_sha256": self.kernel.sha256,
            "kernel_patches": list(self.kernel.patches),
            "modules": self._loaded(plan),
            "memory_mb": self._memory_mb(plan),
            "host_machine": platform.machine(),
            "programs": uml_preflight.versions(),
        }

    def _loaded(self, plan: Plan) -> dict[str, str]:
        """Give the hashes of the modules that ``plan`` loads and of their ``tc`` plugins."""
        names = _modules(plan)
        plugins = map(uml_modules.plugin_of, names)
        built = self.kernel.modules | self.kernel.plugins
        return {name: built.get(name, uml_preflight.NOT_BUILT) for name in (*names, *plugins)}

    def _memory_mb(self, plan: Plan) -> int:
        return self.memory_mb + plan.memory_mb

    def _command(self, plan: Plan, seed: int) -> list[str]:
        """Give the command line; no path of this machine is in it."""
        return [
            str(self.kernel.path),
            f"mem={self._memory_mb(plan)}M",
            "time-travel=inf-cpu",
            f"time-travel-start={CLOCK_START_NS}",
            f"random_seed={seed}",
            "rootfstype=hostfs",
            "rootflags=/",
            "ro",
            *MESSAGES[self.kernel.variant],
            "con=null",
            "con0=null,fd:1",
            "ssl=null",
            f"init=/proc/self/cwd/{PROGRAMS_LINK}/tcpf-guest",
        ]

    def _environment(self, plan: Plan) -> dict[str, str]:
        """UML keeps its memory in a file under TMPDIR and a directory of its own under HOME."""
        memory = uml_preflight.memory_directory(self._memory_mb(plan))
        return {
            "PATH": os.defpath,
            "HOME": ".",
            "TMPDIR": str(memory or "/tmp"),  # noqa: S108
        }


def _modules(plan: Plan) -> tuple[str, ...]:
    """List the modules that ``plan`` loads, each once."""
    return tuple(dict.fromkeys(step.name for step in plan.steps if isinstance(step, LoadModule)))


def _prepare(run: RunFiles, plan: Plan, kernel: uml_kernel.Kernel) -> None:
    instructions = run.root / guest_plan.INSTRUCTIONS
    instructions.write_text(guest_plan.render(plan), encoding="utf-8")
    link = run.root / PROGRAMS_LINK
    link.unlink(missing_ok=True)
    link.symlink_to(kernel.directory.resolve())  # the guest follows one link, not a chain


def _clean(run: RunFiles) -> None:
    (run.root / PROGRAMS_LINK).unlink(missing_ok=True)
    shutil.rmtree(run.root / UML_DIRECTORY, ignore_errors=True)
