"""An experiment: everything that decides what is measured, and nothing about where."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import Field

from tcpf_lab.base.units import format_duration, format_size
from tcpf_lab.spec.background import SOURCE_NAME, Background, refuse_other_names
from tcpf_lab.spec.background import problems as background_problems
from tcpf_lab.spec.changing import changes_of
from tcpf_lab.spec.graph import ETHERNET_HEADER, SMALLEST_IPV6_MTU, Graph
from tcpf_lab.spec.group import GROUP_NAME, SYSCTL
from tcpf_lab.spec.marker import AnyMarker, Meter, NoMarker
from tcpf_lab.spec.matrix import Matrix
from tcpf_lab.spec.queue import AnyQueue, Precedence, Prio, goes_first
from tcpf_lab.spec.tcp import CONGESTION, Tcp
from tcpf_lab.spec.topology import Chain, Topology
from tcpf_lab.spec.traffic import Generator, Traffic
from tcpf_lab.spec.words import KeyPath, SpecModel, format_dscp, unknown

#: Stands for every case in the matrix, so no case may have this name.
ALL = "all"

#: What a directory of results may be called.
NAME = r"^[A-Za-z0-9][A-Za-z0-9_+-]{0,59}$"
_CASE = r"^[A-Za-z0-9][A-Za-z0-9 _()+-]{0,59}$"
#: Neither control characters nor what makes a terminal or a page show text in another order.
_TITLE = r"^[^\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff]{0,200}$"

#: A kernel that the user has registered: no version looks like this.
KERNEL_NAME = r"[A-Za-z][A-Za-z0-9_+-]{0,31}"
#: That, or a version of Linux: text, as 6.1 is not 6.10.
_LINUX = rf"^([1-9][0-9]{{0,2}}\.[0-9]{{1,3}}|{KERNEL_NAME})$"

#: What each pattern means, for messages.
PATTERNS = {
    _LINUX: "a version of Linux in quotes, such as '6.12', or the name of a registered kernel",
    NAME: "1 to 60 letters, digits or any of _+-, the first a letter or a digit",
    _CASE: "1 to 60 letters, digits, spaces or any of _()+-, the first a letter or a digit",
    _TITLE: "one line of at most 200 characters, without control characters",
    SOURCE_NAME: "1 to 6 lower-case letters and digits, the first a letter",
    GROUP_NAME: "1 to 8 lower-case letters and digits, the first a letter",
    SYSCTL: "the kernel's name below net.core, net.ipv4 or net.ipv6",
    CONGESTION: "the kernel's name in lower case, such as reno or cubic",
}

Name = Annotated[str, Field(pattern=NAME)]
CaseName = Annotated[str, Field(pattern=_CASE)]
Title = Annotated[str, Field(pattern=_TITLE)]


def case_slug(name: str) -> str:
    """Turn a case name into the part of a run id: lower case, path-safe.

    Examples
    --------
    >>> case_slug("TCPF(O)+RIO")
    'tcpf-o+rio'
    """
    dashed = re.sub(r"[^a-z0-9+]+", "-", name.lower())
    return re.sub(r"-*\+-*", "+", dashed).strip("-")


class Reference(SpecModel):
    """Published results: exactly one of `config` and `paper`."""

    config: Literal["A", "B", "C", "D"] | None = None
    """Configuration of Chapter 4; its published values stand beside the measured ones."""
    paper: Literal["001", "003", "004", "ware", "rrul", "dualq"] | None = None
    """Paper whose figures and claims get a page in the report: `001` (EF traffic), `003` (router
    buffers), `004` (model of RIO), `ware` (BBR beside loss-based flows), `rrul` (latency under
    load), `dualq` (DualPI2)."""

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield a reference to nothing, or to two things."""
        if (self.config is None) == (self.paper is None):
            yield (), "needs exactly one of: config, paper"


