"""One flow packet by packet: what the model of its sender knows at every instant.

Captured away from the sender, packets that come back are put where the sender has them: by the
clock of the capture, data is sent when it passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tcpf_lab import _trace
from tcpf_lab.trace.analysis import KINDS, RETRANSMISSIONS, RTO, SYN_RTO, UNKNOWN, Options
from tcpf_lab.trace.packet import ACK, SYN, Flows, Packets

#: What is known of the sender after each packet of its connection: columns of `Followed`.
_COLUMNS = [
    "start",
    "end",
    "una",
    "in_flight",
    "window",
    "rtt_ns",
    "srtt_ns",
    "rto_ns",
    "expires_ns",
]
DETAIL = np.dtype([(name, np.int64) for name in _COLUMNS])


@dataclass(frozen=True)
class Followed:
    """The packets of a connection as one of its senders sees them; arrays of shape (n,).

    Relative sequence numbers have 64 bits: the SYN is byte 0, data begins at byte 1.

    Attributes
    ----------
    row : int64
        Rows of the packets.
    time_ns : int64
        Nanoseconds since 1970; of what comes back, when it has reached the sender.
    forward : bool
        Whether a packet runs from the sender to the receiver.
    start, end : int64
        First byte, and the first behind; -1 for what comes back.
    una : int64
        Left edge after the packet: everything below is acknowledged.
    in_flight : int64
        Bytes sent and not acknowledged, SACKed ones left out.
    window : int64
        Bytes from the left edge on that the receiver takes, -1 before it advertised any or if its
        scale is unknown.
    rtt_ns : int64
        RTT sample that the packet gave, -1 without one.
    srtt_ns, rto_ns : int64
        Smoothed RTT (0 before the first sample) and timer after the packet.
    expires_ns : int64
        When the retransmission timer expires, -1 if it does not run.
    kind, backoff : uint8
        The event, as in `tcpf_lab.trace.analysis.EVENT`; 0 for other packets.
    away_ns : int
        How long a packet takes from the capture to the sender and back; 0 at the sender, and
        without a handshake.
    scale : int
        Shift of the receiver's window, -1 if unknown.
    """

    row: NDArray[np.int64]
    time_ns: NDArray[np.int64]
    forward: NDArray[np.bool_]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    una: NDArray[np.int64]
    in_flight: NDArray[np.int64]
    window: NDArray[np.int64]
    rtt_ns: NDArray[np.int64]
    srtt_ns: NDArray[np.int64]
    rto_ns: NDArray[np.int64]
    expires_ns: NDArray[np.int64]
    kind: NDArray[np.uint8]
    backoff: NDArray[np.uint8]
    away_ns: int
    scale: int


def follow(packets: Packets, flows: Flows, flow: int, options: Options | None = None) -> Followed:
    """Follow one flow.

    Parameters
    ----------
    packets : Packets
        In the order of the capture.
    flows : Flows
        Their flows (`tcpf_lab.trace.packet.find_flows`).
    flow : int
        The flow's row.
    options : Options, optional
        What is known of the sender, and where the capture was taken; filters are ignored.

    Returns
    -------
    Followed
        In the order in which the sender sees them, which is that of the capture if it was taken
        there.
    """
    chosen = options or Options()
    rows = flows.both_ways(flow)
    towards = flows.backward[rows] == flows.reverse[flow]
    away = _distance(packets[rows], towards, chosen)
    if away:
        seen = packets["time_ns"][rows] + np.where(towards, 0, away)
        order = np.lexsort((towards, seen))  # of one instant, what comes back is first
        rows, towards = rows[order], towards[order]
    mine = packets[rows]
    mine["time_ns"] += np.where(towards, 0, away)
    detail, kind, backoff = _trace.follow(mine, towards, chosen.known())
    columns = {name: detail[name].copy() for name in DETAIL.names or ()}
    scale = _scale(mine, towards)
    columns["window"] = _scaled(columns["window"], mine, towards, scale)
    return Followed(
        row=rows,
        time_ns=mine["time_ns"].copy(),
        forward=towards,
        kind=kind,
        backoff=backoff,
        away_ns=away,
        scale=scale,
        **columns,
    )


def _distance(mine: Packets, towards: NDArray[np.bool_], options: Options) -> int:
    """Time from the capture to the sender and back, as the engine takes it; 0 if unknown."""
    if options.at == "sender" or not mine.size:
        return 0
    return max(_trace.distance(mine, bool(towards[0]), options.known()), 0)


def _scale(mine: Packets, towards: NDArray[np.bool_]) -> int:
    """Shift of the receiver's window, which both SYNs must offer; -1 if unknown."""
    syn = (mine["flags"] & SYN) > 0
    theirs = mine["window_scale"][syn & ~towards]
    answers = (mine["flags"][syn & ~towards] & ACK) > 0
    ours = mine["window_scale"][syn & towards]
    if theirs.size and (ours.size or answers[-1]):  # a SYN-ACK has the option if the SYN had it
        return max(int(theirs[-1]), 0) if not ours.size or ours[-1] >= 0 else 0
    return -1


def _scaled(
    window: NDArray[np.int64], mine: Packets, towards: NDArray[np.bool_], scale: int
) -> NDArray[np.int64]:
    """Give windows in bytes; that of a SYN is never scaled."""
    plain = ~towards & ((mine["flags"] & (SYN | ACK)) == ACK)
    shift = np.where(np.logical_or.accumulate(plain), scale, 0)
    known = (window >= 0) & (shift >= 0)
    return np.where(known, window << np.maximum(shift, 0), -1)


__all__ = ["KIND_NAMES", "RTO", "RTO_MIN_NS", "SYN_RTO", "UNKNOWN", "Recovery", "classify"]

#: Kinds of retransmissions: a number per packet, 0 for what is none.
KIND_NAMES = {kind: KINDS[kind] for kind in RETRANSMISSIONS}
#: Smallest variance term of the timer: RTO >= SRTT + 200 ms (Linux, TCP_RTO_MIN).
RTO_MIN_NS = 200_000_000


@dataclass(frozen=True)
class Recovery:
    """Loss recovery as seen in the capture.

    Attributes
    ----------
    kind : uint8, shape (packets,)
        Why a data packet or SYN was retransmitted (`KIND_NAMES`); 0 if it was not.
    backoff : uint8, shape (packets,)
        For a timeout: the number before it without an ACK of new data in between.
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
