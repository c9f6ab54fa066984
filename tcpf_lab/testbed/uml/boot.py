"""A kernel of the user's own boots, before any experiment runs on it."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from tcpf_lab.base.errors import KernelBuildError, TestbedError
from tcpf_lab.plan.compose import Plan
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.testbed.uml import kernel as uml_kernel
from tcpf_lab.testbed.uml import preflight
from tcpf_lab.testbed.uml.guest import UmlTestbed

#: Real seconds that a kernel may take to boot and to halt: usual is a third of one.
LIMIT_S = 20.0
_NOTHING = Plan(phases=(), expect={}, window=(0.0, 0.0), programs=(), slowness=0.0)


def check(kernel: uml_kernel.Kernel) -> None:
    """Boot a kernel that has nothing to do.

    Raises
    ------
    KernelBuildError
        With the console's last lines, if it panics, hangs or reports a fault.
    """
    problems = (
        preflight.machine_problem(),
        preflight.memory_problem(preflight.MEMORY_MB),
        preflight.hold_problem(kernel.version),
    )
    if any(problems):
        return  # of this machine, not of the kernel: `doctor` and the first run name them
    bed = UmlTestbed(kernel, watchdog_base=LIMIT_S, messages=("loglevel=7", "earlyprintk"))
    with tempfile.TemporaryDirectory(prefix="boot-", ignore_cleanup_errors=True) as at:
        run = RunFiles(Path(at))
        run.log.mkdir()
        try:
            bed.execute(_NOTHING, run, seed=1)
        except TestbedError as error:
            cause, _, lines = error.message.partition("\n")
            lines = re.sub(r"<\d>", "", lines)
            cause = re.sub(r"<\d>\[ *[\d.]+\] ", "", cause)
            console = "\n".join(line for line in lines.splitlines() if "  log: " not in line)
            raise KernelBuildError(
                f"the kernel does not boot: {cause}\n{console}",
                hint="change the source, a patch or the configuration, and build again: "
                "what did compile is kept",
            ) from None
