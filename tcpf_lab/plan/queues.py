"""Link rates, delays and the queue under study, as ``tc`` commands.

``tc`` counts a packet with its 14-byte Ethernet header, in rates, thresholds and backlogs alike; so
did the kernels of the papers.  The preamble, the checksum and the gap between frames (24 bytes more
on a wire) are not counted.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tcpf_lab.plan.step import EPOCH, Command, Phase, Start, Step
from tcpf_lab.plan.topology import Interface, interfaces, other_end, senders_at, toward
from tcpf_lab.spec.changing import Schedule, Trace, changes_of, highest, value_at
from tcpf_lab.spec.graph import ETHERNET_HEADER, HEADERS, IN_ORDER, LARGEST, Graph, Impairment
from tcpf_lab.spec.marker import Marker, NoMarker
from tcpf_lab.spec.queue import Bottleneck, Queue
from tcpf_lab.spec.queue.base import InPackets
from tcpf_lab.spec.sweep import Run
from tcpf_lab.spec.words import tc_time

#: The shortest packet of these experiments: a TCP acknowledgement without options, with its header.
SHORTEST_FRAME = HEADERS[4] + ETHERNET_HEADER
#: Frames a shaper may send back to back.  On the fast links four let a window's burst pass without
#: a timer; at the bottleneck two keep the queue in the discipline under study.  A link slower than
#: the bottleneck, and that of a source, spaces all its packets: four at once would be four at once
#: in that queue.
ACCESS_BURST_FRAMES = 4
BOTTLENECK_BURST_FRAMES = 2
SLOW_BURST_FRAMES = 1
#: Milliseconds of a trace in one message of `tc`.
_TRACE_DIGITS = 15_000
#: Handle of the queue under test.
UNDER_TEST = "2:"


def build(graph: Graph, queue: Queue, seed: int) -> Phase:
    """Return the phase that limits and delays every link and installs the queue under study."""
    steps: list[Step] = []
    for interface in interfaces(graph):
        if is_under_test(graph, interface):
            steps += _bottleneck(graph, interface, queue, seed_of(graph, interface.node, seed))
        else:
            steps += _access(graph, interface)
    return Phase("rates, delays and queues", tuple(steps))


def bottlenecks(graph: Graph) -> tuple[Interface, ...]:
    """Return the interfaces that hold a queue under study, along the path."""
    return tuple(
        interface
        for interface in interfaces(graph)
        if graph.links[interface.subnet].bottleneck and interface.host == 1
    )


def opposite(graph: Graph) -> Interface | None:
    """Return the interface with a queue under study the other way, if the graph has one."""
    return other_end(graph, bottleneck(graph)) if graph.bottleneck.both else None


def bottleneck(graph: Graph) -> Interface:
    """Return the first of them: where captures are taken."""
    return bottlenecks(graph)[0]


def seed_of(graph: Graph, node: str, seed: int) -> int:
    """Return the seed of a queue under study: the run's, of further queues one drawn from it.

    Queues in a row must not make the same random decisions.
    """
    if node == graph.bottleneck.a:
        return seed
    return random.Random(f"queue of {node}, seed {seed}").getrandbits(31)


def conditions(graph: Graph, interface: Interface, seed: int) -> Bottleneck:
    """Return what a queue under study at an interface depends on; ``seed`` is its own."""
    frame = graph.links[interface.subnet].mtu + ETHERNET_HEADER
    return Bottleneck(rate(graph, interface), seed, frame)


def capacity(graph: Graph, interface: Interface, queue: Queue) -> int:
    """Return what a queue under study can hold, bytes."""
    link = graph.links[interface.subnet]
    frame = link.mtu + ETHERNET_HEADER
    held = queue.capacity(frame)
    return held // frame * LARGEST if link.offloads and isinstance(queue, InPackets) else held


def netem_limit(graph: Graph, interface: Interface) -> int:
    """Return how many packets netem must hold for a delay never to lose one.

    All that can arrive at the link's highest rate within the delay, in the shortest frames, and a
    full queue behind it.  netem's own default of 1000 packets drops silently.
    """
    changing = graph.links[interface.subnet].changing
    fastest = changing.highest if changing else rate(graph, interface)
    under_way = fastest * delay(graph, interface) / 8
    queued = graph.links[interface.subnet].queue
    how = impairment(graph, interface)
    copies = 2 if how and how.duplicate else 1
    return copies * math.ceil((under_way + queued) / SHORTEST_FRAME)


def rate(graph: Graph, interface: Interface) -> int:
    """Rate of the interface's link, bit/s."""
    return graph.links[interface.subnet].rate


