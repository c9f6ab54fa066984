"""Background: sources of UDP packets that share the bottleneck with the flows under study.

Paper 001, section 2.1.2: higher-priority traffic as an on-off source with exponential on- and
off-durations that sends at its link's rate while on, a constant-rate source as the reference, and
best-effort UDP.  A source has a link of its own to the bottleneck's router; what passes the
bottleneck is thrown away behind it, so that nothing comes back.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from tcpf_lab.base.units import Duration, Probability, Rate, Size, format_duration, format_rate
from tcpf_lab.spec.graph import ETHERNET_HEADER, SLOWEST, Graph, Link, Node
from tcpf_lab.spec.topology import Topology
from tcpf_lab.spec.words import Dscp, KeyPath, OneOf, SpecModel

#: The shortest packet that a link may be made for, bytes.
_SHORTEST = 68
#: What a source's link holds, bytes: more than the kernel lets wait of one socket of `tcpf-source`.
QUEUE = 8 * 2**20
_NS = 10**9
#: What `tcpf-source` waits from one packet or burst to the next, at most, s.
_LONGEST = 86400


class Source(SpecModel):
    """What every source has."""

    kind: str
    share: Probability
    """Mean fraction of the bottleneck's rate, Ethernet headers included."""
    packet: Size = 1500
    """Length of an IP packet, 68 B to the path's `mtu`."""
    dscp: Dscp = 0
    """Code point, such as `EF`."""

    @property
    def frame(self) -> int:
        """What a packet weighs, bytes."""
        return self.packet + ETHERNET_HEADER

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield what no source could be."""
        if not 0 < self.share < 1:
            yield ("share",), f"must be more than 0 and less than 1, not {self.share:g}"
        if not _SHORTEST <= self.packet <= 9000:
            sentence = f"must be from {_SHORTEST} B to 9000 B, not {self.packet} B"
            yield ("packet",), sentence

    @property
    def longest_burst(self) -> float:
        """Give what a burst does not exceed in any run, s."""
        return 0.0

    def link_rate(self, bottleneck: int) -> int:
        """Give the rate of the source's link, bit/s."""
        return bottleneck

    def misfits(self, bottleneck: int) -> Iterator[tuple[KeyPath, str]]:
        """Yield why it cannot have its share of a bottleneck of that rate, bit/s."""
        del bottleneck
        yield from ()

    @abstractmethod
    def words(self, bottleneck: int) -> tuple[str, ...]:
        """Give the words that tell ``tcpf-source`` when to send at that rate, bit/s."""


class OnOff(Source):
    """On-off source: bursts at the link's rate, exponential lengths, exponential gaps.

    The mean gap is `on` (1 - f) / f, where f is `share` times the bottleneck's rate by `rate`. A
    burst has as many packets as fit, on average. Random numbers depend on the seed and the source's
    name alone; another `on` scales them.
    """

    kind: Literal["onoff"]
    """Exponential bursts and gaps."""
    on: Duration
    """Mean length of a burst, 10 us to 100 s."""
    rate: Rate | None = None
    """Rate of the source's link. Default: the bottleneck's."""

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield what no source could be."""
        yield from super().problems()
        if not 1e-5 <= self.on <= 100:
            yield ("on",), f"must be from 10 us to 100 s, not {format_duration(self.on)}"
        if self.rate is not None and self.rate < SLOWEST:
            yield ("rate",), f"must be at least 1 kbit, not {format_rate(self.rate)}"

    @property
    def longest_burst(self) -> float:
        """Give what a burst does not exceed in any run, s: exp(-30) is one in 10^13."""
        return 30 * self.on

    def link_rate(self, bottleneck: int) -> int:
        """Give the rate of the source's link, bit/s."""
        return bottleneck if self.rate is None else self.rate

    def misfits(self, bottleneck: int) -> Iterator[tuple[KeyPath, str]]:
        """Yield that the link is too slow for the share."""
        if self.link_rate(bottleneck) <= self.share * bottleneck:
            needed = format_rate(round(self.share * bottleneck))
            sentence = f"must be more than {needed}, which is share times the bottleneck's rate"
            yield ("rate",), f"{sentence}; it is {format_rate(self.link_rate(bottleneck))}"
        elif self._gap(bottleneck) > _LONGEST * _NS:
            yield ("on",), "is too long for this share: silences would last more than a day"

    def _gap(self, bottleneck: int) -> int:
        """Give the mean silence, ns."""
        busy = self.share * bottleneck / self.link_rate(bottleneck)
        return round(self.on * _NS * (1 - busy) / busy)

    def words(self, bottleneck: int) -> tuple[str, ...]:
        """Give the words that tell ``tcpf-source`` when to send."""
        burst, gap = round(self.on * _NS), self._gap(bottleneck)
        return ("--burst", str(burst), "--gap", str(gap), "--rate", str(self.link_rate(bottleneck)))


