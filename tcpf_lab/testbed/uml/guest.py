"""The default testbed: a User-Mode Linux kernel in virtual time, one per run.

The whole plan runs inside one guest whose five machines are network namespaces.  The guest's root
is the host's, read-only; it can write to the run's own directory.  Nothing here needs privileges.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from tcpf_lab.base.errors import DiskFullError, KernelBuildError, RequestError, TestbedError
from tcpf_lab.base.making import free_bytes
from tcpf_lab.plan.compose import Plan
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.testbed.base import IN_VIRTUAL_TIME, bound
from tcpf_lab.testbed.steal import RunQueueWait, TimeWithoutSteal
from tcpf_lab.testbed.uml import guest_plan, preflight, registered
from tcpf_lab.testbed.uml import kernel as uml_kernel
from tcpf_lab.testbed.uml.memory import memory_file
from tcpf_lab.testbed.uml.recipe import in_numbers, plugin_of

#: How often a waiting worker checks whether to stop, s.
LOOK_EVERY_S = 0.2
#: Maximum that counts between two checks, s: a clock that jumps makes no guest hang.
LONGEST_LOOK_S = 2.0

#: How long a guest that is stopped may take to write its console, s.
LAST_WORDS_S = 1.0

_should_stop: Callable[[], bool] = lambda: False  # noqa: E731


def stop_when(condition: Callable[[], bool]) -> None:
    """Make every guest of this process end with ``KeyboardInterrupt`` once ``condition`` holds."""
    global _should_stop
    _should_stop = condition


def stopping() -> bool:
    """Return whether the condition given to :func:`stop_when` holds."""
    return _should_stop()


def run_guest(
    command: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
    console: BinaryIO,
    deadline: float,
    descriptors: Sequence[int] = (),
) -> int | None:
    """Run the guest in ``directory`` to its end; it inherits ``descriptors``.

    Returns
    -------
    int or None
        Exit status, negative for a signal; None if it was killed after ``deadline`` seconds
        without CPU steal and without waiting for a processor.

    Raises
    ------
    KeyboardInterrupt
        If the condition given to :func:`stop_when` came true.
    """
    guest = subprocess.Popen(
        bound(command),
        cwd=directory,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=console,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        pass_fds=descriptors,
    )
    try:
        return _wait(guest, deadline)
    finally:
        _kill_group(guest)


def _wait(guest: subprocess.Popen[bytes], deadline: float) -> int | None:
    descriptor, passed = os.pidfd_open(guest.pid), TimeWithoutSteal(longest=LONGEST_LOOK_S)
    queued = RunQueueWait(guest.pid)
    try:
        while True:
            ended, _, _ = select.select([descriptor], [], [], LOOK_EVERY_S)
            if ended:
                return guest.wait()
            if stopping():
                raise KeyboardInterrupt
            if passed.seconds() - queued.seconds() > deadline:
                guest.terminate()  # User-Mode Linux writes what it has buffered of its console
                select.select([descriptor], [], [], LAST_WORDS_S)
                return None
    finally:
        os.close(descriptor)


def _kill_group(guest: subprocess.Popen[bytes]) -> None:
    """Kill the kernel and the guest's processes, which share its process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # all of them have ended
        os.killpg(guest.pid, signal.SIGKILL)
    guest.wait()


TAIL_LINES = 12
#: A disk with less room than this is full: writes of a guest have failed.
SPARE_BYTES = 300_000
#: Cause and hint if the file that holds a guest's memory could not grow.
_MEMORY_FILE_FULL = (
    "no space left for the file that holds the guest's memory",
    "free space in /dev/shm (or in TMPDIR, if that is used), or use fewer --jobs",
)


#: A line by which a kernel reports a fault of its own or of a module.
_FAULT = re.compile(
    r"^\[ *\d+\.\d+\] "
    r"(.*\b(BUG: |BUG [a-z0-9-]+ \(|WARNING: |UBSAN: |ODEBUG: |refcount_t: |ref_tracker: .*leak)"
    r"|INFO: |h?list_(add|del) corruption)"
)


def faults(console: str) -> list[str]:
    """Return the first line of every fault that the kernel has reported."""
    return [line.partition("] ")[2].strip() for line in console.splitlines() if _FAULT.match(line)]


def judge(
    run: RunFiles, status: int | None, elapsed: float, deadline: float, memory_mb: int
) -> None:
    """Raise unless the guest finished its plan and its kernel reports no fault.

    Raises
    ------
    TestbedError
        Naming the run, the cause, the log and what to try.
    DiskFullError
        If that is the cause.
    """
    failed = run.root / guest_plan.FAILED
    finished = (run.root / guest_plan.FINISHED).exists() and not failed.exists()
    console = run.log / "console.txt"
    text = console.read_text(encoding="utf-8", errors="replace") if console.exists() else ""
    if free_bytes(run.root) < SPARE_BYTES:
        raise DiskFullError("the disk is full", where=f"run {_name(run.root)}")
    # A guest whose out-of-memory killer ended a program has had too little memory.
    if finished and not (_out_of_memory(text) or faults(text)):
        return
    cause, hint = _cause(text, failed, status, elapsed, deadline, memory_mb)
    lines = _tail(text) + "".join(_logs_of_programs(run, cause))
    raise TestbedError(
        f"{cause}\n  log: {console}{lines}", where=f"run {_name(run.root)}", hint=hint
    )


