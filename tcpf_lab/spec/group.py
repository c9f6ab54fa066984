"""Groups of flows: each with a sender and a receiver of its own, and with what it does and when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from tcpf_lab.base.units import Duration, Rate, Size, format_duration, format_rate, format_size
from tcpf_lab.spec.graph import SLOWEST, Ip, delay_problem
from tcpf_lab.spec.tcp import CONGESTION, ECN_MODES, Tcp
from tcpf_lab.spec.words import KeyPath, SpecModel

#: A group's hosts are called after it, and an interface's name has 15 characters at most.
GROUP_NAME = r"^[a-z][a-z0-9]{0,7}$"
#: Parameters of a network namespace that a group may set.
SYSCTL = r"^net\.(core|ipv4|ipv6)\.[a-z0-9_.]{1,60}$"
MOST_FLOWS = 1000
#: Largest chunk, bytes: a program writes it at once.
MOST_WRITTEN = 1_000_000_000
#: Period of the chunks that a `rate` is made of, about, seconds.
RATE_PERIOD = 0.01
#: Shortest period of chunks: a system call each.
_SHORTEST = 0.001

Direction = Literal["up", "down"]
Switch = Literal["off", "on"]


class Group(SpecModel):
    """Flows of one kind, between a sender and a receiver of their own.

    Times count from time 0, the beginning of the traffic.
    """

    flows: int = Field(default=1, ge=0, le=MOST_FLOWS)
    """Number of flows; 0 for a run without the group."""
    direction: Direction = "up"
    """`up`: through the queue under test. `down`: the other way, through a queue of the same
    kind."""
    ip: Ip | None = None
    """Version of IP. Default: `traffic.ip`."""
    congestion: str | None = Field(default=None, pattern=CONGESTION)
    """Congestion control of the sender. Default: `tcp.congestion`."""
    ecn: ECN_MODES | None = None
    """ECN of both hosts. Default: `tcp.ecn`."""
    rtt: Duration | None = None
    """Base round-trip time. Default: the topology's `delay`."""
    offloads: Switch | None = None
    """TSO, GSO and GRO on the links of both hosts. Default: the topology's `offloads`."""
    start: Duration = 0.0
    """Earliest start of a flow."""
    start_spread: Duration | None = None
    """Flows start at times drawn uniformly from `start` to `start` plus this. Default:
    `traffic.start_spread`."""
    stop: Duration | None = None
    """Time at which the flows stop. Default: the end of the run."""
    volume: Size | None = None
    """Payload that each flow sends before it closes. Default: no limit."""
    pacing: Rate | None = None
    """Maximum pacing rate of each flow (`SO_MAX_PACING_RATE`). Default: no limit."""
    rate: Rate | None = None
    """Rate of payload at which the application of each flow writes whole bytes, every 10 ms or
    nearly so. Default: as fast as it can."""
    chunk: Size | None = None
    """Payload that the application of each flow writes every `every`. Default: as much as it
    can."""
    every: Duration | None = None
    """Period of `chunk`."""
    nodelay: bool = False
    """Disable Nagle's algorithm (`TCP_NODELAY`)."""
    sysctls: dict[Annotated[str, Field(pattern=SYSCTL)], int | str] | None = None
    """Further parameters of both hosts' network namespaces, such as `net.ipv4.tcp_notsent_lowat:
    16384`. Default: none."""

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield times in the wrong order, limits of the application that exclude each other."""
        if self.stop is not None and self.stop <= self.start:
            start = format_duration(self.start)
            yield ("stop",), f"must be after start ({start}), not {format_duration(self.stop)}"
        if self.rtt is not None and (sentence := delay_problem(self.rtt)):
            yield ("rtt",), sentence
        for key in ("pacing", "rate"):
            rate = getattr(self, key)
            if rate is not None and rate < SLOWEST:
                yield (key,), f"must be at least 1 kbit, not {format_rate(rate)}"
        if self.volume is not None and self.volume < 1:
            yield ("volume",), f"must be at least 1 B, not {format_size(self.volume)}"
        yield from self._application()

    def _application(self) -> Iterator[tuple[KeyPath, str]]:
        if self.rate is not None and self.chunk is not None:
            yield ("rate",), "cannot be combined with chunk; remove one of them"
        if (self.chunk is None) != (self.every is None):
            missing = "every" if self.every is None else "chunk"
            yield (missing,), "is missing: chunk and every belong together"
        if self.chunk is not None and not 1 <= self.chunk <= MOST_WRITTEN:
            sentence = f"must be from 1 B to {format_size(MOST_WRITTEN)}"
            yield ("chunk",), f"{sentence}, not {format_size(self.chunk)}"
        if self.every is not None and self.every < _SHORTEST:
            yield ("every",), f"must be at least 1 ms, not {format_duration(self.every)}"
        if self.volume is not None and (self.rate or self.chunk):
            yield ("volume",), "cannot be combined with rate or chunk; remove one of them"

    @property
    def greedy(self) -> bool:
        """Whether the flows send as much as they can, as long as they are there."""
        return self.written is None and self.pacing is None and self.volume is None

    @property
    def written(self) -> tuple[int, float] | None:
        """Bytes that the application writes at a time, and the period, s; None: no limit."""
        if self.rate is not None:
            chunk = max(1, round(self.rate * RATE_PERIOD / 8))
            return chunk, round(8 * chunk / self.rate, 9)
        if self.chunk is not None and self.every is not None:
            return self.chunk, self.every
        return None

    def settings(self, tcp: Tcp) -> dict[str, str]:
        """Give the sysctls of the group's hosts, full names, from those of the experiment."""
        own = {"congestion": self.congestion, "ecn": self.ecn}
        changed = tcp.model_copy(update={k: v for k, v in own.items() if v is not None})
        sysctls = self.sysctls or {}
        return changed.sysctls() | {name: str(value) for name, value in sysctls.items()}


def sender_of(name: str) -> str:
    """Name the machine that sends a group's data.

    Examples
    --------
    >>> sender_of("bbr"), receiver_of("bbr")
    ('Sbbr', 'Dbbr')
    """
    return f"S{name}"


def receiver_of(name: str) -> str:
    """Name the machine that receives a group's data."""
    return f"D{name}"


@dataclass(frozen=True)
class Hosts:
    """The two machines of a group or a probe: ``rtt`` is None for the topology's delay.

    ``offloads`` is None for the topology's.
    """

    name: str
    direction: Direction
    rtt: float | None
    ip: Ip
    probes: bool = False
    offloads: Switch | None = None


GroupName = Annotated[str, Field(pattern=GROUP_NAME)]
