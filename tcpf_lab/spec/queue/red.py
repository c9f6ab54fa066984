"""Random Early Detection."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from tcpf_lab.base.units import Probability, Size, format_probability, format_size
from tcpf_lab.spec.queue.base import Bottleneck, InBytes
from tcpf_lab.spec.words import KeyPath

#: tc passes the probability on in 32 bits, in which 1 would wrap around to 0.
LARGEST_PROBABILITY = 1 - 2.0**-32


#: Options that ``tc`` has no word to turn off for.
SWITCHES = ("ecn", "harddrop", "nodrop", "adaptive")


def wlog(least: float, burst: int) -> int | None:
    """Give Wlog as ``tc`` derives it (weight ``2**-Wlog``), or None where ``tc`` gives up.

    The smallest Wlog from 1 to 31 with ``burst + 1 - least <= (1 - (1 - W)**burst) / W``.

    Parameters
    ----------
    least : float
        Minimum threshold in packets.
    burst : int
        Packets.
    """
    room = burst + 1 - least
    if room < 1:
        return None
    for found in range(1, 32):
        weight = 2.0**-found
        if room <= (1 - (1 - weight) ** burst) / weight:
            return found
    return None


class Red(InBytes):
    """RED on the backlog in bytes, not gentle (Linux ``red``; Floyd & Jacobson 1993).

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
    """Minimum threshold: average queue from which packets are dropped at random."""
    max: Size
    """Maximum threshold: average queue from which every packet is dropped."""
    probability: Probability
    """Maximum drop probability, just below `max`, before RED spreads drops evenly."""
    burst: int = Field(default=73, ge=1, le=1_000_000)
    """Packets of `avpkt` from which `tc` derives the weight of the average; 73 gives 1/512 for a
    `min` of 10 kB."""
    avpkt: Size = 1000
    """Packet size for `burst` and for ageing the average in idle time."""
    ecn: bool | None = None
    """Mark ECN-capable packets instead of dropping them. Default: the kernel's false."""
    harddrop: bool | None = None
    """With `ecn`: drop every packet above `max`, ECN-capable or not. Default: the kernel's
    false."""
    nodrop: bool | None = None
    """With `ecn`: queue packets that are not ECN-capable instead of dropping them. Default: the
    kernel's false."""
    adaptive: bool | None = None
    """Adapt the maximum drop probability so that the average queue stays in the middle between
    `min` and `max` (Floyd et al. 2001); `probability` is where it starts. Default: the kernel's
    false."""

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield what ``tc`` or the kernel would refuse, or silently replace."""
        low, high = format_size(self.min), format_size(self.max)
        if self.min >= self.max:
            yield ("min",), f"must be less than max ({high}), not {low}"
        if self.max > self.limit:
            yield ("max",), f"must be at most limit ({format_size(self.limit)}), not {high}"
        if self.probability == 0:
            yield ("probability",), "must be more than 0, not 0"
        elif self.min < self.max and self.probability / (self.max - self.min) * 2**31 <= 1:
            sentence = f"is too small: probability / (max - min) must be more than {2.0**-31:.2g}/B"
            yield ("probability",), sentence
        if self.min <= self.avpkt:
            sentence = f"must be more than avpkt ({format_size(self.avpkt)}), not {low}"
            yield ("min",), f"{sentence}: tc finds no weight for the average"
        elif self.min < self.max and self.wlog is None:
            least = math.ceil(self.min / self.avpkt)
            yield ("burst",), f"must be at least {least} (min / avpkt), not {self.burst}"
        elif self.wlog and self.max.bit_length() + self.wlog >= 32:
            sentence = f"{high} overflows the kernel's fixed-point average with Wlog {self.wlog}"
            yield ("max",), f"{sentence}; lower max or burst"
        for key in ("harddrop", "nodrop"):
            if getattr(self, key) and not self.ecn:
                yield (key,), "has no effect without ecn: true"

    @property
    def wlog(self) -> int | None:
        """Wlog as ``tc`` derives it, or None where ``tc`` gives up."""
        return wlog(self.min / self.avpkt, self.burst)

    @property
    def marks(self) -> bool:
        """Whether it is configured to mark ECN-capable packets instead of dropping them."""
        return bool(self.ecn)

    @property
    def counters(self) -> dict[str, list[Any]]:
        """With any switch set; a marked packet may find the queue full."""
        if all(getattr(self, key) is None for key in SWITCHES):
            return {}
        return {"marks": ["marked"], "uncertain": [["pdrop"]]}

    def tc(self, at: Bottleneck) -> tuple[str, ...]:
        """Give the words that follow ``tc qdisc add dev X parent Y handle Z``."""
        sizes = (("limit", self.limit), ("min", self.min), ("max", self.max), ("avpkt", self.avpkt))
        words = [word for key, size in sizes for word in (key, str(size))]
        probability = format_probability(min(self.probability, LARGEST_PROBABILITY))
        words += ["burst", str(self.burst), "probability", probability]
        words += ["bandwidth", f"{at.rate}bit"]
        return ("red", *words, *(key for key in SWITCHES if getattr(self, key)))

    def shown(self, at: Bottleneck) -> dict[str, Any]:  # noqa: ARG002
        """Give the options that ``tc -d -j qdisc show`` must show; ``ewma`` is Wlog."""
        assert self.wlog is not None  # held by `problems`
        sizes = {"limit": self.limit, "min": self.min, "max": self.max}
        switches = {key: on for key in SWITCHES if (on := getattr(self, key)) is not None}
        start = {} if self.adaptive else {"probability": self.probability}
        return {**sizes, "ewma": self.wlog, **start, **switches}
