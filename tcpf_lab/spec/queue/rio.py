"""RED with IN and OUT."""

from __future__ import annotations

from typing import ClassVar, Literal

from tcpf_lab.spec.queue.precedence import Precedence


class Rio(Precedence):
    """RIO: two sets of RED thresholds over one FIFO (Clark & Fang 1998); module `sch_rio`.

    Without marks it is RED with the OUT thresholds.
    """

    modules: ClassVar[tuple[str, ...]] = ("sch_rio",)

    kind: Literal["rio"]
    """RED with IN and OUT."""
    mode: Literal["coupled", "decoupled", "wred"] = "coupled"
    """Average queue for OUT: total (`coupled`, RIO-C) or OUT only (`decoupled`, RIO-D); for IN it
    is IN only. `wred`: total for both."""
    uniformize: Literal["none", "red"] = "red"
    """Distances between drops: even, as in RED (`red`), or independent (`none`)."""
