"""One packet through the engine: its connection, its flow, the sender that it comes back to."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcpf_lab.trace.distance import leave, settle, wait
from tcpf_lab.trace.events import RTO, SYN_RTO
from tcpf_lab.trace.jit import inlined, part
from tcpf_lab.trace.liberation import backward, forward, needed
from tcpf_lab.trace.scoreboard import HEADROOM, reserve
from tcpf_lab.trace.table import copied, enter, find, keep, reopens, shake

#: What there may be no room for.
DONE, ROWS, ARENA, EVENTS, WAITING = range(5)
#: Entries of the counters.
FLOWS, CONNECTIONS, SEEN, FIRST, LAST, COPIES, STEPS, COUNTERS = range(8)
#: Rules of events seen from elsewhere.
_FAR_ACK, _FAR_TIMER = 19, 20


@part
def _address(to: Any, high: Any, low: Any) -> None:
    for i in range(8):
        to[i] = (high >> np.uint64(56 - 8 * i)) & np.uint64(255)
        to[i + 8] = (low >> np.uint64(56 - 8 * i)) & np.uint64(255)


@part
def _new_flow(p: Any, row: Any, s: Any, c: Any, d: Any, settings: Any) -> None:
    """Begin the row and the state of the flow that a packet begins."""
    _address(row.src, p.src_high, p.src)
    _address(row.dst, p.dst_high, p.dst)
    row.sport, row.dport, row.dscp, row.first_ns = p.sport, p.dport, -1, p.time_ns
    s.rto_min, s.probes, s.profile = settings[:3]
    if c.isn[1 - d] >= 0:
        s.peer_mss, s.peer_permit = c.mss[1 - d], 1 + c.permit[1 - d]


@inlined
def _count(row: Any, p: Any) -> None:
    """Count a packet of the flow itself."""
    row.last_ns = p.time_ns
    row.packets += 1
    row.wire_bytes += p.wire_length
    if p.payload > 0:
        if row.data_packets == 0:
            row.dscp = p.tos >> 2
        row.data_packets += 1
        row.payload_bytes += p.payload
        row.mss = max(row.mss, p.payload)
    if p.flags & 7:
        row.fin += p.flags & 1
        row.syn += (p.flags >> 1) & 1
        row.rst += (p.flags >> 2) & 1


@part
def _note(s: Any, row: Any, p: Any, kind: Any, flow: Any, events: Any, number: Any) -> None:
    """Count an event, and list it if events are listed."""
    row.counts[kind] += 1
    row.episodes += kind == RTO and s.backoff == 0
    if number < events.shape[0]:
        rule = s.rule
        if s.away > 0 and kind < SYN_RTO:
            rule = _FAR_TIMER if kind == RTO else _FAR_ACK
        e = events[number]
        e.time_ns, e.flow, e.record = p.time_ns, flow, p.record
        e.start, e.length, e.kind, e.rule = s.start, p.payload, kind, rule
        e.backoff, e.spurious = (s.backoff if kind == RTO else 0), 0


@inlined
def _back(s: Any, row: Any, store: Any, p: Any) -> None:
    """Take a packet that comes back to a flow's sender."""
    if p.flags & 16:
        row.acks += 1
    s.sample = -1
    backward(s, row, store, p)
    if s.sample >= 0:
        row.rtt_sum_ns += s.sample
        row.rtt_count += 1


@inlined
def _untold(s: Any, row: Any, p: Any) -> bool:
    """Whether it does not matter when data reaches a sender: it has sent none itself yet."""
    return bool(p.payload > 0 and row.data_packets == 0 and s.head == s.tail)


@part
def catch_up(s: Any, row: Any, store: Any, pool: Any, now: Any) -> None:
    """Take the ACKs that have reached a sender elsewhere by ``now``."""
    place = s.first_waiting
    while place > 0:
        p = pool[0][place]
        if p.time_ns > now and not _untold(s, row, p):
            return
        _back(s, row, store, p)
        leave(s, pool)
        place = s.first_waiting


