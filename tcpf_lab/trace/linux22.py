"""What Linux 2.2 did otherwise, as far as following a sender needs it.

Patch 0012 of the guest's kernel brings it back; parts of the compiled state machine, as
`tcpf_lab.trace.sender`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tcpf_lab.trace.jit import inlined
from tcpf_lab.trace.scoreboard import at

#: Bits of the state's ``profile``: the timer, since when it counts, recovery from a timeout, fast
#: retransmit.
RTO22, RTO_AGE22, GO_BACK_N22, FAST22 = 16, 32, 64, 128
TIMER22 = RTO22 | RTO_AGE22
#: What of ``profile`` is not one of these bits.
WHOSE = 15
LINUX22 = TIMER22 | GO_BACK_N22 | FAST22
#: By the names that the experiment's ``tcp.linux22`` has for them.
BITS = {"rto": RTO22, "rto_age": RTO_AGE22, "go_back_n": GO_BACK_N22, "fast_retransmit": FAST22}


def bits(behaviours: Collection[str]) -> int:
    """Return what the behaviours named add to ``profile``; some add nothing."""
    return sum(BITS.get(name, 0) for name in behaviours)


@inlined
def armed_at(s: Any, arena: Any, now: Any, lossy: bool) -> Any:
    """When the timer that an ACK starts began: with the oldest packet, after a timeout now."""
    return now if lossy or not s.profile & RTO_AGE22 else at(s, arena, s.head).sent


@inlined
def enough(s: Any) -> bool:
    """Whether a duplicate begins a recovery: the third, or three packets are below a SACKed one.

    What it would send again may have been already: then only the next ACK has something to send.
    """
    return bool(s.dups >= 3 or (s.sack_bytes > 0 and s.high - s.una > 3 * s.mss))


@inlined
def timed_out(s: Any, now: Any, at_once: bool, lossy: bool, recovering: bool) -> bool:
    """Whether the timer sends the head again, rather than an ACK of this very instant."""
    if s.armed < 0 or 10 * (now - s.armed) < 9 * s.limit:
        return False
    asked = recovering or s.dups >= 3 or s.sack_bytes > 0
    return not (at_once and asked and not lossy)
