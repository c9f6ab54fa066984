"""``python -m tools.bench``: this project and its peers, measured in turn on one core.

What a packet costs in the queue disciplines and markers comes last: in instructions, and in real
time through a guest.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tcpf_lab.base.errors import LabError
from tcpf_lab.results.layout import write_json
from tcpf_lab.testbed.base import Testbed
from tcpf_lab.testbed.registry import testbed
from tools.bench import (
    bench_cost,
    bench_guest_pps,
    bench_startup,
    bench_trace,
    peer,
    virtual_time,
)

#: The measurement of ours that ns-3, which captures nothing, is compared with.
COMPARED = "without_captures_300s"

out = Console()
err = Console(stderr=True)


def main(
    repetitions: Annotated[
        int, typer.Option("--repetitions", metavar="N", min=1, help="Rounds.")
    ] = 3,
    skip_peer: Annotated[bool, typer.Option("--skip-peer", help="Leave ns-3 out.")] = False,
    peer_python: Annotated[
        str, typer.Option("--peer-python", metavar="FILE", help="Interpreter that has ns3.")
    ] = sys.executable,
    output: Annotated[
        Path, typer.Option("--output", metavar="FILE", help="JSON file to write.")
    ] = Path("results/bench.json"),
) -> None:
    """Measure virtual time and ns-3 in turn, then the reading of captures, then packets' cost."""
    try:
        report = benchmark(repetitions, None if skip_peer else peer_python)
        output.parent.mkdir(parents=True, exist_ok=True)
        write_json(output, report)
    except LabError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(error.exit_status) from None
    out.print(table(report))
    out.print(
        f"captures: {report['scan']['scanner_packets_per_s']} packets/s,"
        f" {report['scan']['ratio']} times dpkt's",
        highlight=False,
    )
    out.print(startup_table(report["startup"]))
    out.print(trace_table(report["trace"]))
    out.print(cost_table(report["cost"]))
    out.print(pps_table(report["guest_pps"]))
    out.print(f"written: {output}", markup=False, highlight=False)


def benchmark(repetitions: int, peer_python: str | None) -> dict[str, Any]:
    """Return everything that was measured; ``peer_python`` None leaves ns-3 out."""
    ours = testbed("uml")
    if peer_python:
        peer.require(peer_python)
    bench_cost.require()
    bench_trace.require()
    report: dict[str, Any] = {"format": 1, "machine": machine(), "repetitions": repetitions}
    rounds = [one_round(ours, peer_python, n, repetitions) for n in range(1, repetitions + 1)]
    report["virtual_time"] = merge([virtual for virtual, _ in rounds])
    runs = [ran for _, ran in rounds if ran is not None]
    report["ns3"] = peer.summary(runs) if runs else None
    report["ratio_to_ns3"] = ratio(report["virtual_time"][COMPARED], runs) if runs else None
    err.print("starting the command line", highlight=False)
    report["startup"] = bench_startup.main()
    err.print("analysing captures, and what other tools need for it", highlight=False)
    report["trace"] = bench_trace.main()
    err.print("counting instructions", highlight=False)
    report["cost"] = bench_cost.main()
    err.print("sending packets through queues and markers", highlight=False)
    report["guest_pps"] = bench_guest_pps.main()
    report["machine"]["load_average_at_end"] = list(os.getloadavg())
    return report


