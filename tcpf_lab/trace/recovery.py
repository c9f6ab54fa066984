"""Tell retransmission timeouts from every other retransmission, from a capture at the sender.

The rule ("liberation"): a packet leaves because an ACK liberated it or because a timer did.  Per
flow the state of a Linux sender is followed - left edge, SACK scoreboard, smoothed RTT, the
retransmission timer with all its re-arming - and every retransmission is explained by it.
Sequence numbers are 64-bit and relative: the SYN is byte 0, data begins at byte 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.trace import sender
from tcpf_lab.trace.flow import Flows
from tcpf_lab.trace.jit import compiled, part, stamp
from tcpf_lab.trace.packet import Packets
from tcpf_lab.trace.sender import (
    LOSS,
    MS,
    OPEN,
    RECOVERY,
    RTO_MAX,
    SEGMENT,
    SENDER,
    acknowledged,
    append,
    arm,
    begin,
    on_ack,
    relative,
    time_out,
)

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
RTO_MIN_NS = 200 * MS

#: A packet this soon after an ACK may be that ACK's doing; no timer is as short.
_EPSILON = 10 * MS
#: What an ACK liberates while the timer is due anyway must leave at once to count as liberated.
_AT_ONCE = MS
#: The kernel's clock tick at HZ=100, and a little.
_JIFFY = 12 * MS
_SILENCE = 100 * MS


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
def _probing(s: Any, queue: Any, now: Any) -> bool:
    """Whether a tail loss probe may leave now (tcp_schedule_loss_probe).

    Two RTTs after the last packet, or when the head is as old as the timer allows.
    """
    if not s.probes or now - s.cause_at <= _EPSILON or s.srtt == 0 or s.head == s.tail:
        return False
    if s.mode != OPEN or s.dups > 0 or s.sack_bytes > 0:
        return False
    quiet = 10 * 8 * (now - s.sent_at)
    age = 10 * (now - queue[s.head].sent)
    return bool(
        (18 * s.srtt <= quiet and quiet <= 25 * s.srtt) or (9 * s.rto <= age and age <= 12 * s.rto)
    )


@part
def _liberated(s: Any, g: Any, now: Any) -> bool:
    """Whether an ACK of this very instant explains that the head is sent again."""
    if now - s.ack_at > _AT_ONCE or s.mode == LOSS:
        return False
    waited = now - s.armed
    if (
        waited < s.limit - _JIFFY or waited > s.limit + s.limit // 4 + 2 * _JIFFY
    ):  # no timer fires now
        return bool(s.dups >= 3 or s.sack_bytes > 0)
    return bool(not g.again and (s.dups >= 3 or s.sack_bytes >= 3 * s.mss))


@part
def _is_timeout(s: Any, g: Any, now: Any, probe: bool) -> int:
    """Whether the retransmission of the head is the timer's doing: `RTO`, `TLP` or 0."""
    if g.sacked:  # it is sent again only when the sender has given up the scoreboard (reneging)
        return RTO
    if s.armed >= 0 and 10 * (now - s.armed) >= 9 * s.limit:
        return 0 if _liberated(s, g, now) else RTO
    if s.sack_bytes > 0 and s.mode != LOSS and not g.again:
        return 0  # the reordering timer of RACK waits for a fraction of an RTT, then resends
    if probe:
        return TLP
    return RTO if now - s.ack_at > max(s.srtt // 16, _SILENCE) else 0


@part
def _explain(s: Any, queue: Any, at: int, now: Any, tail: bool) -> int:
    """Why segment ``at`` is sent again; ``tail``: it is the last one outstanding."""
    g = queue[at]
    probe = tail and not g.ever and _probing(s, queue, now)
    timer = _is_timeout(s, g, now, probe) if at == s.head else (TLP if probe else 0)
    if timer:
        return timer
    driven = now - s.cause_at <= _EPSILON
    if s.mode == LOSS:
        return POST_RTO if driven else UNKNOWN
    if s.mode == RECOVERY:
        if s.sack_bytes > 0 or (s.sack_flow and driven):
            return SACK_RECOVERY
        return PARTIAL_ACK if driven else UNKNOWN
    if s.dups >= 3 or s.sack_bytes > 0:
        return FAST
    # Without SACK Linux counts duplicate ACKs on when the left edge moves: those that answer
    # needless retransmissions after a timeout start a recovery a little later.
    return FAST if driven and not s.sack_flow and s.held >= 3 else UNKNOWN


@part
def _resend(s: Any, queue: Any, start: Any, end: Any, now: Any) -> int:
    """Explain a retransmission and follow the sender through it."""
    at = s.head
    while at < s.tail - 1 and queue[at].end <= start:
        at += 1
    kind = _explain(s, queue, at, now, end >= s.snd_max)
    if kind == RTO:
        time_out(s, queue, now)
    elif kind == FAST:
        s.mode, s.recover = RECOVERY, s.snd_max
    if kind == TLP or (kind != RTO and at == s.head):
        arm(s, now)
    for i in range(at, s.tail):
        if queue[i].start < end:
            queue[i].sent, queue[i].ever, queue[i].again = now, 1, 1
    return kind


@part
def _on_data(s: Any, queue: Any, p: Any) -> int:
    """Follow the sender through a packet it sends; its kind."""
    now, fin = p.time_ns, p.flags & 1
    start = relative(s, p.seq)
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
        append(s, queue, s.snd_max, start, now, 1)
    if end > s.snd_max:
        if not kind and _probing(s, queue, now):
            arm(s, now)  # a tail loss probe of new data
        append(s, queue, max(start, s.snd_max), end, now, 0)
    s.sent_at = now
    if now - s.cause_at <= _EPSILON:
        s.cause_at = now
    return kind


@part
def _on_syn(s: Any, queue: Any, p: Any) -> int:
    """A SYN or SYN-ACK of the data sender: new connection or an expired timer."""
    if s.known and s.isn == p.seq and s.una == 0 and s.head < s.tail:
        queue[s.head].ever = 1
        s.rto = min(2 * s.rto, RTO_MAX)
        arm(s, p.time_ns)
        return SYN_RTO
    if s.known and s.isn == p.seq:
        return 0
    begin(s, p.seq, 0)
    append(s, queue, 0, 1, p.time_ns, 0)
    return 0


@part
def _on_packet(s: Any, queue: Any, p: Any, forward: bool) -> int:
    if forward and p.flags & 2:
        return _on_syn(s, queue, p)
    if forward:
        if p.payload == 0 and not p.flags & 1:
            return 0
        if not s.known:
            begin(s, np.int64(p.seq) - 1, 1)
        return _on_data(s, queue, p)
    if p.flags & 16:
        if not s.known:
            begin(s, np.int64(p.ack) - 1, 1)
        on_ack(s, queue, p)
    return 0


def _compile(sources: str) -> Callable[..., None]:
    """Compile the state machine; ``sources`` identifies the text of the modules it is made of."""

    def _follow(
        packets: Packets,
        rows: NDArray[np.int64],
        forward: NDArray[np.bool_],
        state: NDArray[Any],
        queue: NDArray[Any],
        out: tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.int64]],
    ) -> None:
        """Run one flow."""
        _ = sources  # so that it is part of the key in the cache
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
                acked[i] = s.acked_before + (acknowledged(s) if s.known else 0)

    return compiled(_follow)


_follow = _compile(stamp(sender))


def classify(
    packets: Packets, flows: Flows, *, rto_min_ns: int = RTO_MIN_NS, probes: bool = False
) -> Recovery:
    """Explain every retransmission of every flow.

    Parameters
    ----------
    packets : Packets
        Both directions, captured at the data senders.
    flows : Flows
        Their flows.
    rto_min_ns : int
        Smallest variance term of the senders' timer.
    probes : bool
        Whether the senders send tail loss probes (Linux: SACK on and ``tcp_early_retrans`` not 0).

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
        state, queue = np.zeros(1, SENDER), np.empty(2 * rows.size + 2, SEGMENT)
        state["rto_min"], state["probes"] = rto_min_ns, probes
        _follow(packets, rows, forward, state, queue, out)
    return result
