"""Sources of background packets: programs, the way their packets take, and readings of it.

The packets are for addresses that no machine has (198.18.0.0/15, RFC 2544): behind the bottleneck
a blackhole route ends them without a word, so that nobody has to receive and no error comes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tcpf_lab.plan.step import EPOCH, PROGRAMS, Command, Phase, Start, Step
from tcpf_lab.plan.topology import other_end, toward
from tcpf_lab.plan.traffic import at_window_ends, end_of, seconds, window
from tcpf_lab.spec.background import Source, node_of
from tcpf_lab.spec.graph import Graph
from tcpf_lab.spec.queue import goes_first
from tcpf_lab.spec.sweep import Run

#: Where the packets go.
SINK = "198.18.0.0/15"


def sources(run: Run) -> Mapping[str, Source]:
    """Give the sources of a run's case by name."""
    return run.case.background or {}


def routes(run: Run, graph: Graph) -> Phase:
    """Lead the packets over the bottleneck, and end them behind it."""
    if not sources(run):
        return Phase("routes of the background", ())
    narrow = graph.bottleneck
    steps: list[Step] = [
        Command(node, ("ip", "route", "add", SINK, "via", _gateway(graph, node, target)))
        for node, target in (
            *((node_of(name), narrow.a) for name in sources(run)),
            (narrow.a, narrow.b),
        )
    ]
    steps.append(Command(narrow.b, ("ip", "route", "add", "blackhole", SINK)))
    return Phase("routes of the background", tuple(steps))


def start(run: Run, graph: Graph) -> Phase:
    """Start the sources, and the programs that read what has passed at the window's two ends."""
    programs = tuple(_program(run, name, source) for name, source in sources(run).items())
    return Phase("background", (*programs, *(_readings(run, graph) if programs else ())))


def end(run: Run, graph: Graph) -> Phase:
    """Wait until all of them have ended."""
    return end_of("end of the background", run, start(run, graph).steps)


def expect(run: Run, graph: Graph) -> dict[str, Any]:
    """The sources for the analysis; empty if there are none."""
    narrow = graph.bottleneck
    behind = toward(graph, narrow.b, narrow.a).device
    found = {
        name: {
            "node": node_of(name),
            "device": toward(graph, node_of(name), narrow.a).device,
            "into": toward(graph, narrow.a, node_of(name)).device,
            "packet": source.packet,
            "frame": source.frame,
            "share": source.share,
            "longest_pause_s": source.longest_burst,
            "first": run.case.queue.kind == "prio" and goes_first(source.dscp),
        }
        for name, source in sources(run).items()
    }
    return {"background": {"behind": behind, "sources": found}} if found else {}


def _gateway(graph: Graph, node: str, target: str) -> str:
    return other_end(graph, toward(graph, node, target)).address()


def _program(run: Run, name: str, source: Source) -> Start:
    begin, stop = window(run)
    number = list(sources(run)).index(name) + 1
    argv = (
        *(f"{PROGRAMS}/tcpf-source", "--to", f"198.18.0.{number}", "--epoch", EPOCH),
        *("--seed", str(run.seed), "--name", name, "--until", seconds(stop)),
        *("--packet", str(source.packet), "--tos", str(source.dscp << 2)),
        *source.words(run.experiment.graph.bottleneck.rate),
        *("--sample", f"start={seconds(begin)},end={seconds(stop)}"),
    )
    program = f"source-{node_of(name)}"
    return Start(node_of(name), program, argv, f"stats/{program}.jsonl", f"log/{program}.log")


def _readings(run: Run, graph: Graph) -> tuple[Start, ...]:
    """Read the interfaces behind the bottleneck: TCP's share goes on there, the rest does not."""
    node = graph.bottleneck.b
    return at_window_ends(run, [("dev", node, node, ("cat", "/proc/net/dev"))])
