"""Queue kinds: a class per kind, a row per class in `KINDS`."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from tcpf_lab.base.units import Probability, Size, format_probability
from tcpf_lab.spec.words import AF11, Dscp, KeyPath, OneOf, SpecModel, tc_value


class Child(NamedTuple):
    """A queue inside the queue under test.

    ``words`` follow ``tc qdisc add dev X parent PARENT handle HANDLE``; ``shown`` are options that
    ``tc -d -j qdisc show`` must show of it.
    """

    parent: str
    handle: str
    words: tuple[str, ...]
    shown: dict[str, Any]


class Queue(SpecModel):
    """The queue at the bottleneck; its keys are the words that ``tc`` uses."""

    #: The project's own kernel modules that the kind needs, in the order of loading.
    modules: ClassVar[tuple[str, ...]] = ()
    #: Whether packets leave in the order in which they came, so that `limit` bounds their stay.
    in_order: ClassVar[bool] = True
    #: Keys that change nothing of the queue, each with the key that does.
    overruled: ClassVar[dict[str, str]] = {}

    kind: str
    limit: Size
    """Capacity; a packet that does not fit is dropped."""

    @abstractmethod
    def tc(self, rate: int, seed: int) -> tuple[str, ...]:
        """Give the words that follow ``tc qdisc add dev X parent Y handle Z``.

        Parameters
        ----------
        rate : int
            Rate at which the queue is drained, bit/s.
        seed : int
            The run's seed, for a queue that draws random numbers of its own.
        """

    @abstractmethod
    def shown(self, rate: int, seed: int) -> dict[str, Any]:
        """Give the options that ``tc -d -j qdisc show`` must show once the queue is in force."""

    @property
    def qdisc(self) -> str:
        """What the kernel calls it."""
        return self.kind

    @property
    def marks(self) -> bool:
        """Whether it is configured to mark ECN-capable packets instead of dropping them."""
        return False

    def children(self, rate: int, seed: int) -> tuple[Child, ...]:  # noqa: ARG002
        """Give the queues inside, in the order of adding; the queue under test is ``2:``."""
        return ()


class Bfifo(Queue):
    """Tail drop (Linux ``bfifo``)."""

    kind: Literal["bfifo"]
    """Tail drop, limited in bytes."""

    def tc(self, rate: int, seed: int) -> tuple[str, ...]:  # noqa: ARG002 - neither matters to a FIFO
        """Give the words that follow ``tc qdisc add dev X parent Y handle Z``."""
        return ("bfifo", "limit", str(self.limit))

    def shown(self, rate: int, seed: int) -> dict[str, int | float | str | bool]:  # noqa: ARG002
        """Give the options that ``tc -d -j qdisc show`` must show."""
        return {"limit": self.limit}


#: tc passes the probability on in 32 bits, in which 1 would wrap around to 0.
_LARGEST_PROBABILITY = 1 - 2.0**-32


class Red(Queue):
    """RED on the backlog in bytes, not gentle, without ECN (Linux ``red``; Floyd & Jacobson 1993).

    ``min`` must be more than ``avpkt`` and less than ``max``, and ``max`` not more than ``limit``.

    Notes
    -----
    The kernel averages with a weight of ``2**-Wlog``; ``tc`` has no word for the weight and works
    Wlog out from ``burst``, ``min`` and ``avpkt`` (`wlog`).  Left to itself it would also choose
    ``burst`` from ``max``, and so 16 packets and a weight of 1/8 for thresholds of 10 and 30 kB:
    a badly tuned queue would then differ from a good one in two ways at once.  A burst of 73
    packets, given always, is Wlog 9 for both, a weight of 1/512; the
    RED paper has 0.002.
    """

    kind: Literal["red"]
    """Random Early Detection."""
    min: Size
    """Minimum threshold: average queue from which packets are dropped at random."""
    max: Size
    """Maximum threshold: average queue from which every packet is dropped."""
    probability: Probability
    """Maximum drop probability, just below `max`, before RED spreads drops evenly."""
    burst: int = Field(default=73, ge=1, le=1_000_000)
    """Packets of `avpkt` from which `tc` derives the weight of the average; 73 gives 1/512 for a
    `min` of 10 kB."""
    avpkt: Size = 1000
    """Packet size for `burst` and for ageing the average in idle time."""

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield what ``tc`` or the kernel would refuse, or silently replace."""
        if self.min >= self.max:
            yield ("min",), "must be less than max"
        if self.max > self.limit:
            yield ("max",), "must not be more than limit"
        if self.probability == 0:
            yield ("probability",), "must be more than 0"
        elif self.min < self.max and self.probability / (self.max - self.min) * 2**31 <= 1:
            yield ("probability",), "is too small for tc to pass on, given max - min"
        if self.min <= self.avpkt:
            yield ("min",), "must be more than avpkt, or tc finds no weight for the average"
        elif self.min < self.max and self.wlog is None:
            least = math.ceil(self.min / self.avpkt)
            yield ("burst",), f"must be at least {least}, which is min in packets of avpkt"
        elif self.wlog and self.max.bit_length() + self.wlog >= 32:
            yield ("max",), f"is too large for the kernel's fixed-point average (Wlog {self.wlog})"

    @property
    def wlog(self) -> int | None:
        """Wlog as ``tc`` derives it (weight ``2**-Wlog``), or None where ``tc`` gives up.

        The smallest Wlog from 1 to 31 with
        ``burst + 1 - min/avpkt <= (1 - (1 - W)**burst) / W``.
        """
        room = self.burst + 1 - self.min / self.avpkt
        if room < 1:
            return None
        for wlog in range(1, 32):
            weight = 2.0**-wlog
            if room <= (1 - (1 - weight) ** self.burst) / weight:
                return wlog
        return None

    def tc(self, rate: int, seed: int) -> tuple[str, ...]:  # noqa: ARG002 - the kernel's own randomness
        """Give the words that follow ``tc qdisc add dev X parent Y handle Z``."""
        sizes = (("limit", self.limit), ("min", self.min), ("max", self.max), ("avpkt", self.avpkt))
        words = [word for key, size in sizes for word in (key, str(size))]
        probability = format_probability(min(self.probability, _LARGEST_PROBABILITY))
        words += ["burst", str(self.burst), "probability", probability, "bandwidth", f"{rate}bit"]
        return ("red", *words)

    def shown(self, rate: int, seed: int) -> dict[str, int | float | str | bool]:  # noqa: ARG002
        """Give the options that ``tc -d -j qdisc show`` must show; ``ewma`` is Wlog."""
        assert self.wlog is not None  # held by `problems`
        sizes = {"limit": self.limit, "min": self.min, "max": self.max}
        return {**sizes, "ewma": self.wlog, "probability": self.probability}


