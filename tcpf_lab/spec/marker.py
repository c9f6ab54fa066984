"""What marks packets in front of the bottleneck: a class per kind, a row per class in `KINDS`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tcpf_lab.base.units import Duration, Size, format_duration
from tcpf_lab.spec.words import (
    AF11,
    AF12,
    Dscp,
    KeyPath,
    OneOf,
    SpecModel,
    format_dscp,
    tc_time,
    tc_value,
)


class Marker(SpecModel):
    """What marks packets in- or out-of-profile, at the router in front of the bottleneck."""

    #: The project's own kernel modules that the kind needs, in the order of loading.
    modules: ClassVar[tuple[str, ...]] = ()

    kind: str

    def tc(self) -> tuple[str, ...]:
        """Give the words that follow ``tc actions add action``; none if nothing is marked."""
        return ()

    def shown(self) -> dict[str, int | float | str | bool]:
        """Give the options that ``tc -j actions list`` must show once the marker is in force."""
        return {}


#: What the marker's table may hold in the kernel, TC_MARKER_FLOWS_MAX.
MOST_MARKED_FLOWS = 2**18
#: In seconds; the kernel counts in nanoseconds of 32 bits, TC_MARKER_INTERVAL_MAX.
INTERVALS = (1e-3, 4.0)
#: In bytes, TC_MARKER_TOKENS_MAX.
MOST_TOKENS = 2**31 - 1


class Meter(Marker):
    """A pool of tokens, a byte each, that is refreshed every interval."""

    interval: Duration
    """Time after which the tokens are dealt out anew."""
    tokens: Size
    """Tokens per interval, a byte each."""
    in_: Dscp = Field(default=AF11, alias="in")
    """Code point of packets in-profile, name or number."""
    out: Dscp = AF12
    """Code point of packets out-of-profile, name or number."""
    flows: int = Field(default=65536, ge=1, le=MOST_MARKED_FLOWS)
    """Flows known at the same time, at most."""

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield an interval that the kernel cannot keep, and code points that are alike."""
        if not INTERVALS[0] <= self.interval <= INTERVALS[1]:
            sentence = f"must be from 1 ms to 4 s, not {format_duration(self.interval)}"
            yield ("interval",), sentence
        if self.tokens > MOST_TOKENS:
            yield ("tokens",), f"must be at most {MOST_TOKENS} B, not {self.tokens} B"
        if self.in_ == self.out:
            yield ("out",), f"must differ from in ({format_dscp(self.in_)})"

    def tc(self) -> tuple[str, ...]:
        """Give the words that follow ``tc actions add action``."""
        given = {key: tc_value(value) for key, value in self.values().items() if key != "kind"}
        given["interval"] = tc_time(self.interval)
        return (self.kind, *(word for pair in given.items() for word in pair))

    def shown(self) -> dict[str, int | float | str | bool]:
        """Give the options that ``tc -j actions list`` must show; the interval in microseconds."""
        given = {key: value for key, value in self.values().items() if key != "kind"}
        return {**given, "interval": round(self.interval * 1e6)}


class NoMarker(Marker):
    """Packets are left as the sender made them; written as the bare word ``none``."""

    kind: Literal["none"]
    """Nothing is marked."""


class Tcpf(Meter):
    """Tokens dealt out to TCP flows by need: small windows and retransmissions first.

    ``retransmits: plain`` is the papers' older marker, TCPF(O).
    """

    modules: ClassVar[tuple[str, ...]] = ("act_tcpf",)

    kind: Literal["tcpf"]
    """The TCP-friendly marker."""
    profile: Literal["recommended", "paper", "letter"] = "recommended"
    """How gaps of the published algorithm are filled: `recommended` keeps the rate of IN packets
    and notices a timeout; `paper` does neither; `letter` is `paper`, but a packet takes one from
    its flow's share of the tokens, not its length, so that the spacing alone decides."""
    retransmits: Literal["protect", "plain"] = "protect"
    """Whether a retransmission is always IN, or treated like any packet."""


class Token(Meter):
    """A packet is IN if as many tokens are left as it has bytes, and takes them."""

    modules: ClassVar[tuple[str, ...]] = ("act_token",)

    kind: Literal["token"]
    """The token bucket marker."""
    mode: Literal["reset", "continuous", "flow"] = "reset"
    """`reset` fills one bucket for all packets anew at every interval; `continuous` fills it
    steadily, as deep as `tokens`; `flow` does so for each flow."""


KINDS: dict[str, type[Marker]] = {"none": NoMarker, "tcpf": Tcpf, "token": Token}

#: A marker of any kind; one without parameters may be written as a bare word.
AnyMarker = Annotated[Marker, OneOf(KINDS, bare=True)]

__all__ = ["KINDS", "AnyMarker", "Marker", "NoMarker", "Tcpf", "Token"]
