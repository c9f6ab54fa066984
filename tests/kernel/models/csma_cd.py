"""Stations on a half-duplex wire, all equally far apart, that always have a frame.

IEEE 802.3, clause 4: a station with a frame begins when its backoff is over and it has heard
silence for a gap. It defers to a frame that it hears before, but not in the last third of a gap
(4.2.3.2.2). Who begins otherwise collides, and a collision ends for all when the last to begin has
sent preamble and jam, or jam after it has heard another.
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
    """What happened until ``now`` (ns); ``collisions`` are of all stations, ``contention`` ns."""

    now: int = 0
    sent: int = 0
    collisions: int = 0
    contention: int = 0
    given_up: int = 0


def saturated(
    length: int, until: int, seed: int, stations: int = 2, propagation: int = 0
) -> Counts:
    """Let all send frames of ``length`` bytes for ``until`` ns."""
    draw = random.Random(seed)
    counts = Counts()
    ready, attempts, heard = [0] * stations, [0] * stations, [0] * stations
    while counts.now < until:
        due = [max(at, silent + GAP) for at, silent in zip(ready, heard, strict=True)]
        first = min(due)
        hears = first + propagation
        begin = [
            station
            for station, at in enumerate(due)
            if at < max(hears, first + 1) or at == heard[station] + GAP <= hears + GAP // 3
        ]
        if len(begin) == 1:
            (sender,) = begin
            counts.now = first + frame_ns(length)
            counts.sent += 1
            heard = [counts.now + propagation] * stations
            heard[sender] = counts.now
            attempts[sender] = 0
            continue
        counts.now = max(due[station] for station in begin) + max(PREAMBLE, propagation) + JAM
        counts.contention += counts.now - first
        counts.collisions += len(begin)
        heard = [counts.now + propagation] * stations
        for station in begin:
            attempts[station] += 1
            if attempts[station] == ATTEMPTS:
                attempts[station] = 0
                counts.given_up += 1
            slots = draw.randrange(1 << min(attempts[station], DOUBLINGS))
            ready[station] = counts.now + SLOT * slots
    return counts
