"""Tell retransmission timeouts from every other retransmission, from a capture at the sender.

The rule ("liberation"): a packet leaves because an ACK liberated it or because a timer did.  Per
flow the state of a TCP sender is followed - left edge, SACK scoreboard, smoothed RTT, the
retransmission timer with all its re-arming - and every retransmission is explained by it.  Here
that is done for packets in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tcpf_lab import _trace
from tcpf_lab.trace.analysis import Options
from tcpf_lab.trace.events import KINDS, RETRANSMISSIONS, RTO, SYN_RTO, UNKNOWN
from tcpf_lab.trace.packet import Packets

__all__ = ["KIND_NAMES", "RTO", "RTO_MIN_NS", "SYN_RTO", "UNKNOWN", "Recovery", "classify"]

#: Kinds of retransmissions: a number per packet, 0 for what is none.
KIND_NAMES = {kind: KINDS[kind] for kind in RETRANSMISSIONS}
#: Smallest variance term of the timer: RTO >= SRTT + 200 ms (Linux, TCP_RTO_MIN).
RTO_MIN_NS = 200_000_000


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


def classify(
    packets: Packets,
    *,
    rto_min_ns: int = RTO_MIN_NS,
    probes: bool = False,
    classic: bool = False,
    linux22: Sequence[str] = (),
) -> Recovery:
    """Explain every retransmission of every flow.

    Parameters
    ----------
    packets : Packets
        Both directions, captured at the data senders.
    rto_min_ns : int
        Smallest variance term of the senders' timer.
    probes : bool
        Whether the senders send tail loss probes (Linux: SACK on and ``tcp_early_retrans`` not 0).
    classic : bool
        Whether a partial ACK ends their recovery, as in the Reno of 1990.
    linux22 : sequence of str
        What they do as Linux 2.2 did, as the experiment's ``tcp.linux22`` names it.

    Returns
    -------
    Recovery
        Per packet.

    Notes
    -----
    RFC 6298 for the timer, with Linux's deviations: variance from a maximum filter, back-off undone
    by a valid RTT sample only, re-armed by every ACK that moves the left edge, by a SACK of data
    sent before the head was last sent, and by a retransmission of the head.
    """
    options = Options(
        rto_min_ns=rto_min_ns,
        probes=probes,
        profile="classic" if classic else "linux",
        linux22=tuple(linux22),
    )
    return Recovery(*_trace.explain(packets, options.known()))
