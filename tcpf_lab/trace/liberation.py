"""Explain what a sender sends: a packet leaves because an ACK liberated it or because a timer did.

The state of `tcpf_lab.trace.sender` is followed packet by packet, and every retransmission is
explained by it; ``rule`` (`tcpf_lab.trace.events.RULES`) says by what.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tcpf_lab.trace.cause import EPSILON, SILENCE, explain, probing, ruled
from tcpf_lab.trace.estimator import RTO_MAX
from tcpf_lab.trace.events import (
    FAST,
    KEEPALIVE,
    REORDERING,
    RTO,
    SYN_RTO,
    TLP,
    UNKNOWN,
    WINDOW_PROBE,
)
from tcpf_lab.trace.jit import inlined, part
from tcpf_lab.trace.linux22 import RTO_AGE22
from tcpf_lab.trace.pacing import depart, learn
from tcpf_lab.trace.scoreboard import PIECES, at, locate, relative
from tcpf_lab.trace.sender import (
    AGREED,
    MS,
    RECOVERY,
    STALLED,
    append,
    arm,
    begin,
    on_ack,
    time_out,
)

#: Keep-alive probes and probes of a closed window leave in silence.
_IDLE = 190 * MS
#: No segment is smaller by agreement.
_LEAST_MSS = 88
#: Pieces that the data of a packet are divided into at most: half a megabyte, which no offload
#: exceeds, of 536 bytes each.  More is only said by captures that are not to be believed.
_MOST_PIECES = 1024


@part
def _sent_again(s: Any, arena: Any) -> bool:
    """Whether a retransmission is outstanding: the first one's time stamp then counts on."""
    if at(s, arena, s.head).ever:
        return True
    for i in range(s.head, s.tail):
        g = at(s, arena, i)
        if g.again == s.episode and g.sacked != s.board:
            return True
    return False


@part
def _resend(s: Any, arena: Any, start: Any, end: Any, p: Any) -> int:
    """Explain a retransmission and follow the sender through it."""
    now = p.time_ns
    first = min(locate(s, arena, start), s.tail - 1)
    kind = explain(s, arena, first, now, end >= s.snd_max)
    if kind != RTO and kind != TLP:
        learn(s, now)
    depart(s, now, end - start)
    s.backoff = min(s.retransmits, 255)
    if (kind == RTO or kind == FAST) and (s.stamp == 0 or not _sent_again(s, arena)):
        s.stamp = np.int64(p.tsval)
    if kind == RTO:
        time_out(s, arena, now)
    elif kind == FAST:
        # What left since the duplicate had been queued before it, unless that asked for what had
        # been sent again already: then new data may have followed.
        s.recover = s.recover if s.fresh == STALLED else s.snd_max
        s.mode, s.fresh = RECOVERY, 0
    if kind == TLP:
        s.probe_end, s.probed = s.snd_max, 1
    # Holes that Linux 2.2 fills further on in a recovery restart no timer.
    filled = s.profile & RTO_AGE22 and s.mode == RECOVERY and kind != FAST and s.sack_bytes > 0
    if kind == TLP or (kind != RTO and first == s.head and not filled):
        arm(s, now)
    named = kind
    for i in range(first, s.tail):
        g = at(s, arena, i)
        if g.start >= end:
            break
        g.sent, g.ever, g.again, g.unseen, g.told = now, 1, s.episode, 0, 0
        g.kind, g.event, g.tsval = named, s.event, p.tsval
        named = 0  # one packet is one event, however many segments it repeats
    return kind


@part
def _in_the_past(s: Any, p: Any, start: Any) -> int:
    """Name a packet of data that is acknowledged: a keep-alive probe, or overtaken by its ACK."""
    if p.payload <= 1:
        return _probe(s, p, start)
    return ruled(s, UNKNOWN, 17)


@part
def _probe(s: Any, p: Any, start: Any) -> int:
    """Name a packet that ends at the left edge with a byte or none: a probe, or nothing."""
    if start != s.una - 1 or p.time_ns - s.sent_at < _IDLE or p.flags & 7:
        return 0
    if s.window == 0:
        return ruled(s, WINDOW_PROBE, 14)
    return ruled(s, KEEPALIVE, 13) if s.head == s.tail else 0


