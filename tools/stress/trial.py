"""One stress: build, boot, bear the load, judge."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tcpf_lab.results.layout import write_json
from tcpf_lab.testbed.uml.recipe import KBUILD_PARTS, MODULE_PARTS, build_environment
from tcpf_lab.testbed.workshop import Progress, Workshop
from tools.stress import guest, kernel, scenario
from tools.stress.kernel import GUEST_SOURCES, KERNEL_SOURCES, MAKE, SmpKernel
from tools.stress.verdict import Report, Verdict, judge

#: What is put under load -> its queues and its markers.
SUBJECTS = {
    "modules": ((scenario.RIO, scenario.FRIO), (scenario.TCPF, scenario.TOKEN)),
    # Their dumps without locks: those of the queues are found out in minutes, those of a marker may
    # take a quarter of an hour.
    "unlocked": ((scenario.RIO, scenario.FRIO), (scenario.TCPF, scenario.TOKEN)),
    "mainline": ((scenario.RED, scenario.RED), (scenario.GACT, scenario.GACT)),
}


def carry_out(
    subject: str,
    directory: Path,
    *,
    seconds: int,
    processors: int,
    seed: int,
    progress: Progress,
    follow: guest.Follow,
    enough: guest.Enough = lambda _console: False,
) -> Verdict:
    """Put ``subject`` under load and judge it; what the guest left is in ``directory``.

    Parameters
    ----------
    subject : str
        One of `SUBJECTS`.
    directory : Path
        Where console, journal, scenario and ``verdict.json`` go; made if it is not there.
    seconds : int
        How long the load lasts.
    processors : int
        Processors of the guest.
    seed : int
        Of everything that the guest draws.
    progress : callable
        Told the phases of builds.
    follow : callable
        Told seconds, commands and packets during the load.
    enough : callable, optional
        Told the kernel's messages so far; returns whether there need not be more.

    Raises
    ------
    LabError
        If something cannot be built or started.
    """
    built = kernel.build(progress)
    queues, markers = SUBJECTS[subject]
    text = scenario.compose(queues, markers, seconds=seconds, processors=processors, seed=seed)
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tcpf-smp-") as temporary:
        work = build_modules(built, Path(temporary), progress, unlocked=subject == "unlocked")
        outcome = guest.run(
            guest.Guest(
                kernel=built,
                modules=_modules(subject, built, work),
                plugins=tuple(sorted((work / "tc").glob("*.so"))),
                init=work / "init",
                tsc_khz=tsc_khz(work),
                scenario=text,
                seconds=seconds,
                processors=processors,
            ),
            directory,
            follow,
            enough,
        )
    verdict = judge(outcome.console, outcome.journal, text)
    write_json(directory / "verdict.json", describe(verdict))
    return verdict


def _modules(subject: str, built: SmpKernel, work: Path) -> tuple[Path, ...]:
    directory = built.mainline if subject == "mainline" else work / "modules"
    return tuple(sorted(directory.glob("*.ko")))


def describe(verdict: Verdict) -> dict[str, Any]:
    """Give a verdict as plain data."""
    return {
        "passed": verdict.passed,
        "findings": [_plain(report) for report in verdict.findings],
        "problems": list(verdict.problems),
        "races_of_the_kernel_itself": [report.title for report in verdict.others],
        "commands": verdict.commands,
        "packets": verdict.packets,
        "accesses_watched": verdict.watched,
    }


def _plain(report: Report) -> dict[str, Any]:
    return {"title": report.title, "modules": list(report.modules), "text": report.text}


# Modules and ``tc`` plugins as they are in the sources now, built for the kernel of the stress.

#: Takes the locks out of the dumps of a module: what is left must be found out.
UNLOCKED = GUEST_SOURCES / "unlocked.h"
PROGRAM_FLAGS = ("-O2", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-static")


def build_modules(
    built: SmpKernel, work: Path, progress: Progress, *, unlocked: bool = False
) -> Path:
    """Build modules, plugins and the guest's first process below ``work``.

    Parameters
    ----------
    built : SmpKernel
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
        shop.run([*MAKE, "-C", str(built.tree), f"M={sources / part}", flags, "modules"])
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
