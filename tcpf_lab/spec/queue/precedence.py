"""What the queues with two drop precedences have in common."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from tcpf_lab.base.units import Probability, Size
from tcpf_lab.spec.queue.base import Queue
from tcpf_lab.spec.words import AF11, Dscp, KeyPath, tc_value

#: The longest of the kernel's averages, TC_PRECEDENCE_EWMA_MAX: a weight of ``2**-31``.
LARGEST_EWMA = 31


class Precedence(Queue):
    """Thresholds on average backlogs in bytes for packets in-profile (IN) and all others (OUT)."""

    in_min: Size
    """Average from which IN packets are dropped at random."""
    in_max: Size
    """Average from which every IN packet is dropped."""
    in_probability: Probability
    """IN's drop probability just below `in_max`."""
    out_min: Size
    """Average from which OUT packets are dropped at random."""
    out_max: Size
    """Average from which every OUT packet is dropped."""
    out_probability: Probability
    """OUT's drop probability just below `out_max`."""
    ewma: int = Field(default=9, ge=0, le=LARGEST_EWMA)
    """The averages have the weight 2^-ewma: 9 is 1/512, 0 the instantaneous length."""
    avpkt: Size = 1000
    """Packet size assumed for ageing the averages over idle time."""
    in_: Dscp = Field(default=AF11, alias="in")
    """Code point that is IN, by name or number; every other one is OUT."""

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield thresholds in the wrong order."""
        for side in ("in", "out"):
            least, most = getattr(self, f"{side}_min"), getattr(self, f"{side}_max")
            if least > most:
                yield (f"{side}_min",), f"must not be more than {side}_max"
            if most > self.limit:
                yield (f"{side}_max",), "must not be more than limit"

    def tc(self, rate: int, seed: int) -> tuple[str, ...]:
        """Give the words that follow ``tc qdisc add dev X parent Y handle Z``."""
        given = {key: value for key, value in self.values().items() if key != "kind"}
        words = [word for key, value in given.items() for word in (key, tc_value(value))]
        return (self.kind, *words, "bandwidth", f"{rate}bit", "seed", str(seed))

    def shown(self, rate: int, seed: int) -> dict[str, int | float | str | bool]:
        """Give the options that ``tc -d -j qdisc show`` must show; bandwidth in bytes/s."""
        given = {key: value for key, value in self.values().items() if key != "kind"}
        return {**given, "bandwidth": rate // 8, "seed": seed}
