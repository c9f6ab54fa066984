"""Stochastic fair BLUE."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field

from tcpf_lab.base.units import Duration, Probability
from tcpf_lab.spec.queue.base import (
    Bottleneck,
    InPackets,
    Parameter,
    fraction,
    number,
    tick_problems,
)
from tcpf_lab.spec.words import KeyPath

#: SFB_MAX_PROB: the kernel has probabilities in 16 bits.
_ONE = 0xFFFF


class Sfb(InPackets):
    """SFB: a drop probability for each hash bucket of flows (Linux `sfb`; Feng et al. 2001).

    It always marks ECN-capable packets.
    """

    packets: ClassVar[int] = 1000
    times: ClassVar[dict[str, tuple[float, float]]] = {
        "rehash": (0.01, 1000.0),
        "db": (0.01, 1000.0),
    }

    kind: Literal["sfb"]
    """Stochastic fair BLUE."""
    rehash: Duration | None = None
    """Time after which the hash changes, in whole 10 ms. Default: `tc`'s 10 min."""
    db: Duration | None = None
    """How long before that the next hash is learned, in whole 10 ms. Default: `tc`'s 1 min."""
    max: int | None = Field(default=None, ge=1, le=65535)
    """Packets of a bucket above which every packet is dropped. Default: `tc`'s, a quarter of the
    packets of `limit`; without `limit` 25."""
    target: int | None = Field(default=None, ge=1, le=65535)
    """Packets of a bucket above which its probability grows. Default: `tc`'s, four fifths of
    `max`."""
    increment: Probability | None = None
    """What the probability grows by, in steps of 1/65535. Default: `tc`'s 0.0005."""
    decrement: Probability | None = None
    """What the probability falls by when a bucket is empty. Default: `tc`'s 0.00005."""
    penalty_rate: int | None = Field(default=None, ge=0, le=2**31 - 1)
    """Packets per second of all flows that do not react. Default: `tc`'s 10."""
    penalty_burst: int | None = Field(default=None, ge=0, le=2**31 - 1)
    """Packets of a burst of these flows. Default: `tc`'s 20."""

    @property
    def may_mark(self) -> bool:
        """Whether it marks: always."""
        return True

    @property
    def counters(self) -> dict[str, list[Any]]:
        """A marked packet may find the queue full."""
        return {"marks": ["marked"], "uncertain": [["childdrop"]]}

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield what ``tc`` or the kernel would refuse, or silently replace."""
        yield from super().problems()
        for key in ("rehash", "db"):
            yield from tick_problems(key, getattr(self, key))
        for key in ("increment", "decrement"):
            value = getattr(self, key)
            if value is not None and round(value * _ONE) == 0:
                yield (key,), f"must be at least {0.5 / _ONE:.1g}, not {value}"

    def parameters(self, at: Bottleneck) -> Iterator[Parameter | None]:
        """Yield every parameter."""
        yield self.limited(at)
        for key in ("rehash", "db"):
            if (seconds := getattr(self, key)) is not None:  # tc reads milliseconds
                milliseconds = round(1e3 * seconds)
                yield Parameter((key, str(milliseconds)), {key: 1000 * milliseconds})
        for key in ("increment", "decrement"):
            if (value := getattr(self, key)) is not None:
                yield fraction(key, value, int(value * _ONE + 0.5) / _ONE)
        for key in ("max", "target", "penalty_rate", "penalty_burst"):
            yield number(key, getattr(self, key))
