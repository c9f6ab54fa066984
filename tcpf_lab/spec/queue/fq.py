"""The pacing scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field

from tcpf_lab.base.units import Duration, Rate, Size
from tcpf_lab.spec.queue.base import (
    NOT_CAPABLE,
    Bottleneck,
    InPackets,
    Parameter,
    number,
    switch,
    tick_problems,
    time,
)
from tcpf_lab.spec.queue.fq_codel import QUANTUM, quantum_problems
from tcpf_lab.spec.words import KeyPath

#: Of hash buckets, a power of two.
_MOST_BUCKETS = 2**18
#: Of rates, bit/s: the kernel has them in bytes/s in 32 bits.
_RATES = (8, 8 * (2**32 - 2))


class Fq(InPackets):
    """Fair queueing with pacing (Linux `fq`): the scheduler of senders, here at the bottleneck.

    Packets that a router forwards belong to no socket: they are paced at `maxrate` only.
    """

    packets: ClassVar[int] = 10000
    in_order: ClassVar[bool] = False
    times: ClassVar[dict[str, tuple[float, float]]] = {
        "refill_delay": (0.01, 100.0),
        "timer_slack": (0.0, 1.0),
        "horizon": (1e-6, 100.0),
        "ce_threshold": (1e-6, 100.0),
    }

    kind: Literal["fq"]
    """Fair queueing with pacing."""
    flow_limit: int | None = Field(default=None, ge=1, le=2**31 - 1)
    """Packets that a flow may queue. Default: the kernel's 100."""
    quantum: Size | None = None
    """Bytes of a flow in a round, 256 B to 1 MiB. Default: the kernel's, two frames."""
    initial_quantum: Size | None = None
    """Bytes of a new flow in its first round, at most 1 MiB. Default: the kernel's, ten frames."""
    pacing: bool | None = None
    """Pace flows. Default: the kernel's true."""
    maxrate: Rate | None = None
    """Maximum rate of a flow. Default: none."""
    low_rate_threshold: Rate | None = None
    """Rate of a socket below which one packet is sent at a time. Default: the kernel's 550 kbit."""
    buckets: int | None = Field(default=None, ge=2, le=_MOST_BUCKETS)
    """Hash buckets for flows, a power of two. Default: the kernel's 1024."""
    orphan_mask: int | None = Field(default=None, ge=0, le=2**31 - 1)
    """Bits of the hash that tell flows of no socket apart. Default: the kernel's 1023."""
    refill_delay: Duration | None = None
    """Idle time after which a flow gets a new quantum, in whole 10 ms. Default: the kernel's
    40 ms."""
    timer_slack: Duration | None = None
    """Slack of the pacing timer. Default: the kernel's 10 us."""
    horizon: Duration | None = None
    """How far in the future a packet's departure may be. Default: the kernel's 10 s."""
    horizon_drop: bool | None = None
    """Drop packets beyond `horizon` instead of sending them at it. Default: the kernel's true."""
    ce_threshold: Duration | None = None
    """Mark every ECN-capable packet that left so late. Default: none is marked."""

    @property
    def marks(self) -> bool:
        """Whether it is configured to mark ECN-capable packets."""
        return self.ce_threshold is not None

    @property
    def counters(self) -> dict[str, list[Any]]:
        """It counts every packet that left so late."""
        return {"marks": ["ce_mark"], "uncertain": [[NOT_CAPABLE]]}

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield what ``tc`` or the kernel would refuse, or silently replace."""
        yield from super().problems()
        yield from quantum_problems(self.quantum)
        yield from tick_problems("refill_delay", self.refill_delay)
        if self.buckets is not None and self.buckets.bit_count() != 1:
            yield ("buckets",), f"must be a power of two, not {self.buckets}"
        if self.initial_quantum is not None and self.initial_quantum > QUANTUM[1]:
            sentence = f"must be at most {QUANTUM[1]} B, not {self.initial_quantum} B"
            yield ("initial_quantum",), sentence
        for key in ("maxrate", "low_rate_threshold"):
            rate = getattr(self, key)
            if rate is not None and not _RATES[0] <= rate <= _RATES[1]:
                yield (key,), f"must be from {_RATES[0]} bit to {_RATES[1]} bit, not {rate} bit"

    def parameters(self, at: Bottleneck) -> Iterator[Parameter | None]:
        """Yield every parameter."""
        yield self.limited(at)
        for key in ("flow_limit", "quantum", "initial_quantum", "buckets", "orphan_mask"):
            yield number(key, getattr(self, key))
        yield switch("pacing", self.pacing, shown=(None, False))
        for key in ("maxrate", "low_rate_threshold"):
            if (rate := getattr(self, key)) is not None:
                yield Parameter((key, f"{rate}bit"), {key: rate // 8})
        for key in ("refill_delay", "horizon", "ce_threshold"):
            yield time(key, getattr(self, key))
        if slack := time("timer_slack", self.timer_slack):  # shown in nanoseconds
            yield Parameter(slack.words, {"timer_slack": 1000 * slack.shown["timer_slack"]})
        if self.horizon_drop is not None:  # shown as a key without a value
            yield Parameter(("horizon_drop" if self.horizon_drop else "horizon_cap",), {})