def _name(root: Path) -> str:
    return root.name.removesuffix(".partial")


def _tail(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()][-TAIL_LINES:]
    return "".join(f"\n  | {line}" for line in lines)


def _logs_of_programs(run: RunFiles, cause: str) -> Iterator[str]:
    """Yield the last lines of the log of every program that the cause names."""
    for log in sorted(run.log.glob("*.log")):
        text = log.read_text(encoding="utf-8", errors="replace")
        if log.stem in cause and text.strip():
            yield f"\n  log: {log}{_tail(text)}"


def _out_of_memory(console: str) -> bool:
    return "Out of memory" in console or "oom-kill" in console


def _cause(
    text: str, failed: Path, status: int | None, elapsed: float, deadline: float, memory_mb: int
) -> tuple[str, str]:
    """Order matters: the first explanation that fits is the most specific one."""
    if _out_of_memory(text):
        return (
            f"the guest ran out of memory ({memory_mb} MB)",
            "use fewer flows or smaller socket buffers",
        )
    step = failed.read_text().strip() if failed.exists() else ""
    if "Bus error" in text or step.endswith("was killed by signal 7"):  # of the kernel, a program
        return _MEMORY_FILE_FULL
    if step:
        return f"failed in the guest: {step}", "see the last lines of the log"
    if reports := faults(text):
        return f"the guest's kernel reports {len(reports)} fault(s): {reports[0]}", (
            "the full report is in the log; a kernel module of tcpf-lab may be the cause"
        )
    if "ptrace" in text and "errno" in text:
        return (
            "this machine does not permit ptrace, which the guest needs",
            "in a container add --cap-add SYS_PTRACE; check the sysctl kernel.yama.ptrace_scope",
        )
    if status is None:
        limit = f"{deadline:.0f} s without CPU steal"
        return (
            f"the guest hung: killed after {elapsed:.0f} s of real time (limit: {limit})",
            "run it again with --jobs 1; if it hangs again, report a bug with the log",
        )
    if "Kernel panic" in text:
        panic = next(line for line in text.splitlines() if "Kernel panic" in line)
        return f"the guest's kernel panicked: {panic.strip()}", "report a bug with the log"
    if status < 0:
        return (
            f"the guest was killed by {signal.Signals(-status).name} after {elapsed:.1f} s",
            "`dmesg` shows whether the out-of-memory killer did it",
        )
    return f"the guest exited early with status {status}", "see the last lines of the log"