def delay(graph: Graph, interface: Interface) -> float:
    """Longest delay added to packets that leave through the interface, s."""
    how = impairment(graph, interface)
    return highest(_delay(graph, interface)) + (how.longest if how else 0.0)


def impairment(graph: Graph, interface: Interface) -> Impairment | None:
    """What is done on purpose to packets that leave through the interface."""
    link = graph.links[interface.subnet]
    return link.impairment_ab if interface.host == 1 else link.impairment_ba


def impaired(graph: Graph) -> dict[str, Impairment]:
    """Devices that lose, duplicate, reorder or hold back packets on purpose, and how."""
    found = {i.device: impairment(graph, i) for i in interfaces(graph)}
    return {device: how for device, how in found.items() if how is not None}


def _delay(graph: Graph, interface: Interface) -> float | Schedule[float]:
    link = graph.links[interface.subnet]
    return link.delay_ab if interface.host == 1 else link.delays_ba or link.delay_ba


def _tc(interface: Interface, *words: str) -> Command:
    return Command(interface.node, ("tc", "qdisc", "add", "dev", interface.device, *words))


def _shaper(graph: Graph, interface: Interface, frames: int) -> tuple[str, ...]:
    link = graph.links[interface.subnet]
    burst = frames * (link.mtu + ETHERNET_HEADER)
    if isinstance(link.changing, Schedule):
        rates = (f"{tc_time(time)}:{rate}bit" for time, rate in link.changing.steps)
        return ("delivery", "rates", ",".join(rates), "burst", str(burst))
    if isinstance(link.changing, Trace):
        return ("delivery", "trace", link.changing.digits[:_TRACE_DIGITS])
    if link.offloads:  # tbf splits what is larger than its burst
        return ("delivery", "rates", f"{tc_time(0)}:{link.rate}bit", "burst", str(burst))
    return ("tbf", "rate", f"{link.rate}bit", "burst", str(burst), "limit", str(link.queue))


def _access(graph: Graph, interface: Interface) -> Iterator[Step]:
    link = graph.links[interface.subnet]
    handle: tuple[str, ...] = ("root", "handle", "1:")
    if words := _netem(graph, interface):
        yield _tc(interface, *handle, *words)
        handle = ("parent", "1:", "handle", "2:")
    if link.ring:  # the wire is the shaper
        yield _tc(interface, *handle, "bfifo", "limit", str(link.queue))
        return
    slow = link.rate < graph.bottleneck.rate or link.a in {n.name for n in graph.having("source")}
    shaper = _shaper(graph, interface, SLOW_BURST_FRAMES if slow else ACCESS_BURST_FRAMES)
    yield _tc(interface, *handle, *shaper)
    if link.changing or link.offloads:
        yield from _rest_of_trace(graph, interface)
        yield _tc(interface, "parent", handle[-1], "bfifo", "limit", str(link.queue))


def _netem(graph: Graph, interface: Interface, time: float = 0.0) -> tuple[str, ...]:
    """Words of the delay or of the impairment at an instant; empty without either."""
    how, seconds = impairment(graph, interface), _delay(graph, interface)
    words: tuple[str, ...] = ()
    if how is not None:
        words = how.at(time).tc()
    elif seconds:
        in_order = IN_ORDER if isinstance(seconds, Schedule) else ()
        words = ("delay", tc_time(value_at(seconds, time)), *in_order)
    if not (words or how):
        return ()
    return ("netem", "limit", str(netem_limit(graph, interface)), *words)


def changes(graph: Graph) -> Phase:
    """Return the programs that change links during the run; empty if nothing changes.

    A bottleneck that changes is handed its times' epoch, and the rest of its trace; it changes by
    itself. Delays and losses change when ``tc`` does it.
    """
    steps = [step for interface in interfaces(graph) for step in _changes(graph, interface)]
    return Phase("changes of links", tuple(steps))


