"""FRED in floating point: the pseudo-code of Lin and Morris, "Dynamics of Random Early Detection"
(SIGCOMM 1997), with the fair share and the average of Lo Monaco, Feroz and Kalyanaraman,
"TCP-Friendly Marking for Scalable Best-Effort Services on the Internet", section 5.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from models.red import PASS, Average, EarlyDrop

ENQUEUE, EARLY, FORCED, STRIKE, PDROP = 0, 2, 3, 4, 5


@dataclass
class Share:
    """What a flow has in one view."""

    qlen: int = 0
    strikes: int = 0


@dataclass
class View:
    """A queue, or the packets of one class in it, as FRED looks at it."""

    average: Average
    drop: EarlyDrop
    packet: int
    minq: int
    share_average: bool
    many_flows: bool
    queue: int = 0
    flows: set[int] = field(default_factory=set)

    def judge(self, flow: Share, u: float) -> tuple[int, bool]:
        """Return the verdict on a packet, and whether integers may say otherwise."""
        avg, min_th, max_th = self.average.value, self.drop.min, self.drop.max
        whole = avg if self.share_average else self.queue
        active = max(len(self.flows), 1)
        share = max(whole / active, self.packet)
        maxq = 2 * self.packet if avg >= max_th else min_th
        close = min(abs(avg - min_th), abs(avg - max_th)) <= self.average.error
        close |= self.share_average and abs(flow.qlen * active - avg) <= self.average.error
        if (
            flow.qlen >= maxq
            or (avg >= max_th and flow.qlen > 2 * share)
            or (flow.qlen >= share and flow.strikes > 1)
        ):
            flow.strikes += 1
            return STRIKE, close
        if min_th <= avg < max_th and flow.qlen >= max(self.minq, share):
            verdict, near = self.drop.decide(self.average, u)
            return ENQUEUE if verdict == PASS else EARLY, close or near
        if min_th <= avg < max_th:
            self.drop.count += 1
        elif avg < min_th:
            self.drop.count = -1
        elif not self.many_flows:
            self.drop.count = 0
            return FORCED, close
        return ENQUEUE, close

    def enqueue(self, flow: Share, length: int) -> None:
        self.flows.add(id(flow))
        flow.qlen += length
        self.queue += length

    def dequeue(self, flow: Share, length: int, now: int) -> None:
        flow.qlen -= length
        if flow.qlen == 0:
            flow.strikes = 0
            self.flows.remove(id(flow))
        self.queue -= length
        if self.queue == 0:
            self.average.idle_since = now
