"""Random Early Detection, as Linux has it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from tcpf_lab.base.units import Probability, Size, format_probability
from tcpf_lab.spec.queue.base import Queue
from tcpf_lab.spec.words import KeyPath

#: tc passes the probability on in 32 bits, in which 1 would wrap around to 0.
_LARGEST_PROBABILITY = 1 - 2.0**-32


class Red(Queue):
    """RED on the backlog in bytes, not gentle, without ECN (Linux ``red``; Floyd & Jacobson 1993).

    ``min`` must be more than ``avpkt`` and less than ``max``, and ``max`` not more than ``limit``.

    Notes
    -----
    The kernel averages with a weight of ``2**-Wlog``; ``tc`` has no word for the weight and works
    Wlog out from ``burst``, ``min`` and ``avpkt`` (`wlog`).  Left to itself it would also choose
    ``burst`` from ``max``, and so 16 packets and a weight of 1/8 for thresholds of 10 and 30 kB:
    a badly tuned queue would then differ from a good one in two ways at once.  A burst of 73
    packets, given always, is Wlog 9 for both, a weight of 1/512; the
    RED paper has 0.002.
    """

    kind: Literal["red"]
    """Random Early Detection."""
    min: Size
    """Average backlog from which packets are dropped at random."""
    max: Size
    """Average backlog from which every packet is dropped."""
    probability: Probability
    """Drop probability just below `max`, before the spreading that RED applies."""
    burst: int = Field(default=73, ge=1, le=1_000_000)
    """Packets of `avpkt` from which `tc` derives the weight of the average; 73 gives 1/512 for a
    `min` of 10 kB."""
    avpkt: Size = 1000
    """Packet size assumed for `burst` and for ageing the average over idle time."""

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield what ``tc`` or the kernel would refuse, or silently replace."""
        if self.min >= self.max:
            yield ("min",), "must be less than max"
        if self.max > self.limit:
            yield ("max",), "must not be more than limit"
        if self.probability == 0:
            yield ("probability",), "must be more than 0"
        elif self.min < self.max and self.probability / (self.max - self.min) * 2**31 <= 1:
            yield ("probability",), "is too small for tc to pass on, given max - min"
        if self.min <= self.avpkt:
            yield ("min",), "must be more than avpkt, or tc finds no weight for the average"
        elif self.min < self.max and self.wlog is None:
            least = math.ceil(self.min / self.avpkt)
            yield ("burst",), f"must be at least {least}, which is min in packets of avpkt"
        elif self.wlog and self.max.bit_length() + self.wlog >= 32:
            yield ("max",), f"is too large for the kernel's fixed-point average (Wlog {self.wlog})"

    @property
    def wlog(self) -> int | None:
        """Wlog as ``tc`` derives it (weight ``2**-Wlog``), or None where ``tc`` gives up.

        The smallest Wlog from 1 to 31 with
        ``burst + 1 - min/avpkt <= (1 - (1 - W)**burst) / W``.
        """
        room = self.burst + 1 - self.min / self.avpkt
        if room < 1:
            return None
        for wlog in range(1, 32):
            weight = 2.0**-wlog
            if room <= (1 - (1 - weight) ** self.burst) / weight:
                return wlog
        return None

    def tc(self, rate: int, seed: int) -> tuple[str, ...]:  # noqa: ARG002 - the kernel's own randomness
        """Give the words that follow ``tc qdisc add dev X parent Y handle Z``."""
        sizes = (("limit", self.limit), ("min", self.min), ("max", self.max), ("avpkt", self.avpkt))
        words = [word for key, size in sizes for word in (key, str(size))]
        probability = format_probability(min(self.probability, _LARGEST_PROBABILITY))
        words += ["burst", str(self.burst), "probability", probability, "bandwidth", f"{rate}bit"]
        return ("red", *words)

    def shown(self, rate: int, seed: int) -> dict[str, int | float | str | bool]:  # noqa: ARG002
        """Give the options that ``tc -d -j qdisc show`` must show; ``ewma`` is Wlog."""
        assert self.wlog is not None  # held by `problems`
        sizes = {"limit": self.limit, "min": self.min, "max": self.max}
        return {**sizes, "ewma": self.wlog, "probability": self.probability}
