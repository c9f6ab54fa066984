"""What the generators have in common: ports, start times, and the result they give."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from tcpf_lab.plan.step import Finish, Phase, Start, Step
from tcpf_lab.plan.topology import owned
from tcpf_lab.spec.graph import Graph
from tcpf_lab.spec.sweep import Run

PORT = 5001
#: Flow ``i`` sends from this port plus ``i``; captures are attributed to flows by it.
SOURCE_PORT = 20000
#: Seconds of grace for a program that should have ended.
GRACE_S = 5.0


@dataclass(frozen=True)
class Traffic:
    """Phases that make the traffic, and how long they take."""

    receivers: Phase
    senders: Phase
    end: Phase
    programs: tuple[str, ...]  #: programs of the system that are needed
    slowness: float  #: real seconds that a virtual second may take before a guest counts as hung
    memory_mb: int = 0  #: what a guest needs beyond the memory that it usually has


def count(run: Run) -> int:
    """Return how many flows there are, cross traffic included."""
    return run.flows + sum(cross.flows for cross in run.experiment.topology.graph().cross)


def start_times(run: Run) -> tuple[float, ...]:
    """Return each flow's start, seconds after the epoch: uniform over the spread, from the seed.

    The flows of the matrix come first, so that theirs do not depend on cross traffic.

    Rounded to microseconds so that every printed form of the plan carries the exact value.
    """
    traffic = run.experiment.traffic
    draw = random.Random(f"start times, seed {run.seed}")
    return tuple(round(draw.uniform(0, traffic.start_spread), 6) for _ in range(count(run)))


def window(run: Run) -> tuple[float, float]:
    """Return the measured window, seconds after the epoch."""
    traffic = run.experiment.traffic
    return traffic.warmup, traffic.end


def end_of(title: str, run: Run, steps: Iterable[Step]) -> Phase:
    """Wait until all programs that `steps` start have ended; empty if there are none."""
    names = tuple(step.name for step in steps if isinstance(step, Start))
    return Phase(title, (Finish(names, window(run)[1] + GRACE_S),) if names else ())


def at_window_ends(
    run: Run, readings: Iterable[tuple[str, str, str, tuple[str, ...]]]
) -> tuple[Start, ...]:
    """Start programs that read counters at both ends of the window.

    Each is what it reads, the node, what the file is called after, and the command; what it prints
    goes to ``stats/<what>-window-<start or end>-<name>``, as JSON if the command asks for that.
    """
    wanted = list(readings)
    return tuple(
        Start(
            node,
            program := f"{what}-window-{label}-{name}",
            command,
            f"stats/{program}.{'json' if '-j' in command else 'txt'}",
            f"log/{program}.log",
            at=at,
        )
        for label, at in zip(("start", "end"), window(run), strict=True)
        for what, node, name, command in wanted
    )


def seconds(value: float) -> str:
    """Write an instant as the programs read it: plain decimals, never an exponent, to 1 ns."""
    return f"{value:.9f}".rstrip("0").rstrip(".")


@dataclass(frozen=True)
class Pair:
    """A sender, a receiver, and the flows between them: a block of consecutive numbers."""

    sender: str
    receiver: str
    address: str  #: the receiver's
    first: int
    flows: int


def pairs(run: Run) -> tuple[Pair, ...]:
    """Share the matrix's flows out to its pairs of hosts, as evenly as can be; then cross traffic.

    A pair without a flow is left out.
    """
    graph = run.experiment.topology.graph()
    own = owned(graph)
    first, found = 0, []
    for sender, receiver, flows in (*_shares(graph, run.flows), *_cross(graph)):
        if flows:
            address = own[receiver][0].address
            found.append(Pair(sender, receiver, address, first, flows))
        first += flows
    return tuple(found)


def _shares(graph: Graph, flows: int) -> Iterator[tuple[str, str, int]]:
    ends = graph.pairs
    bounds = [flows * k // len(ends) for k in range(len(ends) + 1)]
    for (sender, receiver), (first, behind) in zip(ends, pairwise(bounds), strict=True):
        yield sender, receiver, behind - first


def _cross(graph: Graph) -> Iterator[tuple[str, str, int]]:
    for cross in graph.cross:
        yield cross.sender, cross.receiver, cross.flows
