"""What must hold of the state of senders, whatever a capture says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.trace.events import KINDS, RULES
from tcpf_lab.trace.jit import compiled, part, stamp
from tcpf_lab.trace.scoreboard import at

#: What is wrong; the place is the number.
WRONG = (
    "",
    "the left edge is beyond what was sent",
    "the ring of outstanding segments ends before it begins, or is fuller than it can be",
    "what is said to be SACKed is not what is marked on the scoreboard",
    "outstanding segments do not adjoin, or hold nothing",
    "an event is of a kind, a rule, a flow or a record that there is not",
    "a packet found no room where there was enough",
    "the answer is another one than before",
)
NO_ROOM, OTHERWISE = 6, 7
_KINDS, _RULES = len(KINDS), max(RULES) + 1


@part
def wrong_sender(s: Any, arena: Any) -> int:
    """Number in `WRONG` of what is wrong with a sender (`tcpf_lab.trace.sender.SENDER`)."""
    if s.una > s.snd_max:
        return 1
    if s.head > s.tail or s.tail - s.head > s.room:
        return 2
    sacked = np.int64(0)
    for i in range(s.head, s.tail):
        g = at(s, arena, i)
        if g.start >= g.end or (i > s.head and g.start != at(s, arena, i - 1).end):
            return 4
        if g.sacked == s.board:
            sacked += g.end - g.start
    return 0 if s.sack_bytes == sacked else 3


@part
def wrong_event(e: Any, flows: Any, records: Any) -> int:
    """Number in `WRONG` of what is wrong with an event."""
    named = 0 < e.kind < _KINDS and 0 < e.rule < _RULES
    return 0 if named and 0 <= e.flow < flows and e.record < records else 5


def _compile(sources: str) -> Callable[..., int]:
    def wrong_senders(senders: NDArray[Any], arena: NDArray[Any]) -> int:
        """Number in `WRONG` of what is wrong with the first sender that is; 0: with none."""
        _ = sources
        for i in range(senders.shape[0]):
            found = wrong_sender(senders[i], arena)
            if found:
                return int(found)
        return 0

    return compiled(wrong_senders)


wrong_senders = _compile(stamp(__name__))
