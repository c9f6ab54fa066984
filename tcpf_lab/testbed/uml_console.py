"""How a guest ended: from its exit status, the files it left and its console, to one sentence."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

from tcpf_lab.errors import DiskFullError, TestbedError
from tcpf_lab.results import RunFiles
from tcpf_lab.testbed import guest_plan

TAIL_LINES = 12
#: A disk with less room than this is full: writes of a guest have failed.
SPARE_BYTES = 300_000
#: Cause and cure where the file that a guest's memory is could not grow.
_NO_ROOM = (
    "there was no room for guests' memory any more",
    "make room in /dev/shm, or in what TMPDIR names if that is used; or fewer --jobs",
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
    """Raise unless the guest carried its whole plan out and its kernel reports no fault.

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
    if _disk_is_full(run.root):
        raise DiskFullError("the disk is full", where=f"run {_name(run.root)}")
    # A guest that had to end a program of its own for want of memory has worked with too little.
    if finished and not (_out_of_memory(text) or faults(text)):
        return
    cause, hint = _cause(text, failed, status, elapsed, deadline, memory_mb)
    said = _tail(text) + "".join(_logs_of_programs(run, cause))
    raise TestbedError(
        f"{cause}\n  log: {console}{said}", where=f"run {_name(run.root)}", hint=hint
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


def _disk_is_full(directory: Path) -> bool:
    room = os.statvfs(directory)
    return room.f_bavail * room.f_frsize < SPARE_BYTES


def _cause(
    text: str, failed: Path, status: int | None, elapsed: float, deadline: float, memory_mb: int
) -> tuple[str, str]:
    """Order matters: the first explanation that fits is the most specific one."""
    if _out_of_memory(text):
        return (
            f"the guest ran out of its {memory_mb} MB of memory",
            "fewer flows or smaller socket buffers",
        )
    step = failed.read_text().strip() if failed.exists() else ""
    if "Bus error" in text or step.endswith("was killed by signal 7"):  # of the kernel, a program
        return _NO_ROOM
    if step:
        return f"failed in the guest: {step}", "read the log's last lines"
    if reports := faults(text):
        return f"the guest's kernel reports {len(reports)} fault(s): {reports[0]}", (
            "find the report in the log; a kernel module of the project may be at fault"
        )
    if "ptrace" in text and "errno" in text:
        return (
            "the host does not let the guest trace its processes (ptrace)",
            "allow ptrace: in a container add --cap-add SYS_PTRACE; see kernel.yama.ptrace_scope",
        )
    if status is None:
        limit = f"{deadline:.0f} s with the machine's processors"
        return (
            f"the guest hung: stopped after {elapsed:.0f} s of real time (limit: {limit})",
            "run it again with --jobs 1; if it hangs again, keep the log for a report",
        )
    if "Kernel panic" in text:
        panic = next(line for line in text.splitlines() if "Kernel panic" in line)
        return f"the guest's kernel panicked: {panic.strip()}", "keep the log for a report"
    if status < 0:
        return (
            f"the guest was killed by {signal.Signals(-status).name} after {elapsed:.1f} s",
            "if nobody killed it, look for the host's out-of-memory killer (dmesg)",
        )
    return f"the guest ended early with status {status}", "read the log's last lines"
