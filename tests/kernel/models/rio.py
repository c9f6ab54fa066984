"""RIO in floating point, after Clark and Fang, "Explicit Allocation of Best-Effort Packet Delivery
Service" (IEEE/ACM Transactions on Networking, 1998), section III.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from models.red import PASS, Average, EarlyDrop, SpreadDrop

IN, OUT, TOTAL = 0, 1, 2
ENQUEUE, EARLY, FORCED, PDROP = 0, 1, 2, 3
#: Whose average decides on a packet of IN and of OUT.
JUDGED_BY = {"coupled": (IN, TOTAL), "decoupled": (IN, OUT), "wred": (TOTAL, TOTAL)}


@dataclass(frozen=True)
class Curve:
    min: int
    max: int
    probability: float


class Rio:
    def __init__(
        self,
        mode: str,
        curves: tuple[Curve, Curve],
        limit: int,
        weight: float,
        packet_ns: float,
        uniformize: bool,
    ) -> None:
        self.judged_by = JUDGED_BY[mode]
        self.limit = limit
        self.average = [Average(weight, packet_ns) for _ in (IN, OUT, TOTAL)]
        self.drop = [
            SpreadDrop(c.min, c.max, c.probability)
            if uniformize
            else EarlyDrop(c.min, c.max, c.probability, uniformize=False)
            for c in curves
        ]
        self.queue: deque[tuple[int, int]] = deque()
        self.backlog = [0, 0]

    def arrival(self, packet: int, length: int, now: int, u: float) -> tuple[int, bool]:
        """Return the verdict on a packet of a class, and whether integers may say otherwise."""
        self.average[TOTAL].arrival(sum(self.backlog), now)
        self.average[packet].arrival(self.backlog[packet], now)
        verdict, close = self.drop[packet].decide(self.average[self.judged_by[packet]], u)
        if verdict == PASS and sum(self.backlog) + length > self.limit:
            verdict = PDROP
        return verdict, close

    def enqueue(self, packet: int, length: int) -> None:
        self.queue.append((packet, length))
        self.backlog[packet] += length

    def departure(self, now: int) -> None:
        if not self.queue:
            return
        packet, length = self.queue.popleft()
        self.backlog[packet] -= length
        if not self.backlog[packet]:
            self.average[packet].idle_since = now
        if not self.queue:
            self.average[TOTAL].idle_since = now
