"""Probes: what an application feels beside the flows, from hosts of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from tcpf_lab.base.units import Duration, Size, format_duration
from tcpf_lab.spec.graph import Ip, delay_problem
from tcpf_lab.spec.group import GROUP_NAME, Direction
from tcpf_lab.spec.words import Dscp, KeyPath, OneOf, SpecModel

#: Shortest time between two packets of a probe: each is several system calls.
_SHORTEST = 0.001
#: Bytes of IPv4 with UDP, and with ICMP echo; and what `tcpf-probe` and `ping` put behind them.
_UDP, _ICMP = 28 + 16, 28 + 16
#: The same of IPv6, whose header has 20 bytes more.
SMALLEST_IPV6 = 64
#: Shortest request of `tcpf-probe`, bytes.
_REQUEST = 16


class Probe(SpecModel):
    """What every probe has."""

    kind: str
    ip: Ip | None = None
    """Version of IP. Default: `traffic.ip`."""
    rtt: Duration | None = None
    """Base round-trip time. Default: the topology's `delay`."""
    start: Duration = 0.0
    """Time of the first packet; of requests, from which the first think time counts."""
    stop: Duration | None = None
    """Time after the last packet. Default: the end of the run."""

    @property
    def way(self) -> Direction:
        """Direction of what the probe is named for: its sender stands where that begins."""
        return "up"

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield times in the wrong order."""
        if self.stop is not None and self.stop <= self.start:
            start = format_duration(self.start)
            yield ("stop",), f"must be after start ({start}), not {format_duration(self.stop)}"
        if self.rtt is not None and (sentence := delay_problem(self.rtt)):
            yield ("rtt",), sentence


class _Periodic(Probe):
    """One packet each interval."""

    interval: Duration
    """Time between two packets, at least 1 ms."""

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield what no clock could keep."""
        yield from super().problems()
        if self.interval < _SHORTEST:
            yield ("interval",), f"must be at least 1 ms, not {format_duration(self.interval)}"

    def count(self, stop: float) -> int:
        """Give the number of packets: one at `start`, and one each interval before `stop`."""
        return max(1, math.ceil(round((stop - self.start) / self.interval, 9)))


class Echo(_Periodic):
    """ICMP echo requests and replies, by `ping`: round-trip times to three digits.

    While `ping` awaits replies it looks at its clock every 10 ms: intervals below 50 ms get longer.
    """

    kind: Literal["icmp"]
    """ICMP echo."""
    size: Size = 84
    """Length of an IP packet, 44 B (IPv6: 64 B) to 1500 B."""

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield packets that could hold no time stamp."""
        yield from super().problems()
        if not _ICMP <= self.size <= 1500:
            yield ("size",), f"must be from {_ICMP} B to 1500 B, not {self.size} B"


class Datagrams(_Periodic):
    """UDP datagrams at a constant interval, such as those of a call: one-way delay and loss."""

    kind: Literal["udp"]
    """UDP datagrams."""
    direction: Direction = "up"
    """`up`: through the queue under test. `down`: the other way, through the queue of groups
    `down` if there are any."""
    size: Size = 200
    """Length of an IP packet, 44 B (IPv6: 64 B) to 1500 B."""
    dscp: Dscp = 0
    """Code point, such as `EF`."""

    @property
    def way(self) -> Direction:
        """Direction of the datagrams."""
        return self.direction

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield packets that could hold no time stamp."""
        yield from super().problems()
        if not _UDP <= self.size <= 1500:
            yield ("size",), f"must be from {_UDP} B to 1500 B, not {self.size} B"


class Exchanges(Probe):
    """TCP requests and their responses, such as pages of a site: completion times.

    Each flow sends a request, takes the response, thinks, and repeats. Think times depend on the
    seed and the flow's number among those of all request probes.
    """

    kind: Literal["request"]
    """TCP requests and responses."""
    direction: Direction = "up"
    """Direction of the responses. `up`: through the queue under test. `down`: the other way,
    through the queue of groups `down` if there are any."""
    flows: int = Field(default=1, ge=1, le=1000)
    """Number of closed loops."""
    request: Size = 100
    """Payload of a request, at least 16 B."""
    response: Size
    """Payload of a response."""
    think: Duration = 0.0
    """Mean time between a response and the next request, exponential."""
    reuse: bool = False
    """Use one connection per flow. `false`: a new connection for each exchange, whose handshake
    counts."""

    @property
    def way(self) -> Direction:
        """Direction of the responses."""
        return self.direction

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield requests that could not say what they ask for."""
        yield from super().problems()
        if self.request < _REQUEST:
            yield ("request",), f"must be at least {_REQUEST} B, not {self.request} B"
        if self.response < 1:
            yield ("response",), "must be at least 1 B"


#: Kinds of probes.
KINDS: dict[str, type[Probe]] = {"icmp": Echo, "udp": Datagrams, "request": Exchanges}
ProbeName = Annotated[str, Field(pattern=GROUP_NAME)]
AnyProbe = Annotated[Probe, OneOf(KINDS)]
