"""What every queue kind offers to the rest of the program."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

from tcpf_lab.base.units import Size
from tcpf_lab.spec.words import SpecModel


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
    """What the queue can hold; a packet that does not fit any more is dropped."""

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
