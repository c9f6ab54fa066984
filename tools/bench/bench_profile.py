"""Where the time of a run goes: boot and set-up, packets, captures, analysis.

One core makes runs of 100 flows through RED, 1 s and 300 s of traffic, without and with captures;
what the differences leave is each part's own.  Rounds take turns, and medians count, so that a
machine that is slow for a while is slow for all of them.

    python -m tools.bench.bench_profile [--rounds N] [--kernel 7.3] [--json]
"""

from __future__ import annotations

import json
import resource
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tcpf_lab.base.errors import LabError
from tcpf_lab.plan.compose import compose
from tcpf_lab.results.layout import ExperimentFiles, RunFiles
from tcpf_lab.run.runner import Task, carry_out
from tcpf_lab.spec.sweep import Run
from tcpf_lab.testbed.base import Testbed
from tcpf_lab.testbed.registry import testbed
from tools.bench.virtual_time import LONG_S, chapter_run, one_core

#: A run with next to no traffic: 100 flows begin, and it ends.
_SHORT = ("traffic.start_spread=100 ms", "traffic.warmup=500 ms", "traffic.duration=500 ms")
_WITHOUT = "traffic.captures=false"
_SETTINGS: dict[str, tuple[str, ...]] = {
    "short": (*_SHORT, _WITHOUT),
    "short_captured": _SHORT,
    "long": (_WITHOUT,),
    "long_captured": (),
}


@dataclass(frozen=True)
class Times:
    """What one run took, s."""

    guest: float  #: boot, set-up, traffic, tear-down, as the controller sees it
    whole: float  #: everything that a worker does for the run: also plan, analysis, results
    user: float  #: processor time of the guest's kernel and programs
    system: float  #: and of the host's kernel for them


def measure(bed: Testbed, rounds: int, kernel: str = "") -> dict[str, Any]:
    """Return the parts of a run, medians over ``rounds``, in seconds of one core."""
    # Only 6.12 has Linux 2.2's switches.
    own = (f"kernel='{kernel}'", "tcp.linux22={}") if kernel else ()
    runs = {name: chapter_run(LONG_S, *own, *settings) for name, settings in _SETTINGS.items()}
    found: dict[str, list[Times]] = {name: [] for name in runs}
    with one_core():
        for _ in range(rounds):
            for name, run in runs.items():
                found[name].append(_times(run, bed))
    medians = {name: _medians(times) for name, times in found.items()}
    return {"rounds": rounds, "runs": medians, "parts": _parts(medians)}


def _times(run: Run, bed: Testbed) -> Times:
    """Make a run as a worker does, then once more the guest's part alone."""
    with TemporaryDirectory(prefix="tcpf-profile-") as name:
        files = ExperimentFiles(Path(name), "profile", bed.name)
        started = time.perf_counter()
        event = carry_out(Task(run, bed, files, keep_pcaps=False, commit="-"))
        whole = time.perf_counter() - started
        if event.kind != "finished":
            raise LabError(event.detail)
    with TemporaryDirectory(prefix="tcpf-profile-") as name:
        guest = RunFiles(Path(name) / "run")
        guest.create()
        plan, before = compose(run), resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.perf_counter()
        bed.execute(plan, guest, run.seed)
        elapsed = time.perf_counter() - started
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    return Times(elapsed, whole, user, system)


def _medians(times: list[Times]) -> dict[str, float]:
    names = Times.__dataclass_fields__
    return {name: round(statistics.median(getattr(t, name) for t in times), 4) for name in names}


def _parts(runs: dict[str, dict[str, float]]) -> dict[str, float]:
    """Tell the parts of a captured run of `LONG_S` apart."""
    short, long = runs["short"]["guest"], runs["long"]["guest"]
    started = runs["short_captured"]["guest"] - short
    captured = runs["long_captured"]["guest"] - long - started
    found = {
        "boot_set_up_tear_down": short,
        "start_and_end_of_captures": started,
        "packets": long - short,
        "captures": captured,
        "analysis_and_results": runs["long_captured"]["whole"] - runs["long_captured"]["guest"],
        "virtual_per_wall_second": LONG_S / long,
        "with_captures_and_analysis": LONG_S / runs["long_captured"]["whole"],
    }
    return {name: round(value, 4) for name, value in found.items()}


def table(report: dict[str, Any]) -> Table:
    """Lay the runs out for reading."""
    made = Table(title=f"s on one core, medians of {report['rounds']}; 100 flows through RED")
    made.add_column("run")
    for name in Times.__dataclass_fields__:
        made.add_column(name, justify="right")
    for name, row in report["runs"].items():
        made.add_row(name.replace("_", " "), *(f"{value:.3f}" for value in row.values()))
    return made


def main(
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Rounds.")] = 5,
    kernel: Annotated[str, typer.Option("--kernel", help="Version of Linux or name.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Everything, as JSON.")] = False,
) -> None:
    """Tell the parts of a run apart, on one core."""
    try:
        report = measure(testbed("uml"), rounds, kernel)
    except LabError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(error.exit_status) from None
    if as_json:
        typer.echo(json.dumps(report, indent=1))
        return
    out = Console()
    out.print(table(report))
    for name, value in report["parts"].items():
        out.print(f"{name.replace('_', ' ')}: {value:.3f}", highlight=False)


if __name__ == "__main__":
    typer.run(main)
