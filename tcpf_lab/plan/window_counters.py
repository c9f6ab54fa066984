"""Counters of queues and shared wires at the two ends of the measured window.

What is read after the traffic counts the whole run.  Where no packets are captured the window's
share of it is the difference of two readings.  In virtual time starting ``tc`` takes no time, so
both are taken at the instants at which the generator reads TCP_INFO.
"""

from __future__ import annotations

from collections.abc import Iterable

from tcpf_lab.plan.step import Phase, Start
from tcpf_lab.plan.topology import Interface, on_wires
from tcpf_lab.plan.traffic.flows import end_of, window
from tcpf_lab.spec.graph import Graph
from tcpf_lab.spec.sweep import Run


def needed(run: Run) -> bool:
    """Tell whether the run's numbers cannot do without the counters of the window."""
    return not run.experiment.traffic.captured or bool(run.case.background)


def start(run: Run, graph: Graph, queues: Iterable[Interface]) -> Phase:
    """Start the programs that read queues and wires, at either end of the window.

    Queues of the interfaces given, and every shared wire of the graph.
    """
    return Phase("counters of the window", tuple(_readings(run, graph, queues)))


def end(run: Run, graph: Graph, queues: Iterable[Interface]) -> Phase:
    """Wait until all of them have read."""
    return end_of("end of the counters of the window", run, _readings(run, graph, queues))


def of_wire(device: str) -> tuple[str, ...]:
    """Give the command that shows what a station of a shared wire has counted."""
    return ("ip", "-s", "-d", "-j", "link", "show", "dev", device)


def _readings(run: Run, graph: Graph, queues: Iterable[Interface]) -> list[Start]:
    tc: tuple[str, ...] = ("tc", "-s", "-d", "-j", "qdisc", "show", "dev")
    reading = [("qdisc", queue.node, queue.node, (*tc, queue.device)) for queue in queues]
    reading += [("wire", end.node, end.device, of_wire(end.device)) for end in on_wires(graph)[::2]]
    return [
        Start(
            node,
            f"{what}-window-{label}-{name}",
            command,
            f"stats/{what}-window-{label}-{name}.json",
            f"log/{what}-window-{label}-{name}.log",
            at=at,
        )
        for label, at in zip(("start", "end"), window(run), strict=True)
        for what, node, name, command in reading
    ]