#: The longest of the kernel's averages, TC_PRECEDENCE_EWMA_MAX: a weight of ``2**-31``.
LARGEST_EWMA = 31


class Precedence(Queue):
    """Thresholds on average backlogs in bytes for packets in-profile (IN) and all others (OUT)."""

    in_min: Size
    """Minimum threshold of IN: average queue from which IN packets are dropped at random; at most
    `in_max`."""
    in_max: Size
    """Maximum threshold of IN: average queue from which every IN packet is dropped; at most
    `limit`."""
    in_probability: Probability
    """Maximum drop probability of IN, just below `in_max`; it grows linearly from 0 at `in_min`."""
    out_min: Size
    """Minimum threshold of OUT: average queue from which OUT packets are dropped at random; at most
    `out_max`."""
    out_max: Size
    """Maximum threshold of OUT: average queue from which every OUT packet is dropped; at most
    `limit`."""
    out_probability: Probability
    """Maximum drop probability of OUT, just below `out_max`; it grows linearly from 0 at
    `out_min`."""
    ewma: int = Field(default=9, ge=0, le=LARGEST_EWMA)
    """Weight of the averages, 2^-ewma: 9 is 1/512, 0 the current backlog."""
    avpkt: Size = 1000
    """Packet size for ageing the averages in idle time."""
    in_: Dscp = Field(default=AF11, alias="in")
    """Code point of IN, name or number; every other one is OUT."""

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield thresholds in the wrong order."""
        for side in ("in", "out"):
            least, most = getattr(self, f"{side}_min"), getattr(self, f"{side}_max")
            if least > most:
                yield (f"{side}_min",), f"must not be more than {side}_max"
            if most > self.limit:
                yield (f"{side}_max",), "must not be more than limit"

    def tc(self, rate: int, seed: int) -> tuple[str, ...]:
        """Give the words that follow ``tc qdisc add dev X parent Y handle Z``."""
        given = {key: value for key, value in self.values().items() if key != "kind"}
        words = [word for key, value in given.items() for word in (key, tc_value(value))]
        return (self.kind, *words, "bandwidth", f"{rate}bit", "seed", str(seed))

    def shown(self, rate: int, seed: int) -> dict[str, int | float | str | bool]:
        """Give the options that ``tc -d -j qdisc show`` must show; bandwidth in bytes/s."""
        given = {key: value for key, value in self.values().items() if key != "kind"}
        return {**given, "bandwidth": rate // 8, "seed": seed}


class Rio(Precedence):
    """RIO: two sets of RED thresholds over one FIFO (Clark & Fang 1998); module `sch_rio`.

    Without marks it is RED with the OUT thresholds.
    """

    modules: ClassVar[tuple[str, ...]] = ("sch_rio",)

    kind: Literal["rio"]
    """RED with IN and OUT."""
    mode: Literal["coupled", "decoupled", "wred"] = "coupled"
    """Average queue for OUT: total (`coupled`, RIO-C) or OUT only (`decoupled`, RIO-D); for IN it
    is IN only. `wred`: total for both."""
    uniformize: Literal["none", "red"] = "red"
    """Distances between drops: even, as in RED (`red`), or independent (`none`)."""


#: What the queue's table may hold in the kernel, TC_FRIO_FLOWS_MAX.
MOST_QUEUED_FLOWS = 2**20
#: In bytes, TC_FRIO_AVPKT_MAX.
LONGEST_AVPKT = 65535
#: TC_FRIO_MINQ_MAX.
MOST_MINQ = 65535


class Frio(Precedence):
    """FRIO: FRED (Lin & Morris 1997) once for IN and once for OUT; module `sch_frio`.

    Without marks it is FRED with the OUT thresholds. `avpkt` is at most 65535 B.
    """

    modules: ClassVar[tuple[str, ...]] = ("sch_frio",)

    kind: Literal["frio"]
    """FRED with IN and OUT."""
    mode: Literal["coupled", "decoupled"] = "coupled"
    """Average queue for OUT: total (`coupled`) or OUT only (`decoupled`)."""
    share: Literal["instant", "average"] = "instant"
    """A flow's fair share is part of the current backlog (`instant`) or of its average
    (`average`)."""
    many_flows: bool = False
    """Let every flow queue two packets where the average is at `max` or above."""
    minq: int = Field(default=2, ge=0, le=MOST_MINQ)
    """Packets of `avpkt` that a flow may queue before it is dropped at random."""
    flows: int = Field(default=65536, ge=1, le=MOST_QUEUED_FLOWS)
    """Maximum number of flows with a record of their own; all others share one."""

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield what every such queue refuses, and packets longer than this one can count."""
        yield from super().problems()
        if self.avpkt > LONGEST_AVPKT:
            yield ("avpkt",), f"must be at most {LONGEST_AVPKT} B"


