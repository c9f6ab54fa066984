"""The case's marker at the marking router: one action, which both directions pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tcpf_lab.plan.step import Command, Phase, Step
from tcpf_lab.plan.topology import Interface, senders_at, toward
from tcpf_lab.spec.graph import Graph
from tcpf_lab.spec.marker import Marker, NoMarker
from tcpf_lab.spec.sweep import Run

#: Number of the action, by which both filters name the same one.
INDEX = "1"


@dataclass(frozen=True)
class Place:
    """An interface of the marking router, and the way data passes it."""

    interface: Interface
    forward: str  #: ``ingress`` or ``egress``; acknowledgements pass it the other way


def places(graph: Graph) -> tuple[Place, ...]:
    """Return where the markers stand: at the sender, or where several senders have joined.

    The first is that of the matrix's flows; those of cross traffic follow.
    """
    return tuple(_place(graph, node.name) for node in graph.having("marker"))


def _place(graph: Graph, router: str) -> Place:
    senders = senders_at(graph, router)
    if len(senders) == 1:
        return Place(toward(graph, router, senders[0]), "ingress")
    return Place(toward(graph, router, graph.bottleneck.a), "egress")


def build(run: Run) -> tuple[Phase, ...]:
    """Return the phases that install the markers of ``run``'s case: none if nothing is marked."""
    chosen = run.case.marker
    if isinstance(chosen, NoMarker):
        return ()
    steps = (step for here in places(_graph(run)) for step in _install(chosen, here))
    return (Phase("marker", tuple(steps)),)


def _install(chosen: Marker, here: Place) -> Iterator[Step]:
    node, device = here.interface.node, here.interface.device
    words = [
        ("qdisc", "add", "dev", device, "clsact"),
        ("actions", "add", "action", *chosen.tc(), "forward", here.forward, "index", INDEX),
    ]
    for direction in ("ingress", "egress"):
        action = ("action", chosen.kind, "index", INDEX)
        words.append(("filter", "add", "dev", device, direction, "matchall", *action))
    yield from (Command(node, ("tc", *line)) for line in words)


def counters(run: Run) -> tuple[Step, ...]:
    """Return the steps that read what the markers show of themselves, if there are any."""
    chosen = run.case.marker
    if isinstance(chosen, NoMarker):
        return ()
    words = ("tc", "-s", "-d", "-j", "actions", "list", "action", chosen.kind)
    nodes = (here.interface.node for here in places(_graph(run)))
    return tuple(Command(node, words, f"stats/action-{node}.json") for node in nodes)


def expect(run: Run) -> tuple[dict[str, Any], ...]:
    """Return what each marking router must show, the first one first: none if nothing is marked."""
    chosen = run.case.marker
    if isinstance(chosen, NoMarker):
        return ()
    return tuple(
        {
            "node": here.interface.node,
            "kind": chosen.kind,
            "index": int(INDEX),
            "bind": 2,
            "options": {**chosen.shown(), "forward": here.forward},
        }
        for here in places(_graph(run))
    )


def _graph(run: Run) -> Graph:
    return run.experiment.topology.graph()
