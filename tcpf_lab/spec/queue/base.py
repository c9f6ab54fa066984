"""What every queue kind has, and the parameters of the kernel's own kinds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

from tcpf_lab.base.units import Size, format_duration, format_probability, format_size
from tcpf_lab.spec.words import KeyPath, SpecModel, tc_time


class Bottleneck(NamedTuple):
    """Where a queue stands.

    Attributes
    ----------
    rate : int
        Rate at which the queue is drained, bit/s.
    seed : int
        The run's seed, for a queue that draws random numbers of its own.
    frame : int
        The longest frame, Ethernet header included, bytes.
    """

    rate: int
    seed: int
    frame: int = 1514


class Child(NamedTuple):
    """A queue inside the queue under test.

    ``words`` follow ``tc qdisc add dev X parent PARENT handle HANDLE``; ``shown`` are options that
    ``tc -d -j qdisc show`` must show of it.
    """

    parent: str
    handle: str
    words: tuple[str, ...]
    shown: dict[str, Any]


#: Of `Queue.counters`: packets that the queue counts as marked though nothing can mark them.
NOT_CAPABLE = "not_ecn_capable"


class Queue(SpecModel):
    """The queue at the bottleneck; its keys are the words that ``tc`` uses.

    Notes
    -----
    ``limit`` is in bytes in every kind.  A kind of which ``tc`` counts the limit in packets gets as
    many packets as fit in the longest frames, ``limit // (mtu + 14)``, so that it never holds more
    than ``limit`` (`InPackets`).  Other numbers without a unit are those of ``tc``: packets, flows.
    """

    #: The project's own kernel modules that the kind needs, in the order of loading.
    modules: ClassVar[tuple[str, ...]] = ()
    #: Whether packets leave in the order in which they came, so that `limit` bounds their stay.
    in_order: ClassVar[bool] = True
    #: Packets of the longest frame that `limit` must and may hold.
    span: ClassVar[tuple[int, int]] = (1, 2**32)
    #: Keys that change nothing of the queue, each with the key that does.
    overruled: ClassVar[dict[str, str]] = {}

    kind: str
    limit: Size | None
    """Capacity; a packet that does not fit is dropped."""

    @abstractmethod
    def tc(self, at: Bottleneck) -> tuple[str, ...]:
        """Give the words that follow ``tc qdisc add dev X parent Y handle Z``."""

    @abstractmethod
    def shown(self, at: Bottleneck) -> dict[str, Any]:
        """Give the options that ``tc -d -j qdisc show`` must show once the queue is in force.

        None is for an option that must not appear: a switch that ``tc`` omits while it is off.
        """

    @property
    def qdisc(self) -> str:
        """What the kernel calls it."""
        return self.kind

    @property
    def marks(self) -> bool:
        """Whether it is configured to mark ECN-capable packets instead of dropping them."""
        return False

    @property
    def may_mark(self) -> bool:
        """Whether it marks ECN-capable packets, by configuration or by the kernel's default."""
        return self.marks

    @property
    def splits(self) -> bool:
        """Whether it splits a packet of several segments before it queues them."""
        return False

    @property
    def counters(self) -> dict[str, list[Any]]:
        """Counters of ``tc -s -j qdisc show`` that the analysis reads; empty: none.

        ``marks`` are names of counters, which add up to the packets that were marked; a packet may
        be counted and not leave marked, for reasons that ``uncertain`` lists.  Each is a list of
        counters, the smallest of which bounds its packets; `NOT_CAPABLE` counts packets that are
        not ECN-capable.
        """
        return {}

    @abstractmethod
    def capacity(self, frame: int) -> int:
        """Give what the queue can hold, bytes, in frames of at most ``frame`` bytes."""

    def misfit(self, frame: int) -> Iterator[tuple[KeyPath, str]]:
        """Yield what does not fit frames of at most ``frame`` bytes."""
        least, most = self.span
        if self.limit is not None and self.limit < least * frame:
            packets = "one packet" if least == 1 else f"{least} packets"
            sentence = f"must be at least {least * frame} B ({packets} of mtu with its header)"
            yield ("limit",), f"{sentence}, not {format_size(self.limit)}"
        elif self.limit is not None and self.limit // frame > most:
            sentence = f"must be at most {most * frame} B ({most} packets of mtu with its header)"
            yield ("limit",), f"{sentence}, not {format_size(self.limit)}"

    def children(self, at: Bottleneck) -> tuple[Child, ...]:  # noqa: ARG002
        """Give the queues inside, in the order of adding; the queue under test is ``2:``."""
        return ()


class InBytes(Queue):
    """A queue with a limit that ``tc`` counts in bytes."""

    limit: Size
    """Capacity; a packet that does not fit is dropped."""

    def capacity(self, frame: int) -> int:  # noqa: ARG002
        """Give what the queue can hold, bytes."""
        return self.limit


