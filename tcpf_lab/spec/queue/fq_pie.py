"""PIE for each flow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from tcpf_lab.base.units import Size
from tcpf_lab.spec.queue.base import Bottleneck, Parameter, number
from tcpf_lab.spec.queue.fq_codel import MOST_FLOWS, quantum_problems
from tcpf_lab.spec.queue.pie import Pie
from tcpf_lab.spec.words import KeyPath


class FqPie(Pie):
    """FQ-PIE: a PIE queue for each flow, served by deficit round robin."""

    packets: ClassVar[int] = 10240
    in_order: ClassVar[bool] = False

    kind: Literal["fq_pie"]  # type: ignore[assignment]
    """PIE for each flow."""
    flows: int | None = Field(default=None, ge=1, le=MOST_FLOWS)
    """Queues, to which flows are hashed. Default: the kernel's 1024."""
    quantum: Size | None = None
    """Bytes of a flow in a round, 256 B to 1 MiB. Default: the kernel's, a frame."""
    memory_limit: Size | None = None
    """Memory of all packets; a packet takes more than its length. Default: the kernel's 32 MiB."""
    ecn_prob: int | None = Field(default=None, ge=1, le=99)
    """Drop probability in percent up to which `ecn` marks. Default: the kernel's 10."""

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield what ``tc`` or the kernel would refuse, or silently replace."""
        yield from super().problems()
        yield from quantum_problems(self.quantum)

    def parameters(self, at: Bottleneck) -> Iterator[Parameter | None]:
        """Yield every parameter."""
        yield from super().parameters(at)
        for key in ("flows", "quantum", "memory_limit", "ecn_prob"):
            yield number(key, getattr(self, key))
