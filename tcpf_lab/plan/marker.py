"""The case's marker at the marking router: one action, which both directions pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tcpf_lab.plan.step import Command, Phase, Step
from tcpf_lab.plan.topology import Interface, toward
from tcpf_lab.spec.graph import Graph
from tcpf_lab.spec.marker import NoMarker
from tcpf_lab.spec.sweep import Run

#: Number of the action, by which both filters name the same one.
INDEX = "1"


@dataclass(frozen=True)
class Place:
    """An interface of the marking router, and the way data passes it."""

    interface: Interface
    forward: str  #: ``ingress`` or ``egress``; acknowledgements pass it the other way


def place(graph: Graph) -> Place:
    """Return where the marker stands: at the sender, or where several senders have joined."""
    (router,) = graph.having("marker")
    senders = graph.having("sender")
    if len(senders) == 1:
        return Place(toward(graph, router.name, senders[0].name), "ingress")
    return Place(toward(graph, router.name, graph.bottleneck.a), "egress")


def build(run: Run) -> tuple[Phase, ...]:
    """Return the phases that install the marker of ``run``'s case: none if nothing is marked."""
    chosen = run.case.marker
    if isinstance(chosen, NoMarker):
        return ()
    here = place(run.experiment.topology.graph())
    node, device = here.interface.node, here.interface.device
    words = [
        ("qdisc", "add", "dev", device, "clsact"),
        ("actions", "add", "action", *chosen.tc(), "forward", here.forward, "index", INDEX),
    ]
    for direction in ("ingress", "egress"):
        action = ("action", chosen.kind, "index", INDEX)
        words.append(("filter", "add", "dev", device, direction, "matchall", *action))
    return (Phase("marker", tuple(Command(node, ("tc", *line)) for line in words)),)


def counters(run: Run) -> tuple[Step, ...]:
    """Return the step that reads what the marker shows of itself, if there is one."""
    chosen = run.case.marker
    if isinstance(chosen, NoMarker):
        return ()
    node = place(run.experiment.topology.graph()).interface.node
    words = ("tc", "-s", "-d", "-j", "actions", "list", "action", chosen.kind)
    return (Command(node, words, f"stats/action-{node}.json"),)


def expect(run: Run) -> dict[str, Any] | None:
    """Return what the marking router must show, None if nothing is marked."""
    chosen = run.case.marker
    if isinstance(chosen, NoMarker):
        return None
    here = place(run.experiment.topology.graph())
    return {
        "node": here.interface.node,
        "kind": chosen.kind,
        "index": int(INDEX),
        "bind": 2,
        "options": {**chosen.shown(), "forward": here.forward},
    }
