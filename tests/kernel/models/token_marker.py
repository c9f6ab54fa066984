"""The token bucket in the papers' formulas: one of M bytes every T, or one for each flow."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from fractions import Fraction

MODES = ("reset", "continuous", "flow")
#: Bytes; a pool that is so close to a packet's length in floating point may be on either side.
CLOSE = 1e-4


class Pool:
    def __init__(self, tokens: float | Fraction, now: int) -> None:
        self.tokens = tokens
        self.now = now


class TokenMarker:
    """Marks as ``net/token_marker.h``; exactly so if ``number`` is Fraction."""

    def __init__(
        self,
        mode: str,
        interval: int,
        tokens: int,
        flows: int,
        t0: int,
        number: Callable[[int], float | Fraction] = float,
    ) -> None:
        self.mode = mode
        self.interval = interval
        self.full = number(tokens)
        self.rate = number(tokens) / interval
        self.inexact = isinstance(self.full, float)
        self.capacity = flows
        self.t0 = t0
        self.pool = Pool(self.full, t0)
        self.flows: OrderedDict[int, Pool] = OrderedDict()
        self.evicted = 0
        self.unsure = 0  #: evictions of a pool that is too close to full to call
        self.tick = 0

    def packet(self, now: int, length: int, flow: int) -> tuple[bool, bool]:
        """Return whether the packet is IN, and whether this is too close to call."""
        pool = self._of(flow, now) if self.mode == "flow" else self.pool
        if self.mode == "reset":
            tick = (now - self.t0) // self.interval
            if tick > self.tick:
                self.tick, pool.tokens = tick, self.full
        else:
            pool.tokens = min(self.full, pool.tokens + (now - pool.now) * self.rate)
            pool.now = now
        inside = pool.tokens >= length
        return inside, abs(pool.tokens - length) < CLOSE

    def take(self, length: int, flow: int) -> None:
        """Take the tokens of a packet that is IN."""
        pool = self.flows[flow] if self.mode == "flow" else self.pool
        pool.tokens -= length

    def _of(self, flow: int, now: int) -> Pool:
        if flow in self.flows:
            self.flows.move_to_end(flow)
            return self.flows[flow]
        if len(self.flows) == self.capacity:
            _, pool = self.flows.popitem(last=False)
            missing = self.full - pool.tokens - (now - pool.now) * self.rate
            self.evicted += missing > 0
            self.unsure += self.inexact and abs(missing) < CLOSE
        self.flows[flow] = Pool(self.full, now)
        return self.flows[flow]
