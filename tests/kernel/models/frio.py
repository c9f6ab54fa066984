"""FRED and FRIO in floating point.

FRED is the pseudo-code of Lin and Morris, "Dynamics of Random Early Detection"
(SIGCOMM 1997), with the fair share and the average of Lo Monaco, Feroz and Kalyanaraman,
"TCP-Friendly Marking for Scalable Best-Effort Services on the Internet", section 5.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from models.rio import PASS, Average, EarlyDrop

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


# FRIO: FRED (`View`) in a view of IN and in one of OUT or of all packets, after the same section.

IN, OUT = 0, 1


class Flow:
    """What a flow has in the views of IN and of OUT."""

    def __init__(self) -> None:
        self.views = (Share(), Share())

    @property
    def empty(self) -> bool:
        return not any(share.qlen for share in self.views)


class Frio:
    def __init__(self, views: tuple[View, View], limit: int, coupled: bool, bound: int) -> None:
        self.views = views
        self.limit = limit
        self.coupled = coupled
        self.bound = bound
        self.flows: dict[int, Flow] = {}
        self.overflow = Flow()
        self.overflowed = 0
        self.queue: deque[tuple[int, Flow, int, int]] = deque()
        self.bytes = 0

    def flow(self, number: int) -> Flow:
        """Return what an arriving packet's flow has; beyond the bound, all have the same."""
        if number in self.flows:
            return self.flows[number]
        if len(self.flows) < self.bound:
            return Flow()
        self.overflowed += 1
        return self.overflow

    def views_of(self, packet: int) -> tuple[int, ...]:
        """Return the views that a packet of a class belongs to."""
        return (IN, OUT) if packet == IN and self.coupled else (packet,)

    def arrival(self, flow: Flow, packet: int, length: int, now: int, u: float) -> tuple[int, bool]:
        """Return the verdict on a packet of a class, and whether integers may say otherwise."""
        if self.bytes + length > self.limit:
            return PDROP, False
        for view in self.views_of(packet):
            self.views[view].average.arrival(self.views[view].queue, now)
        return self.views[packet].judge(flow.views[packet], u)

    def enqueue(self, number: int, flow: Flow, packet: int, length: int) -> None:
        if flow is not self.overflow:
            self.flows[number] = flow
        self.queue.append((number, flow, packet, length))
        self.bytes += length
        for view in self.views_of(packet):
            self.views[view].enqueue(flow.views[view], length)

    def departure(self, now: int) -> Flow | None:
        """Let the oldest packet leave; return its flow."""
        if not self.queue:
            return None
        number, flow, packet, length = self.queue.popleft()
        self.bytes -= length
        for view in self.views_of(packet):
            self.views[view].dequeue(flow.views[view], length, now)
        if flow is not self.overflow and flow.empty:
            del self.flows[number]
        return flow

    def change_mode(self, now: int) -> None:
        """Let the IN packets that are queued enter or leave the view of OUT."""
        self.coupled = not self.coupled
        out = self.views[OUT]
        queued = [(flow, length) for _, flow, packet, length in self.queue if packet == IN]
        if self.coupled and not out.queue:
            out.average.arrival(0, now)
        for flow, length in queued:
            if self.coupled:
                out.enqueue(flow.views[OUT], length)
            else:
                out.dequeue(flow.views[OUT], length, now)
