"""Evidence that a retransmission was needless: what it repeated had arrived, or was about to.

Four kinds: the receiver says that it got the data twice (DSACK, RFC 2883); the ACK echoes a time
stamp older than the retransmission (Eifel, RFC 3522); the ACK came sooner after the retransmission
than any round trip takes; without SACK, the ACK jumps farther than a segment that arrives by itself
can move it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tcpf_lab.trace.events import ACK_JUMP, DSACK, EARLY_ACK, TIMESTAMP
from tcpf_lab.trace.jit import inlined, part
from tcpf_lab.trace.scoreboard import at, locate, recall, relative

#: Full-sized segments that one ACK covers at most if nothing was missing (RFC 5681).
STRETCH = 2


@part
def mark(row: Any, store: Any, g: Any, evidence: int) -> None:
    """Count a retransmission as needless, once."""
    events = store[2]
    row.spurious[g.kind] += 1
    if 0 <= g.event < events.shape[0]:  # it counts in 32 bits
        events[g.event].spurious = evidence
    g.kind = 0


@inlined
def older(p: Any, stamp: Any) -> bool:
    """Whether the ACK ``p`` echoes a time stamp from before ``stamp`` (0: there is none)."""
    if not p.timestamps or p.tsecr == 0 or stamp == 0:
        return False
    return bool(((np.int64(p.tsecr) - np.int64(stamp)) & 0xFFFFFFFF) > 0x7FFFFFFF)


@part
def judge(s: Any, row: Any, store: Any, g: Any, p: Any, front: Any) -> None:
    """Look at the ACK ``p`` that covers the retransmitted segment ``g`` for the first time.

    ``front`` is the segment at the left edge, -1 where a SACK block covers ``g``.  Only at the left
    edge must the receiver echo the time stamp of what filled it (RFC 7323).  What is sent again
    there was mostly lost, and queues may be shorter by then than in any round trip measured.
    """
    head, waited = s.head == front, p.time_ns - g.sent
    g.told = p.time_ns if s.rtt_min > 0 and 4 * waited >= 3 * s.rtt_min else 0
    if head and older(p, g.tsval):
        mark(row, store, g, TIMESTAMP)
    elif s.rtt_min > 0 and 4 * waited < (2 if head else 3) * s.rtt_min:
        mark(row, store, g, EARLY_ACK)
    elif front >= 0 and not head and not s.sack_flow and not s.stretched:
        judge_jump(s, row, store, g, relative(s, p.ack), front)


@part
def judge_jump(s: Any, row: Any, store: Any, g: Any, ack: Any, front: Any) -> None:
    """Look whether ``ack`` jumps over ``g``, which was sent again after the left edge.

    A receiver that holds segments out of order acknowledges each arrival at once (RFC 5681), and
    every second full-sized one otherwise: the left edge filled a gap, and all behind it was there.
    """
    edge = at(s, store[0], front)
    far = locate(s, store[0], ack) - front > STRETCH and ack - edge.start > STRETCH * s.mss
    if far and edge.sent <= g.sent:
        mark(row, store, g, ACK_JUMP)


@part
def judge_duplicate(s: Any, row: Any, store: Any, p: Any, ack: Any) -> None:
    """Look for a DSACK: a first block below the ACK, or inside the second block (RFC 2883).

    If what was sent again had been acknowledged just before, and late enough to be its own doing,
    the second arrival is a duplicate made by the network: the two come close to each other.
    """
    low, high = relative(s, p.sack[0]), relative(s, p.sack[1])
    if low >= high:
        return
    duplicate = high <= ack
    if not duplicate and p.sacks > 1:
        duplicate = low >= relative(s, p.sack[2]) and high <= relative(s, p.sack[3])
    if not duplicate:
        return
    place = recall(s, store[0], low, high)
    if place < 0:
        return
    g = store[0][place]
    if g.told == 0 or 2 * (p.time_ns - g.told) >= s.rtt_min:
        mark(row, store, g, DSACK)
