"""One flow packet by packet: what the model of its sender knows at every instant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.trace.analysis import Options
from tcpf_lab.trace.flow import Flows
from tcpf_lab.trace.packet import Packets
from tcpf_lab.trace.recovery import DETAIL, run_flow


@dataclass(frozen=True)
class Followed:
    """The packets of a connection as one of its senders sees them; shape (n,) each.

    Relative sequence numbers have 64 bits: the SYN is byte 0, data begins at byte 1.

    Attributes
    ----------
    time_ns : int64
        Nanoseconds since 1970.
    forward : bool
        Whether a packet runs from the sender to the receiver.
    start, end : int64
        First byte, and the first behind; -1 for what comes back.
    una : int64
        Left edge after the packet: everything below is acknowledged.
    in_flight : int64
        Bytes sent and not acknowledged, SACKed ones left out.
    rtt_ns : int64
        RTT sample that the packet gave, -1 without one.
    srtt_ns, rto_ns : int64
        Smoothed RTT (0 before the first sample) and timer after the packet.
    expires_ns : int64
        When the retransmission timer expires, -1 if it does not run.
    kind, backoff : uint8
        The event, as in `tcpf_lab.trace.events.EVENT`; 0 for other packets.
    """

    time_ns: NDArray[np.int64]
    forward: NDArray[np.bool_]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    una: NDArray[np.int64]
    in_flight: NDArray[np.int64]
    rtt_ns: NDArray[np.int64]
    srtt_ns: NDArray[np.int64]
    rto_ns: NDArray[np.int64]
    expires_ns: NDArray[np.int64]
    kind: NDArray[np.uint8]
    backoff: NDArray[np.uint8]


def follow(packets: Packets, flows: Flows, flow: int, options: Options | None = None) -> Followed:
    """Follow one flow.

    Parameters
    ----------
    packets : Packets
        Captured at the sender.
    flows : Flows
        Their flows (`tcpf_lab.trace.flow.find_flows`).
    flow : int
        The flow's row.
    options : Options, optional
        What is known of the sender; ``at`` and the filters are not looked at.

    Returns
    -------
    Followed
        In the order of the capture.
    """
    rows = flows.both_ways(flow)
    mine = packets[rows]
    towards = flows.backward[rows] == flows.reverse[flow]
    kind, backoff = np.zeros(rows.size, np.uint8), np.zeros(rows.size, np.uint8)
    detail = np.zeros(rows.size, DETAIL)
    out = (kind, backoff, np.zeros(rows.size, np.int64), detail)
    run_flow(mine, np.arange(rows.size), towards, (options or Options()).settings[:3], out)
    columns = {name: detail[name].copy() for name in DETAIL.names or ()}
    return Followed(
        time_ns=mine["time_ns"].copy(), forward=towards, kind=kind, backoff=backoff, **columns
    )
