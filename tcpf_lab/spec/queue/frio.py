"""Flow random early drop with in and out."""

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
    """FRIO: FRED (Lin & Morris 1997) once for IN and once for OUT; the project's ``frio``.

    With nothing marked it is FRED with the OUT thresholds.
    """

    modules: ClassVar[tuple[str, ...]] = ("sch_frio",)

    kind: Literal["frio"]
    """Flow random early drop with in and out."""
    mode: Literal["coupled", "decoupled"] = "coupled"
    """What OUT is judged on: the whole queue, or the OUT packets in it."""
    share: Literal["instant", "average"] = "instant"
    """Which backlog is divided by the flows for a fair share."""
    many_flows: bool = False
    """Let every flow keep two packets where the average is above `max`."""
    minq: int = Field(default=2, ge=0, le=MOST_MINQ)
    """Packets of `avpkt` that a flow may queue before it is dropped at random."""
    flows: int = Field(default=65536, ge=1, le=MOST_QUEUED_FLOWS)
    """Flows known at the same time, at most."""

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield what every such queue refuses, and packets longer than this one can count."""
        yield from super().problems()
        if self.avpkt > LONGEST_AVPKT:
            yield ("avpkt",), f"must be at most {LONGEST_AVPKT} B"
