"""The table of connections: which flow a packet belongs to, in compiled code.

A connection is found by hashing its ends, the same for both directions; direction 0 is that of its
first packet.  Each direction that sends data or a SYN has a flow.  A SYN with another initial
sequence number begins a new connection, which takes the place of the old one in the table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.trace.jit import inlined, part

#: ``flow``: row of each direction's flow, -1 without one; ``isn``: of each direction's SYN, -1 if
#: none was seen; ``asked answered``: times of the last SYN and the last SYN-ACK; ``opener``:
#: direction of the SYN; ``away``: for each direction, time from the capture to its sender and back,
#: -1 if unknown yet, `UNTOLD` if it stays so; ``scale permit stamps``: options of each direction's
#: SYN; ``last_...``: each direction's last packet, which another may be a copy of; ``twice``:
#: whether that packet came again, and the one before it, of those with an identification.
CONNECTION = np.dtype(
    [
        ("src", np.uint64),
        ("src_high", np.uint64),
        ("dst", np.uint64),
        ("dst_high", np.uint64),
        ("sport", np.uint16),
        ("dport", np.uint16),
        ("mss", np.uint16, (2,)),
        ("flow", np.int64, (2,)),
        ("isn", np.int64, (2,)),
        ("away", np.int64, (2,)),
        ("last_ns", np.int64, (2,)),
        ("last_seq", np.uint32, (2,)),
        ("last_ack", np.uint32, (2,)),
        ("last_sack", np.uint32, (2,)),
        ("last_payload", np.int32, (2,)),
        ("last_id", np.uint16, (2,)),
        ("last_flags", np.uint8, (2,)),
        ("twice", np.uint8, (2,)),
        ("asked", np.int64),
        ("answered", np.int64),
        ("opener", np.int8),
        ("scale", np.int8, (2,)),
        ("permit", np.uint8, (2,)),
        ("stamps", np.uint8, (2,)),
    ],
    align=True,
)


#: A packet that is captured once more, on its way through a host or switch, is at most so late.
_COPY_NS = 10_000_000
#: No path is as long (ns): an answer as late is none to the packet before it.
_FARTHEST = 5_000_000_000
#: Time to a sender and back that the handshake does not tell.
UNTOLD = -2


def new_table(slots: int) -> NDArray[np.int32]:
    """Return an empty hash table; ``slots`` is a power of two."""
    return np.full(slots, -1, np.int32)


@inlined
def _hash(src: Any, dst: Any, high: Any, sport: Any, dport: Any) -> Any:
    """Mix both ends so that they may change places."""
    ends = (src ^ dst ^ (src * dst)) * np.uint64(0x9E3779B97F4A7C15)
    ports = np.uint64(sport) * np.uint64(dport) + (np.uint64(sport ^ dport) << np.uint64(17))
    mixed = (ends ^ (ends >> np.uint64(29)) ^ high ^ ports) * np.uint64(0xC2B2AE3D27D4EB4F)
    return (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)


@inlined
def slot(p: Any, mask: Any) -> Any:
    """Where to look for a packet's connection first, the same for both directions."""
    mixed = _hash(p.src, p.dst, p.src_high ^ p.dst_high, p.sport, p.dport)
    return np.int64(mixed >> np.uint64(33)) & mask


@inlined
def same(p: Any, c: Any) -> bool:
    """Whether a packet has the ends of another, or of a connection, in the same places."""
    return bool(
        p.src == c.src
        and p.dst == c.dst
        and p.sport == c.sport
        and p.dport == c.dport
        and p.src_high == c.src_high
        and p.dst_high == c.dst_high
    )


@inlined
def opposite(p: Any, c: Any) -> bool:
    """Whether it has them in each other's."""
    return bool(
        p.src == c.dst
        and p.dst == c.src
        and p.sport == c.dport
        and p.dport == c.sport
        and p.src_high == c.dst_high
        and p.dst_high == c.src_high
    )


@inlined
def find(table: Any, connections: Any, p: Any) -> Any:
    """Slot of a packet's connection, or the free one for it; whether it runs backward."""
    mask = table.shape[0] - 1
    at = slot(p, mask)
    while table[at] >= 0:
        c = connections[table[at]]
        if same(p, c):
            return at, 0
        if opposite(p, c):
            return at, 1
        at = (at + 1) & mask
    return at, 0


