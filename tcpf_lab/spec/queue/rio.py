"""RED with in and out."""

from __future__ import annotations

from typing import ClassVar, Literal

from tcpf_lab.spec.queue.precedence import Precedence


class Rio(Precedence):
    """RIO: two sets of RED thresholds over one FIFO (Clark & Fang 1998); the project's ``rio``.

    With nothing marked it is RED with the OUT thresholds.
    """

    modules: ClassVar[tuple[str, ...]] = ("sch_rio",)

    kind: Literal["rio"]
    """RED with in and out."""
    mode: Literal["coupled", "decoupled", "wred"] = "coupled"
    """What OUT is judged on: the whole queue, or the OUT packets in it; `wred` judges both on the
    whole queue. IN is judged on the IN packets otherwise."""
    uniformize: Literal["none", "red"] = "red"
    """Whether drops are spread evenly over arrivals, as RED does."""
