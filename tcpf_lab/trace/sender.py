"""Follow a Linux TCP sender through a capture: left edge, scoreboard, RTT, retransmission timer.

Sequence numbers are 64-bit and relative: the SYN is byte 0, data begins at byte 1.  Times are
nanoseconds.  All functions are parts of `tcpf_lab.trace.recovery`'s compiled state machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tcpf_lab.trace.jit import part

OPEN, RECOVERY, LOSS = 0, 1, 2
MS = 1_000_000
_RTO_INITIAL, _RTO_FALLBACK, RTO_MAX = 1000 * MS, 3000 * MS, 120_000 * MS

SENDER = np.dtype(
    [
        (name, np.int64)
        for name in (
            *("known", "isn", "una", "snd_max", "fin", "acked_before", "window"),
            *("head", "tail", "mode", "recover", "dups", "held", "sack_bytes", "sack_flow", "mss"),
            *("srtt", "mdev", "mdev_max", "rttvar", "rtt_seq", "rto_min"),
            *("rto", "armed", "limit", "retransmits", "ack_at", "cause_at", "sent_at"),
            *("tick", "tick_at", "probes"),
        )
    ]
)
SEGMENT = np.dtype(
    [(name, np.int64) for name in ("start", "end", "sent", "ever", "again", "sacked")]
)


@part
def relative(s: Any, number: Any) -> Any:
    """Unwrap a sequence number near the left edge."""
    offset = (np.int64(number) - s.isn - s.una) & 0xFFFFFFFF
    return s.una + (offset - 0x100000000 if offset & 0x80000000 else offset)


@part
def begin(s: Any, base: Any, una: int) -> None:
    """Begin a connection whose relative byte 0 has the number ``base``."""
    s.acked_before = s.acked_before + acknowledged(s)
    s.known, s.isn, s.una, s.snd_max, s.fin = 1, np.int64(base), una, una, -1
    s.head, s.tail, s.mode, s.recover, s.dups, s.window = 0, 0, OPEN, 0, 0, -1
    s.sack_bytes, s.sack_flow, s.mss, s.held = 0, 0, 1, 0
    s.srtt, s.mdev, s.mdev_max, s.rttvar, s.rtt_seq = 0, 0, 0, 0, 0
    s.rto, s.armed, s.retransmits, s.tick_at = _RTO_INITIAL, -1, 0, 0
    s.ack_at, s.cause_at, s.sent_at = -RTO_MAX, -RTO_MAX, -RTO_MAX


@part
def arm(s: Any, now: Any) -> None:
    """Start the timer; a later RTT sample changes the next start, not this one."""
    s.armed, s.limit = now, s.rto


@part
def acknowledged(s: Any) -> Any:
    """Payload bytes acknowledged on this connection."""
    fin = 1 if s.fin >= 0 and s.una > s.fin else 0
    return max(s.una - 1 - fin, 0)


@part
def measure(s: Any, sample: Any) -> None:
    """Linux's RTT estimator: a maximum filter over one window as the variance (tcp_input.c)."""
    if s.srtt == 0:
        s.srtt, s.mdev = 8 * sample, 2 * sample
        s.rttvar = max(s.mdev, s.rto_min)
        s.mdev_max, s.rtt_seq = s.rttvar, s.snd_max
    else:
        error = sample - s.srtt // 8
        s.srtt += error
        change = abs(error) - s.mdev // 4
        s.mdev += change // 8 if error < 0 and change > 0 else change
        s.mdev_max = max(s.mdev_max, s.mdev)
        s.rttvar = max(s.rttvar, s.mdev_max)
        if s.una > s.rtt_seq:
            s.rttvar -= (s.rttvar - s.mdev_max) // 4
            s.rtt_seq, s.mdev_max = s.snd_max, s.rto_min
    s.rto = min(s.srtt // 8 + s.rttvar, RTO_MAX)


@part
def mark_sacked(s: Any, queue: Any, p: Any) -> Any:
    """Enter SACK blocks on the scoreboard; send time of the first new one fit for an RTT, or -1."""
    first = -1
    for k in range(p.sacks):
        low, high = relative(s, p.sack[2 * k]), relative(s, p.sack[2 * k + 1])
        for i in range(s.head, s.tail):
            g = queue[i]
            if g.start >= high:
                break
            if g.start < low or g.end > high or g.sacked:
                continue
            g.sacked = 1
            s.sack_bytes += g.end - g.start
            if not g.ever and (first < 0 or g.sent < first):
                first = g.sent
    return first


@part
def release(s: Any, queue: Any, ack: Any) -> Any:
    """Take acknowledged segments off; send time fit for an RTT, -1 if there is none (Karn)."""
    first, karn = -1, False
    while s.head < s.tail and queue[s.head].end <= ack:
        g = queue[s.head]
        karn |= g.ever != 0
        if not g.ever and not g.sacked and first < 0:
            first = g.sent
        if g.sacked:
            s.sack_bytes -= g.end - g.start
        s.head += 1
    if s.head < s.tail and queue[s.head].start < ack:
        queue[s.head].start = ack
    return -1 if karn else first


@part
def advance(s: Any, ack: Any) -> None:
    """Move the left edge; leave recovery when what was outstanding at its start is acknowledged."""
    s.una, s.snd_max = ack, max(s.snd_max, ack)
    s.dups, s.retransmits = 0, 0
    # Without SACK, Linux waits for one byte more, lest old duplicates start a recovery anew.
    if s.mode != OPEN and (ack > s.recover or (ack == s.recover and s.sack_flow)):
        s.held = 0 if s.mode == RECOVERY else s.held
        s.mode = OPEN


@part
def timestamp_rtt(s: Any, p: Any) -> Any:
    """RTT from the echoed time stamp (1 ms ticks), -1 without one."""
    if not p.timestamps or not s.tick_at:
        return -1
    ticks = (s.tick - np.int64(p.tsecr)) & 0xFFFFFFFF
    return p.time_ns - s.tick_at + ticks * MS if ticks < 0x7FFFFFFF else -1


@part
def on_ack(s: Any, queue: Any, p: Any) -> None:
    """Follow the sender through an incoming ACK (tcp_ack, tcp_clean_rtx_queue)."""
    ack, now = relative(s, p.ack), p.time_ns
    if s.head == s.tail or ack < s.una:
        mark_sacked(s, queue, p)
        if ack > s.una:
            advance(s, ack)
        return
    s.ack_at = s.cause_at = now
    s.sack_flow |= p.sacks > 0
    sacked = mark_sacked(s, queue, p)
    advanced = ack > s.una
    before = s.head
    sent = release(s, queue, ack)
    if advanced:
        s.held = max(s.held - max(s.head - before - 1, 0), 0)  # as tcp_remove_reno_sacks
        opening = s.una == 0
        advance(s, ack)
    elif p.payload == 0 and (p.sacks > 0 or p.window == s.window):
        s.dups += 1
        s.held += 1
    s.window = p.window
    sample = now - sent if sent >= 0 else (now - sacked if sacked >= 0 else -1)
    if sample < 0 and advanced:
        sample = timestamp_rtt(s, p)
    if sample >= 0:
        measure(s, sample)
    elif advanced and opening:
        s.rto = s.rttvar = s.mdev = s.mdev_max = _RTO_FALLBACK
    if s.head == s.tail:
        s.armed = -1
    elif advanced or (sacked >= 0 and now - sacked > now - queue[s.head].sent):
        arm(s, now)


@part
def append(s: Any, queue: Any, start: Any, end: Any, now: Any, ever: int) -> None:
    """Enter new data; sending while nothing is outstanding arms the timer."""
    if s.head == s.tail:
        arm(s, now)
    g = queue[s.tail]
    g.start, g.end, g.sent, g.ever, g.again, g.sacked = start, end, now, ever, 0, 0
    s.tail += 1
    s.snd_max = end


@part
def time_out(s: Any, queue: Any, now: Any) -> None:
    """Enter loss state: everything not SACKed is lost, the timer doubles (tcp_enter_loss)."""
    reneged = queue[s.head].sacked != 0
    for i in range(s.head, s.tail):
        queue[i].again = 0
        if reneged:
            queue[i].sacked = 0
    if reneged:
        s.sack_bytes = 0
    s.mode, s.recover, s.dups, s.held = LOSS, s.snd_max, 0, 0
    s.rto = min(2 * s.rto, RTO_MAX)
    arm(s, now)
    s.retransmits += 1
