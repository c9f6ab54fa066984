"""How senders make a timer of round-trip times; parts of the compiled state machine.

Times are nanoseconds; ``s`` is the state of one sender (`tcpf_lab.trace.sender`).
"""

from __future__ import annotations

from typing import Any

from tcpf_lab.trace.jit import inlined
from tcpf_lab.trace.linux22 import GO_BACK_N22, RTO22, WHOSE

#: Whose timer; CLASSIC is Linux without SACK that recovers as the Reno of 1990 did (patch 0008).
#: The bits of `tcpf_lab.trace.linux22` may be added to either.
LINUX, RFC6298, CLASSIC = 0, 1, 2
RTO_MAX = 120_000_000_000
_TICK = 10_000_000


@inlined
def _linux_estimate(s: Any, sample: Any) -> None:
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


@inlined
def _rfc_estimate(s: Any, sample: Any) -> None:
    """RFC 6298, section 2: ``mdev`` is 4 RTTVAR; the whole timer has a minimum."""
    if s.srtt == 0:
        s.srtt, s.mdev = 8 * sample, 2 * sample
    else:
        error = sample - s.srtt // 8
        s.mdev += abs(error) - s.mdev // 4
        s.srtt += error
    s.rttvar = s.mdev
    s.rto = min(max(s.srtt // 8 + s.mdev, s.rto_min), RTO_MAX)


@inlined
def _linux22_estimate(s: Any, sample: Any) -> None:
    """Linux 2.2's: Jacobson's, in whole ticks, without a floor for the variance.

    The window, which adds to it, cannot be seen: this is what the timer waits at the least, one
    and a quarter of the base.
    """
    ticks = max((sample + _TICK // 2) // _TICK, 1)
    srtt, mdev = s.srtt // _TICK, s.mdev // _TICK
    if srtt == 0:
        srtt, mdev = 8 * ticks, 4 * ticks
    else:
        error = ticks - srtt // 8
        srtt += error
        mdev += abs(error) - mdev // 4
    s.srtt, s.mdev, s.rttvar = max(srtt, 1) * _TICK, mdev * _TICK, mdev * _TICK
    base = srtt // 8 + mdev
    s.rto = min(max((base + base // 4) * _TICK, s.rto_min), RTO_MAX)


@inlined
def estimate(s: Any, sample: Any, lossy: bool) -> None:
    """Take a sample into the timer.

    ``lossy``: what was outstanding at a timeout still is; Linux 2.2 keeps the backoff then.
    """
    if s.profile & RTO22:
        _linux22_estimate(s, sample)
    elif s.profile & WHOSE == RFC6298:
        _rfc_estimate(s, sample)
    else:
        _linux_estimate(s, sample)
    if lossy and s.profile & GO_BACK_N22:
        s.rto = min(s.rto << min(s.doubled, 10), RTO_MAX)
    else:
        s.doubled = 0
