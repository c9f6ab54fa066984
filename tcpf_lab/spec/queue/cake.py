"""Common applications kept enhanced, without its shaper."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from tcpf_lab.base.units import Duration, Size
from tcpf_lab.spec.queue.base import Bottleneck, Parameter, Parametrised, switch, time

#: Packets that the kernel lets it hold by default.
_PACKETS = 10240
#: What `tc` shows of the ACK filter.
_FILTERS = {
    "off": ("no-ack-filter", "disabled"),
    "on": ("ack-filter", "enabled"),
    "aggressive": ("ack-filter-aggressive", "aggressive"),
}


class Cake(Parametrised):
    """CAKE: COBALT, a mix of CoDel and BLUE, for each flow and each host (Linux `cake`).

    The bottleneck is the shaper: `bandwidth` stays unlimited. It always marks ECN-capable packets.
    """

    in_order: ClassVar[bool] = False
    times: ClassVar[dict[str, tuple[float, float]]] = {"rtt": (1e-4, 100.0)}

    kind: Literal["cake"]
    """CAKE without its shaper."""
    limit: Size | None = None
    """Memory of all packets (`memlimit`); a packet takes more than its length. Default: the
    kernel's, 10240 frames."""
    rtt: Duration | None = None
    """Round-trip time for which CoDel is set: its interval; the target is a twentieth. Default: the
    kernel's 100 ms."""
    diffserv: Literal["besteffort", "diffserv3", "diffserv4", "diffserv8"] | None = None
    """Classes of service by DSCP. Default: the kernel's `diffserv3`."""
    flowmode: (
        Literal[
            "flowblind",
            "srchost",
            "dsthost",
            "hosts",
            "flows",
            "dual-srchost",
            "dual-dsthost",
            "triple-isolate",
        ]
        | None
    ) = None
    """What gets a share: flows, hosts, or flows within hosts. Default: the kernel's
    `triple-isolate`."""
    ack_filter: Literal["off", "on", "aggressive"] | None = None
    """Drop acknowledgements that a later one in the queue replaces. Default: the kernel's `off`."""
    split_gso: bool | None = None
    """Split joined segments before they queue. Default: the kernel's true."""

    @property
    def may_mark(self) -> bool:
        """Whether it marks: always."""
        return True

    @property
    def splits(self) -> bool:
        """Whether it splits packets: by default."""
        return self.split_gso is not False

    @property
    def counters(self) -> dict[str, list[Any]]:
        """Name the counter of marks, one in each class of service."""
        return {"marks": ["tins.ecn_mark"]}

    def capacity(self, frame: int) -> int:
        """Give what the queue can hold, bytes."""
        return _PACKETS * frame if self.limit is None else self.limit

    def parameters(self, at: Bottleneck) -> Iterator[Parameter | None]:  # noqa: ARG002
        """Yield every parameter."""
        if self.limit is not None:
            yield Parameter(("memlimit", str(self.limit)), {"memory_limit": self.limit})
        yield time("rtt", self.rtt)
        for key in ("diffserv", "flowmode"):
            if word := getattr(self, key):
                yield Parameter((word,), {key: word})
        if self.ack_filter is not None:
            word, shown = _FILTERS[self.ack_filter]
            yield Parameter((word,), {"ack-filter": shown})
        if split := switch("split-gso", self.split_gso, no="no-"):
            yield Parameter(split.words, {"split_gso": self.split_gso})
