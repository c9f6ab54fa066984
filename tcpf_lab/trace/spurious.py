"""Evidence that a retransmission was needless: what it repeated had arrived, or was about to.

Three kinds: the receiver says that it got the data twice (DSACK, RFC 2883); the ACK echoes a time
stamp older than the retransmission (Eifel, RFC 3522); the ACK came sooner after the retransmission
than any round trip takes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tcpf_lab.trace.events import DSACK, EARLY_ACK, TIMESTAMP
from tcpf_lab.trace.jit import inlined, part
from tcpf_lab.trace.scoreboard import recall, relative


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
def judge(s: Any, row: Any, store: Any, g: Any, p: Any, head: bool) -> None:
    """Look at the ACK ``p`` that covers the retransmitted segment ``g`` for the first time.

    Only at the left edge must the receiver echo the time stamp of what filled it (RFC 7323).
    """
    if head and older(p, g.tsval):
        mark(row, store, g, TIMESTAMP)
    elif s.rtt_min > 0 and 4 * (p.time_ns - g.sent) < 3 * s.rtt_min:
        mark(row, store, g, EARLY_ACK)


@part
def judge_duplicate(s: Any, row: Any, store: Any, p: Any, ack: Any) -> None:
    """Look for a DSACK: a first block below the ACK, or inside the second block (RFC 2883)."""
    low, high = relative(s, p.sack[0]), relative(s, p.sack[1])
    if low >= high:
        return
    duplicate = high <= ack
    if not duplicate and p.sacks > 1:
        duplicate = low >= relative(s, p.sack[2]) and high <= relative(s, p.sack[3])
    if not duplicate:
        return
    place = recall(s, store[0], low, high)
    if place >= 0:
        mark(row, store, store[0][place], DSACK)
