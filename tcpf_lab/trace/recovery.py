"""Tell retransmission timeouts from every other retransmission, from a capture at the sender.

The rule ("liberation"): a packet leaves because an ACK liberated it or because a timer did.  Per
flow the state of a Linux sender is followed - left edge, SACK scoreboard, smoothed RTT, the
retransmission timer with all its re-arming - and every retransmission is explained by it.
Sequence numbers are 64-bit and relative: the SYN is byte 0, data begins at byte 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.trace.flow import Flows
from tcpf_lab.trace.jit import compiled, part
from tcpf_lab.trace.packet import Packets

#: Kinds of packets: a number per packet, 0 for what is no retransmission.
RTO, FAST, SACK_RECOVERY, PARTIAL_ACK, POST_RTO, TLP, UNKNOWN, SYN_RTO = range(1, 9)
KIND_NAMES = {
    RTO: "rto",
    FAST: "fast",
    SACK_RECOVERY: "sack_recovery",
    PARTIAL_ACK: "partial_ack",
    POST_RTO: "post_rto",
    TLP: "tlp",
    UNKNOWN: "unknown",
    SYN_RTO: "syn_rto",
}
#: Smallest variance term of the timer: RTO >= SRTT + 200 ms (Linux, TCP_RTO_MIN).
RTO_MIN_NS = 200_000_000

_OPEN, _RECOVERY, _LOSS = 0, 1, 2
_MS = 1_000_000
#: A packet this soon after an ACK may be that ACK's doing; no timer is as short.
_EPSILON = 10 * _MS
#: What an ACK liberates while the timer is due anyway must leave at once to count as liberated.
_AT_ONCE = _MS
#: The kernel's clock tick at HZ=100, and a little.
_JIFFY = 12 * _MS
_SILENCE = 100 * _MS
_RTO_INITIAL, _RTO_FALLBACK, _RTO_MAX = 1000 * _MS, 3000 * _MS, 120_000 * _MS

_FLOW = np.dtype(
    [
        (name, np.int64)
        for name in (
            *("known", "isn", "una", "snd_max", "fin", "acked_before", "window"),
            *("head", "tail", "mode", "recover", "dups", "sack_bytes", "sack_flow", "mss"),
            *("srtt", "mdev", "mdev_max", "rttvar", "rtt_seq", "rto_min"),
            *("rto", "armed", "retransmits", "ack_at", "cause_at", "sent_at", "sacked_at"),
            *("tick", "tick_at"),
        )
    ]
)
_SEGMENT = np.dtype(
    [(name, np.int64) for name in ("start", "end", "sent", "ever", "again", "sacked")]
)


@dataclass(frozen=True)
class Recovery:
    """What the capture says about loss recovery.

    Attributes
    ----------
    kind : uint8, shape (packets,)
        Why a data packet or SYN was retransmitted (`KIND_NAMES`); 0 if it was not.
    backoff : uint8, shape (packets,)
        For an RTO: how many expiries went before it without an ACK of new data between.
    acked : int64, shape (packets,)
        For a packet that comes back to a data sender: payload bytes acknowledged so far (SYN and
        FIN not counted); 0 otherwise.
    """

    kind: NDArray[np.uint8]
    backoff: NDArray[np.uint8]
    acked: NDArray[np.int64]


@part
def _relative(s: Any, number: Any) -> Any:
    """Unwrap a sequence number near the left edge."""
    offset = (np.int64(number) - s.isn - s.una) & 0xFFFFFFFF
    return s.una + (offset - 0x100000000 if offset & 0x80000000 else offset)


@part
def _open(s: Any, base: Any, una: int) -> None:
    """Begin a connection whose relative byte 0 has the number ``base``."""
    s.acked_before = s.acked_before + _acked(s)
    s.known, s.isn, s.una, s.snd_max, s.fin = 1, np.int64(base), una, una, -1
    s.head, s.tail, s.mode, s.recover, s.dups, s.window = 0, 0, _OPEN, 0, 0, -1
    s.sack_bytes, s.sack_flow, s.mss = 0, 0, 1
    s.srtt, s.mdev, s.mdev_max, s.rttvar, s.rtt_seq = 0, 0, 0, 0, 0
    s.rto, s.armed, s.retransmits, s.tick_at = _RTO_INITIAL, -1, 0, 0
    s.ack_at, s.cause_at, s.sent_at = -_RTO_MAX, -_RTO_MAX, -_RTO_MAX


@part
def _acked(s: Any) -> Any:
    """Payload bytes acknowledged on this connection."""
    fin = 1 if s.fin >= 0 and s.una > s.fin else 0
    return max(s.una - 1 - fin, 0)


@part
def _measure(s: Any, sample: Any) -> None:
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
    s.rto = min(s.srtt // 8 + s.rttvar, _RTO_MAX)


@part
def _mark_sacked(s: Any, queue: Any, p: Any) -> Any:
    """Enter SACK blocks on the scoreboard; send time of the first new one fit for an RTT, or -1."""
    first = -1
    for k in range(p.sacks):
        low, high = _relative(s, p.sack[2 * k]), _relative(s, p.sack[2 * k + 1])
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
def _release(s: Any, queue: Any, ack: Any) -> Any:
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
def _advance(s: Any, ack: Any) -> None:
    """Move the left edge; leave recovery when what was outstanding at its start is acknowledged."""
    s.una, s.snd_max = ack, max(s.snd_max, ack)
    s.dups, s.retransmits = 0, 0
    # Without SACK, Linux waits for one byte more, lest old duplicates start a recovery anew.
    if s.mode != _OPEN and (ack > s.recover or (ack == s.recover and s.sack_flow)):
        s.mode = _OPEN


@part
def _timestamp_rtt(s: Any, p: Any) -> Any:
    """RTT from the echoed time stamp (1 ms ticks), -1 without one."""
    if not p.timestamps or not s.tick_at:
        return -1
    ticks = (s.tick - np.int64(p.tsecr)) & 0xFFFFFFFF
    return p.time_ns - s.tick_at + ticks * _MS if ticks < 0x7FFFFFFF else -1


@part
def _on_ack(s: Any, queue: Any, p: Any) -> None:
    """Follow the sender through an incoming ACK (tcp_ack, tcp_clean_rtx_queue)."""
    ack, now = _relative(s, p.ack), p.time_ns
    if s.head == s.tail or ack < s.una:
        _mark_sacked(s, queue, p)
        if ack > s.una:
            _advance(s, ack)
        return
    s.ack_at = s.cause_at = now
    s.sack_flow |= p.sacks > 0
    sacked = _mark_sacked(s, queue, p)
    advanced = ack > s.una
    sent = _release(s, queue, ack)
    if advanced:
        opening = s.una == 0
        _advance(s, ack)
    elif p.payload == 0 and (p.sacks > 0 or p.window == s.window):
        s.dups += 1
    s.window = p.window
    sample = now - sent if sent >= 0 else (now - sacked if sacked >= 0 else -1)
    if sample < 0 and advanced:
        sample = _timestamp_rtt(s, p)
    if sample >= 0:
        _measure(s, sample)
    elif advanced and opening:
        s.rto = s.rttvar = s.mdev = s.mdev_max = _RTO_FALLBACK
    if s.head == s.tail:
        s.armed = -1
    elif advanced or (sacked >= 0 and now - sacked > now - queue[s.head].sent):
        s.armed = now


@part
def _append(s: Any, queue: Any, start: Any, end: Any, now: Any, ever: int) -> None:
    if s.head == s.tail:
        s.armed = now
    g = queue[s.tail]
    g.start, g.end, g.sent, g.ever, g.again, g.sacked = start, end, now, ever, 0, 0
    s.tail += 1
    s.snd_max = end


@part
def _probing(s: Any, queue: Any, now: Any) -> bool:
    """Whether a tail loss probe may leave now (tcp_schedule_loss_probe).

    Two RTTs after the last packet, or when the head is as old as the timer allows.
    """
    if now - s.cause_at <= _EPSILON or s.srtt == 0 or s.head == s.tail:
        return False
    quiet = 10 * 8 * (now - s.sent_at)
    age = 10 * (now - queue[s.head].sent)
    return bool(
        (18 * s.srtt <= quiet and quiet <= 25 * s.srtt) or (9 * s.rto <= age and age <= 12 * s.rto)
    )


@part
def _liberated(s: Any, g: Any, now: Any) -> bool:
    """Whether an ACK of this very instant explains that the head is sent again."""
    if now - s.ack_at > _AT_ONCE or s.mode == _LOSS:
        return False
    waited = now - s.armed
    if waited < s.rto - _JIFFY or waited > s.rto + s.rto // 4 + 2 * _JIFFY:  # no timer fires now
        return bool(s.dups >= 3 or s.sack_bytes > 0)
    return bool(not g.again and (s.dups >= 3 or s.sack_bytes >= 3 * s.mss))


@part
def _is_timeout(s: Any, g: Any, now: Any, probe: bool) -> int:
    """Whether the retransmission of the head is the timer's doing: `RTO`, `TLP` or 0."""
    if g.sacked:  # it is sent again only when the sender has given up the scoreboard (reneging)
        return RTO
    if s.armed >= 0 and 10 * (now - s.armed) >= 9 * s.rto:
        return 0 if _liberated(s, g, now) else RTO
    if s.sack_bytes > 0 and s.mode != _LOSS and not g.again:
        return 0  # the reordering timer of RACK waits for a fraction of an RTT, then resends
    if probe:
        return TLP
    return RTO if now - s.ack_at > max(s.srtt // 16, _SILENCE) else 0


@part
def _explain(s: Any, queue: Any, at: int, now: Any, tail: bool) -> int:
    """Why segment ``at`` is sent again; ``tail``: it is the last one outstanding."""
    g = queue[at]
    silent = s.dups == 0 and s.sack_bytes == 0 and not g.ever
    probe = tail and silent and s.mode == _OPEN and _probing(s, queue, now)
    timer = _is_timeout(s, g, now, probe) if at == s.head else (TLP if probe else 0)
    if timer:
        return timer
    driven = now - s.cause_at <= _EPSILON
    if s.mode == _LOSS:
        return POST_RTO if driven else UNKNOWN
    if s.mode == _RECOVERY:
        if s.sack_bytes > 0 or (s.sack_flow and driven):
            return SACK_RECOVERY
        return PARTIAL_ACK if driven else UNKNOWN
    return FAST if s.dups >= 3 or s.sack_bytes > 0 else UNKNOWN


@part
def _time_out(s: Any, queue: Any, now: Any) -> None:
    """Enter loss state: everything not SACKed is lost, the timer doubles (tcp_enter_loss)."""
    reneged = queue[s.head].sacked != 0
    for i in range(s.head, s.tail):
        queue[i].again = 0
        if reneged:
            queue[i].sacked = 0
    if reneged:
        s.sack_bytes = 0
    s.mode, s.recover, s.dups = _LOSS, s.snd_max, 0
    s.rto, s.armed = min(2 * s.rto, _RTO_MAX), now
    s.retransmits += 1


@part
def _resend(s: Any, queue: Any, start: Any, end: Any, now: Any) -> int:
    """Explain a retransmission and follow the sender through it."""
    at = s.head
    while at < s.tail - 1 and queue[at].end <= start:
        at += 1
    kind = _explain(s, queue, at, now, end >= s.snd_max)
    if kind == RTO:
        _time_out(s, queue, now)
    elif kind == FAST:
        s.mode, s.recover = _RECOVERY, s.snd_max
    if kind == TLP or (kind != RTO and at == s.head):
        s.armed = now
    for i in range(at, s.tail):
        if queue[i].start < end:
            queue[i].sent, queue[i].ever, queue[i].again = now, 1, 1
    return kind


@part
def _on_data(s: Any, queue: Any, p: Any) -> int:
    """Follow the sender through a packet it sends; its kind."""
    now, fin = p.time_ns, p.flags & 1
    start = _relative(s, p.seq)
    end = start + p.payload + fin
    if p.timestamps:
        s.tick, s.tick_at = np.int64(p.tsval), now
    if fin:
        s.fin = end - 1
    s.mss = max(s.mss, p.payload)
    kind = 0
    if start < s.snd_max:
        if end <= s.una:  # a keep-alive probe, or data that was acknowledged on its way here
            return UNKNOWN if p.payload > 1 else 0
        kind = _resend(s, queue, start, end, now)
    elif start > s.snd_max:  # the capture missed what lies between
        _append(s, queue, s.snd_max, start, now, 1)
    if end > s.snd_max:
        if not kind and _probing(s, queue, now):
            s.armed = now  # a tail loss probe of new data
        _append(s, queue, max(start, s.snd_max), end, now, 0)
    s.sent_at = now
    if now - s.cause_at <= _EPSILON:
        s.cause_at = now
    return kind


@part
def _on_syn(s: Any, queue: Any, p: Any) -> int:
    """A SYN or SYN-ACK of the data sender: new connection or an expired timer."""
    if s.known and s.isn == p.seq and s.una == 0 and s.head < s.tail:
        queue[s.head].ever = 1
        s.rto, s.armed = min(2 * s.rto, _RTO_MAX), p.time_ns
        return SYN_RTO
    if s.known and s.isn == p.seq:
        return 0
    _open(s, p.seq, 0)
    _append(s, queue, 0, 1, p.time_ns, 0)
    return 0


@part
def _on_packet(s: Any, queue: Any, p: Any, forward: bool) -> int:
    if forward and p.flags & 2:
        return _on_syn(s, queue, p)
    if forward:
        if p.payload == 0 and not p.flags & 1:
            return 0
        if not s.known:
            _open(s, np.int64(p.seq) - 1, 1)
        return _on_data(s, queue, p)
    if p.flags & 16:
        if not s.known:
            _open(s, np.int64(p.ack) - 1, 1)
        _on_ack(s, queue, p)
    return 0


@compiled
def _follow(
    packets: Packets,
    rows: NDArray[np.int64],
    forward: NDArray[np.bool_],
    state: NDArray[Any],
    queue: NDArray[Any],
    out: tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.int64]],
) -> None:
    """Run one flow."""
    kind, backoff, acked = out
    s = state[0]
    for k in range(rows.size):
        i = rows[k]
        before = s.retransmits
        found = _on_packet(s, queue, packets[i], forward[k])
        if forward[k]:
            kind[i] = found
            backoff[i] = min(before, 255) if found == RTO else 0
        else:
            acked[i] = s.acked_before + (_acked(s) if s.known else 0)


def classify(packets: Packets, flows: Flows, *, rto_min_ns: int = RTO_MIN_NS) -> Recovery:
    """Explain every retransmission of every flow.

    Parameters
    ----------
    packets : Packets
        Both directions, captured at the data senders.
    flows : Flows
        Their flows.
    rto_min_ns : int
        Smallest variance term of the senders' timer.

    Returns
    -------
    Recovery
        Per packet.

    Notes
    -----
    RFC 6298 for the timer, with Linux's deviations: variance from a maximum filter, back-off undone
    by a valid RTT sample only, re-armed by every ACK that moves the left edge, by a SACK of data
    sent after the head, and by a retransmission of the head.
    """
    result = Recovery(
        np.zeros(packets.size, np.uint8),
        np.zeros(packets.size, np.uint8),
        np.zeros(packets.size, np.int64),
    )
    out = (result.kind, result.backoff, result.acked)
    for flow in range(flows.count):
        rows = flows.both_ways(flow)
        forward = flows.backward[rows] == flows.reverse[flow]
        state, queue = np.zeros(1, _FLOW), np.empty(2 * rows.size + 2, _SEGMENT)
        state["rto_min"] = rto_min_ns
        _follow(packets, rows, forward, state, queue, out)
    return result
