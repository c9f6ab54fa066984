"""What the kernel's list of retransmissions says that TCP's own counters must be."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.metrics import retransmission_log as log

#: ``TCP_CA_Loss`` of ``enum tcp_ca_state``.
_LOSS = 4


def expected_counters(entries: NDArray[Any]) -> dict[str, int]:
    """Counters that a complete list of retransmissions determines.

    Parameters
    ----------
    entries : array of `tcpf_lab.metrics.retransmission_log.ENTRY`, shape (n,)
        Everything that a node sent again.

    Returns
    -------
    dict
        ``TCPFastRetrans``, ``TCPSlowStartRetrans``, ``TCPSynRetrans``, ``TCPLossProbes``,
        ``TCPKeepAlive``: equal to the kernel's.  ``TCPTimeouts``: at most the kernel's, which also
        counts the expiry that ends a connection without sending.

    Notes
    -----
    Linux counts segments where one entry may stand for several, and what follows a timeout apart
    from other recoveries (``tcp_xmit_retransmit_queue``).
    """
    sent = entries["marks"] & log.SENT > 0
    by_acks = (log.OTHER, log.FAST, log.RECOVERY, log.POST_RTO, log.REORDERING_TIMER)
    queued = sent & np.isin(entries["cause"], (*by_acks, log.NOT_CONGESTION))
    in_loss = entries["state"] == _LOSS
    segments = entries["segments"].astype(np.int64)
    timed = np.isin(entries["cause"], (log.RTO, log.SYN_RTO, log.SYNACK_RTO))
    return {
        "TCPTimeouts": int(np.sum(timed)),
        "TCPFastRetrans": int(np.sum(segments[queued & ~in_loss])),
        "TCPSlowStartRetrans": int(np.sum(segments[queued & in_loss])),
        "TCPSynRetrans": int(np.sum(entries["tcp_flags"] & log.SYN > 0)),
        "TCPLossProbes": int(np.sum(sent & np.isin(entries["cause"], (log.TLP, log.TLP_NEW)))),
        "TCPKeepAlive": int(np.sum(entries["cause"] == log.KEEPALIVE)),
    }
