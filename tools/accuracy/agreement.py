"""Causes of retransmissions: the capture analysis against the log of the sender's kernel."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.metrics import retransmission_log as log
from tcpf_lab.trace import analysis as seen
from tcpf_lab.trace.analysis import KINDS, Analysis

#: Longest time between the kernel's decision and the capture: the sender's own queue.
DELAY_NS = 100_000_000
#: Clocks read for the same packet may differ by this much (each reading costs virtual time).
EARLY_NS = 1_000_000
#: Row of the confusion matrix for events of which the kernel's list has no entry.
NO_ENTRY = len(log.CAUSES)
#: Column for entries of which the analysis has no event.
NO_EVENT = 0

#: Causes that are expiries of the retransmission timer, as ``tcpi_total_rto`` counts them.
EXPIRIES = (log.RTO, log.SYN_RTO, log.SYNACK_RTO)

#: Cause -> kind that is right for it.  `expected_kinds` refines those of recoveries.
_KIND_OF = {
    log.OTHER: seen.UNKNOWN,
    log.RTO: seen.RTO,
    log.FAST: seen.FAST,
    log.RECOVERY: seen.PARTIAL_ACK,
    log.POST_RTO: seen.POST_RTO,
    log.TLP: seen.TLP,
    log.TLP_NEW: NO_EVENT,
    log.REORDERING_TIMER: seen.SACK_RECOVERY,
    log.SYN_RTO: seen.SYN_RTO,
    log.SYNACK_RTO: seen.SYN_RTO,
    log.SYNACK_ASKED: NO_EVENT,
    log.SYNACK_FAST_OPEN: seen.SYN_RTO,
    log.WINDOW_RTO: seen.WINDOW_PROBE,
    log.WINDOW_PROBE: seen.WINDOW_PROBE,
    log.KEEPALIVE: seen.KEEPALIVE,
    log.NOT_CONGESTION: seen.UNKNOWN,
}


@dataclass(frozen=True)
class Agreement:
    """A capture against the kernel's list.

    Attributes
    ----------
    packets : array of ENTRY, shape (n,)
        The kernel's entries of flows that are in the capture, one per packet.
    pairs : int64, shape (m, 2)
        Rows of `packets` and of ``Analysis.events`` that are the same packet.
    confusion : int64, shape (causes + 1, kinds)
        Number of packets by the kernel's cause (``CAUSES``; the last row: not in its list) and the
        analysis's kind (``KINDS``; column 0: no event).
    right : int64, shape (causes + 1, kinds)
        Those of `confusion` whose kind is what the cause calls for.
    timeouts : int64, shape (flows, 2)
        For each row of ``Analysis.flows``, timeouts and SYN timeouts by the capture and by the
        kernel.
    elsewhere : int
        Entries of flows that the capture does not have.
    """

    packets: NDArray[Any]
    pairs: NDArray[np.int64]
    confusion: NDArray[np.int64]
    right: NDArray[np.int64]
    timeouts: NDArray[np.int64]
    elsewhere: int

    @property
    def flow_errors(self) -> NDArray[np.int64]:
        """For each flow, timeouts found less those that were."""
        return self.timeouts[:, 0] - self.timeouts[:, 1]

    @property
    def share_right(self) -> float:
        """Packets named rightly among all that either side has; NaN if there are none."""
        total = int(self.confusion.sum())
        return float(self.right.sum() / total) if total else float("nan")


def compare(analysis: Analysis, entries: NDArray[Any], *, delay_ns: int = DELAY_NS) -> Agreement:
    """Hold every event of a capture at the sender against the sender's list.

    A packet of one side is that of the other if flow, first byte and order agree and the capture's
    time is at most `delay_ns` later (`EARLY_NS` earlier).

    Parameters
    ----------
    analysis : Analysis
        Of the capture, with events.
    entries : array of `tcpf_lab.metrics.retransmission_log.ENTRY`, shape (n,)
        Of all senders.
    delay_ns : int
        Longest time that a packet may spend in the sender's own queue.

    Returns
    -------
    Agreement
        What agrees and what does not.
    """
    flow_id, entry_id = _connections(analysis.flows, entries)
    here = np.isin(entry_id, flow_id)
    entries, entry_id = entries[here], entry_id[here]
    packets, packet_id = _packets(entries, entry_id)
    events = analysis.events
    event_id = flow_id[events["flow"]]
    first = (events["start"] + analysis.flows["isn"][events["flow"]]) & 0xFFFFFFFF
    ours = _keys(packet_id, packets["seq"].astype(np.int64), packets["time_ns"])
    theirs = _keys(event_id, first, events["time_ns"])
    pairs = _pair(ours, theirs, delay_ns)
    cause, kind, right = _outcomes(packets, events["kind"], pairs)
    return Agreement(
        packets=packets,
        pairs=pairs,
        confusion=_count(cause, kind),
        right=_count(cause[right], kind[right]),
        timeouts=_timeouts(flow_id, entries, entry_id, analysis),
        elsewhere=int(np.sum(~here)),
    )


def expected_kinds(packets: NDArray[Any]) -> NDArray[np.uint8]:
    """Kind that is right for each entry.

    Parameters
    ----------
    packets : array of ENTRY, shape (n,)
        Entries of the kernel's list.

    Returns
    -------
    uint8, shape (n,)
        Places in `tcpf_lab.trace.analysis.KINDS`; 0 where no event is called for.
    """
    table = np.array([_KIND_OF[cause] for cause in range(len(log.CAUSES))], np.uint8)
    kind: NDArray[np.uint8] = table[packets["cause"]]
    sack = packets["marks"] & log.SACK > 0
    first = packets["marks"] & log.FIRST > 0
    kind[(packets["cause"] == log.RECOVERY) & sack] = seen.SACK_RECOVERY
    kind[(packets["cause"] == log.REORDERING_TIMER) & first] = seen.FAST
    return kind


def confusion_table(confusion: NDArray[np.int64]) -> dict[str, dict[str, int]]:
    """Write a confusion matrix by names, zeros left out.

    Parameters
    ----------
    confusion : int64, shape (causes + 1, kinds)
        Of an `Agreement`, or the sum of several.

    Returns
    -------
    dict
        Cause -> kind -> packets; ``not_logged`` and ``no_event`` are what one side lacks.
    """
    causes, kinds = (*log.CAUSES, "not_logged"), ("no_event", *KINDS[1:])
    return {
        cause: {kind: int(n) for kind, n in zip(kinds, row, strict=True) if n}
        for cause, row in zip(causes, confusion, strict=True)
        if row.any()
    }


def _connections(flows: Any, entries: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number the 4-tuples of both sides alike."""
    ends = [("src", "u1", (16,)), ("dst", "u1", (16,)), ("sport", "<u2"), ("dport", "<u2")]
    every = np.zeros(flows.size + entries.size, np.dtype(ends))
    for name in ("src", "dst", "sport", "dport"):
        every[name] = np.concatenate([flows[name], entries[name]])
    words = every.view(np.dtype((np.void, every.dtype.itemsize)))
    _, number = np.unique(words, return_inverse=True)
    number = number.reshape(-1).astype(np.int64)
    return number[: flows.size], number[flows.size :]


