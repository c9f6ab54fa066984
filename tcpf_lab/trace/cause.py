"""Why a segment is sent again: the timer, or an ACK and the recovery it belongs to.

What follows from it for the sender's state is done in `tcpf_lab.trace.liberation`.
"""

from __future__ import annotations

from typing import Any

from tcpf_lab.trace.estimator import CLASSIC, LINUX
from tcpf_lab.trace.events import (
    FAST,
    PARTIAL_ACK,
    POST_RTO,
    RTO,
    SACK_RECOVERY,
    TLP,
    UNKNOWN,
)
from tcpf_lab.trace.jit import inlined, part
from tcpf_lab.trace.linux22 import FAST22, TIMER22, WHOSE, timed_out
from tcpf_lab.trace.pacing import AT_ONCE, delay, is_paced, on_time, paced
from tcpf_lab.trace.scoreboard import at
from tcpf_lab.trace.sender import LOSS, MS, OPEN, RECOVERY

#: A packet this soon after an ACK may be that ACK's doing; no timer is as short.
EPSILON = 10 * MS
#: The kernel's clock tick at HZ=100, and a little.
_JIFFY = 12 * MS
SILENCE = 100 * MS
#: A probe waits this much longer than two RTTs; with one segment outstanding, by RFC 8985.
_LEAST, _DELAYED = 2 * MS, 200 * MS


@inlined
def probing(s: Any, arena: Any, now: Any) -> bool:
    """Whether a tail loss probe may leave now: one at a time, with SACK, nothing missing."""
    if not s.probes or s.probe_end or now - s.cause_at <= EPSILON:
        return False
    if s.mode != OPEN or s.dups > 0 or s.sack_bytes > 0 or s.srtt == 0 or s.head == s.tail:
        return False
    return not _refused(s) and _due(s, at(s, arena, s.head).sent, now)


@part
def _refused(s: Any) -> bool:
    """Whether the SYNs of both sides are known and do not agree on SACK."""
    return bool(s.sack_flow == 0 and s.own_permit > 0 and s.peer_permit > 0)


@inlined
def _refused_probe(s: Any, g: Any, now: Any) -> bool:
    """Whether the timer takes the place of a second probe, when the head has waited for it.

    What is sent starts the probe's timer anew, for no longer than is left of the head's.
    """
    waits = s.mode == OPEN and s.dups == 0 and s.sack_bytes == 0 and s.snd_max > s.probe_end
    return bool(s.probe_end and waits and s.sent_at >= s.armed and 10 * (now - g.sent) >= 9 * s.rto)


@inlined
def _reordered(s: Any, g: Any, now: Any) -> bool:
    """Whether the reordering timer of RACK runs in place of the other one (tcp_rack_mark_lost).

    It begins with the SACK of something sent later, and waits for a quarter of an RTT. A sender
    that has sent no tail loss probe is not taken for one with RACK: of 2299 timeouts of a sender
    without either, 436 come within a tick of such a SACK by chance.
    """
    first = s.mode == OPEN and s.sack_bytes > 0 and g.again != s.episode
    return bool(
        s.probed and first and _outrun(s, g) and now - s.ack_at <= s.srtt // 32 + 2 * _JIFFY
    )


@inlined
def _untimed(s: Any) -> bool:
    """Whether only the probe's timer runs: with nothing missing the other one waits for it."""
    return bool(
        s.probes and s.sack_flow and s.whole == s.armed and s.mode == OPEN and s.probe_end == 0
    )


@part
def _due(s: Any, head: Any, now: Any) -> bool:
    """Whether the probe's timer expires now (tcp_schedule_loss_probe); ``head``: when that left.

    It is started by a packet and by an ACK of something new, and waits two RTTs; for a segment on
    its own longer, lest a delayed ACK be taken for a loss; but no longer than the timer would.
    Where the next packet is held back, so is the probe.
    """
    if on_time(s, now):
        return False
    since = max(s.sent_at, s.armed)
    held = s.rto_min if s.profile & WHOSE == LINUX else _DELAYED
    wait = s.srtt // 4 + (held if s.tail - s.head == 1 else _LEAST)
    if s.armed > s.sent_at:
        wait = min(wait, s.rto)
    elif head + s.rto > since:
        wait = min(wait, head + s.rto - since)
    waited = now - since
    latest = wait + wait // 4 + delay(s, since) + 2 * _JIFFY
    return bool(10 * waited >= 9 * wait and waited <= latest)


@part
def _liberated(s: Any, g: Any, now: Any) -> bool:
    """Whether an ACK of this very instant, or pacing, explains that the head is sent again."""
    turn = paced(s, now) and s.ack_at >= s.sent_at
    if not turn and (now - s.ack_at > AT_ONCE or s.mode == LOSS):
        return False
    lost = s.mode == LOSS and (g.again != s.episode or _outrun(s, g))
    reason = bool(lost or (s.mode != LOSS and (s.dups >= 3 or s.sack_bytes > 0)))
    waited = now - s.armed
    if _untimed(s):
        return reason
    if waited < s.limit - _JIFFY or waited > s.limit + s.limit // 4 + 2 * _JIFFY or on_time(s, now):
        return reason  # no timer fires now, or pacing foresees the packet
    # What was sent after an ACK would have been the head, had that ACK called for it.
    past = now - s.ack_at > AT_ONCE or s.ack_at <= s.sent_at < now
    fresh = g.again != s.episode and s.mode != LOSS and not past
    return bool(fresh and (s.fresh or s.dups >= 3 or s.sack_bytes >= 3 * s.mss))