@part
def enter(connections: Any, number: Any, p: Any) -> None:
    """Enter the connection that a packet begins."""
    c = connections[number]
    c.src, c.src_high, c.dst, c.dst_high = p.src, p.src_high, p.dst, p.dst_high
    c.sport, c.dport, c.opener, c.asked, c.answered = p.sport, p.dport, -1, 0, 0
    for d in range(2):
        c.flow[d], c.isn[d], c.away[d], c.mss[d] = -1, -1, -1, 0
        c.scale[d], c.permit[d], c.stamps[d] = -1, 0, 0
        c.last_id[d] = c.twice[d] = 0


@inlined
def _news(p: Any) -> Any:
    """End of the first SACK block, which tells duplicate ACKs apart; 0 without one."""
    return p.sack[1] if p.sacks else np.uint32(0)


#: Bits of ``twice``.
_LAST, _BEFORE, _KNOWN = 1, 2, 4


@inlined
def _repeated(c: Any, p: Any, d: Any) -> bool:
    """Whether a packet is its direction's last one once more.

    A retransmission has an IP identification of its own (ip_select_ident). Where that is 0, as in
    IPv6, nothing tells.
    """
    if p.ip_id == 0 or p.ip_id != c.last_id[d]:
        return False
    place = p.seq == c.last_seq[d] and p.ack == c.last_ack[d] and _news(p) == c.last_sack[d]
    whole = p.payload == c.last_payload[d] and p.flags == c.last_flags[d]
    return bool(place and whole and 0 <= p.time_ns - c.last_ns[d] <= _COPY_NS)


@inlined
def copied(c: Any, p: Any, d: Any) -> bool:
    """Whether a packet was captured twice.

    Then those of the other direction are too, as far as it is known. What comes twice in one
    direction only was duplicated by the network, and has reached its receiver twice.
    """
    if not _repeated(c, p, d):
        return False
    c.twice[d] |= _LAST
    other = c.twice[1 - d]
    return bool(other == 0 or other & (_LAST | _BEFORE))


@inlined
def keep(c: Any, p: Any, d: Any) -> None:
    """Note a packet as its direction's last one."""
    if p.ip_id:
        c.twice[d] = _KNOWN | (_BEFORE if c.twice[d] & _LAST else 0)
    c.last_id[d], c.last_seq[d], c.last_ack[d] = p.ip_id, p.seq, p.ack
    c.last_sack[d] = _news(p)
    c.last_payload[d], c.last_flags[d], c.last_ns[d] = p.payload, p.flags, p.time_ns


@part
def rehash(table: Any, old: Any, connections: Any) -> None:
    """Enter the connections of a full table into a larger one."""
    mask = table.shape[0] - 1
    for k in range(old.shape[0]):
        if old[k] < 0:
            continue
        c = connections[old[k]]
        mixed = _hash(c.src, c.dst, c.src_high ^ c.dst_high, c.sport, c.dport)
        at = np.int64(mixed >> np.uint64(33)) & mask
        while table[at] >= 0:
            at = (at + 1) & mask
        table[at] = old[k]


@part
def shake(c: Any, p: Any, d: Any) -> None:
    """Follow the handshake: what it agrees on, and how far away each sender is.

    From the last SYN to the SYN-ACK a packet goes from the capture to the one that was asked and
    back; from the last SYN-ACK to the ACK to the one that asked and back.
    """
    if p.flags & 2:
        c.isn[d], c.mss[d], c.scale[d] = p.seq, p.mss, p.window_scale
        c.permit[d], c.stamps[d] = p.sack_permitted, p.timestamps
        if not p.flags & 16:
            c.opener, c.asked = d, p.time_ns
        elif c.opener == 1 - d:
            if c.answered == 0:
                c.away[d] = _credible(p.time_ns - c.asked)
            c.answered = p.time_ns
    elif c.answered > 0 and d == c.opener and c.away[d] == -1 and p.flags & 16:
        c.away[d] = _credible(p.time_ns - c.answered)


@inlined
def _credible(away: Any) -> Any:
    return away if away <= _FARTHEST else UNTOLD


@inlined
def reopens(c: Any, p: Any, d: Any) -> bool:
    """Whether a packet begins a new connection between the ends of an old one.

    A SYN does if its number is another one, or if data but no SYN of either side went before it.
    """
    if (p.flags & 18) != 2:
        return False
    if c.isn[d] >= 0:
        return bool(c.isn[d] != p.seq)
    return bool(c.flow[d] >= 0 or (c.flow[1 - d] >= 0 and c.isn[1 - d] < 0))
