"""What a sender has outstanding: a ring of segments per flow, all rings in one arena.

Rings are blocks of a power of two of segments; one that is too small moves to a block twice as
large, and blocks that are free again are kept in a list per size.  A segment has a number that
never changes, from ``head`` (the oldest outstanding) to ``tail``; its place in the ring is that
number modulo the ring's size.  Segments adjoin, so one is found by bisection.  A SACKed segment
points behind the run of SACKed ones it stands in: marking a block of any length again costs next
to nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.trace.jit import inlined, part

#: ``start end`` relative sequence numbers; ``sent`` when last; ``again`` the loss episode in which
#: it was sent again; ``sacked`` the scoreboard on which it is marked; ``skip`` from a SACKed
#: segment to the next that may not be; ``event`` the number of its last retransmission, ``kind``
#: what that was (0: none, or known to be needless); ``ever`` sent again; ``unseen`` not captured;
#: ``told`` when its last retransmission was acknowledged, if late enough to be its doing (0: not).
SEGMENT = np.dtype(
    [
        ("start", np.int64),
        ("end", np.int64),
        ("sent", np.int64),
        ("told", np.int64),
        ("event", np.int32),
        ("skip", np.int32),
        ("again", np.int32),
        ("sacked", np.int32),
        ("tsval", np.uint32),
        ("kind", np.uint8),
        ("ever", np.uint8),
        ("unseen", np.uint8),
    ],
    align=True,
)
#: Segments of the smallest block, and how often it may double.
_SMALLEST, _SIZES = 8, 16
#: A sender of which no ACK was seen may have anything outstanding: no more than this is kept.
_DEAF = 4096
#: What one packet may take beside the ring of its flow.
HEADROOM = 4096
#: Pieces that a gap in the capture is divided into at most.
PIECES = 64
#: Retransmissions remembered after they were acknowledged, per flow.
_MEMORY, _LARGEST_MEMORY = 32, 1024
_YOUNG = 1_000_000_000


def new_arena(segments: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Room for ``segments`` (at least one packet's), and the lists of its free blocks."""
    return np.zeros(max(segments, 4 * HEADROOM), SEGMENT), new_heap()


def new_heap() -> NDArray[np.int64]:
    """Nothing taken yet: the first segment never used, then a list of free blocks per size."""
    heap = np.full(1 + _SIZES, -1, np.int64)
    heap[0] = 0
    return heap


@inlined
def relative(s: Any, number: Any) -> Any:
    """Unwrap a sequence number near the left edge."""
    offset = (np.int64(number) - s.isn - s.una) & 0xFFFFFFFF
    return s.una + (offset - 0x100000000 if offset & 0x80000000 else offset)


@inlined
def at(s: Any, arena: Any, number: Any) -> Any:
    """Segment ``number`` of a sender."""
    return arena[s.ring + (number & (s.room - 1))]


@part
def _size_class(segments: Any) -> int:
    size, found = _SMALLEST, 0
    while size < segments:
        size, found = size * 2, found + 1
    return found


@part
def _take(arena: Any, heap: Any, size: int) -> Any:
    """Block of the ``size``-th size, -1 if the arena is used up."""
    block = heap[1 + size]
    if block >= 0:
        heap[1 + size] = arena[block].start
        return block
    if heap[0] + (_SMALLEST << size) > arena.shape[0]:
        return -1
    block = heap[0]
    heap[0] += _SMALLEST << size
    return block


@part
def _give(arena: Any, heap: Any, block: Any, size: int) -> None:
    arena[block].start = heap[1 + size]
    heap[1 + size] = block


@inlined
def reserve(s: Any, arena: Any, heap: Any, more: Any) -> bool:
    """Make room for ``more`` segments; False if the arena must grow first."""
    return s.tail - s.head + more <= s.room or _make_room(s, arena, heap, more)


