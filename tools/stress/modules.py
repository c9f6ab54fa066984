"""Modules and ``tc`` plugins as they are in the sources now, built for the kernel of the stress."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tcpf_lab.testbed.uml.recipe import KBUILD_PARTS, MODULE_PARTS, build_environment
from tcpf_lab.testbed.workshop import Progress, Workshop
from tools.stress.kernel import GUEST_SOURCES, KERNEL_SOURCES, MAKE, SmpKernel

#: Takes the locks out of the dumps of a module: what is left must be found out.
UNLOCKED = GUEST_SOURCES / "unlocked.h"
PROGRAM_FLAGS = ("-O2", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-static")


def build(kernel: SmpKernel, work: Path, progress: Progress, *, unlocked: bool = False) -> Path:
    """Build modules, plugins and the guest's first process below ``work``.

    Parameters
    ----------
    kernel : SmpKernel
        The kernel that the modules are for.
    work : Path
        Directory of the build; products are in ``work/modules``, ``work/tc`` and ``work/init``.
    progress : callable
        Told a phase and the share of it that is done.
    unlocked : bool
        Build the modules without the locks in their dumps.

    Returns
    -------
    Path
        ``work``.

    Raises
    ------
    KernelBuildError
        If something does not compile.
    """
    sources = work / "kernel"
    for part in MODULE_PARTS:
        shutil.copytree(KERNEL_SOURCES / part, sources / part)
    shop = Workshop(sources, work / "build.log", progress, build_environment())
    progress("modules", 0.0)
    flags = f"KCFLAGS=-include {UNLOCKED}" if unlocked else "KCFLAGS="
    (work / "modules").mkdir()
    for part in KBUILD_PARTS:
        shop.run([*MAKE, "-C", str(kernel.tree), f"M={sources / part}", flags, "modules"])
        for module in (sources / part).glob("*.ko"):
            shutil.copy2(module, work / "modules")
    progress("modules", 0.6)
    shop.run(["make", "-C", str(sources / "tc"), f"O={work / 'tc'}"])
    stress = sorted(str(path) for path in GUEST_SOURCES.glob("stress*.c"))
    shop.run(["gcc", *PROGRAM_FLAGS, "-o", str(work / "init"), *stress])
    shop.run(["gcc", *PROGRAM_FLAGS, "-o", str(work / "tsc_khz"), str(GUEST_SOURCES / "tsc_khz.c")])
    progress("modules", 1.0)
    return work


def tsc_khz(work: Path) -> int:
    """Return how fast this machine's time stamp counter counts, in kHz."""
    reply = subprocess.run([work / "tsc_khz"], capture_output=True, text=True, check=True)
    return int(reply.stdout)


def libraries(program: Path) -> tuple[Path, ...]:
    """Return the shared libraries that a program loads, the loader among them."""
    reply = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True)
    words = reply.stdout.split()
    return tuple(dict.fromkeys(Path(word) for word in words if word.startswith("/")))