@part
def _overtaken(s: Any, arena: Any, p: Any, start: Any) -> bool:
    """Whether a packet not captured before fills a gap that is none of the network's making."""
    i = locate(s, arena, start)
    if i == s.tail or not at(s, arena, i).unseen:
        return False
    age = p.time_ns - at(s, arena, i).sent
    if p.ip_id and s.last_id > 0:
        behind = (s.last_id - np.int64(p.ip_id)) & 0xFFFF
        rule, late = 15, 0 < behind < 1024 and age < max(s.srtt // 8, SILENCE)
    else:
        rule, late = 16, 2 * age < s.rtt_min
    if late:
        s.rule = rule
    return bool(late)


@inlined
def _piece(s: Any, length: Any) -> Any:
    """Bytes of the segments that ``length`` bytes in one packet were sent as."""
    return max(np.int64(s.split), length // _MOST_PIECES + 1)


@inlined
def _enter(s: Any, arena: Any, start: Any, end: Any, p: Any) -> None:
    """Put new data on the scoreboard, one segment per packet that the receiver can tell apart."""
    if start > s.snd_max:  # the capture missed what lies between
        size = max(s.mss, (start - s.snd_max) // PIECES + 1)
        while s.snd_max < start:
            append(s, arena, s.snd_max, min(s.snd_max + size, start), p, True)
    size = _piece(s, end - start) if s.split > 0 else end - start
    while s.snd_max < end:
        append(s, arena, s.snd_max, min(s.snd_max + size, end), p, False)


@inlined
def _on_data(s: Any, store: Any, p: Any) -> int:
    """Follow the sender through a packet it sends; its kind."""
    arena, now, fin = store[0], p.time_ns, p.flags & 1
    start = relative(s, p.seq)
    end = start + p.payload + fin
    s.start = start
    _stamp(s, p)
    if fin:
        s.fin = end - 1
    s.mss = max(s.mss, min(p.payload, s.split) if s.split > 0 else p.payload)
    kind = 0
    if start < s.snd_max:
        if end <= s.una:
            return _in_the_past(s, p, start)
        kind = _again(s, arena, start, end, p)
    if end > s.snd_max:
        probe = not kind and probing(s, arena, now)
        if start >= s.snd_max:
            if not probe:
                learn(s, now)
            depart(s, now, end - start)
        if probe:
            s.probe_end, s.probed = end, 1
            arm(s, now)  # a tail loss probe of new data
        _enter(s, arena, start, end, p)
        s.last_id = np.int64(p.ip_id)
    s.sent_at = now
    if now - s.cause_at <= EPSILON:
        s.cause_at = now
    return kind


@part
def _again(s: Any, arena: Any, start: Any, end: Any, p: Any) -> int:
    """Follow a packet that begins below what was sent before; its kind."""
    if s.window == 0 and p.payload <= 1 and start == s.una:
        return ruled(s, WINDOW_PROBE, 14)
    if s.head == s.tail:
        return ruled(s, UNKNOWN, 18)
    if _overtaken(s, arena, p, start):
        _fill(s, arena, start, end)
        return REORDERING
    return _resend(s, arena, start, end, p)


@part
def _fill(s: Any, arena: Any, start: Any, end: Any) -> None:
    """Take data that was captured late for what it is: sent once."""
    for i in range(locate(s, arena, start), s.tail):
        g = at(s, arena, i)
        if g.start >= end:
            break
        g.unseen = 0


@part
def agree(s: Any, p: Any, own: bool) -> None:
    """Learn from the SYNs whether SACK is on, and how much one packet carries.

    Captures before offloading show larger packets.
    """
    if own:
        s.own_mss, s.own_permit = p.mss, 1 + p.sack_permitted
    else:
        s.peer_mss, s.peer_permit = p.mss, 1 + p.sack_permitted
    if p.flags & 16 and s.own_permit > 1 and s.peer_permit > 1:
        s.sack_flow |= AGREED
    if p.flags & 16 and s.own_mss > 0 and s.peer_mss > 0:
        size = min(s.own_mss, s.peer_mss) - 12 * p.timestamps
        s.split = size if size >= _LEAST_MSS else 0


@inlined
def _stamp(s: Any, p: Any) -> None:
    """Note the sender's clock: an ACK that echoes it gives the RTT."""
    if p.timestamps:
        s.tick, s.tick_at, s.stamped = np.int64(p.tsval), p.time_ns, 1


@part
def _on_syn(s: Any, store: Any, p: Any) -> int:
    """A SYN or SYN-ACK of the data sender: new connection, an expired timer, or asked for again."""
    s.start, s.backoff = 0, 0
    if not s.known or s.isn != p.seq:
        begin(s, p.seq, 0)
        s.passive = p.flags & 16
        agree(s, p, True)
        _stamp(s, p)
        append(s, store[0], 0, 1, p, False)
        return 0
    agree(s, p, True)
    if s.una == 0 and s.head < s.tail:
        at(s, store[0], s.head).ever = 1
        _stamp(s, p)
        if p.flags & 16 and p.time_ns - s.cause_at <= EPSILON:  # the SYN that came again asked
            arm(s, p.time_ns)
            return 0
        s.rto = min(2 * s.rto, RTO_MAX)
        arm(s, p.time_ns)
        return ruled(s, SYN_RTO, 4)
    return 0


@inlined
def needed(s: Any, p: Any) -> Any:
    """Segments that a packet of the sender may add to those outstanding."""
    if not s.known or p.flags & 2:
        return 1
    more = 1 + (p.payload // _piece(s, p.payload) + 1 if s.split > 0 else 0)
    return more + (PIECES + 1 if relative(s, p.seq) > s.snd_max else 0)


@inlined
def forward(s: Any, store: Any, p: Any) -> int:
    """Follow the sender through any packet of its own; the kind, 0 if it is no event."""
    if p.flags & 2:
        return _on_syn(s, store, p)
    if p.payload == 0 and not p.flags & 1:
        if not s.known or p.time_ns - s.sent_at < _IDLE or not p.flags & 16:
            return 0
        start = relative(s, p.seq)
        return _probe(s, p, start) if start == s.una - 1 else 0
    if not s.known:
        begin(s, np.int64(p.seq) - 1, 1)
    return _on_data(s, store, p)


@inlined
def backward(s: Any, row: Any, store: Any, p: Any) -> None:
    """Follow the sender through a packet that comes back to it."""
    if p.flags & 2:
        agree(s, p, False)
        if not p.flags & 16:
            s.cause_at = p.time_ns
    if p.flags & 16:
        if not s.known:
            begin(s, np.int64(p.ack) - 1, 1)
        on_ack(s, row, store, p)
