"""Proportional integral controller enhanced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field

from tcpf_lab.base.units import Duration
from tcpf_lab.spec.queue.base import (
    Bottleneck,
    InPackets,
    Parameter,
    number,
    switch,
    tick_problems,
    time,
)
from tcpf_lab.spec.words import KeyPath

#: The kernel's scheduler counts in units of so many nanoseconds.
_PSCHED_NS = 64


class Pie(InPackets):
    """PIE: drops at random, by the delay and its change (RFC 8033)."""

    packets: ClassVar[int] = 1000
    times: ClassVar[dict[str, tuple[float, float]]] = {
        "target": (1e-6, 4.0),
        "tupdate": (0.01, 100.0),
    }

    kind: Literal["pie"]
    """Proportional integral controller."""
    target: Duration | None = None
    """Desired queueing delay. Default: the kernel's 15 ms."""
    tupdate: Duration | None = None
    """Time between updates of the drop probability, in whole 10 ms. Default: the kernel's 15 ms,
    rounded up to timer ticks (20 ms in virtual time)."""
    alpha: int | None = Field(default=None, ge=1, le=32)
    """Weight of the delay's distance from `target`, in 1/16. Default: the kernel's 2."""
    beta: int | None = Field(default=None, ge=1, le=32)
    """Weight of the delay's change, in 1/16. Default: the kernel's 20."""
    ecn: bool | None = None
    """Mark ECN-capable packets instead of dropping them while the drop probability is small: below
    10 %, or `ecn_prob` of `fq_pie`. Default: the kernel's false."""
    bytemode: bool | None = None
    """Scale the drop probability with the packet's length. Default: the kernel's false."""
    dq_rate_estimator: bool | None = None
    """Estimate the delay from the departure rate, not from packet timestamps. Default: the
    kernel's false."""

    @property
    def marks(self) -> bool:
        """Whether it is configured to mark ECN-capable packets instead of dropping them."""
        return bool(self.ecn)

    @property
    def counters(self) -> dict[str, list[Any]]:
        """Name the counter of marks."""
        return {"marks": ["ecn_mark"]}

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield what ``tc`` or the kernel would refuse, or silently replace."""
        yield from super().problems()
        yield from tick_problems("tupdate", self.tupdate)

    def parameters(self, at: Bottleneck) -> Iterator[Parameter | None]:
        """Yield every parameter."""
        yield self.limited(at)
        yield time("target", self.target, _PSCHED_NS)
        yield time("tupdate", self.tupdate)
        yield number("alpha", self.alpha)
        yield number("beta", self.beta)
        yield switch("ecn", self.ecn)
        yield switch("bytemode", self.bytemode)
        yield switch("dq_rate_estimator", self.dq_rate_estimator, no="no_")
