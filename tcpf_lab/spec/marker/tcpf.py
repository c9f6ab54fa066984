"""The TCP-friendly marker."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from tcpf_lab.spec.marker.meter import Meter


class Tcpf(Meter):
    """Tokens dealt out to TCP flows by need: small windows and retransmissions first.

    ``retransmits: plain`` is the papers' older marker, TCPF(O).
    """

    modules: ClassVar[tuple[str, ...]] = ("act_tcpf",)

    kind: Literal["tcpf"] = Field(description="The TCP-friendly marker.")
    profile: Literal["recommended", "paper"] = Field(
        default="recommended",
        description="How gaps of the published algorithm are filled: `paper` takes it by the "
        "letter, `recommended` keeps the rate of IN packets and notices a timeout.",
    )
    retransmits: Literal["protect", "plain"] = Field(
        default="protect",
        description="Whether a retransmission is always IN, or treated like any packet.",
    )
