"""What marks packets in front of the bottleneck: a class per kind, a row per class in `KINDS`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tcpf_lab.base.units import Duration, Size
from tcpf_lab.spec.words import AF11, AF12, Dscp, KeyPath, OneOf, SpecModel, tc_time, tc_value


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
    """Time after which tokens are allocated again, 1 ms to 4 s."""
    tokens: Size
    """Tokens per interval, at most 2147483647 B; one pays for a byte of an IP packet."""
    in_: Dscp = Field(default=AF11, alias="in")
    """Code point of packets in profile (IN), name or number."""
    out: Dscp = AF12
    """Code point of packets out of profile (OUT), name or number."""
    flows: int = Field(default=65536, ge=1, le=MOST_MARKED_FLOWS)
    """Maximum number of flows remembered; beyond it the flow that was silent for longest is
    forgotten."""

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield an interval that the kernel cannot keep, and code points that are alike."""
        if not INTERVALS[0] <= self.interval <= INTERVALS[1]:
            yield ("interval",), "must be from 1 ms to 4 s"
        if self.tokens > MOST_TOKENS:
            yield ("tokens",), f"must be at most {MOST_TOKENS} B"
        if self.in_ == self.out:
            yield ("out",), "must differ from in"

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
    """Packets keep the sender's code point; written as the bare word ``none``."""

    kind: Literal["none"]
    """No marker."""


class Tcpf(Meter):
    """Allocates tokens to TCP flows by need: small windows and retransmissions first."""

    modules: ClassVar[tuple[str, ...]] = ("act_tcpf",)

    kind: Literal["tcpf"]
    """TCP-friendly marker."""
    profile: Literal["recommended", "paper", "letter"] = "recommended"
    """Reading of the published algorithm. `recommended`: overdrafts and retransmissions are paid
    for later, and a timeout makes the flow's window small; `paper`: neither; `letter`: as `paper`,
    but a packet takes one token of its flow's share, not one for each byte."""
    retransmits: Literal["protect", "plain"] = "protect"
    """`protect`: retransmissions are always IN; `plain`: they are marked like other packets, as by
    the older marker TCPF(O)."""


class Token(Meter):
    """A packet is IN if the bucket has a token for each of its bytes, and takes them."""

    modules: ClassVar[tuple[str, ...]] = ("act_token",)

    kind: Literal["token"]
    """Token bucket."""
    mode: Literal["reset", "continuous", "flow"] = "reset"
    """`reset`: one bucket, full at each interval, unused tokens vanish; `continuous`: one bucket,
    filled continuously up to `tokens`; `flow`: as `continuous`, a bucket for each flow."""


KINDS: dict[str, type[Marker]] = {"none": NoMarker, "tcpf": Tcpf, "token": Token}

#: A marker of any kind; one without parameters may be written as a bare word.
AnyMarker = Annotated[Marker, OneOf(KINDS, bare=True)]

__all__ = ["KINDS", "AnyMarker", "Marker", "NoMarker", "Tcpf", "Token"]
