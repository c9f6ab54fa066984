"""CoDel for each flow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from tcpf_lab.base.units import Size
from tcpf_lab.spec.queue.base import Bottleneck, Parameter, number
from tcpf_lab.spec.queue.codel import Codel
from tcpf_lab.spec.words import KeyPath

#: Of flow queues (kernel: 65536).
MOST_FLOWS = 65536
#: Of a round, bytes: the kernel raises less, and refuses or lowers more.
QUANTUM = (256, 2**20)
#: In bytes; the kernel lowers more to it.
MOST_MEMORY = 2**31


def quantum_problems(quantum: int | None) -> Iterator[tuple[KeyPath, str]]:
    """Yield a quantum that the kernel would refuse or silently replace."""
    least, most = QUANTUM
    if quantum is not None and not least <= quantum <= most:
        yield ("quantum",), f"must be from {least} B to {most} B, not {quantum} B"


class FqCodel(Codel):
    """FQ-CoDel: a CoDel queue for each flow, served by deficit round robin (RFC 8290).

    It marks by default: `ecn: false` makes it drop.
    """

    packets: ClassVar[int] = 10240
    in_order: ClassVar[bool] = False

    kind: Literal["fq_codel"]  # type: ignore[assignment]
    """CoDel for each flow."""
    ecn: bool | None = None
    """Mark ECN-capable packets instead of dropping them. Default: the kernel's true."""
    ce_threshold_selector: Literal["all", "ect1"] | None = None
    """Packets that `ce_threshold` marks: all that are ECN-capable, or those with ECT(1) (L4S).
    Default: `all`."""
    flows: int | None = Field(default=None, ge=1, le=MOST_FLOWS)
    """Queues, to which flows are hashed. Default: the kernel's 1024."""
    quantum: Size | None = None
    """Bytes of a flow in a round, 256 B to 1 MiB. Default: the kernel's, a frame."""
    memory_limit: Size | None = None
    """Memory of all packets, at most 2 GiB; a packet takes more than its length. Default: the
    kernel's 32 MiB."""
    drop_batch: int | None = Field(default=None, ge=1, le=2**31 - 1)
    """Packets dropped at once when the queue is full. Default: the kernel's 64."""

    @property
    def may_mark(self) -> bool:
        """Whether it marks: it does so by default."""
        return self.ecn is not False or self.marks

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield what ``tc`` or the kernel would refuse, or silently replace."""
        yield from super().problems()
        yield from quantum_problems(self.quantum)
        if self.memory_limit is not None and self.memory_limit > MOST_MEMORY:
            yield ("memory_limit",), f"must be at most {MOST_MEMORY} B, not {self.memory_limit} B"
        if self.ce_threshold_selector is not None and self.ce_threshold is None:
            yield ("ce_threshold_selector",), "needs ce_threshold"

    def parameters(self, at: Bottleneck) -> Iterator[Parameter | None]:
        """Yield every parameter."""
        yield from super().parameters(at)
        for key in ("flows", "quantum", "memory_limit", "drop_batch"):
            yield number(key, getattr(self, key))
        yield _selector(self.ce_threshold_selector)


def _selector(chosen: str | None) -> Parameter | None:
    """Give the bits of the type of service that ``ce_threshold`` looks at: value and mask."""
    if chosen is None:
        return None
    value, mask = (1, 3) if chosen == "ect1" else (0, 0)
    shown = {"ce_threshold_selector": value, "ce_threshold_mask": mask}
    written = f"{value:#x}/{mask:#x}"
    return Parameter(("ce_threshold_selector", written), shown if mask else {})
