"""Two stations on a half-duplex wire without length that always have a frame: IEEE 802.3, clause 4.

Without length both hear the same, so that two collide if, and only if, they begin at once.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

BIT = 100  # ns, at 10 Mbit/s
GAP, SLOT, PREAMBLE, JAM = 96 * BIT, 512 * BIT, 64 * BIT, 32 * BIT
ATTEMPTS, DOUBLINGS = 16, 10


def frame_ns(length: int) -> int:
    """Give the time of a frame of so many bytes, without its check sequence, on the wire."""
    return 8 * BIT * (8 + max(length + 4, 64))


@dataclass
class Counts:
    """What happened until ``now`` (ns)."""

    now: int = 0
    sent: int = 0
    collisions: int = 0
    given_up: int = 0


def saturated(length: int, until: int, seed: int) -> Counts:
    """Let both send frames of ``length`` bytes for ``until`` ns."""
    draw = random.Random(seed)
    counts = Counts()
    ready, attempts = [0, 0], [0, 0]
    while counts.now < until:
        due = [max(at, counts.now + GAP) for at in ready]
        if due[0] != due[1]:
            sender = due.index(min(due))
            counts.now = due[sender] + frame_ns(length)
            counts.sent += 1
            attempts[sender] = 0
            continue
        counts.now = due[0] + PREAMBLE + JAM
        counts.collisions += 1
        for station in (0, 1):
            attempts[station] += 1
            if attempts[station] == ATTEMPTS:
                attempts[station] = 0
                counts.given_up += 1
            slots = draw.randrange(1 << min(attempts[station], DOUBLINGS))
            ready[station] = counts.now + SLOT * slots
    return counts
