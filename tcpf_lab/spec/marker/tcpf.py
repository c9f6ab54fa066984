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
    profile: Literal["recommended", "paper", "letter"] = Field(
        default="recommended",
        description="How gaps of the published algorithm are filled: `recommended` keeps the rate "
        "of IN packets and notices a timeout; `paper` does neither; `letter` is `paper`, but a "
        "packet takes one from its flow's share of the tokens, not its length, so that the spacing "
        "alone decides.",
    )
    retransmits: Literal["protect", "plain"] = Field(
        default="protect",
        description="Whether a retransmission is always IN, or treated like any packet.",
    )
