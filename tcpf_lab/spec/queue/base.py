"""What every queue kind offers to the rest of the program."""

from __future__ import annotations

from abc import abstractmethod

from pydantic import Field

from tcpf_lab.spec.base import SpecModel
from tcpf_lab.units import Size


class Queue(SpecModel):
    """The queue at the bottleneck; its keys are the words that ``tc`` uses."""

    kind: str
    limit: Size = Field(
        description="What the queue can hold; a packet that does not fit any more is dropped."
    )

    @abstractmethod
    def tc(self, rate: int) -> tuple[str, ...]:
        """Give the words that follow ``tc qdisc add dev X parent Y handle Z``.

        Parameters
        ----------
        rate : int
            Rate at which the queue is drained, bit/s.
        """

    @abstractmethod
    def shown(self) -> dict[str, int | float | str]:
        """Give the options that ``tc -j qdisc show`` must show once the queue is in force."""
