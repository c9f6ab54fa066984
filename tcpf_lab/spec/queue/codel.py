"""Controlled delay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from tcpf_lab.base.units import Duration
from tcpf_lab.spec.queue.base import (
    CODEL_UNIT_NS,
    Bottleneck,
    InPackets,
    Parameter,
    switch,
    time,
)

#: Of CoDel's times, s: the kernel takes 1 us for 0, and compares instants in 32 bits.
TIMES = (2e-6, 100.0)


class Codel(InPackets):
    """CoDel: drops at the head once packets have waited too long for too long (RFC 8289)."""

    packets: ClassVar[int] = 1000
    times: ClassVar[dict[str, tuple[float, float]]] = dict.fromkeys(
        ("target", "interval", "ce_threshold"), TIMES
    )

    kind: Literal["codel"]
    """Controlled delay."""
    target: Duration | None = None
    """Acceptable queueing delay. Default: the kernel's 5 ms."""
    interval: Duration | None = None
    """Time for which every packet must wait longer than `target` before one is dropped. Default:
    the kernel's 100 ms."""
    ecn: bool | None = None
    """Mark ECN-capable packets instead of dropping them. Default: the kernel's false."""
    ce_threshold: Duration | None = None
    """Mark every ECN-capable packet that waited longer. Default: none is marked so."""

    @property
    def marks(self) -> bool:
        """Whether it is configured to mark ECN-capable packets."""
        return bool(self.ecn) or self.ce_threshold is not None

    @property
    def counters(self) -> dict[str, list[Any]]:
        """A packet that `ecn` marked is counted again if it waited longer than `ce_threshold`."""
        marks = ["ecn_mark", "ce_mark"]
        return {"marks": marks, "uncertain": [marks]}

    def parameters(self, at: Bottleneck) -> Iterator[Parameter | None]:
        """Yield every parameter."""
        yield self.limited(at)
        for key in self.times:
            yield time(key, getattr(self, key), CODEL_UNIT_NS)
        yield switch("ecn", self.ecn)
