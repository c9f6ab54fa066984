"""FRED with IN and OUT."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from tcpf_lab.spec.queue.precedence import Precedence
from tcpf_lab.spec.words import KeyPath

#: What the queue's table may hold in the kernel, TC_FRIO_FLOWS_MAX.
MOST_QUEUED_FLOWS = 2**20
#: In bytes, TC_FRIO_AVPKT_MAX.
LONGEST_AVPKT = 65535
#: TC_FRIO_MINQ_MAX.
MOST_MINQ = 65535


class Frio(Precedence):
    """FRIO: FRED (Lin & Morris 1997) once for IN and once for OUT; module `sch_frio`.

    Without marks it is FRED with the OUT thresholds. `avpkt` is at most 65535 B.
    """

    modules: ClassVar[tuple[str, ...]] = ("sch_frio",)

    kind: Literal["frio"]
    """FRED with IN and OUT."""
    mode: Literal["coupled", "decoupled"] = "coupled"
    """Average queue for OUT: total (`coupled`) or OUT only (`decoupled`)."""
    share: Literal["instant", "average"] = "instant"
    """A flow's fair share is part of the current backlog (`instant`) or of its average
    (`average`)."""
    many_flows: bool = False
    """Let every flow queue two packets where the average is at `max` or above."""
    minq: int = Field(default=2, ge=0, le=MOST_MINQ)
    """Packets of `avpkt` that a flow may queue before it is dropped at random."""
    flows: int = Field(default=65536, ge=1, le=MOST_QUEUED_FLOWS)
    """Maximum number of flows with a record of their own; all others share one."""

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield what every such queue refuses, and packets longer than this one can count."""
        yield from super().problems()
        if self.avpkt > LONGEST_AVPKT:
            yield ("avpkt",), f"must be at most {LONGEST_AVPKT} B, not {self.avpkt} B"
