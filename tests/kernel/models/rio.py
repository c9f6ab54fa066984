"""RED and RIO in floating point.

RED is after Floyd and Jacobson, "Random Early Detection Gateways for Congestion
Avoidance" (IEEE/ACM Transactions on Networking, 1993), section 4 and Fig. 2.

Beside each number stands how far the kernel's integers may be from it, as their headers prove.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

PASS, RANDOM, FORCED = 0, 1, 2
#: Relative error of the kernel's ageing, and absolute error of its drop probability.
AGEING_ERROR = 2.0**-23
PROBABILITY_ERROR = 2.0**-30
#: Relative rounding of a step of this model itself.
FLOAT_ERROR = 2.0**-52


@dataclass
class Average:
    """avg <- (1 - W) avg + W q, or (1 - W)^(idle / s) avg at an arrival that finds no backlog."""

    weight: float
    packet_ns: float
    value: float = 0.0
    error: float = 0.0
    idle_since: int = 0

    def arrival(self, backlog: int, now: int) -> None:
        keep = 1 - self.weight
        if backlog:
            self.value = keep * self.value + self.weight * backlog
        else:
            packets = (now - self.idle_since) / self.packet_ns
            keep = keep**packets if keep else 0.0
            self.value *= keep
            self.error += AGEING_ERROR * self.value
            self.idle_since = now
        self.error = keep * self.error + self.weight + FLOAT_ERROR * self.value


@dataclass
class EarlyDrop:
    """Pass below min, drop from max on, drop with probability pa between, each packet by itself."""

    min: float
    max: float
    probability: float
    uniformize: bool
    count: int = field(default=-1)

    def decide(self, average: Average, u: float) -> tuple[int, bool]:
        """Return the verdict for ``u``, uniform on [0, 1), and whether integers may differ."""
        avg = average.value
        close = min(abs(avg - self.min), abs(avg - self.max)) <= average.error
        if avg < self.min:
            self.count = -1
            return PASS, close
        if avg >= self.max:
            self.count = 0
            return FORCED, close
        self.count += 1
        count = self.count if self.uniformize else 0
        slope = self.probability / (self.max - self.min)
        pb = slope * (avg - self.min)
        pa = pb / (1 - count * pb) if count * pb < 1 else 1.0
        # u < pa where pb is above this:
        threshold = u / (1 + count * u)
        close |= abs(pb - threshold) <= slope * average.error + PROBABILITY_ERROR
        if u >= pa:
            return PASS, close
        self.count = 0
        return RANDOM, close


@dataclass
class SpreadDrop:
    """The same, but one number drawn after a drop decides when the next comes (Linux's red)."""

    min: float
    max: float
    probability: float
    count: int = -1
    u: float = 0.0

    def decide(self, average: Average, u: float) -> tuple[int, bool]:
        """As in `EarlyDrop`; ``u`` is taken after a drop and on coming between the thresholds."""
        avg = average.value
        close = min(abs(avg - self.min), abs(avg - self.max)) <= average.error
        if not self.min <= avg < self.max:
            self.count = -1
            return (PASS if avg < self.min else FORCED), close
        if self.count < 0:
            self.u = u
        if self.count == -1:
            self.count = 0
            return PASS, close
        self.count = max(0, self.count) + 1
        slope = self.probability / (self.max - self.min)
        pb = slope * (avg - self.min)
        error = slope * average.error + PROBABILITY_ERROR
        close |= abs(pb - self.u / self.count) <= error
        if self.count * pb < self.u:
            return PASS, close
        self.count = -2
        return RANDOM, close


# RIO in floating point, after Clark and Fang, "Explicit Allocation of Best-Effort Packet Delivery
# Service" (IEEE/ACM Transactions on Networking, 1998), section III.

IN, OUT, TOTAL = 0, 1, 2
#: The verdicts of an early drop are the first three of a queue.
ENQUEUE, EARLY, PDROP = PASS, RANDOM, 3
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
