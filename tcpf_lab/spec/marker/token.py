"""The token bucket marker."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from tcpf_lab.spec.marker.meter import Meter


class Token(Meter):
    """A packet is IN if as many tokens are left as it has bytes, and takes them."""

    modules: ClassVar[tuple[str, ...]] = ("act_token",)

    kind: Literal["token"] = Field(description="The token bucket marker.")
    mode: Literal["reset", "continuous", "flow"] = Field(
        default="reset",
        description="`reset` fills one bucket for all packets anew at every interval; "
        "`continuous` fills it steadily, as deep as `tokens`; `flow` does so for each flow.",
    )
