"""Links whose two ends share one wire: coaxial cable, or a hub."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from tcpf_lab.spec.base import KeyPath, SpecModel
from tcpf_lab.units import Size, format_rate

Duplex = Literal["full", "half"]
#: Frames that a station's card holds where nothing else is said: those of the time had 2 to 16.
RING = 16
#: The same on the other links: as many as a card may have. In front of a plain queue the sizes of
#: both together matter alone, and what is captured at a host's card has the time at which it sends.
_ACCESS_RING = 4096
#: Rates of a shared wire, bit/s (10BASE-T and 100BASE-TX), and its largest IP packet.
_RATES, _MTU = (10_000_000, 100_000_000), 1500
#: Bytes of a frame with one, whatever its options.
_ACKNOWLEDGEMENT = 100


class Wires(SpecModel):
    """What a topology says of the wires of its links."""

    duplex: Duplex | None = Field(
        default=None,
        description="`half`: the two ends of the bottleneck share one wire of 10 or 100 Mbit "
        "(CSMA/CD, IEEE 802.3), data against acknowledgements; the queue under test stands in "
        "front of it, without a shaper. Left out: `full`.",
    )
    access_duplex: Duplex | None = Field(
        default=None, description="The same of each of the other links. Left out: `full`."
    )
    ring: int | None = Field(
        default=None,
        ge=1,
        le=4096,
        description="Frames that the card at either end of a half-duplex bottleneck holds behind "
        f"its queue. Left out: {RING}.",
    )
    ack_queue: Size | None = Field(
        default=None,
        description="What the queue opposite to the one under test holds, towards a shared wire. "
        "Left out: `host_queue`.",
    )

    def wire_problems(
        self, bottleneck: int, others: dict[str, int], mtu: int
    ) -> Iterator[tuple[KeyPath, str]]:
        """Yield what no shared wire is; rates in bit/s, of ``others`` by their keys."""
        half = {"bottleneck": bottleneck} if self.duplex == "half" else {}
        half |= others if self.access_duplex == "half" else {}
        for key, rate in half.items():
            if rate not in _RATES:
                yield (
                    (key,),
                    f"is 10 Mbit or 100 Mbit on a half-duplex link, not {format_rate(rate)}",
                )
        if half and mtu > _MTU:
            yield ("mtu",), f"is at most {_MTU} B on a half-duplex link"
        if self.ring is not None and self.duplex != "half":
            yield ("ring",), "is that of a half-duplex bottleneck: set duplex to half"
        if self.ack_queue is not None and self.ack_queue < _ACKNOWLEDGEMENT:
            yield ("ack_queue",), f"must hold an acknowledgement: at least {_ACKNOWLEDGEMENT} B"
        elif self.ack_queue is not None and self.duplex != "half":
            yield ("ack_queue",), "is that of a half-duplex bottleneck: set duplex to half"

    @property
    def bottleneck_ring(self) -> int:
        """Frames in the rings of the bottleneck's ends; 0 where it is full duplex."""
        return (self.ring or RING) if self.duplex == "half" else 0

    @property
    def access_ring(self) -> int:
        """The same of the other links."""
        return _ACCESS_RING if self.access_duplex == "half" else 0