def _changes(graph: Graph, interface: Interface) -> Iterator[Step]:
    here = ("tc", "qdisc", "change", "dev", interface.device, "root", "handle", "1:")
    how, seconds = impairment(graph, interface), _delay(graph, interface)
    for time in changes_of(seconds) or (how.changes if how else ()):
        name = f"change-{interface.device}-{tc_time(time)}"
        words = (*here, *_netem(graph, interface, time))
        yield Start(interface.node, name, words, errors=f"log/{name}.log", at=time)
    if changes_rate(graph, interface):
        words = (*_of_delivery(graph, interface), "epoch", EPOCH)
        name = f"epoch-{interface.device}"
        yield Start(interface.node, name, words, errors=f"log/{name}.log")


def changes_rate(graph: Graph, interface: Interface) -> bool:
    """Tell whether an interface sends at a rate that changes."""
    return graph.links[interface.subnet].changing is not None


def is_delivery(graph: Graph, interface: Interface) -> bool:
    """Tell whether the shaper of an interface is `delivery`."""
    return changes_rate(graph, interface) or graph.links[interface.subnet].offloads


def _of_delivery(graph: Graph, interface: Interface) -> tuple[str, ...]:
    """Words that change the shaper of a link that changes: it stands behind netem, if there is."""
    behind = not is_under_test(graph, interface) and _netem(graph, interface)
    place = ("parent", "1:", "handle", "2:") if behind else ("root", "handle", "1:")
    return ("tc", "qdisc", "change", "dev", interface.device, *place, "delivery")


def expect_changes(graph: Graph, interface: Interface) -> dict[str, Any]:
    """Return the rate over time for the analysis: steps of seconds and bit/s, or a trace's digits.

    Empty if it does not change.
    """
    changing = graph.links[interface.subnet].changing
    if isinstance(changing, Schedule):
        return {"rates": [list(step) for step in changing.steps]}
    return {"trace": changing.digits} if isinstance(changing, Trace) else {}


def is_under_test(graph: Graph, interface: Interface) -> bool:
    """Tell whether an interface has a queue under test."""
    link = graph.links[interface.subnet]
    return link.bottleneck and (interface.host == 1 or link.both)


def _bottleneck(graph: Graph, interface: Interface, queue: Queue, seed: int) -> Iterator[Step]:
    at = conditions(graph, interface, seed)
    place: tuple[str, ...] = ("root",)
    if not graph.links[interface.subnet].ring:
        shaper = _shaper(graph, interface, BOTTLENECK_BURST_FRAMES)
        yield _tc(interface, "root", "handle", "1:", *shaper)
        yield from _rest_of_trace(graph, interface)
        place = ("parent", "1:")
    yield _tc(interface, *place, "handle", UNDER_TEST, *queue.tc(at))
    for child in queue.children(at):
        yield _tc(interface, "parent", child.parent, "handle", child.handle, *child.words)


def _rest_of_trace(graph: Graph, interface: Interface) -> Iterator[Step]:
    link = graph.links[interface.subnet]
    if not isinstance(link.changing, Trace):
        return
    digits = link.changing.digits
    for begin in range(_TRACE_DIGITS, len(digits), _TRACE_DIGITS):
        words = (*_of_delivery(graph, interface), "append", digits[begin : begin + _TRACE_DIGITS])
        yield Command(interface.node, words)


#: Number of the action, by which both filters name the same one.
INDEX = "1"


@dataclass(frozen=True)
class Place:
    """An interface of the marking router, and the way data passes it."""

    interface: Interface
    forward: str  #: ``ingress`` or ``egress``; acknowledgements pass it the other way


def marker_places(graph: Graph) -> tuple[Place, ...]:
    """Return where the markers stand: at the sender, or where several senders have joined.

    The first is that of the matrix's flows; those of cross traffic follow.
    """
    return tuple(_place(graph, node.name) for node in graph.having("marker"))


def _place(graph: Graph, router: str) -> Place:
    senders = senders_at(graph, router)
    if len(senders) == 1:
        return Place(toward(graph, router, senders[0]), "ingress")
    return Place(toward(graph, router, graph.bottleneck.a), "egress")


def build_marker(run: Run) -> tuple[Phase, ...]:
    """Return the phases that install the markers of ``run``'s case: none if nothing is marked."""
    chosen = run.case.marker
    if isinstance(chosen, NoMarker):
        return ()
    steps = (step for here in marker_places(_graph(run)) for step in _install(chosen, here))
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
    nodes = (here.interface.node for here in marker_places(_graph(run)))
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
        for here in marker_places(_graph(run))
    )


def _graph(run: Run) -> Graph:
    return run.experiment.graph