class Parameter(NamedTuple):
    """A parameter that is set: its ``tc`` words, and what ``tc -d -j qdisc show`` must show."""

    words: tuple[str, ...]
    shown: Mapping[str, Any]


class Parametrised(Queue):
    """A queue of the kernel; a key that is not set is the kernel's default and not read back."""

    #: Keys that are times: whole microseconds, from the first to the second of these seconds.
    times: ClassVar[dict[str, tuple[float, float]]] = {}

    @abstractmethod
    def parameters(self, at: Bottleneck) -> Iterator[Parameter | None]:
        """Yield every parameter, None for one that is not set."""

    def tc(self, at: Bottleneck) -> tuple[str, ...]:
        """Give the words that follow ``tc qdisc add dev X parent Y handle Z``."""
        given = filter(None, self.parameters(at))
        return (self.qdisc, *(word for parameter in given for word in parameter.words))

    def shown(self, at: Bottleneck) -> dict[str, Any]:
        """Give the options that ``tc -d -j qdisc show`` must show."""
        given = filter(None, self.parameters(at))
        return {key: value for parameter in given for key, value in parameter.shown.items()}

    def problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield times that ``tc`` or the kernel would refuse, or silently replace."""
        for key, (least, most) in self.times.items():
            seconds = getattr(self, key)
            if seconds is None:
                continue
            if not least <= seconds <= most:
                span = f"{format_duration(least)} to {format_duration(most)}"
                yield (key,), f"must be from {span}, not {format_duration(seconds)}"
            elif round(seconds * 1e9) % 1000:
                yield (key,), "must be a whole number of microseconds"


class InPackets(Parametrised):
    """A queue with a limit that ``tc`` counts in packets."""

    #: Packets that the kernel lets it hold by default.
    packets: ClassVar[int]

    limit: Size | None = None
    """Capacity; `tc` gets it in packets, `limit` / (`mtu` + 14 B) rounded down. Default: the
    kernel's."""

    def capacity(self, frame: int) -> int:
        """Give what the queue can hold, bytes: by the kernel's default, that many of the frames."""
        return self.packets * frame if self.limit is None else self.limit

    def limited(self, at: Bottleneck) -> Parameter | None:
        """Give the parameter ``limit``."""
        return number("limit", None if self.limit is None else self.limit // at.frame)


def number(word: str, value: int | None, key: str = "") -> Parameter | None:
    """Give a whole number: bytes, packets, flows; ``key`` is its name in JSON."""
    return None if value is None else Parameter((word, str(value)), {key or word: value})


def fraction(word: str, value: float | None, shown: float | None = None) -> Parameter | None:
    """Give a number between 0 and 1; ``shown`` where ``tc`` shows what the kernel made of it."""
    if value is None:
        return None
    return Parameter((word, format_probability(value)), {word: value if shown is None else shown})


#: The kernel counts some times in timer ticks, of which this is a whole number at 100 Hz.
_TICK_S = 0.01


def tick_problems(key: str, seconds: float | None) -> Iterator[tuple[KeyPath, str]]:
    """Yield a time that the kernel would round up to timer ticks."""
    if seconds is not None and round(seconds * 1e6) % round(_TICK_S * 1e6):
        yield (key,), "must be a whole multiple of 10 ms, a timer tick"


#: CoDel counts time in units of so many nanoseconds.
CODEL_UNIT_NS = 1024


def time(word: str, seconds: float | None, unit_ns: int = 1000) -> Parameter | None:
    """Give a time, shown in microseconds; the kernel rounds it down to whole units.

    Examples
    --------
    >>> time("target", 0.005, CODEL_UNIT_NS)
    Parameter(words=('target', '5000us'), shown={'target': 4999})
    """
    if seconds is None:
        return None
    stored = round(seconds * 1e6) * 1000 // unit_ns * unit_ns
    return Parameter((word, tc_time(seconds)), {word: stored // 1000})


def switch(
    word: str, on: bool | None, no: str = "no", shown: tuple[Any, Any] = (True, None)
) -> Parameter | None:
    """Give a switch: its word, or ``no`` before it; ``shown`` is what JSON has for on and off.

    Examples
    --------
    >>> switch("ecn", False)
    Parameter(words=('noecn',), shown={'ecn': None})
    """
    if on is None:
        return None
    return Parameter((word if on else f"{no}{word}",), {word: shown[0] if on else shown[1]})


def flag(word: str, on: bool | None, shown: tuple[Any, Any] = (True, None)) -> Parameter | None:
    """Give a switch that ``tc`` has no word to turn off for: it is off by default.

    Examples
    --------
    >>> flag("harddrop", False)
    Parameter(words=(), shown={'harddrop': None})
    """
    if on is None:
        return None
    return Parameter((word,) if on else (), {word: shown[0] if on else shown[1]})
