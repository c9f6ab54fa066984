"""Thresholds for two drop precedences: what RIO and FRIO share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from tcpf_lab.base.units import Probability, Size, format_size
from tcpf_lab.spec.queue.base import Bottleneck, InBytes
from tcpf_lab.spec.words import AF11, Dscp, KeyPath, tc_value

#: The longest of the kernel's averages, TC_PRECEDENCE_EWMA_MAX: a weight of ``2**-31``.
LARGEST_EWMA = 31


class Precedence(InBytes):
    """Thresholds on average backlogs in bytes for packets in-profile (IN) and all others (OUT)."""

    in_min: Size
    """Minimum threshold of IN: average queue from which IN packets are dropped at random; at most
    `in_max`."""
    in_max: Size
    """Maximum threshold of IN: average queue from which every IN packet is dropped; at most
    `limit`."""
    in_probability: Probability
    """Maximum drop probability of IN, just below `in_max`; it grows linearly from 0 at `in_min`."""
    out_min: Size
    """Minimum threshold of OUT: average queue from which OUT packets are dropped at random; at most
    `out_max`."""
    out_max: Size
    """Maximum threshold of OUT: average queue from which every OUT packet is dropped; at most
    `limit`."""
    out_probability: Probability
    """Maximum drop probability of OUT, just below `out_max`; it grows linearly from 0 at
    `out_min`."""
    ewma: int = Field(default=9, ge=0, le=LARGEST_EWMA)
    """Weight of the averages, 2^-ewma: 9 is 1/512, 0 the current backlog."""
    avpkt: Size = 1000
    """Packet size for ageing the averages in idle time."""
    in_: Dscp = Field(default=AF11, alias="in")
    """Code point of IN, name or number; every other one is OUT."""

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield thresholds in the wrong order."""
        for side in ("in", "out"):
            low, high = getattr(self, f"{side}_min"), getattr(self, f"{side}_max")
            if low > high:
                bound = f"{side}_max ({format_size(high)})"
                yield (f"{side}_min",), f"must be at most {bound}, not {format_size(low)}"
            if high > self.limit:
                bound = f"limit ({format_size(self.limit)})"
                yield (f"{side}_max",), f"must be at most {bound}, not {format_size(high)}"

    def tc(self, at: Bottleneck) -> tuple[str, ...]:
        """Give the words that follow ``tc qdisc add dev X parent Y handle Z``."""
        given = {key: value for key, value in self.values().items() if key != "kind"}
        words = [word for key, value in given.items() for word in (key, tc_value(value))]
        return (self.kind, *words, "bandwidth", f"{at.rate}bit", "seed", str(at.seed))

    def shown(self, at: Bottleneck) -> dict[str, Any]:
        """Give the options that ``tc -d -j qdisc show`` must show; bandwidth in bytes/s."""
        given = {key: value for key, value in self.values().items() if key != "kind"}
        return {**given, "bandwidth": at.rate // 8, "seed": at.seed}
