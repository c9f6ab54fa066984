"""The streaming engine: blocks of packets in, flows, events and counters out.

Nothing is kept per packet.  What grows, grows with the flows: their rows, the state of their
senders, the table of connections, and the arena of outstanding segments.  Compiled code cannot
enlarge an array; it stops before the packet that needs more room and says which.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.trace.distance import END_OF_TIME, more_waiting, new_waiting
from tcpf_lab.trace.events import EVENT, FLOW
from tcpf_lab.trace.jit import compiled, stamp
from tcpf_lab.trace.packet import LATER, TCP, Packets
from tcpf_lab.trace.scoreboard import new_arena
from tcpf_lab.trace.sender import SENDER
from tcpf_lab.trace.step import (
    ARENA,
    CONNECTIONS,
    COPIES,
    COUNTERS,
    DONE,
    EVENTS,
    FIRST,
    FLOWS,
    LAST,
    SEEN,
    STEPS,
    WAITING,
    advance,
    catch_up,
    lacking,
)
from tcpf_lab.trace.table import CONNECTION, new_table, rehash

#: Packets so far apart, against the order of the capture or along it, tell that a clock was set.
_BACK_NS, _AHEAD_NS = 1_000_000_000, 86_400_000_000_000


def _compile_run(sources: str) -> Callable[..., tuple[int, int]]:
    """Compile the engine; ``sources`` identifies the text of the modules it is made of."""

    def _run(
        block: Packets,
        at: int,
        table: NDArray[np.int32],
        rows: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
        store: tuple[NDArray[Any], NDArray[np.int64], NDArray[Any]],
        pool: tuple[NDArray[Any], NDArray[np.int64]],
        counters: NDArray[np.int64],
        settings: tuple[int, int, int, int],
    ) -> tuple[int, int]:
        """Run packets ``block[at:]``; the first not run, and what there is no room for."""
        _ = sources  # so that it is part of the key in the cache
        for i in range(at, block.shape[0]):
            p = block[i]
            ahead = p.time_ns - counters[LAST]
            counters[STEPS] += counters[LAST] > 0 and (ahead < -_BACK_NS or ahead > _AHEAD_NS)
            counters[FIRST] = min(counters[FIRST], p.time_ns)
            counters[LAST] = max(counters[LAST], p.time_ns)
            if p.protocol != TCP or p.fragment == LATER:
                continue
            missing = lacking(rows, store, pool, counters)
            if missing:
                return i, missing
            if not advance(table, rows, store, pool, counters, settings, p):
                return i, ARENA
        return block.shape[0], DONE

    return compiled(_run)


def _compile_rest(sources: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Compile what is not done per packet."""

    def _rehash(table: NDArray[np.int32], old: NDArray[np.int32], connections: Any) -> None:
        _ = sources
        rehash(table, old, connections)

    def _drain(
        count: int,
        rows: tuple[NDArray[Any], NDArray[Any]],
        store: tuple[NDArray[Any], NDArray[np.int64], NDArray[Any]],
        pool: tuple[NDArray[Any], NDArray[np.int64]],
    ) -> None:
        """Take every ACK that still waits."""
        _ = sources
        for flow in range(count):
            catch_up(rows[1][flow], rows[0][flow], store, pool, END_OF_TIME)

    return compiled(_rehash), compiled(_drain)


_SOURCES = stamp(__name__)
_run = _compile_run(_SOURCES)
_rehash, _drain = _compile_rest(_SOURCES)


class Engine:
    """Follow all flows of one capture, block by block.

    Parameters
    ----------
    settings : tuple of int
        Smallest timer or variance term in nanoseconds, whether tail loss probes are expected, the
        timer's profile (`tcpf_lab.trace.sender.LINUX` and so on), where the capture was taken
        (`tcpf_lab.trace.distance.FOUND` and so on).
    listed : bool
        Whether events are listed.
    """

    def __init__(self, settings: tuple[int, int, int, int], *, listed: bool = True) -> None:
        self._settings = settings
        self._counters = np.zeros(COUNTERS, np.int64)
        self._counters[FIRST] = np.iinfo(np.int64).max
        self._table = new_table(1 << 10)
        self._connections = np.zeros(1 << 9, CONNECTION)
        self._flows, self._senders = np.zeros(1 << 9, FLOW), np.zeros(1 << 9, SENDER)
        self._arena, self._heap = new_arena(0)
        self._events = np.zeros(1 << 12 if listed else 0, EVENT)
        self._pool = new_waiting(1 << 8)

    def feed(self, block: Packets) -> None:
        """Follow the flows through the next packets of the capture."""
        at = 0
        while True:
            rows = (self._connections, self._flows, self._senders)
            store = (self._arena, self._heap, self._events)
            at, short = _run(
                *(block, at, self._table, rows, store, self._pool),
                *(self._counters, self._settings),
            )
            if short == DONE:
                return
            self._grow(short)

    def finish(self) -> None:
        """Take what is still on its way at the end of the capture."""
        store = (self._arena, self._heap, self._events)
        _drain(int(self._counters[FLOWS]), (self._flows, self._senders), store, self._pool)

    def _grow(self, missing: int) -> None:
        """Double what is used up."""
        if missing == ARENA:
            self._arena = _doubled(self._arena)
        elif missing == EVENTS:
            self._events = _doubled(self._events)
        elif missing == WAITING:
            self._pool = more_waiting(*self._pool)
        else:
            self._flows, self._senders = _doubled(self._flows), _doubled(self._senders)
            self._connections = _doubled(self._connections)
            old, self._table = self._table, new_table(2 * self._table.size)
            _rehash(self._table, old, self._connections)

    @property
    def times(self) -> tuple[int, int]:
        """First and last time stamp so far; both 0 before the first packet."""
        first, last = int(self._counters[FIRST]), int(self._counters[LAST])
        return (first, last) if first <= last else (0, 0)

    @property
    def steps(self) -> int:
        """Packets so far whose time is a second before an earlier one's, or a day behind it."""
        return int(self._counters[STEPS])

    @property
    def copies(self) -> int:
        """Packets so far that had been captured before, and were left out."""
        return int(self._counters[COPIES])

    @property
    def flows(self) -> NDArray[Any]:
        """Rows of all flows so far (`tcpf_lab.trace.events.FLOW`), not yet completed."""
        return self._flows[: self._counters[FLOWS]]

    @property
    def senders(self) -> NDArray[Any]:
        """State of their senders (`tcpf_lab.trace.sender.SENDER`)."""
        return self._senders[: self._counters[FLOWS]]

    @property
    def arena(self) -> NDArray[Any]:
        """What the senders have outstanding (`tcpf_lab.trace.scoreboard.SEGMENT`)."""
        return self._arena

    @property
    def connections(self) -> NDArray[Any]:
        """All connections so far (`tcpf_lab.trace.table.CONNECTION`)."""
        return self._connections[: self._counters[CONNECTIONS]]

    @property
    def events(self) -> NDArray[Any]:
        """All events so far, if they are listed."""
        return self._events[: self._counters[SEEN]]


def _doubled(array: NDArray[Any]) -> NDArray[Any]:
    """Copy an array into one twice as long, the new half zero."""
    larger = np.zeros(2 * array.size, array.dtype)
    larger[: array.size] = array
    return larger