class Case(SpecModel):
    """A row of the tables: a marker and a queue."""

    marker: AnyMarker = NoMarker(kind="none")
    """`none`, or a mapping with a `kind`."""
    queue: AnyQueue
    """Queue under test: a mapping with a `kind`."""
    background: Background | None = Field(
        default=None, min_length=1, json_schema_extra=refuse_other_names
    )
    """UDP sources at the bottleneck, by name: a lower-case letter, then up to five lower-case
    letters or digits. Default: none."""

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield a queue that takes what is marked for something else."""
        marker, queue = self.marker, self.queue
        if not isinstance(marker, Meter):
            return
        if isinstance(queue, Prio):
            for side, code in (("in", marker.in_), ("out", marker.out)):
                if goes_first(code):
                    sentence = f"prio puts {format_dscp(code)} into the same band as EF"
                    yield ("marker", side), f"{sentence}; choose another code point"
        if isinstance(queue, Precedence) and queue.in_ != marker.in_:
            marked, known = format_dscp(marker.in_), format_dscp(queue.in_)
            sentence = f"must be {marked}, as the marker's in, not {known}"
            yield ("queue", "in"), f"{sentence}: every packet would count as OUT"


class Experiment(SpecModel):
    """An experiment file."""

    name: Name
    """Directory of the results: letters, digits, `_`, `+` and `-`, at most 60."""
    title: Title = ""
    """One line for the report."""
    question: Title | None = None
    """What the experiment answers: one line on page one of the report. Left out, the report asks
    about what varies."""
    reference: Reference | None = None
    """Published results to compare with. Default: none."""
    kernel: Annotated[str, Field(pattern=_LINUX)] | None = None
    """Version of Linux that the runs need, in quotes: `'7.3'`, or a name that `tcpf-lab kernel add`
    has registered. In virtual time the kernel is built, of a version from the package of its
    source; hosts must run the version. Default: 6.12 in virtual time, any on hosts."""
    topology: Topology
    """Machines and links."""
    tcp: Tcp
    """TCP of both ends."""
    traffic: Traffic = Traffic()
    """Flows and their times."""
    cases: dict[CaseName, Case] = Field(
        min_length=1, json_schema_extra={"additionalProperties": False}
    )
    """Cases by name: letters, digits, spaces, `_`, `(`, `)`, `+` and `-`, at most 60."""
    matrix: Matrix
    """Combinations to run."""

    @property
    def selected_cases(self) -> tuple[str, ...]:
        """Names of the cases in the matrix, in order."""
        return tuple(self.cases) if self.matrix.case == (ALL,) else self.matrix.case

    @property
    def graph(self) -> Graph:
        """Machines and links, with the hosts of groups."""
        hosts = self.traffic.hosts
        if not hosts:
            return self.topology.graph().speaking(self.traffic.ip or 4)
        assert self.topology.chain is not None  # held by `problems`
        return self.topology.chain.grouped(hosts)

    @property
    def flows(self) -> tuple[int, ...]:
        """Numbers of flows to run: the matrix's, or that of all groups."""
        total = self.traffic.flows
        return self.matrix.flows if total is None else (total,)

    @property
    def config(self) -> str | None:
        """The configuration of the published tables that this is, if it is one."""
        return self.reference.config if self.reference else None

    @property
    def paper(self) -> str | None:
        """The paper that this is of, if it is of one."""
        return self.reference.paper if self.reference else None

    @property
    def tcps(self) -> tuple[Tcp, ...]:
        """The TCP of the file, and those that an axis of the matrix makes of its recovery."""
        varied = [value for a in self.matrix.axes if a.key == "tcp.recovery" for value in a.values]
        made = (self.tcp.model_copy(update={"recovery": value}) for value in varied)
        return tuple(made) or (self.tcp,)

    def on(self, generator: Generator) -> Experiment:
        """Give the experiment as it is on a testbed with this generator: where it names none."""
        if self.traffic.generator is not None:
            return self
        if self.traffic.native_only:
            generator = "native"
        traffic = self.traffic.model_copy(update={"generator": generator})
        return self.model_copy(update={"traffic": traffic})

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield clashing names, unknown cases, users in a row, queues too small for a packet."""
        yield from name_problems(self.cases, self.matrix.case)
        yield from self._flow_problems()
        yield from self._probe_problems(self.topology.builder.mtu)
        yield from self._late_changes()
        yield from self._ipv6_problems(self.topology.builder.mtu)
        if self.traffic.users is not None and self.topology.parking_lot is not None:
            sentence = "needs topology chain or dumbbell; parking_lot has no users"
            yield ("traffic", "users"), sentence
        yield from islice(self._offload_problems(), 1)
        packet = self.topology.builder.mtu + ETHERNET_HEADER
        for name, case in self.cases.items():
            misfits = case.queue.misfit(packet)
            yield from ((("cases", name, "queue", *path), text) for path, text in misfits)
            if case.background:
                found = background_problems(self.topology, case.background)
                yield from ((("cases", name, "background", *path), text) for path, text in found)

    def _probe_problems(self, mtu: int) -> Iterator[tuple[KeyPath, str]]:
        """Yield probes whose packets would be fragmented."""
        for name, probe in (self.traffic.probes or {}).items():
            size = getattr(probe, "size", 0)
            if size > mtu:
                place = ("traffic", "probes", name, "size")
                yield place, f"must be at most mtu ({mtu} B), not {size} B"

    def _late_changes(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield schedules of the topology that go on past the end of the run."""
        end, builder = self.traffic.end, self.topology.builder
        parts: dict[KeyPath, SpecModel | None] = {(): builder}
        if isinstance(builder, Chain):
            parts |= {("forward",): builder.forward, ("reverse",): builder.reverse}
        for path, part in parts.items():
            for key, value in part.values().items() if part else ():
                late = [time for time in changes_of(value) if time >= end]
                if late:
                    times = f"before the end of the run ({format_duration(end)})"
                    place = ("topology", self.topology.named, *path, key)
                    yield place, f"must change {times}, not at {format_duration(late[0])}"

    def _offload_problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield what takes a packet of several segments for one, or sends none."""
        groups, builder = self.traffic.groups or {}, self.topology.builder
        place: KeyPath = ("topology", self.topology.named, "offloads")
        if builder.offloads in (None, "off"):
            on = (name for name, group in groups.items() if group.offloads == "on")
            if (group := next(on, None)) is None:
                return
            place = ("traffic", "groups", group, "offloads")
            if builder.access_duplex == "half":
                yield place, "must be off with access_duplex: half: its frames have at most mtu"
        yield from self._segment_problems(builder.mtu)
        whole = builder.offloads == "all"
        if whole and not self.traffic.captured:
            sentence = "must be hosts or off with captures: false: the queue counts segments that"
            yield place, f"{sentence} leave and packets of several that it drops"
        for name, case in self.cases.items():
            if isinstance(case.marker, Meter):
                sentence = (
                    f"must be off with the marker of case {name}, which marks one segment at a time"
                )
                yield place, f"{sentence}; remove one of them"
            elif whole and case.background:
                sentence = f"must be hosts or off with background of case {name}"
                yield place, f"{sentence}: its packets are counted among single segments"

    def _segment_problems(self, mtu: int) -> Iterator[tuple[KeyPath, str]]:
        """Yield what makes segments shorter than the path allows, which nothing in a capture tells.

        A sender's segments are at most half of the largest window that it was offered
        (``tcp_bound_to_half_wnd``).
        """
        if self.traffic.socket_buffer < 4 * mtu:
            least = format_size(4 * mtu)
            yield ("traffic", "socket_buffer"), f"must be at least {least} with offloads: 4 packets"
        for name, group in (self.traffic.groups or {}).items():
            for key, value in (group.sysctls or {}).items():
                if key.endswith("tcp_mtu_probing") and str(value) != "0":
                    place = ("traffic", "groups", name, "sysctls", key)
                    yield place, "must be 0 with offloads: probing changes the length of segments"

    def _ipv6_problems(self, mtu: int) -> Iterator[tuple[KeyPath, str]]:
        """Yield links too narrow for IPv6, and code points that strict priority does not see."""
        key = self.traffic.ipv6_key
        if key is not None and mtu < SMALLEST_IPV6_MTU:
            sentence = f"IPv6 needs mtu of at least {SMALLEST_IPV6_MTU} B (RFC 8200), not {mtu} B"
            yield ("traffic", *key), f"{sentence}; change the topology's"
        prio = next((name for name, case in self.cases.items() if isinstance(case.queue, Prio)), "")
        for name, probe in (self.traffic.probes or {}).items():
            code = getattr(probe, "dscp", 0)
            if prio and self.traffic.ip_of(probe) == 6 and goes_first(code):
                sentence = f"{format_dscp(code)} has no effect in case {prio}: Linux gives IPv6 "
                sentence += "packets that it forwards no priority"
                yield ("traffic", "probes", name, "dscp"), f"{sentence}; use ip: 4 or another queue"

    def _flow_problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield numbers of flows that are missing, or given twice; groups that lack their path."""
        total, given = self.traffic.flows, self.matrix.flows
        if total is None and not given:
            written = "flows" in self.matrix.model_fields_set
            missing = "missing key 'flows'; needed: flows"
            yield ("matrix", "flows"), "must not be empty" if written else missing
        if total is not None and given not in ((), (total,)):
            sentence = "has no effect: each of traffic.groups has its own flows"
            yield ("matrix", "flows"), f"{sentence}; remove it"
        chain = self.topology.chain
        if total is not None and chain is None:
            yield ("traffic", "groups"), "needs topology chain, as groups have hosts of their own"
        groups = self.traffic.groups or {}
        down = next((name for name, one in groups.items() if one.direction == "down"), None)
        if chain is None or down is None:
            return
        for key, at in (("reverse", "impairs"), ("ack_queue", "limits")):
            if getattr(chain, key) is not None:
                sentence = f"{at} the queue under test of group {down} (direction: down)"
                yield ("topology", "chain", key), f"{sentence}; remove it, or the direction"