class Cbr(Source):
    """Constant bit rate: one packet each period, the first at a random time in the first period."""

    kind: Literal["cbr"]
    """Constant bit rate."""

    def misfits(self, bottleneck: int) -> Iterator[tuple[KeyPath, str]]:
        """Yield that packets are too rare."""
        if self._every(bottleneck) > _LONGEST * _NS:
            yield ("share",), "is too small: less than one packet a day"

    def _every(self, bottleneck: int) -> int:
        """Give the period, ns."""
        return round(self.frame * 8 * _NS / (self.share * bottleneck))

    def words(self, bottleneck: int) -> tuple[str, ...]:
        """Give the words that tell ``tcpf-source`` when to send."""
        return ("--every", str(self._every(bottleneck)))


#: Kinds of sources.
KINDS: dict[str, type[Source]] = {"onoff": OnOff, "cbr": Cbr}
#: Its machine is called the same in capital letters.
SOURCE_NAME = r"^[a-z][a-z0-9]{0,5}$"
SourceName = Annotated[str, Field(pattern=SOURCE_NAME)]
AnySource = Annotated[Source, OneOf(KINDS)]
Background = dict[SourceName, AnySource]


def refuse_other_names(schema: dict[str, Any]) -> None:
    """Let the JSON Schema of a case's background refuse a name that is none, as the model does."""
    for form in schema["anyOf"]:
        if form.get("type") == "object":
            form["additionalProperties"] = False


def node_of(name: str) -> str:
    """Name the machine of a source.

    Examples
    --------
    >>> node_of("ef")
    'EF'
    """
    return name.upper()


def with_sources(graph: Graph, sources: Mapping[str, Source]) -> Graph:
    """Add the sources' machines, each with a link to the bottleneck's router.

    Their links come last, so that nothing else gets another address by them.
    """
    narrow = graph.bottleneck
    nodes = tuple(Node(node_of(name), "source") for name in sources)
    links = tuple(
        Link(
            node_of(name),
            narrow.a,
            source.link_rate(narrow.rate),
            *(0.0, 0.0),
            source.packet,
            QUEUE,
        )
        for name, source in sources.items()
    )
    return replace(graph, nodes=(*graph.nodes, *nodes), links=(*graph.links, *links))


def problems(topology: Topology, sources: Mapping[str, Source]) -> Iterator[tuple[KeyPath, str]]:
    """Yield what is wrong with the sources of one case on a topology; paths begin with a name."""
    graph = topology.graph()
    narrow = [link for link in graph.links if link.bottleneck]
    if len(narrow) != 1:
        yield (), f"is supported with one bottleneck only; this topology has {len(narrow)}"
        return
    if narrow[0].changing:
        yield (), "takes shares of a bottleneck of one rate: write no schedule or trace of it"
    taken = {node.name for node in graph.nodes}
    for name, source in sources.items():
        if node_of(name) in taken:
            sentence = f"the topology already has a node {node_of(name)}; choose another name"
            yield (name,), sentence
        if source.packet > (mtu := narrow[0].mtu):
            yield (name, "packet"), f"must be at most mtu ({mtu} B), not {source.packet} B"
        yield from (((name, *path), text) for path, text in source.misfits(narrow[0].rate))
    whole = sum(source.share for source in sources.values())
    if whole >= 1:
        yield (), f"the sum of the shares must be less than 1, not {whole:g}"