@part
def _make_room(s: Any, arena: Any, heap: Any, more: Any) -> bool:
    limit = _SMALLEST << (_SIZES - 1) if s.heard else _DEAF
    if s.tail - s.head + more > limit:
        more += PIECES + 1  # seen from a left edge that moves, a packet may lie behind a gap
    while s.head < s.tail and s.tail - s.head + more > limit:
        forget(s, arena)
    size = _size_class(s.tail - s.head + more)
    if (_SMALLEST << size) <= s.room:
        return True
    block = _take(arena, heap, size)
    if block < 0:
        return False
    mask = (_SMALLEST << size) - 1
    for i in range(s.head, s.tail):
        arena[block + (i & mask)] = at(s, arena, i)
    if s.room > 0:
        _give(arena, heap, s.ring, _size_class(s.room))
    s.ring, s.room = block, mask + 1
    return True


@part
def forget(s: Any, arena: Any) -> None:
    """Give up the oldest segment: the left edge moves, but nothing is acknowledged by that."""
    g = at(s, arena, s.head)
    if g.sacked == s.board:
        s.sack_bytes -= g.end - g.start
    s.given_up += max(g.end - s.una, 0)
    s.una = max(s.una, g.end)
    s.head += 1


@part
def give_back(s: Any, arena: Any, heap: Any) -> None:
    """Return the ring of a sender with nothing outstanding, and its memory."""
    if s.room > 0:
        _give(arena, heap, s.ring, _size_class(s.room))
    if s.memory_room > 0:
        _give(arena, heap, s.memory, _size_class(s.memory_room))
    s.room, s.memory_room, s.remembered = 0, 0, 0


@part
def locate(s: Any, arena: Any, number: Any) -> Any:
    """Find the first segment that ends behind ``number``; ``tail`` if there is none."""
    low, high = s.head, s.tail
    while low < high:
        middle = (low + high) >> 1
        if at(s, arena, middle).end > number:
            high = middle
        else:
            low = middle + 1
    return low


@part
def unsacked(s: Any, arena: Any, number: Any) -> Any:
    """Find the first segment from ``number`` on that is not SACKed; ``tail`` if there is none."""
    found = number
    while found < s.tail and at(s, arena, found).sacked == s.board:
        found += at(s, arena, found).skip
    while number < found:  # everything passed on the way points there from now on
        g = at(s, arena, number)
        step = g.skip
        g.skip = found - number
        number += step
    return found


@part
def remember(s: Any, arena: Any, heap: Any, g: Any) -> None:
    """Keep an acknowledged retransmission: word that it was needless may yet come."""
    if s.memory_room == 0 or (
        s.remembered >= s.memory_room
        and s.memory_room < _LARGEST_MEMORY
        and g.sent - arena[s.memory + (s.remembered & (s.memory_room - 1))].sent < _YOUNG
    ):
        _enlarge_memory(s, arena, heap)
    if s.memory_room > 0:
        arena[s.memory + (s.remembered & (s.memory_room - 1))] = g
        s.remembered += 1


@part
def _enlarge_memory(s: Any, arena: Any, heap: Any) -> None:
    room = max(2 * s.memory_room, _MEMORY)
    block = _take(arena, heap, _size_class(room))
    if block < 0:
        return
    kept = min(s.remembered, s.memory_room)
    for i in range(s.remembered - kept, s.remembered):
        arena[block + (i & (room - 1))] = arena[s.memory + (i & (s.memory_room - 1))]
    if s.memory_room > 0:
        _give(arena, heap, s.memory, _size_class(s.memory_room))
    s.memory, s.memory_room = block, room


@part
def recall(s: Any, arena: Any, low: Any, high: Any) -> Any:
    """Place in the arena of the last retransmission inside ``low``-``high``; -1 if unknown."""
    i = locate(s, arena, low)
    if i < s.tail:
        g = at(s, arena, i)
        if g.kind > 0 and g.start >= low and g.end <= high:
            return s.ring + (i & (s.room - 1))
    kept = min(s.remembered, s.memory_room)
    for back in range(1, kept + 1):
        place = s.memory + ((s.remembered - back) & (s.memory_room - 1))
        g = arena[place]
        if g.kind > 0 and g.start < high and g.end > low:
            return place
    return -1