def to_data(experiment: Experiment) -> dict[str, Any]:
    """Give the experiment as plain data: what a file says, with units as text."""
    return experiment.model_dump(mode="json", exclude_none=True, by_alias=True)


def name_problems(names: Iterable[str], wanted: Any) -> Iterator[tuple[KeyPath, str]]:
    """Yield what is wrong with the case names and with the matrix's choice of them.

    Works on the names alone, so that they are checked even where a case itself is wrong.
    """
    names = list(names)
    slugs: dict[str, str] = {}
    for name in names:
        slug = case_slug(name)
        if name == ALL:
            yield ("cases", name), f"'{ALL}' means every case; choose another name"
        if slug in slugs:
            sentence = f"has the same run id as case '{slugs[slug]}' ({slug}); rename one of them"
            yield ("cases", name), sentence
        slugs.setdefault(slug, name)
    chosen = list(wanted) if isinstance(wanted, list | tuple) else [wanted]
    for index, name in enumerate(chosen):
        if name == ALL and len(chosen) > 1:
            sentence = f"'{ALL}' already means every case; remove it or the other names"
            yield ("matrix", "case", index), sentence
        elif isinstance(name, str) and name not in (ALL, *names):
            yield ("matrix", "case", index), unknown(f"unknown case '{name}'", name, (ALL, *names))
