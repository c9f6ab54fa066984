"""TCP's counters of a node, and what its list of retransmissions must add up to by them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.metrics import retransmission_log as log
from tcpf_lab.metrics.evidence import kernel_counters
from tcpf_lab.results import RunFiles

#: Counters of ``TcpExt`` that have to do with loss recovery.
RECOVERY_COUNTERS = (
    "TCPTimeouts",
    "TCPSpuriousRTOs",
    "TCPFastRetrans",
    "TCPSlowStartRetrans",
    "TCPLostRetransmit",
    "TCPRetransFail",
    "TCPSynRetrans",
    "TCPLossProbes",
    "TCPLossProbeRecovery",
    "TCPSackRecovery",
    "TCPRenoRecovery",
    "TCPSackRecoveryFail",
    "TCPRenoRecoveryFail",
    "TCPSackFailures",
    "TCPRenoFailures",
    "TCPLossFailures",
    "TCPSACKReneging",
    "TCPSACKReorder",
    "TCPRenoReorder",
    "TCPTSReorder",
    "TCPFullUndo",
    "TCPPartialUndo",
    "TCPDSACKUndo",
    "TCPLossUndo",
    "TCPDSACKRecv",
    "TCPDSACKOfoRecv",
    "TCPKeepAlive",
    "TCPWinProbe",
)


def recovery_counters(files: RunFiles, node: str) -> dict[str, int]:
    """Read those of `RECOVERY_COUNTERS` that the node's kernel has.

    Raises
    ------
    UnreadableError
        If ``stats/netstat-<node>.txt`` is missing or has no line of ``TcpExt``.
    """
    found = kernel_counters(files, node, "TcpExt")
    return {name: found[name] for name in RECOVERY_COUNTERS if name in found}


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


#: ``TCP_CA_Loss`` of ``enum tcp_ca_state``.
_LOSS = 4
