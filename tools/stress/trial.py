"""One stress: build, boot, bear the load, judge."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tcpf_lab.results.layout import write_json
from tcpf_lab.testbed.workshop import Progress
from tools.stress import guest, kernel, modules, scenario
from tools.stress.kernel import SmpKernel
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
        work = modules.build(built, Path(temporary), progress, unlocked=subject == "unlocked")
        outcome = guest.run(
            guest.Guest(
                kernel=built,
                modules=_modules(subject, built, work),
                plugins=tuple(sorted((work / "tc").glob("*.so"))),
                init=work / "init",
                tsc_khz=modules.tsc_khz(work),
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