#: The code point that goes first (RFC 3246).
EF = 46
#: ``TC_PRIO_INTERACTIVE_BULK``: the priority at which Linux forwards EF (``ip_tos2prio``).
_EF_PRIORITY = 4
_PRIORITIES = 16
#: EF's own queue, which is never to drop: more bytes than any run sends within a second, bytes.
UNLIMITED = 2**30


def goes_first(dscp: int) -> bool:
    """Tell whether a code point is in EF's band.

    Linux gives a forwarded packet its priority by the lower bits of the code point, as the type of
    service of RFC 1349 had them: all code points like EF in two of them share its priority.

    Examples
    --------
    >>> [code for code in (0, 10, 12, 14, 46) if goes_first(code)]
    [14, 46]
    """
    return dscp & 6 == EF & 6


class Prio(Queue):
    """Non-preemptive strict priority (Linux ``prio``): EF first, then a FIFO for everything else.

    EF's FIFO never drops. Linux distinguishes code points by two bits here: AF13, AF23, AF33 and
    AF43 share EF's band.
    """

    in_order: ClassVar[bool] = False

    kind: Literal["prio"]
    """Strict priority for EF; `limit` is for everything else."""

    @property
    def _map(self) -> list[int]:
        return [0 if priority == _EF_PRIORITY else 1 for priority in range(_PRIORITIES)]

    def tc(self, rate: int, seed: int) -> tuple[str, ...]:  # noqa: ARG002 - neither matters
        """Give the words that follow ``tc qdisc add dev X parent Y handle Z``."""
        return ("prio", "bands", "2", "priomap", *map(str, self._map))

    def shown(self, rate: int, seed: int) -> dict[str, Any]:  # noqa: ARG002
        """Give the options that ``tc -d -j qdisc show`` must show."""
        return {"bands": 2, "priomap": self._map}

    def children(self, rate: int, seed: int) -> tuple[Child, ...]:  # noqa: ARG002
        """Give the FIFO of each band."""
        return tuple(
            Child(f"2:{band}", f"{band + 2}:", ("bfifo", "limit", str(limit)), {"limit": limit})
            for band, limit in ((1, UNLIMITED), (2, self.limit))
        )