@inlined
def _outrun(s: Any, g: Any) -> bool:
    """Whether something sent later than a segment has arrived (RACK)."""
    return bool(s.sack_flow != 0 and s.delivered_at > g.sent)


@inlined
def ruled(s: Any, kind: int, rule: int) -> int:
    """Note the rule that names a packet; its kind."""
    s.rule = rule
    return kind


@inlined
def _repeated(s: Any, g: Any) -> bool:
    """Whether a recovery has no reason to send a segment again: it has been since the last timeout.

    RACK, which Linux 2.2 lacked, may have one.
    """
    once = s.sack_flow == 0 or s.profile & FAST22
    return bool(once and s.mode == RECOVERY and s.fresh == 0 and g.again == s.episode)


@part
def _is_timeout(s: Any, g: Any, now: Any, probe: bool) -> int:
    """Whether the retransmission of the head is the timer's doing: `RTO`, `TLP` or 0."""
    if g.sacked == s.board:  # sent again only when the sender has given up the scoreboard
        return ruled(s, RTO, 2)
    if s.profile & WHOSE == CLASSIC and s.mode == RECOVERY:
        # Its ACKs send the head once, and no hole.
        return ruled(s, RTO, 23)
    if s.profile & TIMER22:
        # What an ACK of this moment asks for again leaves first, and only once.
        answered = s.ack_at <= s.sent_at < now or s.ack_at <= g.sent or _repeated(s, g)
        at_once = now - s.ack_at <= AT_ONCE and not answered
        late = timed_out(s, now, at_once, s.mode == LOSS, s.mode == RECOVERY)
        return ruled(s, RTO, 24) if late else 0
    if probe and s.sack_flow:  # its timer ends with the other one at the latest
        return ruled(s, TLP, 5)
    if s.armed >= 0 and 10 * (now - s.armed) >= 9 * s.limit:
        explained = _reordered(s, g, now) or _liberated(s, g, now)
        return 0 if explained else ruled(s, RTO, 1)
    if s.sack_bytes > 0 and s.mode != LOSS and g.again != s.episode:
        return 0  # the reordering timer of RACK waits for a fraction of an RTT, then resends
    if probe:
        return ruled(s, TLP, 5)
    if _refused_probe(s, g, now):
        return ruled(s, RTO, 25)
    if now - s.ack_at <= max(s.srtt // 16, SILENCE) or (paced(s, now) and _liberated(s, g, now)):
        return 0
    return ruled(s, RTO, 3)


@part
def explain(s: Any, arena: Any, i: Any, now: Any, tail: bool) -> int:
    """Why segment ``i`` is sent again; ``tail``: it is the last one outstanding."""
    g = at(s, arena, i)
    probe = tail and not g.ever and probing(s, arena, now)
    if i == s.head:
        timer = _is_timeout(s, g, now, probe)
        if timer:
            return timer
    elif probe:
        return ruled(s, TLP, 5)
    if s.fresh:
        return ruled(s, FAST, 7)
    return _liberator(s, g, now - s.cause_at <= EPSILON or is_paced(s))


@part
def _liberator(s: Any, g: Any, driven: bool) -> int:
    """Which recovery sends segment ``g`` again; ``driven``: an ACK came just now."""
    # RACK: what was sent later has arrived, so a reordering timer or the next ACK resends.
    late = _outrun(s, g)
    if s.mode == LOSS:
        # What was sent later has arrived: Linux leaves the loss state (FLAG_LOST_RETRANS).
        if late and g.again == s.episode:
            return ruled(s, FAST, 21)
        if driven:
            return ruled(s, POST_RTO, 6)
        return ruled(s, POST_RTO, 12) if late else ruled(s, UNKNOWN, 18)
    if s.mode == RECOVERY:
        if s.sack_bytes > 0 or (s.sack_flow and driven):
            return ruled(s, SACK_RECOVERY, 11 if g.again == s.episode else 9)
        if late:
            return ruled(s, SACK_RECOVERY, 12)
        return ruled(s, PARTIAL_ACK, 10) if driven else ruled(s, UNKNOWN, 18)
    if s.dups >= 3 or s.sack_bytes > 0:
        return ruled(s, FAST, 7)
    # Without SACK Linux counts duplicate ACKs on when the left edge moves: those that answer
    # needless retransmissions after a timeout start a recovery a little later.
    if driven and not s.sack_flow and s.held >= 3:
        return ruled(s, FAST, 8)
    if late:
        return ruled(s, FAST, 12)
    return ruled(s, UNKNOWN, 18)
