"""Follow a TCP sender through a capture: left edge, scoreboard, RTT, retransmission timer.

Sequence numbers are 64-bit and relative: the SYN is byte 0, data begins at byte 1.  Times are
nanoseconds.  All functions are parts of the compiled state machine in `tcpf_lab.trace.recovery`;
``s`` is the state of one sender, ``row`` what is counted of its flow, ``store`` the arena of
outstanding segments, the lists of its free blocks, and the events.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tcpf_lab.trace.estimator import CLASSIC, RTO_MAX, estimate
from tcpf_lab.trace.jit import inlined, part
from tcpf_lab.trace.linux22 import FAST22, GO_BACK_N22, RTO22, WHOSE, armed_at, enough
from tcpf_lab.trace.pacing import delay
from tcpf_lab.trace.scoreboard import at, give_back, locate, relative, remember, unsacked
from tcpf_lab.trace.spurious import STRETCH, judge, judge_duplicate, older

OPEN, RECOVERY, LOSS = 0, 1, 2
#: ``fresh``: a recovery has sent nothing yet; so, because the head had been sent again before.
STALLED = 2
#: ``own_permit peer_permit``: 2 if the side's SYN permits SACK, 1 if not, 0 if it was not seen.
#: Why a flow counts as one with SACK: its SYNs agree on it, or a block has come.
AGREED, SEEN = 1, 2
MS = 1_000_000
#: Where clocks jump by years, eight times an RTT would not fit into 64 bits: more counts as this.
_LONGEST_RTT = 1 << 59
_RTO_INITIAL, _RTO_FALLBACK = 1000 * MS, 3000 * MS

SENDER = np.dtype(
    [
        (name, np.int64)
        for name in (  # a line of the cache each; what every packet needs comes first
            *("known", "isn", "una", "snd_max", "head", "tail", "ring", "room"),
            *("away", "first_waiting", "split", "mss", "sent_at", "cause_at", "event", "start"),
            *("window", "heard", "mode", "dups", "sack_bytes", "sack_flow", "board", "sample"),
            *("armed", "limit", "rto", "srtt", "probes", "probe_end", "last_id", "rtt_min"),
            *("ack_at", "retransmits", "held", "recover", "stamp", "delivered_at", "episode"),
            *("profile", "mdev", "mdev_max", "rttvar", "rtt_seq", "rto_min", "tick", "tick_at"),
            *("fin", "memory", "memory_room", "remembered", "rule", "backoff", "acked_before"),
            *("own_mss", "peer_mss", "own_permit", "peer_permit", "stamped", "last_waiting"),
            *("whole", "stretched", "given_up", "doubled", "high", "fresh", "passive"),
            *("probed",),
            *("pace", "steady", "slot", "slot_from", "slot_late", "slot_bytes"),
        )
    ]
)


@part
def begin(s: Any, base: Any, una: int) -> None:
    """Begin a connection whose relative byte 0 has the number ``base``."""
    s.acked_before = s.acked_before + acknowledged(s)
    s.known, s.isn, s.una, s.snd_max, s.fin = 1, np.int64(base), una, una, -1
    s.head, s.tail, s.mode, s.recover, s.dups, s.window = 0, 0, OPEN, 0, 0, -1
    s.sack_bytes, s.sack_flow, s.mss, s.held, s.given_up = 0, 0, 1, 0, 0
    s.srtt, s.mdev, s.mdev_max, s.rttvar, s.rtt_seq = 0, 0, 0, 0, 0
    s.rto, s.armed, s.retransmits, s.tick_at, s.stretched = _RTO_INITIAL, -1, 0, 0, 0
    s.ack_at, s.cause_at, s.sent_at = -RTO_MAX, -RTO_MAX, -RTO_MAX
    s.board, s.episode, s.rtt_min, s.sample, s.remembered = 1, 1, -1, -1, 0
    s.probe_end, s.delivered_at, s.last_id, s.heard, s.stamp = 0, -RTO_MAX, -1, 0, 0
    s.pace, s.steady, s.slot, s.slot_from, s.slot_late, s.slot_bytes = 0, 0, 0, 0, 0, 0
    s.high, s.fresh, s.probed = 0, 0, 0
    s.doubled, s.rto = 0, _RTO_FALLBACK if s.profile & RTO22 else s.rto


@inlined
def arm(s: Any, now: Any) -> None:
    """Start the timer; a later RTT sample changes the next start, not this one."""
    s.armed, s.limit = now, s.rto + delay(s, now)
    s.whole = now if s.mode == OPEN and s.sack_bytes == 0 else -2  # now: nothing is missing


@inlined
def acknowledged(s: Any) -> Any:
    """Payload bytes acknowledged on this connection."""
    fin = 1 if s.fin >= 0 and s.una > s.fin else 0
    return max(s.una - 1 - fin - s.given_up, 0)


@inlined
def measure(s: Any, sample: Any) -> None:
    """Take an RTT sample into the timer."""
    s.sample = sample
    s.rtt_min = sample if s.rtt_min < 0 else min(s.rtt_min, sample)
    estimate(s, min(sample, _LONGEST_RTT), s.mode == LOSS)


@inlined
def _delivered(s: Any, g: Any, now: Any) -> None:
    """Note when what arrives was sent, unless a copy sent earlier may be meant (RACK)."""
    if g.sent > s.delivered_at and (not g.ever or now - g.sent >= s.rtt_min):
        s.delivered_at = g.sent


@part
def mark_sacked(s: Any, row: Any, store: Any, p: Any) -> Any:
    """Enter SACK blocks on the scoreboard; send time of the first new one fit for an RTT, or -1."""
    arena, first = store[0], -1
    for k in range(p.sacks):
        low, high = relative(s, p.sack[2 * k]), relative(s, p.sack[2 * k + 1])
        s.high = max(s.high, min(high, s.snd_max))
        i = locate(s, arena, low)
        if i < s.tail and at(s, arena, i).start < low:
            i += 1
        i = unsacked(s, arena, i)
        while i < s.tail and at(s, arena, i).end <= high:
            g = at(s, arena, i)
            g.sacked, g.skip = s.board, 1
            s.sack_bytes += g.end - g.start
            _delivered(s, g, p.time_ns)
            if g.kind:
                judge(s, row, store, g, p, -1)
            if not g.ever and (first < 0 or g.sent < first):
                first = g.sent
            i = unsacked(s, arena, i)
    return first


@inlined
def release(s: Any, row: Any, store: Any, p: Any, ack: Any) -> Any:
    """Take acknowledged segments off; send time fit for an RTT, -1 if there is none (Karn)."""
    arena, first, karn, front = store[0], -1, False, s.head
    while s.head < s.tail and at(s, arena, s.head).end <= ack:
        g = at(s, arena, s.head)
        karn |= g.ever != 0
        if g.sacked == s.board:
            s.sack_bytes -= g.end - g.start
        else:
            _delivered(s, g, p.time_ns)
            if not g.ever and (first < 0 or s.profile & RTO22):
                first = g.sent  # the last one's in Linux 2.2
            if g.kind:
                judge(s, row, store, g, p, front)
        if g.kind:
            remember(s, arena, store[1], g)
        s.head += 1
    if not karn and s.head - front > STRETCH:
        s.stretched = 1
    if s.head < s.tail and at(s, arena, s.head).start < ack:
        g = at(s, arena, s.head)
        s.sack_bytes -= ack - g.start if g.sacked == s.board else 0
        g.start = ack
    return -1 if karn else first


@inlined
def advance(s: Any, ack: Any) -> None:
    """Move the left edge; leave recovery when what was outstanding at its start is acknowledged."""
    s.una, s.snd_max = ack, max(s.snd_max, ack)
    s.dups, s.retransmits = 0, 0
    if ack >= s.probe_end:
        s.probe_end = 0
    # Without SACK, Linux waits for one byte more, lest old duplicates start a recovery anew; the
    # Reno of 1990 is content with any.
    exact = s.sack_flow or s.profile & (GO_BACK_N22 if s.mode == LOSS else FAST22)
    over = ack > s.recover or (ack == s.recover and exact)
    if s.mode != OPEN and (over or (s.mode == RECOVERY and s.profile & WHOSE == CLASSIC)):
        s.held = 0 if s.mode == RECOVERY else s.held
        s.mode, s.fresh = OPEN, 0


@inlined
def _undo(s: Any, p: Any) -> None:
    """Leave recovery when its first retransmission proves needless (tcp_packet_delayed).

    Linux goes back from loss state so only with SACK.
    """
    if s.stamp == 0 or s.mode == OPEN or s.profile & (GO_BACK_N22 if s.mode == LOSS else FAST22):
        return
    if older(p, s.stamp) and (s.mode == RECOVERY or s.sack_flow):
        s.mode = OPEN


@inlined
def timestamp_rtt(s: Any, p: Any) -> Any:
    """RTT from the echoed time stamp (1 ms ticks), -1 without one; 0 is none."""
    if not p.timestamps or p.tsecr == 0 or not s.tick_at:
        return -1
    ticks = (s.tick - np.int64(p.tsecr)) & 0xFFFFFFFF
    return p.time_ns - s.tick_at + ticks * MS if ticks < 0x7FFFFFFF else -1


@inlined
def _duplicate(s: Any, p: Any, ack: Any, news: bool) -> bool:
    """Whether an ACK that moves nothing says that a segment has arrived out of order.

    With SACK it must say which, except for Linux 2.2; of blocks inside packets that were captured
    before they were divided the scoreboard knows nothing.
    """
    if s.sack_flow & SEEN and not s.profile & FAST22:
        return bool(news or (p.sacks > 0 and s.split == 0 and relative(s, p.sack[0]) > ack))
    return bool(p.window == s.window)


@inlined
def _count(s: Any, arena: Any, duplicate: bool) -> None:
    """Count duplicates; in Linux 2.2 one may begin a recovery that has nothing to send yet."""
    if duplicate:
        s.dups += 1
        s.held += 1
        if s.profile & FAST22 and s.mode == OPEN and enough(s):
            s.mode, s.recover = RECOVERY, s.snd_max
            s.fresh = STALLED if at(s, arena, s.head).ever else 1
    elif s.profile & FAST22 and s.mode == OPEN:
        s.dups = 0  # data or a window update come between


@inlined
def on_ack(s: Any, row: Any, store: Any, p: Any) -> None:
    """Follow the sender through an incoming ACK (tcp_ack, tcp_clean_rtx_queue)."""
    ack, now = relative(s, p.ack), p.time_ns
    s.sample, s.heard, s.given_up = -1, 1, min(s.given_up, max(s.una - ack, 0))
    if p.sacks:
        s.sack_flow |= SEEN
        judge_duplicate(s, row, store, p, ack)
    if s.head == s.tail or ack < s.una:
        mark_sacked(s, row, store, p)
        s.window = p.window if ack >= s.una else s.window
        if ack > s.una:
            advance(s, ack)
        return
    s.ack_at = s.cause_at = now
    known = s.sack_bytes
    sacked = mark_sacked(s, row, store, p) if p.sacks else -1
    advanced = ack > s.una
    news = p.sacks > 0 and s.sack_bytes > known
    before = s.head
    sent = release(s, row, store, p, ack)
    opening, lossy = s.una == 0, s.mode == LOSS
    if lossy and s.profile & GO_BACK_N22:
        sacked = -1  # what was forgotten and is SACKed again tells no time
    if advanced:
        s.held = max(s.held - max(s.head - before - 1, 0), 0)  # as tcp_remove_reno_sacks
        advance(s, ack)
        _undo(s, p)
    else:
        _count(s, store[0], p.payload == 0 and p.flags & 7 == 0 and _duplicate(s, p, ack, news))
    s.window = p.window
    sample = now - sent if sent >= 0 else (now - sacked if sacked >= 0 else -1)
    if s.profile & RTO22:
        sample = -1 if lossy or opening or sent < 0 else now - sent
        if advanced and p.timestamps:
            sample = -1 if opening and s.passive else timestamp_rtt(s, p)
    elif sample < 0 and advanced:
        sample = timestamp_rtt(s, p)
    _time(s, store, now, (sample, sacked), advanced, opening)


@inlined
def _time(s: Any, store: Any, now: Any, told: Any, advanced: bool, opening: bool) -> None:
    """Take the RTT sample of an ACK; start, restart or stop the timer."""
    sample, sacked = told
    if sample >= 0:
        measure(s, sample)
    elif advanced and opening:
        s.rto = s.rttvar = s.mdev = s.mdev_max = _RTO_FALLBACK
    if s.head == s.tail:
        s.armed = -1
        if s.fin >= 0 and s.una > s.fin:
            give_back(s, store[0], store[1])
    elif advanced or (
        sacked >= 0
        and not s.profile & RTO22  # no sample, no timer
        and now - sacked > now - at(s, store[0], s.head).sent
    ):
        arm(s, armed_at(s, store[0], now, s.mode == LOSS))


@inlined
def append(s: Any, arena: Any, start: Any, end: Any, p: Any, unseen: bool) -> None:
    """Enter new data; sending while nothing is outstanding arms the timer."""
    if s.head == s.tail:
        arm(s, p.time_ns)
    g = at(s, arena, s.tail)
    g.start, g.end, g.sent, g.again, g.sacked, g.skip = start, end, p.time_ns, 0, 0, 1
    g.ever, g.unseen, g.kind, g.event, g.tsval = unseen, unseen, 0, 0, p.tsval
    s.tail += 1
    s.snd_max = end


@part
def time_out(s: Any, arena: Any, now: Any) -> None:
    """Enter loss state: everything not SACKed is lost, the timer doubles (tcp_enter_loss)."""
    if s.profile & GO_BACK_N22 or at(s, arena, s.head).sacked == s.board:  # the receiver reneged
        s.board += 1
        s.sack_bytes, s.high = 0, 0
    s.episode += 1
    s.mode, s.recover, s.dups, s.held, s.probe_end = LOSS, s.snd_max, 0, 0, 0
    s.fresh = 0
    s.rto, s.doubled = min(2 * s.rto, RTO_MAX), s.doubled + 1
    s.armed, s.limit = now, s.rto
    s.retransmits += 1
