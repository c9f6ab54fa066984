"""What the senders do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from tcpf_lab.base.units import Duration, Size
from tcpf_lab.spec.words import KeyPath, SpecModel

#: What can make the traffic.
Generator = Literal["native", "iperf3"]


#: What a socket may hold: a full one is packets, and the kernel's words about each of them.
LARGEST_BUFFER = 1_000_000_000
#: What a shape may be: at 1 and below there is no mean, and just above it no file has a byte.
LEAST_SHAPE = 1.001
_LARGEST_SHAPE = 100


class Users(SpecModel):
    """Closed-loop users: each thinks, transfers a file over a new connection, and repeats.

    Think times and sizes of user k depend on the seed and k alone. The first think time begins at a
    time drawn from `start_spread`.

    Notes
    -----
    R. S. Prasad, C. Dovrolis, M. Thottan, "Router buffer sizing revisited: the role of the
    output/input capacity ratio", CoNEXT 2007, section 2.
    """

    think: Duration
    """Mean think time between two transfers, exponential."""
    size: Size
    """Mean file size, Pareto, before `largest` applies; the minimum is `size` (`shape` - 1) /
    `shape`."""
    shape: float = Field(
        default=1.5,
        json_schema_extra={"minimum": LEAST_SHAPE, "maximum": _LARGEST_SHAPE},
        description=f"Shape of the Pareto distribution, {LEAST_SHAPE} to {_LARGEST_SHAPE}; a "
        "smaller one has a heavier tail.",
    )
    largest: Size = 1_000_000_000
    """Maximum file size; larger ones are cut to it."""

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield a user who never thinks, and sizes of which there is no such distribution."""
        if self.think < 0.001:
            yield ("think",), "must be at least 1 ms"
        if self.size < 1:
            yield ("size",), "must be at least 1 B"
        if not LEAST_SHAPE <= self.shape <= _LARGEST_SHAPE:
            yield ("shape",), f"must be at least {LEAST_SHAPE} and at most {_LARGEST_SHAPE}"
        if self.largest < self.size:
            yield ("largest",), "must not be less than size"


class Traffic(SpecModel):
    """Long-lived flows that always have data to send; with `users`, closed-loop users.

    Time 0 is the earliest start of a flow. Metrics cover the time from `warmup` to `warmup` +
    `duration`, when the senders stop.
    """

    generator: Generator | None = None
    """`native`, fast in virtual time, or `iperf3`. Default: `native` on testbed `uml`, else
    `iperf3`."""
    start_spread: Duration = 2.0
    """Flows start at times drawn uniformly from 0 to this; at most `warmup`."""
    warmup: Duration = 10.0
    """Time before the measured time."""
    duration: Duration = 60.0
    """Measured time."""
    socket_buffer: Size = 1_000_000
    """Send buffer and receive buffer of every socket."""
    captures: bool | None = None
    """Capture packets. `false` is for runs with captures too large, with generator `native` only:
    metrics then come from `TCP_INFO` and queue counters, and those that need packets are missing.
    Default: true."""
    users: Users | None = None
    """Makes each of the matrix's `flows` a user. The send buffer grows with the window, to twice
    `socket_buffer` at most. Needs `captures: false`. Default: long-lived flows."""

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
        if self.duration < 0.001:
            yield ("duration",), "must be at least 1 ms"
        if not 10_000 <= self.socket_buffer <= LARGEST_BUFFER:
            yield ("socket_buffer",), "must be from 10 kB to 1 GB"
        if not self.captured and self.generator == "iperf3":
            sentence = "must not be false with generator iperf3: it does not read TCP_INFO"
            yield ("captures",), sentence
        if self.users is not None and self.captured:
            yield ("users",), "needs captures: false: no number of users comes from packets"
