"""``python -m tools.faults.subject``: `tcpf-lab` with faults that cannot be planted from outside.

The variable ``TCPF_FAULTS`` says which, as JSON.  Everything else is the program as it is, but for
the report's figures and PDF: drawing them takes longer than the runs.
"""

from __future__ import annotations

import functools
import json
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tcpf_lab.metrics import summary
from tcpf_lab.plan.compose import Plan
from tcpf_lab.results.layout import PARTIAL, RunFiles
from tcpf_lab.run import reporting
from tcpf_lab.testbed.steal import TimeWithoutSteal
from tcpf_lab.testbed.uml import guest, guest_plan
from tcpf_lab.testbed.uml.kernel import Kernel

VARIABLE = "TCPF_FAULTS"
#: Made in ``TMPDIR`` when everything up to here, which is not the program's, has been done.
BEGUN = "begun"
#: What a report is written as, of all that it can be.
FORMATS = ("md", "table")
_MB = 2**20


def main() -> None:
    """Plant the faults that were asked for, and run the command line."""
    # A shell that started this in the background has had interrupts ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    wanted: dict[str, Any] = json.loads(os.environ.get(VARIABLE, "{}"))
    if not wanted.pop("drawn", False):
        reporting.report = functools.partial(reporting.report, formats=FORMATS)
    for name, value in wanted.items():
        PLANTED[name](value)
    from tcpf_lab.__main__ import main as tcpf_lab

    (Path(tempfile.gettempdir()) / BEGUN).touch()
    tcpf_lab()


def _in_guest(value: dict[str, Any]) -> None:
    """Start a shell script in the guest of one run, ``after`` seconds after its epoch."""
    prepare = guest._prepare

    def with_script(run: RunFiles, plan: Plan, kernel: Kernel) -> None:
        prepare(run, plan, kernel)
        if run.root.name == value["run"] + PARTIAL:
            path = run.root / guest_plan.INSTRUCTIONS
            path.write_text(_with_script(path.read_text("utf-8"), value), encoding="utf-8")

    guest._prepare = with_script


def _with_script(plan: str, value: dict[str, Any]) -> str:
    at = f"{guest_plan.BIN}/tcpf-guest\tat\t{{epoch}}\t{value['after']:.9f}"
    start = f"start\tplanted\tS\t-\t-\t{at}\tsh\t-c\t{value['script']}\n"
    before, epoch, rest = plan.partition("\nepoch\t")
    line, _, rest = rest.partition("\n")
    return f"{before}{epoch}{line}\n{start}{rest}"


def _clock_jump(value: dict[str, float]) -> None:
    """Let the watchdog's clock jump by ``seconds`` at its look number ``look``."""

    def jumping() -> Callable[[], float]:
        import time

        looks = 0

        def clock() -> float:
            nonlocal looks
            looks += 1
            return time.monotonic() + (value["seconds"] if looks > value["look"] else 0.0)

        return clock

    vars(guest)["TimeWithoutSteal"] = lambda **words: TimeWithoutSteal(clock=jumping(), **words)


def _memory_of_guest(value: dict[str, Any]) -> None:
    """Start the guest of one run with so many MB, whatever the testbed asks for."""
    run = guest.run_guest

    def with_less(command: list[str], directory: Path, *rest: Any) -> int | None:
        if directory.name == value["run"] + PARTIAL:
            less = f"mem={value['mb']}M"
            command = [less if word.startswith("mem=") else word for word in command]
        return run(command, directory, *rest)

    guest.run_guest = with_less  # type: ignore[assignment]


def _memory_of_guest_process(value: int) -> None:
    """Let a guest's process on the host have so many MB in all."""
    run = guest.run_guest

    def limited(command: list[str], *rest: Any) -> int | None:
        return run(["prlimit", f"--as={value * _MB}", *command], *rest)

    guest.run_guest = limited  # type: ignore[assignment]


def _memory_of_analysis(value: int) -> None:
    """Let a worker have so many MB more when it begins to analyse."""
    analyse = summary.analyse

    def limited(run: RunFiles) -> dict[str, Any]:
        _limit(value)
        return analyse(run)

    summary.analyse = limited


def _limit(more_mb: int) -> None:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    now = pages * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + more_mb * _MB, hard))


PLANTED: dict[str, Callable[[Any], None]] = {
    "in_guest": _in_guest,
    "clock_jump": _clock_jump,
    "memory_of_guest": _memory_of_guest,
    "memory_of_guest_process": _memory_of_guest_process,
    "memory_of_analysis": _memory_of_analysis,
}

if __name__ == "__main__":
    main()
    sys.exit()
