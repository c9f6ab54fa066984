"""Any queue of the kernel, by its words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field

from tcpf_lab.spec.queue.base import Bottleneck, InBytes
from tcpf_lab.spec.words import KeyPath

_KIND = re.compile(r"[a-z][a-z0-9_]{0,14}", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9_.:%/+-]+", re.ASCII)
LONGEST = 300
#: The project's own: their words name seed and rate, and their modules have to be loaded.
_OURS = ("rio", "frio")
#: What can only be the root of a device, or holds no packets.
_ROOTS = ("clsact", "ingress", "mq", "mqprio", "noqueue")
#: Words by which a qdisc that splits packets of several segments does not.
_WHOLE = {"cake": "no-split-gso", "dualpi2": "no_split_gso"}
#: Words with which a qdisc marks.
_MARKING = frozenset(("ecn", "ce_threshold"))


class Tc(InBytes):
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
            yield ("words",), f"{kind} is a kind of its own: write {{kind: {kind}, ...}}"
        elif kind in _ROOTS:
            yield ("words",), f"{kind} cannot queue packets at the bottleneck"
        elif wrong := [word for word in rest if not _WORD.fullmatch(word)]:
            sentence = "write options of tc: letters, digits and _.:%/+-, one space between words"
            yield ("words",), f"{wrong[0]!r} is not allowed; {sentence}" if wrong[0] else sentence

    @property
    def qdisc(self) -> str:
        """What the kernel calls it."""
        return self.words.partition(" ")[0]

    @property
    def marks(self) -> bool:
        """Whether a word requests marks; what a kernel marks by default, nobody configured."""
        return not _MARKING.isdisjoint(self.words.split(" "))

    @property
    def may_mark(self) -> bool:
        """Whether it may mark: the kernel's default is not known here."""
        return True

    @property
    def splits(self) -> bool:
        """Whether it splits packets of several segments, as two kinds do by default."""
        off = _WHOLE.get(self.qdisc)
        return off is not None and off not in self.words.split(" ")

    def tc(self, at: Bottleneck) -> tuple[str, ...]:  # noqa: ARG002 - in the kernel's randomness
        """Give the words that follow ``tc qdisc add dev X parent Y handle Z``."""
        return tuple(self.words.split(" "))

    def shown(self, at: Bottleneck) -> dict[str, Any]:  # noqa: ARG002
        """Nothing: a qdisc may show other options than it was given."""
        return {}
