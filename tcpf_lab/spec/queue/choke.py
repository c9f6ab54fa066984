"""CHOKe: RED that also drops from flows with many packets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field

from tcpf_lab.base.units import Probability, Size, format_size
from tcpf_lab.spec.queue.base import Bottleneck, InPackets, Parameter, flag, fraction, number
from tcpf_lab.spec.queue.red import LARGEST_PROBABILITY, wlog
from tcpf_lab.spec.words import KeyPath

#: Packet size that `tc` assumes, bytes.
_AVPKT = 1000


class Choke(InPackets):
    """CHOKe: RED that drops an arrival and a random queued packet if both are of one flow.

    Linux `choke`; Pan, Prabhakar & Psounis 2000.
    """

    span: ClassVar[tuple[int, int]] = (1, 2**17 - 1)

    kind: Literal["choke"]
    """RED that penalises flows with many packets."""
    limit: Size
    """Capacity; `tc` gets it in packets, `limit` / (`mtu` + 14 B) rounded down, as `min` and
    `max`."""
    min: Size
    """Minimum threshold: average queue from which packets are dropped at random."""
    max: Size
    """Maximum threshold: average queue from which every packet is dropped."""
    probability: Probability
    """Maximum drop probability, just below `max`."""
    burst: int = Field(default=73, ge=1, le=10_000)
    """Packets from which `tc` derives the weight of the average, as of `red`."""
    ecn: bool | None = None
    """Mark ECN-capable packets instead of dropping them. Default: the kernel's false."""

    @property
    def marks(self) -> bool:
        """Whether it is configured to mark ECN-capable packets instead of dropping them."""
        return bool(self.ecn)

    @property
    def counters(self) -> dict[str, list[Any]]:
        """A marked packet may find the queue full, or be matched by a later one of its flow."""
        return {"marks": ["marked"], "uncertain": [["pdrop"], ["matched"]]}

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield thresholds in the wrong order."""
        yield from super().problems()
        if self.max > self.limit:
            bound = f"limit ({format_size(self.limit)})"
            yield ("max",), f"must be at most {bound}, not {format_size(self.max)}"
        if self.probability == 0:
            yield ("probability",), "must be more than 0, not 0"

    def misfit(self, frame: int) -> Iterator[tuple[KeyPath, str]]:
        """Yield thresholds that are alike in packets, and an average without a weight."""
        yield from super().misfit(frame)
        least, most = self.min // frame, self.max // frame
        if least < 2:
            sentence = f"must be at least {2 * frame} B (2 packets of mtu with their headers)"
            yield ("min",), f"{sentence}, not {format_size(self.min)}"
        elif least >= most:
            sentence = f"must be at least a packet of {frame} B below max"
            yield ("min",), f"{sentence} ({format_size(self.max)}), not {format_size(self.min)}"
        elif self.probability / (_AVPKT * (most - least)) * 2**31 <= 1:
            sentence = f"is too small: it must be more than {_AVPKT / 2**31:.2g} per packet"
            yield ("probability",), f"{sentence} between min and max"
        elif self.burst < least:
            yield ("burst",), f"must be at least {least} (packets of min), not {self.burst}"
        elif (found := wlog(least, self.burst)) is None:
            yield ("burst",), "is too large: tc finds no weight for the average"
        elif most.bit_length() + found >= 32:
            yield ("burst",), f"overflows the kernel's fixed-point average with Wlog {found}"

    def parameters(self, at: Bottleneck) -> Iterator[Parameter | None]:
        """Yield every parameter."""
        yield self.limited(at)
        yield number("min", self.min // at.frame)
        yield number("max", self.max // at.frame)
        weight = wlog(self.min // at.frame, self.burst)
        yield Parameter(("burst", str(self.burst)), {"ewma": weight})
        yield fraction("probability", min(self.probability, LARGEST_PROBABILITY))
        yield Parameter(("bandwidth", f"{at.rate}bit"), {})
        yield flag("ecn", self.ecn, shown=(True, False))
