"""An input of the storm from its number to a digest of its answer, all in compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fuzz.sound import NO_ROOM, OTHERWISE, wrong_event, wrong_sender
from fuzz.spoil import copy_packet, spoil, spoil_bytes
from fuzz.stage import MOST, below, write
from tcpf_lab.trace.engine import _drain as drain
from tcpf_lab.trace.engine import _run as run
from tcpf_lab.trace.jit import compiled, part, stamp
from tcpf_lab.trace.link import ETHERNET, RAW, SLL, SLL2
from tcpf_lab.trace.scan import FULL, RECORDS, scan
from tcpf_lab.trace.step import CONNECTIONS, DONE, FIRST, FLOWS, SEEN

#: Entries of what is counted: seed, next input, end of the one being tried, inputs that reached
#: something new, their packets and their events.
SEED, NEXT, END, NOVEL, PACKETS, EVENTS, NUMBERS = range(7)
_ODD = np.uint64(0x2545F4914F6CDD1D)
_PRIME = np.uint64(0x100000001B3)
#: Link types of inputs.
LINKS = (ETHERNET, RAW, SLL, SLL2)
#: Bits by which what was reached is told apart from what was not.
FEATURES = 1 << 17


@part
def _mix(digest: Any, word: Any) -> Any:
    mixed = (digest ^ np.uint64(word)) * _PRIME
    return mixed ^ (mixed >> np.uint64(29))


@part
def _take(stage: Any, pool: Any, dice: Any) -> None:
    """Stage a stretch from the pool; sometimes the rest is another one's."""
    rows, facts, sizes, known = pool
    place, other = below(dice, known[0]), below(dice, known[0])
    count = sizes[place]
    if below(dice, 3):
        count = 1 + below(dice, count)
    until = below(dice, count) if below(dice, 8) == 0 else count
    for r in range(count):
        source = place if r < until or r >= sizes[other] else other
        copy_packet(stage, r, (rows, facts), source * MOST + r)
    stage[2][0] = count


@part
def _keep(stage: Any, pool: Any, dice: Any) -> None:
    """Put what reached something new into the pool, in the place of another such input."""
    rows, facts, sizes, known = pool
    place = known[0]
    if place < sizes.shape[0]:
        known[0] += 1
    else:
        place = known[1] + below(dice, sizes.shape[0] - known[1])
    sizes[place] = stage[2][0]
    for r in range(stage[2][0]):
        copy_packet((rows, facts), place * MOST + r, stage, r)


@part
def _compose(stage: Any, pool: Any, out: Any, dice: Any) -> Any:
    """Make an input; where its records begin and end, and its form."""
    _take(stage, pool, dice)
    for _ in range((1, 1, 2, 3, 5, 8)[below(dice, 6)]):
        spoil(stage, dice)
    link, big = max(below(dice, 8) - 4, 0), below(dice, 4) // 3
    micro, blocks = below(dice, 2), below(dice, 3) // 2
    begin, end = write(out, stage, (LINKS[link], big, 1000 if micro else 1, blocks))
    if below(dice, 10) == 0:
        end = spoil_bytes(out, begin, end, dice)
    return begin, end, 2 * link + micro, 2 * blocks + big


@part
def _clear(world: Any, words: Any) -> None:
    """Forget the last input."""
    table, _, store, waiting, counters, scanned, _ = world
    table[:] = -1
    for i in range(counters[FLOWS]):
        words[0][i, :] = 0
        words[1][i, :] = 0
    store[1][:] = -1
    store[1][0] = 0
    counters[:] = 0
    counters[FIRST] = np.iinfo(np.int64).max
    scanned[:] = 0
    for i in range(waiting[1].shape[0]):
        waiting[1][i] = i + 1
    waiting[1][waiting[1].shape[0] - 1] = 0


@part
def _follow(world: Any, out: Any, span: Any, layout: Any, interfaces: Any, settings: Any) -> Any:
    """Read an input and analyse it; how the reading ended, -1 if there was no room."""
    table, rows, store, waiting, counters, scanned, block = world
    at, end = span
    while True:
        at, row, status = scan(out, at, end, layout, interfaces, block, 0, scanned)
        _, short = run(block[:row], 0, table, rows, store, waiting, counters, settings)
        if short != DONE:
            return -1
        if status != FULL:
            break
    drain(counters[FLOWS], (rows[1], rows[2]), store, waiting)
    return status


