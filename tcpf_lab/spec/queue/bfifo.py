"""Tail drop."""

from __future__ import annotations

from typing import Any, Literal

from tcpf_lab.spec.queue.base import Bottleneck, InBytes


class Bfifo(InBytes):
    """Tail drop (Linux ``bfifo``)."""

    kind: Literal["bfifo"]
    """Tail drop, limited in bytes."""

    def tc(self, at: Bottleneck) -> tuple[str, ...]:  # noqa: ARG002 - neither matters to a FIFO
        """Give the words that follow ``tc qdisc add dev X parent Y handle Z``."""
        return ("bfifo", "limit", str(self.limit))

    def shown(self, at: Bottleneck) -> dict[str, Any]:  # noqa: ARG002
        """Give the options that ``tc -d -j qdisc show`` must show."""
        return {"limit": self.limit}
