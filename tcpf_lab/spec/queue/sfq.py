"""Stochastic fairness queueing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field

from tcpf_lab.base.units import Size
from tcpf_lab.spec.queue.base import Bottleneck, InPackets, Parameter, flag, number
from tcpf_lab.spec.queue.fq_codel import quantum_problems
from tcpf_lab.spec.words import KeyPath

#: SFQ_MAX_DEPTH and SFQ_MAX_FLOWS of the kernel, and what they are by default.
_MOST_DEPTH, _MOST_FLOWS, _DEPTH, _FLOWS = 127, 65408, 127, 128
_MOST_DIVISOR, _DIVISOR = 65536, 1024


class Sfq(InPackets):
    """SFQ: flows, distinguished by a hash, take turns (Linux `sfq`; McKenney 1990).

    Without its RED, which `kind: tc` reaches. It never marks.
    """

    packets: ClassVar[int] = 127
    in_order: ClassVar[bool] = False
    span: ClassVar[tuple[int, int]] = (2, _MOST_DEPTH * _MOST_FLOWS)

    kind: Literal["sfq"]
    """Stochastic fairness queueing."""
    perturb: int | None = Field(default=None, ge=0, le=2**31 // 1000)
    """Seconds after which the hash changes; 0: never. Default: the kernel's 0."""
    quantum: Size | None = None
    """Bytes of a flow in a round, 256 B to 1 MiB. Default: the kernel's, a frame."""
    divisor: int | None = Field(default=None, ge=1, le=_MOST_DIVISOR)
    """Hash buckets, a power of two. Default: the kernel's 1024."""
    flows: int | None = Field(default=None, ge=1, le=_MOST_FLOWS)
    """Flows with packets at a time; at most `divisor`, and the packets of `limit`. Default: the
    kernel's 128."""
    depth: int | None = Field(default=None, ge=1, le=_MOST_DEPTH)
    """Packets that a flow may queue. Default: the kernel's 127."""
    headdrop: bool | None = None
    """Drop a flow's oldest packet instead of the new one. Default: the kernel's false."""

    @property
    def counters(self) -> dict[str, list[Any]]:
        """No packet is marked."""
        return {"marks": []}

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield what ``tc`` or the kernel would refuse, or silently replace."""
        yield from super().problems()
        yield from quantum_problems(self.quantum)
        divisor = self.divisor or _DIVISOR
        if divisor.bit_count() != 1:
            yield ("divisor",), f"must be a power of two, not {divisor}"
        if self.flows is not None and self.flows > divisor:
            yield ("flows",), f"must be at most divisor ({divisor}), not {self.flows}"

    def misfit(self, frame: int) -> Iterator[tuple[KeyPath, str]]:
        """Yield a limit that flows of this depth cannot fill, and more flows than packets."""
        yield from super().misfit(frame)
        if self.limit is None:
            return
        flows, packets = self.flows or _FLOWS, self.limit // frame
        flows = min(flows, self.divisor or _DIVISOR)
        if packets > (most := flows * (self.depth or _DEPTH)):
            sentence = f"must be at most {most * frame} B (flows x depth frames of {frame} B)"
            yield ("limit",), f"{sentence}, not {self.limit} B"
        elif self.flows is not None and self.flows > packets:
            yield ("flows",), f"must be at most {packets}, the packets of limit, not {self.flows}"

    def parameters(self, at: Bottleneck) -> Iterator[Parameter | None]:
        """Yield every parameter."""
        yield self.limited(at)
        if self.perturb is not None:
            yield Parameter(("perturb", str(self.perturb)), {"perturb": self.perturb or None})
        for key in ("quantum", "divisor", "flows", "depth"):
            yield number(key, getattr(self, key))
        yield flag("headdrop", self.headdrop)