@part
def _wrong(world: Any) -> int:
    """Number in `WRONG` of what is wrong with the state that an input left."""
    _, rows, store, _, counters, scanned, _ = world
    for i in range(counters[FLOWS]):
        found = wrong_sender(rows[2][i], store[0])
        if found:
            return found
    for i in range(counters[SEEN]):
        found = wrong_event(store[2][i], counters[FLOWS], scanned[RECORDS])
        if found:
            return int(found)
    return 0


@part
def _digest(world: Any, words: Any, status: Any) -> Any:
    """Digest everything that was found."""
    counters, scanned = world[4], world[5]
    digest = _mix(np.uint64(status + 1), counters[CONNECTIONS])
    for i in range(scanned.shape[0]):
        digest = _mix(digest, scanned[i])
    for part_of, count in ((0, counters[FLOWS]), (1, counters[FLOWS]), (2, counters[SEEN])):
        table = words[part_of]
        for i in range(count):
            for k in range(table.shape[1]):
                digest = _mix(digest, table[i, k])
    return digest


@part
def _mark(seen: Any, feature: Any) -> int:
    """Note a feature; 1 if it is new."""
    bit = np.int64(_mix(np.uint64(feature), 77) >> np.uint64(40)) & (FEATURES - 1)
    fresh = 1 - seen[bit]
    seen[bit] = 1
    return int(fresh)


@part
def _novel(world: Any, seen: Any, status: Any) -> int:
    """Count the features that no input had before."""
    _, rows, store, _, counters, scanned, _ = world
    found, last = _mark(seen, status), 0
    for i in range(scanned.shape[0]):
        found += _mark(seen, 100 + 8 * i + min(scanned[i], 3))
    for i in range(counters[SEEN]):
        e = store[2][i]
        now = (e.kind * 32 + e.rule) * 8 + 2 * e.spurious + (e.backoff > 0)
        found += _mark(seen, 10_000 + now * 4096 + last)
        last = now & 4095
    for i in range(counters[FLOWS]):
        s = rows[2][i]
        bits = s.mode * 4 + min(s.dups, 3)
        for flag in (s.sack_bytes, s.held, s.stamp, s.probe_end, s.split, s.away, s.fin, s.heard):
            bits = bits * 2 + (flag > 0)
        for flag in (s.remembered, s.tail - s.head, s.retransmits, s.window, s.acked_before):
            bits = bits * 2 + (flag > 0)
        found += _mark(seen, (1 << 40) + bits)
    return found


def _compile(sources: str) -> Callable[..., int]:
    """Compile the storm; ``sources`` identifies the text of the modules it is made of."""

    def batch(
        numbers: Any,
        dice: Any,
        digests: Any,
        expected: Any,
        makings: Any,
        world: Any,
        words: Any,
        tables: Any,
    ) -> int:
        """Try inputs until the answer to one is wrong: see `fuzz.storm.Storm`."""
        _ = sources
        pool, stage, out = makings
        layouts, interfaces, settings, seen = tables
        for i in range(digests.shape[0]):
            dice[0] = np.uint64(numbers[SEED]) ^ np.uint64(numbers[NEXT]) * _ODD
            numbers[NEXT] += 1
            begin, end, links, form = _compose(stage, pool, out, dice)
            numbers[END] = end
            _clear(world, words)
            for k in range(layouts.shape[1]):
                layouts[-1, k] = layouts[form, k]
            way = settings[below(dice, len(settings))]
            status = _follow(world, out, (begin, end), layouts[-1], interfaces[links], way)
            wrong = NO_ROOM if status < 0 else _wrong(world)
            if wrong:
                return int(wrong)
            digests[i] = _digest(world, words, status)
            if expected.shape[0] > 0 and digests[i] != expected[i]:
                return OTHERWISE
            numbers[PACKETS] += world[5][RECORDS]
            numbers[EVENTS] += world[4][SEEN]
            if _novel(world, seen, status):
                numbers[NOVEL] += 1
                _keep(stage, pool, dice)
        return 0

    return compiled(batch)


batch = _compile(stamp(__name__))
