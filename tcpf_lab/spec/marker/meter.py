"""What the markers that deal tokens out have in common."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from tcpf_lab.spec.base import KeyPath
from tcpf_lab.spec.dscp import AF11, AF12, Dscp
from tcpf_lab.spec.marker.base import Marker
from tcpf_lab.spec.tc_word import tc_time, tc_value
from tcpf_lab.units import Duration, Size

#: What the marker's table may hold in the kernel, TC_MARKER_FLOWS_MAX.
MOST_MARKED_FLOWS = 2**18
#: In seconds; the kernel counts in nanoseconds of 32 bits, TC_MARKER_INTERVAL_MAX.
INTERVALS = (1e-3, 4.0)
#: In bytes, TC_MARKER_TOKENS_MAX.
MOST_TOKENS = 2**31 - 1


class Meter(Marker):
    """A pool of tokens, a byte each, that is refreshed every interval."""

    interval: Duration = Field(description="Time after which the tokens are dealt out anew.")
    tokens: Size = Field(description="Tokens per interval, a byte each.")
    in_: Dscp = Field(
        default=AF11, alias="in", description="Code point of packets in-profile, name or number."
    )
    out: Dscp = Field(
        default=AF12, description="Code point of packets out-of-profile, name or number."
    )
    flows: int = Field(
        default=65536,
        ge=1,
        le=MOST_MARKED_FLOWS,
        description="Flows known at the same time, at most.",
    )

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