@inlined
def _from_afar(s: Any, row: Any, store: Any, pool: Any, p: Any) -> None:
    """Take a packet that comes back to a sender elsewhere, or let it wait.

    The data that one that only acknowledges receives need not wait: most of such a capture.
    """
    if s.first_waiting > 0:
        catch_up(s, row, store, pool, p.time_ns)
    if s.first_waiting == 0 and _untold(s, row, p):
        _back(s, row, store, p)
    else:
        wait(s, pool, p)


@part
def _handshake(c: Any, p: Any, d: Any, senders: Any, where: Any) -> None:
    shake(c, p, d)
    for k in range(2):
        if c.flow[k] >= 0:
            settle(c, senders[c.flow[k]], k, where)


@inlined
def _slot_for(table: Any, connections: Any, counters: Any, p: Any) -> Any:
    """Connection of a packet, entered if it is new, and the packet's direction."""
    at, d = find(table, connections, p)
    if table[at] < 0 or reopens(connections[table[at]], p, d):
        d = 0
        table[at] = counters[CONNECTIONS]
        enter(connections, counters[CONNECTIONS], p)
        counters[CONNECTIONS] += 1
    return table[at], d


@inlined
def lacking(rows: Any, store: Any, pool: Any, counters: Any) -> int:
    """What a packet might find no room for, `DONE` if there is room for everything."""
    if counters[FLOWS] == rows[1].shape[0] or counters[CONNECTIONS] == rows[0].shape[0]:
        return ROWS
    if store[0].shape[0] - store[1][0] < HEADROOM:
        return ARENA
    if store[2].shape[0] > 0 and counters[SEEN] == store[2].shape[0]:
        return EVENTS
    return WAITING if pool[1][0] == 0 else DONE


@inlined
def _flow_of(rows: Any, c: Any, p: Any, d: Any, counters: Any, settings: Any) -> Any:
    """Flow that a packet belongs to, begun by the first data or SYN; -1 without one."""
    flow = c.flow[d]
    if flow < 0 and (p.payload > 0 or p.flags & 2):
        flow = counters[FLOWS]
        counters[FLOWS] += 1
        c.flow[d] = flow
        _new_flow(p, rows[1][flow], rows[2][flow], c, d, settings)
    return flow


@inlined
def _ahead(rows: Any, flow: Any, store: Any, pool: Any, p: Any, counters: Any) -> bool:
    """Take a packet of a flow itself; False if the arena must grow first."""
    row, s = rows[1][flow], rows[2][flow]
    if s.first_waiting > 0:  # first: an ACK of everything gives back the ring that needs room
        catch_up(s, row, store, pool, p.time_ns)
    if not reserve(s, store[0], store[1], needed(s, p)):
        return False
    _count(row, p)
    s.event = counters[SEEN]
    kind = forward(s, store, p)
    if kind:
        _note(s, row, p, kind, flow, store[2], counters[SEEN])
        counters[SEEN] += 1
    return True


@inlined
def advance(
    table: Any, rows: Any, store: Any, pool: Any, counters: Any, settings: Any, p: Any
) -> bool:
    """Take one TCP packet; False if the arena must grow first."""
    number, d = _slot_for(table, rows[0], counters, p)
    c = rows[0][number]
    if copied(c, p, d):
        counters[COPIES] += 1
        return True
    flow = _flow_of(rows, c, p, d, counters, settings)
    if flow >= 0 and not _ahead(rows, flow, store, pool, p, counters):
        return False
    keep(c, p, d)
    if p.flags & 2 or (c.opener >= 0 and c.away[c.opener] == -1):
        _handshake(c, p, d, rows[2], settings[3])
    back = c.flow[1 - d]
    if back >= 0:
        row, s = rows[1][back], rows[2][back]
        if s.away > 0:
            _from_afar(s, row, store, pool, p)
        else:
            _back(s, row, store, p)
    return True
