"""Tail drop: a FIFO limited in bytes."""

from __future__ import annotations

from typing import Literal

from tcpf_lab.spec.queue.base import Queue


class Bfifo(Queue):
    """Tail drop: a FIFO that refuses what does not fit (Linux ``bfifo``)."""

    kind: Literal["bfifo"]
    """Tail drop, limited in bytes."""

    def tc(self, rate: int, seed: int) -> tuple[str, ...]:  # noqa: ARG002 - neither matters to a FIFO
        """Give the words that follow ``tc qdisc add dev X parent Y handle Z``."""
        return ("bfifo", "limit", str(self.limit))

    def shown(self, rate: int, seed: int) -> dict[str, int | float | str | bool]:  # noqa: ARG002
        """Give the options that ``tc -d -j qdisc show`` must show."""
        return {"limit": self.limit}
