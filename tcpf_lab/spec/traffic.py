"""What the senders do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from tcpf_lab.spec.base import KeyPath, SpecModel
from tcpf_lab.units import Duration, Size

#: What can make the traffic.
Generator = Literal["native", "iperf3"]


class Traffic(SpecModel):
    """Long-lived flows that always have data to send.

    Time 0 is the start of the first flow at the earliest; measured is the time from ``warmup`` to
    ``warmup`` + ``duration``, when the senders stop.
    """

    generator: Generator | None = Field(
        default=None,
        description="`native` blocks in the kernel all the time and is fast in virtual time; "
        "`iperf3` is the well-known one. Left out, the testbed decides: `native` on `uml`, "
        "`iperf3` everywhere else.",
    )
    start_spread: Duration = Field(
        default=2.0,
        description="Flows start at times drawn uniformly from 0 to this; at most `warmup`.",
    )
    warmup: Duration = Field(default=10.0, description="Time before anything is measured.")
    duration: Duration = Field(default=60.0, description="Time measured.")
    socket_buffer: Size = Field(
        default=1_000_000, description="Send buffer and receive buffer of every socket."
    )
    captures: bool | None = Field(
        default=None,
        description="Whether packets are captured; left out: yes. Without captures the numbers "
        "come from `TCP_INFO` and the queue's counters, and what only packets tell is left out; "
        "for runs whose captures would be too large. With the `native` generator only.",
    )

    @property
    def captured(self) -> bool:
        """Whether packets are captured."""
        return self.captures is not False

    @property
    def native_only(self) -> bool:
        """Whether something is asked for that only the project's own generator does."""
        return not self.captured

    @property
    def end(self) -> float:
        """When the senders stop, seconds."""
        return self.warmup + self.duration

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield an error if a flow could start in the measured time, or nothing is measured."""
        if self.start_spread > self.warmup:
            yield ("start_spread",), "must not be more than warmup"
        if self.duration == 0:
            yield ("duration",), "must be more than 0"
        if self.socket_buffer < 10_000:
            yield ("socket_buffer",), "must be at least 10 kB"
        if not self.captured and self.generator == "iperf3":
            sentence = "must not be false with generator iperf3: it does not read TCP_INFO"
            yield ("captures",), sentence