def one_round(
    ours: Testbed, peer_python: str | None, number: int, of: int
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Measure each once, one straight after the other, so that both meet the same machine."""
    err.print(f"round {number} of {of}: virtual time", highlight=False)
    virtual = virtual_time.measure(ours, 1)
    if peer_python is None:
        return virtual, None
    err.print(f"round {number} of {of}: ns-3", highlight=False)
    return virtual, peer.run(peer.SECONDS, peer_python)


def merge(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Put the rounds of ``virtual_time.measure`` together as if it had repeated them itself."""
    merged = {}
    for name, first in rounds[0].items():
        wall = [s for measured in rounds for s in measured[name]["wall_seconds"]]
        merged[name] = {
            "virtual_seconds": first["virtual_seconds"],
            "wall_seconds": wall,
            "virtual_per_wall_second": peer.spread(first["virtual_seconds"], wall),
        }
    return merged


def ratio(virtual: dict[str, Any], runs: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return how many times ns-3's rate ours is, without captures on either side.

    Ours counts boot, set-up and tear-down; of ns-3 only ``Simulator::Run`` counts, which favours
    it.  That its wheel is built with logging and assertions (see `ns3_chain`) does not.
    """
    ours = [virtual["virtual_seconds"] / s for s in virtual["wall_seconds"]]
    theirs = [run["simulated_seconds"] / run["wall_seconds"] for run in runs]
    of_rounds = [a / b for a, b in zip(ours, theirs, strict=True)]
    return {
        "of_medians": round(statistics.median(ours) / statistics.median(theirs), 2),
        "min_of_rounds": round(min(of_rounds), 2),
        "max_of_rounds": round(max(of_rounds), 2),
    }


def machine() -> dict[str, Any]:
    """Return what the rates depend on besides the programs."""
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "cpu": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average_at_start": list(os.getloadavg()),
    }


def table(report: dict[str, Any]) -> Table:
    """Return the rates and the ratio as a table."""
    shown = Table(title="simulated seconds per wall second, one core", title_justify="left")
    shown.add_column("measured")
    for column in ("median", "min", "max"):
        shown.add_column(column, justify="right")
    for name, measured in report["virtual_time"].items():
        _row(shown, f"virtual time, {name.replace('_', ' ')}", measured["virtual_per_wall_second"])
    if report["ns3"]:
        name = f"ns-3 {report['ns3']['ns3_version']}"
        length = f"{report['ns3']['simulated_seconds']:.0f}s"
        _row(shown, f"{name}, Simulator::Run", report["ns3"]["simulated_per_wall_second"])
        _row(shown, f"{name}, process of {length}", report["ns3"]["process_per_wall_second"])
        shown.add_section()
        _row(shown, "ours without captures / Simulator::Run", report["ratio_to_ns3"])
    return shown


def startup_table(startup: dict[str, Any]) -> Table:
    """Return what commands take as a table."""
    shown = Table(title="start of the command line, whole process", title_justify="left")
    shown.add_column("command")
    for column in ("wall ms", "processor ms", f"ratio to {bench_startup.BARE}"):
        shown.add_column(column, justify="right")
    for name, measured in startup.items():
        _row(shown, name, measured)
    return shown


def trace_table(trace: dict[str, Any]) -> Table:
    """Return packets per second and memory of each tool as a table."""
    shown = Table(title="analysis of captures, one core, whole process", title_justify="left")
    shown.add_column("capture")
    shown.add_column("tool")
    for column in ("packets", "packets/s", "MB of memory"):
        shown.add_column(column, justify="right")
    rows = [
        (name, tool, file["packets"], measured)
        for name, file in trace["files"].items()
        for tool, measured in file["tools"].items()
    ]
    stdin = trace["stdin"]
    rows.append((f"{stdin['bytes'] // 10**9} GB on stdin", "tcpf-lab", stdin["packets"], stdin))
    for name, tool, packets, measured in rows:
        memory = measured["peak_memory_bytes"] // 10**6
        shown.add_row(name, tool, *map(str, (packets, measured["packets_per_s"], memory)))
    return shown


def cost_table(cost: dict[str, Any]) -> Table:
    """Return the instructions per packet, and per tick, as a table."""
    shown = Table(title="instructions per packet", title_justify="left")
    shown.add_column("flows")
    flows = [str(number) for number in bench_cost.FLOWS]
    for number in flows:
        shown.add_column(number, justify="right")
    counts = cost["per_packet"] | {f"{kind}, each": each for kind, each in cost["per_tick"].items()}
    for kind, counted in counts.items():
        shown.add_row(kind, *(str(counted.get(number, "")) for number in flows))
    return shown


def pps_table(guest: dict[str, Any]) -> Table:
    """Return the packets per real second through each marker and queue as a table."""
    shown = Table(title="packets through a guest, one core", title_justify="left")
    shown.add_column("marker+queue")
    for column in ("us per packet", "per second", f"time / {guest['compared_with']}"):
        shown.add_column(column, justify="right")
    for name, measured in guest["pairs"].items():
        _row(shown, name, measured)
    return shown


def _row(shown: Table, name: str, values: dict[str, float]) -> None:
    shown.add_row(name, *(str(value) for value in values.values()))


if __name__ == "__main__":
    typer.run(main)
