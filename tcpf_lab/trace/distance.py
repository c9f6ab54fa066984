"""Captures taken away from a sender: let its ACKs wait until they have reached it.

The sender acts on an ACK one trip after it passed the capture, and what it sends then takes the
trip back.  By a clock that runs late by one trip, data is sent when it is captured, and an ACK
arrives a round trip from the capture to the sender after it is captured.  The handshake tells how
long that takes (`tcpf_lab.trace.table.shake`); queues on the way make it longer later, which is why
such a capture tells less.  What was lost before it is not in it at all: the gap counts as sent when
the packet behind it passed.  Lost tails, retransmissions that were lost again, and probes that were
lost leave no trace.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.trace.estimator import RTO_MAX
from tcpf_lab.trace.jit import part
from tcpf_lab.trace.packet import PACKET
from tcpf_lab.trace.sender import measure

#: Where captures were taken, as a setting: found for each flow, or given.
FOUND, AT_SENDER, ELSEWHERE = range(3)
#: A sender this near, by the round trip from the capture to it and back, is where the capture was
#: taken; so is one within this share (one to so many) of the whole round trip.
NEAR_NS, NEAR_SHARE = 1_000_000, 16


def new_waiting(places: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Room for ACKs on their way; of each the next of its flow (entry 0: the first free)."""
    links = np.arange(1, places + 1, dtype=np.int64)
    links[-1] = 0
    return np.zeros(places, PACKET), links


def more_waiting(
    waiting: NDArray[Any], links: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Double the room; only when there is none left."""
    larger, further = new_waiting(2 * links.size)
    larger[: links.size] = waiting
    further[: links.size] = links
    further[0] = links.size
    return larger, further


@part
def settle(c: Any, s: Any, d: Any, where: Any) -> None:
    """Decide once the handshake is known how far the sender of direction ``d`` is away."""
    own, far = c.away[d], c.away[1 - d]
    if where == AT_SENDER or own < 0 or far < 0 or s.away > 0:
        return
    if where == ELSEWHERE or own > max(NEAR_NS, (own + far) // NEAR_SHARE):
        s.away = own
        if s.una == 1 and d == c.opener:  # its only sample was a part of the round trip
            s.srtt, s.rtt_min = 0, -1
            measure(s, own + far)


@part
def wait(s: Any, pool: Any, p: Any) -> None:
    """Let an ACK wait; there must be a free place."""
    waiting, links = pool
    place = links[0]
    links[0] = links[place]
    waiting[place] = p
    waiting[place].time_ns = p.time_ns + s.away
    links[place] = 0
    if s.last_waiting > 0:
        links[s.last_waiting] = place
    else:
        s.first_waiting = place
    s.last_waiting = place


@part
def leave(s: Any, pool: Any) -> None:
    """Free the place of the ACK that waited longest."""
    links, place = pool[1], s.first_waiting
    s.first_waiting = links[place]
    if s.first_waiting == 0:
        s.last_waiting = 0
    links[place] = links[0]
    links[0] = place


#: Later than any ACK.
END_OF_TIME = np.iinfo(np.int64).max - RTO_MAX
