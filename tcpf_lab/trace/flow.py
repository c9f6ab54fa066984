"""Group packets into flows: one flow per direction that carries data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab import _trace
from tcpf_lab.trace.packet import ACK, SYN, Packets


@dataclass(frozen=True)
class Flows:
    """The TCP flows of a capture; a flow runs from its data sender to its receiver.

    Attributes
    ----------
    src, dst, src_high, dst_high : uint64, shape (flows,)
        Addresses as in `tcpf_lab.trace.packet.PACKET`.
    sport, dport : uint16, shape (flows,)
        Ports.
    connection : int64, shape (flows,)
        Row of `start` that holds the packets of both directions.
    reverse : bool, shape (flows,)
        Whether data runs against the direction of the connection's first packet.
    order : int64, shape (TCP packets,)
        Row numbers of the packets, connection after connection, in capture order within each.
    start : int64, shape (connections + 1,)
        Connection c owns ``order[start[c]:start[c + 1]]``.
    backward : bool, shape (packets,)
        Whether a packet runs against the direction of its connection's first packet.
    """

    src: NDArray[np.uint64]
    dst: NDArray[np.uint64]
    src_high: NDArray[np.uint64]
    dst_high: NDArray[np.uint64]
    sport: NDArray[np.uint16]
    dport: NDArray[np.uint16]
    connection: NDArray[np.int64]
    reverse: NDArray[np.bool_]
    order: NDArray[np.int64]
    start: NDArray[np.int64]
    backward: NDArray[np.bool_]

    @property
    def count(self) -> int:
        """Number of flows."""
        return int(self.connection.size)

    def both_ways(self, flow: int) -> NDArray[np.int64]:
        """Row numbers of the packets of a flow's connection, both directions, in capture order."""
        row = self.connection[flow]
        return self.order[self.start[row] : self.start[row + 1]]

    def split(self, flow: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Row numbers of the flow's own packets and of those that come back."""
        return self._halves[flow]

    @cached_property
    def _halves(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """The split of every flow, made once: every metric asks for it."""
        found = []
        for flow in range(self.count):
            rows = self.both_ways(flow)
            back = self.backward[rows] != self.reverse[flow]
            found.append((rows[~back], rows[back]))
        return found


def find_flows(packets: Packets) -> Flows:
    """Find the TCP flows of a capture.

    A connection whose two directions both carry data makes two flows; one that carries none makes
    one, in the direction of its SYN (of its first packet if there is none).

    Parameters
    ----------
    packets : Packets
        Shape (n,), in capture order.

    Returns
    -------
    Flows
        In the order of their connections' first packets.
    """
    label, first, backward = _trace.connections(packets)
    tcp = np.flatnonzero(label >= 0)
    # numpy sorts 16-bit numbers stably in linear time.
    short = label.astype(np.uint16) if first.size <= 1 << 16 else label
    order = tcp[np.argsort(short[tcp], kind="stable")]
    start = np.concatenate([[0], np.cumsum(np.bincount(label[tcp], minlength=first.size))])
    connection, reverse = _directions(packets, label, backward, first.size)
    head = packets[first[connection]]
    swap = reverse
    return Flows(
        src=np.where(swap, head["dst"], head["src"]),
        dst=np.where(swap, head["src"], head["dst"]),
        src_high=np.where(swap, head["dst_high"], head["src_high"]),
        dst_high=np.where(swap, head["src_high"], head["dst_high"]),
        sport=np.where(swap, head["dport"], head["sport"]),
        dport=np.where(swap, head["sport"], head["dport"]),
        connection=connection,
        reverse=reverse,
        order=order,
        start=start,
        backward=backward,
    )


def _directions(packets: Packets, label: Any, backward: Any, count: int) -> tuple[Any, Any]:
    """Connection and direction of every flow."""
    side = 2 * label + backward
    data = side[(label >= 0) & (packets["payload"] > 0)]
    syn = side[(label >= 0) & ((packets["flags"] & (SYN | ACK)) == SYN)]
    carries = np.zeros(2 * count, np.bool_)
    carries[data] = True
    silent = ~(carries[0::2] | carries[1::2])
    opened = np.zeros(2 * count, np.bool_)
    opened[syn] = True
    carries[1::2] |= silent & opened[1::2] & ~opened[0::2]
    carries[0::2] |= silent & ~carries[1::2]
    flow = np.flatnonzero(carries)
    return flow // 2, (flow % 2).astype(np.bool_)
