"""What the generators have in common: ports, start times, and the result they give."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tcpf_lab.plan.step import Phase
from tcpf_lab.plan.topology import owned
from tcpf_lab.spec.sweep import Run

PORT = 5001
#: Flow ``i`` sends from this port plus ``i``; captures are attributed to flows by it.
SOURCE_PORT = 20000


@dataclass(frozen=True)
class Traffic:
    """Phases that make the traffic, and how long they take."""

    receivers: Phase
    senders: Phase
    end: Phase
    programs: tuple[str, ...]  #: programs of the system that are needed
    slowness: float  #: real seconds that a virtual second may take before a guest counts as hung
    memory_mb: int = 0  #: what a guest needs beyond the memory that it usually has


def start_times(run: Run) -> tuple[float, ...]:
    """Return each flow's start, seconds after the epoch: uniform over the spread, from the seed.

    Rounded to microseconds so that every printed form of the plan carries the exact value.
    """
    traffic = run.experiment.traffic
    draw = random.Random(f"start times, seed {run.seed}")
    return tuple(round(draw.uniform(0, traffic.start_spread), 6) for _ in range(run.flows))


def window(run: Run) -> tuple[float, float]:
    """Return the measured window, seconds after the epoch."""
    traffic = run.experiment.traffic
    return traffic.warmup, traffic.end


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
    """Share the flows out to the pairs of senders and receivers, as evenly as can be."""
    graph = run.experiment.topology.graph()
    own = owned(graph)
    senders, receivers = graph.having("sender"), graph.having("receiver")
    share = [run.flows * k // len(senders) for k in range(len(senders) + 1)]
    return tuple(
        Pair(
            sender.name,
            receiver.name,
            own[receiver.name][0].address,
            share[k],
            share[k + 1] - share[k],
        )
        for k, (sender, receiver) in enumerate(zip(senders, receivers, strict=True))
        if share[k + 1] > share[k]
    )