#: The guest's clock at boot, ns: fixed, so that no run depends on the date (2001-09-09 01:46:40
#: UTC).
CLOCK_START_NS = 1_000_000_000 * 10**9
#: Earlier versions mount a root that is on no device only if it has a name.
WITH_NAMELESS_ROOT = (6, 12)
#: Real seconds a guest may take for boot and set-up; the plan limits those of a virtual second.
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

    kernel: uml_kernel.Kernel  #: of plans that name none
    memory_mb: int = preflight.MEMORY_MB
    watchdog_base: float = WATCHDOG_BASE_S
    seccomp: str = "auto"  #: how guest processes are held: by seccomp, or (``off``) by ptrace
    messages: tuple[str, ...] = ()  #: what the console shows, instead of the variant's own
    stands_in: bool = (
        False  #: ``kernel`` is another one, as that of plans that name none is missing
    )
    #: Kernels that plans name, as they were found first: a worker process takes them along.
    named: dict[str, uml_kernel.Kernel] = field(default_factory=dict)

    name = "uml"
    clock = "virtual"
    generator = IN_VIRTUAL_TIME
    parallel = True

    def kernel_of(self, plan: Plan) -> uml_kernel.Kernel:
        """Return the kernel of the version or name that ``plan`` needs.

        Raises
        ------
        RequestError
            If it names one that is not registered.
        KernelBuildError
            If it is not built.
        """
        if not plan.kernel:
            return uml_kernel.require() if self.stands_in else self.kernel
        if plan.kernel not in self.named:
            self.named[plan.kernel] = registered.require(plan.kernel)
        return self.named[plan.kernel]

    def identity(self, plan: Plan) -> dict[str, str]:
        """Name the kernel, its command line, the guest programs, and the modules ``plan`` loads.

        It is empty if the kernel is not built.
        """
        try:
            kernel = self.kernel_of(plan)
        except (KernelBuildError, RequestError):
            return {}
        _, *parameters = self._command(plan, seed=0)
        return {
            "kernel": kernel.kernel_key,
            "kernel command line": " ".join(parameters),
            **kernel.programs,
            **self._loaded(plan),
        }

    def check(self, plan: Plan) -> tuple[str, ...]:
        """Return the problems that show before a boot, one sentence each."""
        try:
            kernel = self.kernel_of(plan)
        except (KernelBuildError, RequestError) as error:
            return (f"{error.message}: {error.hint}",)
        return tuple(
            problem
            for problem in (
                preflight.machine_problem(),
                preflight.tools_problem(plan.programs),
                preflight.modules_problem(self._loaded(plan)),
                preflight.congestion_problem(plan, kernel.tree / ".config"),
                preflight.linux22_problem(plan, kernel.version, kernel.patches),
                preflight.newer_problem(plan, kernel.version, kernel.tree / ".config"),
                preflight.memory_problem(self._memory_mb(plan)),
                preflight.hold_problem(kernel.version, self.seccomp),
            )
            if problem
        )

    def execute(self, plan: Plan, run: RunFiles, seed: int) -> None:
        """Boot a guest, let it execute ``plan``, and remove all its processes and files."""
        command, memory_mb = self._command(plan, seed), self._memory_mb(plan)
        memory_directory = preflight.memory_directory(memory_mb) or Path("/tmp")  # noqa: S108
        deadline = self.watchdog_base + plan.slowness * plan.virtual_seconds
        _prepare(run, plan, self.kernel_of(plan))
        started = time.monotonic()
        # A kernel under development may rely on memory that it has not written.
        empty = registered.is_name(plan.kernel or "")
        with memory_file(memory_directory, empty) as memory:
            given = (memory.file.fileno(),)
            environment = {
                "PATH": os.defpath,
                "HOME": ".",  # a directory is made there
                "TMPDIR": str(memory_directory),  # checked even if memory is given
                **memory.environment,
            }
            try:
                with (run.log / "console.txt").open("wb") as sink:
                    status = run_guest(command, run.root, environment, sink, deadline, given)
            finally:
                _clean(run)
            judge(run, status, time.monotonic() - started, deadline, memory_mb)

    def facts(self, plan: Plan) -> dict[str, Any]:
        """Describe kernel, programs, and the modules that ``plan`` loads by version and content."""
        kernel = self.kernel_of(plan)
        return {
            "kernel": kernel.version,
            "kernel_key": kernel.key,
            "kernel_sha256": kernel.sha256,
            "kernel_patches": list(kernel.patches),
            **({"kernel_origin": kernel.origin} if kernel.origin else {}),
            **({"kernel_config": list(kernel.config)} if kernel.config else {}),
            "modules": self._loaded(plan),
            "memory_mb": self._memory_mb(plan),
            "host_machine": platform.machine(),
            "programs": preflight.versions(),
        }

    def _loaded(self, plan: Plan) -> dict[str, str]:
        """Give the hashes of the modules that ``plan`` loads and of their ``tc`` plugins."""
        names = plan.modules
        plugins = map(plugin_of, names)
        kernel = self.kernel_of(plan)
        built = kernel.modules | kernel.plugins
        return {name: built.get(name, preflight.NOT_BUILT) for name in (*names, *plugins)}

    def _memory_mb(self, plan: Plan) -> int:
        return self.memory_mb + plan.memory_mb

    def _command(self, plan: Plan, seed: int) -> list[str]:
        """Return the command line; its parameters contain no path of this machine."""
        kernel = self.kernel_of(plan)
        version = in_numbers(kernel.version)
        return [
            str(kernel.path),
            f"mem={self._memory_mb(plan)}M",
            "time-travel=inf-cpu",
            f"time-travel-start={CLOCK_START_NS}",
            f"random_seed={seed}",
            *(["root=hostfs"] if version < WITH_NAMELESS_ROOT else []),
            "rootfstype=hostfs",
            "rootflags=/",
            "ro",
            *([f"seccomp={self.seccomp}"] if version >= preflight.WITH_SECCOMP else []),
            *(self.messages or MESSAGES[kernel.variant]),
            "con=null",
            "con0=null,fd:1",
            "ssl=null",
            f"init=/proc/self/cwd/{PROGRAMS_LINK}/tcpf-guest",
        ]


def _prepare(run: RunFiles, plan: Plan, kernel: uml_kernel.Kernel) -> None:
    instructions = run.root / guest_plan.INSTRUCTIONS
    instructions.write_text(guest_plan.render(plan), encoding="utf-8")
    link = run.root / PROGRAMS_LINK
    link.unlink(missing_ok=True)
    link.symlink_to(kernel.directory.resolve())  # the guest follows one link, not a chain


def _clean(run: RunFiles) -> None:
    (run.root / PROGRAMS_LINK).unlink(missing_ok=True)
    shutil.rmtree(run.root / UML_DIRECTORY, ignore_errors=True)
