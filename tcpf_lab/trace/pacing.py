"""Senders that pace: how long a packet is held back, and the timer with it.

Linux (tcp_update_skb_after_send) lets a packet go at the time its predecessor left plus what that
takes at the pacing rate; of what the predecessor itself came late, up to half is made good.  What a
timer sends does not wait.  A timer that is started while a packet is held runs from the packet's
time on (tcp_pacing_delay).  The rate is learnt from packets that no ACK of the moment liberated.
"""

from __future__ import annotations

from typing import Any

from tcpf_lab.trace.jit import inlined, part

MS = 1_000_000
#: What leaves this soon after an ACK is liberated by it; this soon after a packet, one burst.
AT_ONCE = MS
#: Unit of the pace: ns for so many bytes.
_UNIT = 1024
#: A gap this long is no pacing (Linux gives up pacing beyond the horizon of its scheduler, 10 s).
_LONGEST = 10_000 * MS
#: How exactly the kernel's timers keep a packet's time (their slack is 50 us).
_SLACK = MS // 10
#: So many packets in a row must have waited about equally long before a sender counts as paced.
_ENOUGH, _MOST = 4, 16


@inlined
def depart(s: Any, now: Any, size: Any) -> None:
    """Note that a packet leaves: when the next one may."""
    if now - s.sent_at > AT_ONCE:
        prior = s.slot
        s.slot_from = max(prior, now) if s.steady >= _ENOUGH else now
        s.slot_late = s.slot_from - prior
        s.slot_bytes = 0
    s.slot_bytes += size
    length = s.pace * s.slot_bytes // _UNIT
    s.slot = s.slot_from + length - min(length // 2, s.slot_late)


@inlined
def learn(s: Any, now: Any) -> None:
    """Learn the pace from a packet that waits for its turn, before it leaves."""
    if now - s.sent_at > AT_ONCE and s.slot_bytes > 0:
        if now - s.ack_at > AT_ONCE:
            _learn(s, now)
        elif s.steady > 0:
            _doubt(s, now)


@inlined
def _implied(s: Any, now: Any) -> Any:
    """Pace by which a packet would leave now."""
    wait = max(now - s.slot_from, 0)
    length = wait + s.slot_late if s.slot_late <= wait else 2 * wait
    return length * _UNIT // s.slot_bytes


@part
def _learn(s: Any, now: Any) -> None:
    if s.head == s.tail or now - s.slot_from > _LONGEST:
        return
    if s.steady >= _ENOUGH and s.armed > s.sent_at and s.slot > s.armed and _turn(s, now):
        s.limit += now - s.slot  # the timer was started while this packet waited
    pace = _implied(s, now)
    if pace < 2 * s.pace and s.pace < 2 * pace:
        s.steady = min(s.steady + 1, _MOST)
    s.pace, s.slot = pace, now


@part
def _doubt(s: Any, now: Any) -> None:
    """Look whether an ACK liberates a packet before its turn."""
    pace = _implied(s, now)
    if 2 * pace < s.pace:
        s.steady -= 1
    s.pace, s.slot = min(s.pace, pace), min(s.slot, now)


@inlined
def is_paced(s: Any) -> bool:
    """Whether the sender paces."""
    return bool(s.steady >= _ENOUGH)


@inlined
def delay(s: Any, now: Any) -> Any:
    """How much longer a packet must wait."""
    return max(s.slot - now, 0) if s.steady >= _ENOUGH else 0


@inlined
def paced(s: Any, now: Any) -> bool:
    """Whether it is a held packet's turn, by the pace so far and not much more."""
    return bool(s.steady >= _ENOUGH and _turn(s, now))


@part
def _turn(s: Any, now: Any) -> bool:
    wait, expected = now - s.slot_from, s.slot - s.slot_from
    return bool(2 * wait >= expected and wait <= 2 * expected + AT_ONCE)


@inlined
def on_time(s: Any, now: Any) -> bool:
    """Whether a packet leaves the very moment that the pace foresees."""
    return bool(s.steady >= _ENOUGH and abs(now - s.slot) <= _SLACK)
