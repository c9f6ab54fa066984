"""Tell retransmission timeouts from every other retransmission, from a capture at the sender.

The rule ("liberation"): a packet leaves because an ACK liberated it or because a timer did.  Per
flow the state of a TCP sender is followed - left edge, SACK scoreboard, smoothed RTT, the
retransmission timer with all its re-arming - and every retransmission is explained by it
(`tcpf_lab.trace.liberation`).  Here that is done for packets in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.trace.estimator import CLASSIC, LINUX
from tcpf_lab.trace.events import EVENT, FLOW, KINDS, RETRANSMISSIONS, RTO, SYN_RTO, UNKNOWN
from tcpf_lab.trace.flow import Flows
from tcpf_lab.trace.jit import compiled, part, stamp
from tcpf_lab.trace.liberation import backward, forward, needed
from tcpf_lab.trace.linux22 import bits
from tcpf_lab.trace.packet import Packets
from tcpf_lab.trace.scoreboard import HEADROOM, new_arena, relative, reserve
from tcpf_lab.trace.sender import MS, SENDER, acknowledged
from tcpf_lab.trace.table import CONNECTION, copied, keep

__all__ = ["KIND_NAMES", "RTO", "RTO_MIN_NS", "SYN_RTO", "UNKNOWN", "Recovery", "classify"]

#: Kinds of retransmissions: a number per packet, 0 for what is none.
KIND_NAMES = {kind: KINDS[kind] for kind in RETRANSMISSIONS}
#: Smallest variance term of the timer: RTO >= SRTT + 200 ms (Linux, TCP_RTO_MIN).
RTO_MIN_NS = 200 * MS


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


#: What is known of the sender after each packet of its connection; see `tcpf_lab.trace.follow`.
DETAIL = np.dtype(
    [
        (name, np.int64)
        for name in (
            "start",
            "end",
            "una",
            "in_flight",
            "window",
            "rtt_ns",
            "srtt_ns",
            "rto_ns",
            "expires_ns",
        )
    ]
)


@part
def _describe(row: Any, s: Any, p: Any, towards: bool) -> None:
    """Fill a row of `DETAIL` after a packet."""
    if towards:
        row.start = relative(s, p.seq)
        row.end = row.start + p.payload + (p.flags & 1) + ((p.flags >> 1) & 1)
        row.rtt_ns = -1
    else:
        row.start = row.end = -1
        row.rtt_ns = s.sample
    row.una, row.in_flight = s.una, s.snd_max - s.una - s.sack_bytes
    row.window = s.window
    row.srtt_ns, row.rto_ns = s.srtt // 8, s.rto
    row.expires_ns = s.armed + s.limit if s.armed >= 0 else -1


def _compile(sources: str) -> Callable[..., int]:
    """Compile the state machine; ``sources`` identifies the text of the modules it is made of."""

    def _follow(
        packets: Packets,
        rows: NDArray[np.int64],
        towards: NDArray[np.bool_],
        first: int,
        state: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
        store: tuple[NDArray[Any], NDArray[np.int64], NDArray[Any]],
        out: tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.int64], NDArray[Any]],
    ) -> int:
        """Run one flow from its packet ``first`` on; number of the packet the arena is full at."""
        _ = sources  # so that it is part of the key in the cache
        kind, backoff, acked, detail = out
        s, row, c = state[0][0], state[1][0], state[2][0]
        for k in range(first, rows.size):
            i = rows[k]
            p = packets[i]
            if store[0].shape[0] - store[1][0] < HEADROOM:
                return k
            s.sample = -1
            d = int(towards[k])
            new = not copied(c, p, d)
            if new and towards[k]:
                if not reserve(s, store[0], store[1], needed(s, p)):
                    return k
                found = forward(s, store, p)
                kind[i] = found
                backoff[i] = s.backoff if found == RTO else 0
            elif new:
                backward(s, row, store, p)
            if not towards[k]:
                acked[i] = s.acked_before + (acknowledged(s) if s.known else 0)
            if new:
                keep(c, p, d)
            if detail.shape[0] > 0:
                _describe(detail[k], s, p, towards[k])
        return int(rows.size)

    return compiled(_follow)


_run = _compile(stamp(__name__))


def run_flow(
    packets: Packets,
    rows: NDArray[np.int64],
    towards: NDArray[np.bool_],
    settings: tuple[int, int, int],
    out: tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.int64], NDArray[Any]],
) -> None:
    """Put the packets of one connection through the state machine of one of its senders.

    Parameters
    ----------
    packets : Packets
        All packets.
    rows : int64, shape (n,)
        Those of the connection, in the order of the capture.
    towards : bool, shape (n,)
        Whether each runs from the sender to the receiver.
    settings : tuple of int
        As for `tcpf_lab.trace.engine.Engine`, without the place.
    out : tuple of arrays
        Kind, back-off and acknowledged bytes, shape (packets,); details (`DETAIL`), shape (n,) or
        none.
    """
    state, row, ends = np.zeros(1, SENDER), np.zeros(1, FLOW), np.zeros(1, CONNECTION)
    state["rto_min"], state["probes"], state["profile"] = settings
    (arena, heap), done = new_arena(0), 0
    while done < rows.size:
        store = (arena, heap, _NO_EVENTS)
        done = _run(packets, rows, towards, done, (state, row, ends), store, out)
        if done < rows.size:
            arena = np.concatenate([arena, np.zeros_like(arena)])


def classify(
    packets: Packets,
    flows: Flows,
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
    flows : Flows
        Their flows.
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
    result = Recovery(
        np.zeros(packets.size, np.uint8),
        np.zeros(packets.size, np.uint8),
        np.zeros(packets.size, np.int64),
    )
    out = (result.kind, result.backoff, result.acked, np.zeros(0, DETAIL))
    whose = (CLASSIC if classic else LINUX) | bits(linux22)
    settings = (rto_min_ns, int(probes), whose)
    for flow in range(flows.count):
        rows = flows.both_ways(flow)
        towards = flows.backward[rows] == flows.reverse[flow]
        run_flow(packets, rows, towards, settings, out)
    result.kind[result.kind > SYN_RTO] = 0  # probes and the like are no retransmissions
    return result


_NO_EVENTS = np.zeros(0, EVENT)
