"""What a packet's hop, a system call, a wake-up and a program start cost in a guest and outside.

A shell script (``hop.sh``) makes a chain of network namespaces joined by veth and sends UDP packets
of 1000 bytes through it; a program (``hop.c``) repeats the rest.  Both run in a guest of each
kernel and in namespaces of the host's own.  The difference between many and few, divided by that of
their numbers, is the cost of one; the difference between a long and a short chain is that of its
further hops.  Processor time of processes counts, not that of the host's kernel threads
(ksoftirqd).

    python -m tools.bench.bench_hop [--rounds N] [--kernel 6.12 --kernel 7.3] [--json]
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tcpf_lab.base.errors import LabError
from tcpf_lab.plan.compose import Plan
from tcpf_lab.plan.step import Command, Phase
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.testbed.base import Testbed
from tcpf_lab.testbed.registry import testbed
from tools.bench.virtual_time import one_core

SOURCE = Path(__file__).with_name("hop.c")
CHAIN = SOURCE.with_suffix(".sh")
HOST = "host"
#: Lengths of the chain.
SHORT, LONG = 1, 9
#: How often each kind of work is done: few and many times.
PACKETS = (2_048, 409_600)
REPEATED: dict[str, tuple[tuple[int, int], tuple[str, ...]]] = {
    "call": ((1_000, 21_000), ()),
    "wake": ((1_000, 11_000), ()),
    "start": ((10, 110), ("/bin/true",)),
}
LABELS = {
    "hop": "a packet's hop",
    "ends": "sending and dropping a packet",
    "call": "a system call",
    "wake": "a timer that wakes a program",
    "start": "a program start",
}
#: Runs a command, and returns the processor time it has taken, s.
Place = Callable[[Sequence[str]], float]


def guest(bed: Testbed, version: str) -> Place:
    """Return the place that is a guest of the kernel of this version."""

    def run(command: Sequence[str]) -> float:
        phase = Phase("work", (Command(None, tuple(command)),))
        plan = Plan((phase,), {}, (0.0, 1.0), (), kernel=version)
        with TemporaryDirectory(prefix="tcpf-bench-") as name:
            files = RunFiles(Path(name) / "run")
            files.create()
            before = _processor_time()
            bed.execute(plan, files, seed=1)
            return _processor_time() - before

    return run


def host(command: Sequence[str]) -> float:
    """Run a command in network and mount namespaces of its own on the host's kernel.

    Raises
    ------
    LabError
        If it fails.
    """
    own_run = 'mount -t tmpfs tmpfs /run && exec "$@"'
    before = _processor_time()
    done = subprocess.run(
        ["unshare", "--mount", "--net", "sh", "-c", own_run, "sh", *command],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LabError(f"on the host: {done.stderr.strip()}", hint="this takes root")
    return _processor_time() - before


def _processor_time() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def costs(place: Place, program: Path) -> dict[str, float]:
    """Return what one of each kind of work costs, us of processor time."""

    def more(counts: tuple[int, int], command: Callable[[int], Sequence[str]]) -> float:
        few, many = (place(command(count)) for count in counts)
        return (many - few) / (counts[1] - counts[0]) * 1e6

    def through(hops: int) -> float:
        return more(PACKETS, lambda n: ("sh", str(CHAIN), str(hops), str(program), str(n)))

    short, long = through(SHORT), through(LONG)
    hop = (long - short) / (LONG - SHORT)
    found = {"hop": hop, "ends": short - SHORT * hop}
    for kind, (counts, words) in REPEATED.items():
        found[kind] = more(counts, partial(_repeated, program, kind, words))
    return found


def _repeated(program: Path, kind: str, words: tuple[str, ...], count: int) -> Sequence[str]:
    return (str(program), kind, str(count), *words)


def measure(bed: Testbed, kernels: Sequence[str], rounds: int) -> dict[str, dict[str, float]]:
    """Return the costs in each place, medians over ``rounds``, us."""
    places: dict[str, Place] = {version: guest(bed, version) for version in kernels}
    places[HOST] = host
    with TemporaryDirectory(prefix="tcpf-hop-") as name, one_core():
        program = Path(name) / "hop"
        subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-o", program, SOURCE], check=True)
        found = [{n: costs(place, program) for n, place in places.items()} for _ in range(rounds)]
    return {
        place: {kind: round(statistics.median(f[place][kind] for f in found), 3) for kind in LABELS}
        for place in places
    }


def table(report: dict[str, dict[str, float]]) -> Table:
    """Lay the costs out for reading."""
    made = Table(title="us of processor time, on one core")
    made.add_column("")
    for place in report:
        made.add_column(place, justify="right")
    for kind, label in LABELS.items():
        made.add_row(label, *(f"{of_place[kind]:.2f}" for of_place in report.values()))
    return made


def main(
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Rounds.")] = 3,
    kernel: Annotated[list[str] | None, typer.Option("--kernel", help="Version of Linux.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON.")] = False,
) -> None:
    """Measure hops, system calls, wake-ups and program starts in guests and on the host."""
    try:
        report: dict[str, Any] = measure(testbed("uml"), kernel or ["6.12", "7.3"], rounds)
    except LabError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(error.exit_status) from None
    if as_json:
        typer.echo(json.dumps(report, indent=1))
    else:
        Console().print(table(report))


if __name__ == "__main__":
    typer.run(main)
