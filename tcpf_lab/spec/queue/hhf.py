"""Heavy-hitter filter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field

from tcpf_lab.base.units import Duration, Size
from tcpf_lab.spec.queue.base import Bottleneck, InPackets, Parameter, number, tick_problems, time
from tcpf_lab.spec.queue.fq_codel import quantum_problems
from tcpf_lab.spec.words import KeyPath


class Hhf(InPackets):
    """HHF: small flows before heavy hitters, which sent many bytes (Linux `hhf`).

    It never marks.
    """

    packets: ClassVar[int] = 1000
    in_order: ClassVar[bool] = False
    times: ClassVar[dict[str, tuple[float, float]]] = dict.fromkeys(
        ("reset_timeout", "evict_timeout"), (0.01, 1000.0)
    )

    kind: Literal["hhf"]
    """Heavy-hitter filter."""
    quantum: Size | None = None
    """Bytes of a class in a round, 256 B to 1 MiB. Default: the kernel's, a frame."""
    hh_limit: int | None = Field(default=None, ge=1, le=2048)
    """Maximum number of heavy hitters. Default: the kernel's 2048."""
    reset_timeout: Duration | None = None
    """Time after which bytes are counted anew, in whole 10 ms. Default: the kernel's 40 ms."""
    admit_bytes: Size | None = None
    """Bytes within `reset_timeout` that make a flow a heavy hitter. Default: the kernel's
    131072 B."""
    evict_timeout: Duration | None = None
    """Idle time after which a heavy hitter is none, in whole 10 ms. Default: the kernel's 1 s."""
    non_hh_weight: int | None = Field(default=None, ge=1, le=2**10)
    """Weight of all other flows against heavy hitters. Default: the kernel's 2."""

    @property
    def counters(self) -> dict[str, list[Any]]:
        """No packet is marked."""
        return {"marks": []}

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield what ``tc`` or the kernel would refuse, or silently replace."""
        yield from super().problems()
        yield from quantum_problems(self.quantum)
        for key in self.times:
            yield from tick_problems(key, getattr(self, key))

    def parameters(self, at: Bottleneck) -> Iterator[Parameter | None]:
        """Yield every parameter."""
        yield self.limited(at)
        for key in ("quantum", "hh_limit", "admit_bytes", "non_hh_weight"):
            yield number(key, getattr(self, key))
        for key in self.times:
            yield time(key, getattr(self, key))
