"""``python -m tools.stress``: the modules under load on several processors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tcpf_lab.base.errors import LabError, RequestError
from tools.stress import kernel, trial
from tools.stress.verdict import Verdict

out = Console(highlight=False, markup=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, markup=False)


class Teller:
    """Say each phase once, on standard error."""

    def __init__(self) -> None:
        self._phase = ""
        self._minute = -1

    def phase(self, name: str, _share: float) -> None:
        """Name a phase of a build when it begins."""
        if name != self._phase:
            self._phase = name
            err.print(f"stress: {name}")

    def load(self, elapsed: int, commands: int, packets: int) -> None:
        """Say what the guest has done so far, every minute."""
        if elapsed // 60 != self._minute:
            self._minute = elapsed // 60
            err.print(f"stress: {self._minute} min: {commands} commands, {packets} packets")


def main(
    minutes: Annotated[
        float, typer.Argument(metavar="MINUTES", min=0.1, help="How long the load lasts.")
    ] = 10.0,
    processors: Annotated[
        int, typer.Option("--processors", metavar="N", min=2, max=8, help="Of the guest.")
    ] = 2,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=1, help="Of everything random.")
    ] = 1,
    subject: Annotated[
        str,
        typer.Option("--subject", metavar="WHAT", help=", ".join(trial.SUBJECTS) + "."),
    ] = "modules",
    prepare: Annotated[
        bool, typer.Option("--prepare", help="Build the kernel, if need be, and no more.")
    ] = False,
    output: Annotated[
        Path, typer.Option("--output", metavar="DIR", help="Where console and verdict go.")
    ] = Path("results/stress"),
) -> None:
    """Put queues and markers under load, and show every report of the kernel's checks.

    subject: modules (as they are), unlocked (their dumps without locks: must fail) or mainline (red
    and gact, to see what the kernel itself does).
    """
    teller = Teller()
    try:
        if prepare:
            kernel.build(teller.phase)
            raise typer.Exit
        verdict = put_under_load(subject, output, minutes, processors, seed, teller)
    except LabError as error:
        err.print(f"error: {error}")
        raise typer.Exit(error.exit_status) from None
    show(verdict)
    out.print(f"written: {output}")
    raise typer.Exit(0 if verdict.passed else 1)


def put_under_load(
    subject: str, output: Path, minutes: float, processors: int, seed: int, teller: Teller
) -> Verdict:
    """Carry a trial out, after a look at its subject."""
    if subject not in trial.SUBJECTS:
        known = ", ".join(trial.SUBJECTS)
        raise RequestError(f"unknown subject '{subject}'; allowed: {known}")
    return trial.carry_out(
        subject,
        output,
        seconds=round(minutes * 60),
        processors=processors,
        seed=seed,
        progress=teller.phase,
        follow=teller.load,
    )


def show(verdict: Verdict) -> None:
    """Print findings in full, races of the kernel itself by their title, and the numbers."""
    for report in verdict.findings:
        out.print(f"{report.text}\n")
    for report in verdict.others:
        out.print(f"the kernel itself: {report.title}")
    for problem in verdict.problems:
        out.print(f"not proven: {problem}")
    out.print(
        f"{len(verdict.findings)} reports, {len(verdict.others)} races of the kernel itself; "
        f"{verdict.commands} commands, {verdict.packets} packets, "
        f"{verdict.watched} accesses watched"
    )
    out.print("passed" if verdict.passed else "failed")


if __name__ == "__main__":
    typer.run(main)
