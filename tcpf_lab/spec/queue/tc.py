"""Any queue of the kernel's, in its own words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field

from tcpf_lab.spec.queue.base import Queue
from tcpf_lab.spec.words import KeyPath

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
    """A queue discipline of the kernel's by the words that ``tc`` takes for it.

    Its options are not read back: that the kernel has it in force under its name is.
    """

    in_order: ClassVar[bool] = False
    overruled: ClassVar[dict[str, str]] = {"limit": "words"}

    kind: Literal["tc"]
    """Any qdisc of the kernel's. The words alone say what it does: `limit` is what they let it
    hold, from which follows how long it may take to drain."""
    words: str = Field(max_length=LONGEST)
    """What follows `tc qdisc add dev X parent Y handle Z`, such as `fq_codel limit 1000 target
    5ms`; the kernel refuses what it does not know."""

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