def _packets(entries: Any, entry_id: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """One entry per packet, each with the number of its connection."""
    packets = [log.as_packets(entries[entry_id == number]) for number in np.unique(entry_id)]
    sizes = [part.size for part in packets]
    number = np.repeat(np.unique(entry_id), np.array(sizes, np.int64))
    return np.concatenate([*packets, np.zeros(0, log.ENTRY)]), number


def _keys(connection: Any, first: Any, time: Any) -> NDArray[np.int64]:
    return np.stack([np.asarray(word, np.int64) for word in (connection, first, time)], axis=1)


def _pair(ours: NDArray[np.int64], theirs: NDArray[np.int64], delay: int) -> NDArray[np.int64]:
    """Match rows (connection, first byte, time) of two lists, each with the first that is left.

    An entry whose packet the capture lacks takes the event of the next one with the same byte, if
    that is within `delay`.
    """
    every = np.concatenate([ours - [0, 0, EARLY_NS], theirs])
    order = np.lexsort((np.arange(len(every)) >= len(ours), *every.T[::-1]))
    pairs, waiting, key = [], deque[int](), (-1, -1)
    for row in order.tolist():
        connection, first, time = every[row].tolist()
        if key != (connection, first):
            key = (connection, first)
            waiting.clear()
        if row < len(ours):
            waiting.append(row)
            continue
        while waiting and time - every[waiting[0], 2] > delay + EARLY_NS:
            waiting.popleft()
        if waiting:
            pairs.append((waiting.popleft(), row - len(ours)))
    return np.array(pairs, np.int64).reshape(-1, 2)


def _outcomes(packets: Any, kinds: Any, pairs: Any) -> tuple[Any, Any, Any]:
    """Cause, kind and whether they agree: for the pairs, then for what is on one side only."""
    mine = np.setdiff1d(np.arange(packets.size), pairs[:, 0])
    other = np.setdiff1d(np.arange(kinds.size), pairs[:, 1])
    none, nothing = np.full(other.size, NO_ENTRY), np.full(mine.size, NO_EVENT)
    cause = np.concatenate([packets["cause"][pairs[:, 0]], packets["cause"][mine], none])
    kind = np.concatenate([kinds[pairs[:, 1]], nothing, kinds[other]])
    wanted = expected_kinds(packets)
    unasked = np.full(other.size, -1)  # an event without an entry is never right
    expected = np.concatenate([wanted[pairs[:, 0]], wanted[mine], unasked]).astype(np.int64)
    return cause.astype(np.int64), kind.astype(np.int64), expected == kind


def _count(cause: Any, kind: Any) -> NDArray[np.int64]:
    shape = (len(log.CAUSES) + 1, len(KINDS))
    flat = np.bincount(cause * shape[1] + kind, minlength=shape[0] * shape[1])
    return flat.reshape(shape).astype(np.int64)


def _timeouts(flow_id: Any, entries: Any, entry_id: Any, analysis: Analysis) -> NDArray[np.int64]:
    """Per row of the flows, timeouts by both; of a 4-tuple used twice, the kernel's go by time."""
    counts = np.zeros((flow_id.size, 2), np.int64)
    kind = np.isin(analysis.events["kind"], (seen.RTO, seen.SYN_RTO))
    np.add.at(counts[:, 0], analysis.events["flow"][kind], 1)
    timed = np.isin(entries["cause"], EXPIRIES)
    begin = analysis.flows["first_ns"]
    order = np.lexsort((begin, flow_id))
    key = _keys(flow_id, flow_id * 0, begin)[order]
    for number, time in zip(entry_id[timed], entries["time_ns"][timed], strict=True):
        rows = order[key[:, 0] == number]
        later = int(np.sum(begin[rows] <= time + EARLY_NS))
        counts[rows[max(later - 1, 0)], 1] += 1
    return counts
