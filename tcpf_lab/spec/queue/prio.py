"""Strict priority."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from tcpf_lab.spec.queue.base import Bottleneck, Child, InBytes

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


class Prio(InBytes):
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

    def tc(self, at: Bottleneck) -> tuple[str, ...]:  # noqa: ARG002 - neither matters
        """Give the words that follow ``tc qdisc add dev X parent Y handle Z``."""
        return ("prio", "bands", "2", "priomap", *map(str, self._map))

    def shown(self, at: Bottleneck) -> dict[str, Any]:  # noqa: ARG002
        """Give the options that ``tc -d -j qdisc show`` must show."""
        return {"bands": 2, "priomap": self._map}

    def children(self, at: Bottleneck) -> tuple[Child, ...]:  # noqa: ARG002
        """Give the FIFO of each band."""
        return tuple(
            Child(f"2:{band}", f"{band + 2}:", ("bfifo", "limit", str(limit)), {"limit": limit})
            for band, limit in ((1, UNLIMITED), (2, self.limit))
        )
