"""What the senders do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import Field

from tcpf_lab.base.units import Duration, Size, format_duration, format_size
from tcpf_lab.spec.background import refuse_other_names
from tcpf_lab.spec.graph import Ip
from tcpf_lab.spec.group import Group, GroupName, Hosts
from tcpf_lab.spec.matrix import MOST_SENDING
from tcpf_lab.spec.probe import SMALLEST_IPV6, AnyProbe, Exchanges, Probe, ProbeName
from tcpf_lab.spec.words import KeyPath, SpecModel

#: What can make the traffic.
Generator = Literal["native", "iperf3"]


#: What a socket may hold: a full one is packets, and the kernel's words about each of them.
LARGEST_BUFFER = 1_000_000_000
#: What a shape may be: at 1 and below there is no mean, and just above it no file has a byte.
LEAST_SHAPE = 1.001
_LARGEST_SHAPE = 100
#: Groups and probes of a file: two namespaces and two links each, and 256 links have addresses.
MOST_PAIRS = 100


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
            yield ("think",), f"must be at least 1 ms, not {format_duration(self.think)}"
        if self.size < 1:
            yield ("size",), "must be at least 1 B"
        if not LEAST_SHAPE <= self.shape <= _LARGEST_SHAPE:
            sentence = f"must be from {LEAST_SHAPE} to {_LARGEST_SHAPE}, not {self.shape:g}"
            yield ("shape",), sentence
        if self.largest < self.size:
            largest, size = format_size(self.largest), format_size(self.size)
            yield ("largest",), f"must be at least size ({size}), not {largest}"


class Traffic(SpecModel):
    """Long-lived flows that always have data to send; with `users`, closed-loop users.

    Time 0 is the earliest start of a flow. Metrics cover the time from `warmup` to `warmup` +
    `duration`, when the senders stop.
    """

    generator: Generator | None = None
    """`native`, fast in virtual time, or `iperf3`. Default: `native` on testbed `uml` and with
    `groups`, else `iperf3`."""
    ip: Ip | None = None
    """Version of IP of flows, groups and probes. Default: 4."""
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
    tcp_info: Duration | None = None
    """Interval at which `TCP_INFO` of every flow is sampled, from 1 ms to `duration`, with
    generator `native` only: congestion window, RTT and rates over time. Default: at the ends of the
    measured time alone."""
    groups: dict[GroupName, Group] | None = Field(
        default=None, min_length=1, json_schema_extra=refuse_other_names
    )
    """Groups of flows by name, in place of the matrix's `flows`: a lower-case letter, then up to
    seven lower-case letters or digits. Each has a sender and a receiver of its own; needs topology
    `chain` and generator `native`. Default: one kind of flows."""
    probes: dict[ProbeName, AnyProbe] | None = Field(
        default=None, min_length=1, json_schema_extra=refuse_other_names
    )
    """Probes by name, named as groups are: what an application feels beside the groups, which they
    need. Each has hosts of its own. Default: none."""
    users: Users | None = None
    """Makes each of the matrix's `flows` a user. The send buffer grows with the window, to twice
    `socket_buffer` at most. Needs `captures: false`. Default: long-lived flows."""

    @property
    def captured(self) -> bool:
        """Whether packets are captured."""
        return self.captures is not False

    @property
    def native_only(self) -> bool:
        """Whether a key needs the native generator."""
        return not self.captured or self.tcp_info is not None or self.groups is not None

    @property
    def hosts(self) -> tuple[Hosts, ...]:
        """The machines of groups and probes; empty without groups."""
        groups, probes = self.groups or {}, self.probes or {}
        return (
            *(
                Hosts(k, one.direction, one.rtt, self.ip_of(one), offloads=one.offloads)
                for k, one in groups.items()
            ),
            *(
                Hosts(k, one.way, one.rtt, self.ip_of(one), probes=True)
                for k, one in probes.items()
            ),
        )

    @property
    def ipv6_key(self) -> KeyPath | None:
        """The first key that requests IPv6."""
        given: dict[KeyPath, Ip | None] = {("ip",): self.ip}
        for key in ("groups", "probes"):
            given |= {(key, k, "ip"): one.ip for k, one in (getattr(self, key) or {}).items()}
        return next((path for path, ip in given.items() if ip == 6), None)

    def ip_of(self, one: Group | Probe) -> Ip:
        """Give the version of IP of a group or a probe."""
        return one.ip or self.ip or 4

    @property
    def flows(self) -> int | None:
        """Number of flows of all groups; None without groups."""
        return None if self.groups is None else sum(one.flows for one in self.groups.values())

    @property
    def end(self) -> float:
        """When the senders stop, seconds."""
        return self.warmup + self.duration

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield an error if a flow could start in the measured time, or nothing is measured."""
        if self.groups is None and self.start_spread > self.warmup:
            spread, warmup = format_duration(self.start_spread), format_duration(self.warmup)
            yield ("start_spread",), f"must be at most warmup ({warmup}), not {spread}"
        if self.duration < 0.001:
            yield ("duration",), f"must be at least 1 ms, not {format_duration(self.duration)}"
        if not 10_000 <= self.socket_buffer <= LARGEST_BUFFER:
            sentence = f"must be from 10 kB to 1 GB, not {format_size(self.socket_buffer)}"
            yield ("socket_buffer",), sentence
        if not self.captured and self.generator == "iperf3":
            sentence = "iperf3 needs captures, as it does not read TCP_INFO: use generator: native"
            yield ("captures",), sentence
        yield from self._sample_problems()
        if self.users is not None and self.captured:
            yield ("users",), "needs captures: false"
        yield from self._group_problems(self.groups or {})

    def _sample_problems(self) -> Iterator[tuple[KeyPath, str]]:
        if self.tcp_info is None:
            return
        if self.tcp_info < 0.001:
            yield ("tcp_info",), f"must be at least 1 ms, not {format_duration(self.tcp_info)}"
        if self.tcp_info > max(self.duration, 0.001):
            bound = f"duration ({format_duration(self.duration)})"
            sentence = f"must be at most {bound}, not {format_duration(self.tcp_info)}"
            yield ("tcp_info",), sentence
        if self.generator == "iperf3":
            yield ("tcp_info",), "iperf3 does not read TCP_INFO: use generator: native"
        if self.users is not None:
            yield ("tcp_info",), "has no effect on users; remove it"

    def _probe_problems(self, groups: Mapping[str, Group]) -> Iterator[tuple[KeyPath, str]]:
        """Yield probes without groups, of a group's name, or past the end."""
        if self.probes and not groups:
            yield ("probes",), "needs groups, beside which probes have hosts of their own"
        end, probes = format_duration(self.end), self.probes or {}
        own = [one.ip for one in groups.values()] + [one.ip for one in probes.values()]
        if groups and self.ip and all(own):
            yield ("ip",), "has no effect: each group and probe has its own; remove it"
        loops = sum(probe.flows for probe in probes.values() if isinstance(probe, Exchanges))
        if loops > MOST_SENDING:
            yield ("probes",), f"have {loops} flows; at most {MOST_SENDING}"
        for name, probe in probes.items():
            if name in groups:
                yield ("probes", name), "is a group's name too; choose another name"
            if probe.start >= self.end or (probe.stop or 0) > self.end:
                key = "start" if probe.start >= self.end else "stop"
                yield ("probes", name, key), f"must be before the end of the run ({end})"
            size, least = getattr(probe, "size", SMALLEST_IPV6), SMALLEST_IPV6
            if self.ip_of(probe) == 6 and size < least:
                yield (
                    ("probes", name, "size"),
                    f"must be at least {least} B with IPv6, not {size} B",
                )

    def _group_problems(self, groups: Mapping[str, Group]) -> Iterator[tuple[KeyPath, str]]:
        """Yield groups that could not send, and what excludes groups."""
        if groups and self.users is not None:
            yield ("users",), "cannot be combined with groups; remove one of them"
        if groups and self.generator == "iperf3":
            yield ("generator",), "iperf3 has no groups: use generator: native"
        if groups and not self.captured:
            yield ("captures",), "groups need captures: remove captures: false"
        if groups and not self.flows:
            yield ("groups",), "have no flows: set flows of one group to 1 or more"
        if (flows := self.flows or 0) > MOST_SENDING:
            yield ("groups",), f"have {flows} flows; at most {MOST_SENDING}"
        if (hosts := len(self.hosts)) > MOST_PAIRS:
            yield ("groups",), f"are {hosts} with the probes; at most {MOST_PAIRS}"
        yield from self._probe_problems(groups)
        end = format_duration(self.end)
        for name, group in groups.items():
            spread = self.start_spread if group.start_spread is None else group.start_spread
            last = group.start + spread
            if last >= (self.end if group.stop is None else group.stop):
                until = "the end of the run" if group.stop is None else "stop"
                at = format_duration(self.end if group.stop is None else group.stop)
                sentence = f"flows may start until {format_duration(last)}, after {until} ({at})"
                yield ("groups", name, "start"), f"{sentence}; start plus start_spread must be less"
            if group.stop is not None and group.stop > self.end:
                sentence = f"must be at most {end} (warmup plus duration)"
                yield ("groups", name, "stop"), f"{sentence}, not {format_duration(group.stop)}"