_KIND = re.compile(r"[a-z][a-z0-9_]{0,14}", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9_.:%/+-]+", re.ASCII)
LONGEST = 300
#: The project's own: their words name seed and rate, and their modules have to be loaded.
_OURS = ("rio", "frio")
#: What can only be the root of a device, or holds no packets.
_ROOTS = ("clsact", "ingress", "mq", "mqprio", "noqueue")
#: Words with which a qdisc marks.
_MARKING = frozenset(("ecn", "ce_threshold"))


class Tc(Queue):
    """Any queue discipline of the kernel, in the syntax of ``tc``.

    The kernel must report its name in force; its options are not read back.
    """

    in_order: ClassVar[bool] = False
    overruled: ClassVar[dict[str, str]] = {"limit": "words"}

    kind: Literal["tc"]
    """Any qdisc. `words` alone configures it; `limit` states what it can hold, which gives the time
    that it may take to drain."""
    words: str = Field(max_length=LONGEST)
    """What follows `tc qdisc add dev X parent Y handle Z`, such as `fq_codel limit 1000 target
    5ms`."""

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield words that are not those of one queue."""
        kind, *rest = self.words.split(" ")
        if not _KIND.fullmatch(kind):
            yield ("words",), "must begin with the name of a qdisc, such as fq_codel"
        elif kind in _OURS:
            yield ("words",), f"{kind} has a kind of its own: write {{kind: {kind}, ...}}"
        elif kind in _ROOTS:
            yield ("words",), f"{kind} cannot be the queue of a bottleneck"
        elif wrong := [word for word in rest if not _WORD.fullmatch(word)]:
            sentence = "must be words of tc with one space between them: letters, digits, _.:%/+-"
            yield ("words",), f"{wrong[0]!r}: {sentence}" if wrong[0] else sentence

    @property
    def qdisc(self) -> str:
        """What the kernel calls it."""
        return self.words.partition(" ")[0]

    @property
    def marks(self) -> bool:
        """Whether a word requests marks; what a kernel marks by default, nobody configured."""
        return not _MARKING.isdisjoint(self.words.split(" "))

    def tc(self, rate: int, seed: int) -> tuple[str, ...]:  # noqa: ARG002 - in the kernel's randomness
        """Give the words that follow ``tc qdisc add dev X parent Y handle Z``."""
        return tuple(self.words.split(" "))

    def shown(self, rate: int, seed: int) -> dict[str, Any]:  # noqa: ARG002
        """Nothing: what a qdisc shows is not always what it was told."""
        return {}


KINDS: dict[str, type[Queue]] = {
    "red": Red,
    "bfifo": Bfifo,
    "rio": Rio,
    "frio": Frio,
    "prio": Prio,
    "tc": Tc,
}

#: A queue of any kind, as an experiment file holds it.
AnyQueue = Annotated[Queue, OneOf(KINDS)]
