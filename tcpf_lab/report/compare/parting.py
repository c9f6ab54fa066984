"""The first packet at which the captures of two runs of one seed part, and what happened around.

Two runs of one seed are alike up to the first effect of what differs between them. Initial sequence
numbers, IP identifications and TCP timestamps are no such effect: they come from random numbers and
from the boot, and are not compared, or only from their first value on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tcpf_lab import _trace
from tcpf_lab.metrics.captured import CapturedRecord, read_captured
from tcpf_lab.metrics.retransmission_log import CAUSES, read_logs
from tcpf_lab.report.style import EVENTS
from tcpf_lab.report.table import Column, Table, table_of
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.trace.follow import KIND_NAMES
from tcpf_lab.trace.packet import ACK, PACKET, Packets, address_text

#: Times of two virtual clocks that are this close are alike: they advance in steps of 256 ns.
APART_NS = 10_000
#: Events of each side that are shown before the packet, and from it on.
BEFORE, BEHIND = 3, 5
#: Side of an event that both have.
_BOTH = "both"
#: A logged retransmission is captured within this time.
_LOGGED_NS = 1_000_000

#: Fields that are compared as they are.
_PLAIN = (
    *("src", "dst", "src_high", "dst_high", "sport", "dport", "protocol", "ip_length", "payload"),
    *("flags", "window", "mss", "tos", "ttl", "fragment", "sacks", "sack_permitted"),
    *("timestamps", "window_scale"),
)
#: The same, and TCP's numbers from the first one of the direction on.
CONTENT = np.dtype(
    [
        *((name, PACKET[name]) for name in _PLAIN),
        *(("seq", np.uint32), ("ack", np.uint32), ("sack", PACKET["sack"])),
    ]
)
#: ``same``: the files have the same bytes; ``alike``: the packets differ in nothing that counts.
State = Literal["same", "alike", "part"]


@dataclass(frozen=True)
class Place:
    """A packet of both captures at one point: those before it are alike.

    ``index`` counts from 0; ``fields`` are those that differ, none where the packets are of
    different flows. ``times_s`` after the epoch and ``packets`` are those of A and of B; None and
    empty where a capture has no more.
    """

    point: str
    index: int
    fields: tuple[str, ...]
    times_s: tuple[float | None, float | None]
    packets: tuple[str, str]

    @property
    def time_s(self) -> float:
        """The time of the earlier side."""
        return min(time for time in self.times_s if time is not None)


@dataclass(frozen=True)
class Happening:
    """A retransmission or a drop of one side, ``time_s`` after the epoch."""

    side: str
    time_s: float
    event: str
    packet: str


@dataclass(frozen=True)
class Parting:
    """Captures of one cell and seed on both sides.

    ``place`` is the first packet whose content differs, at whichever point that is earliest;
    ``late`` one before it that is alike and comes at another time. ``events`` are around the first
    of these, if there is one, else around the other.
    """

    cell: str
    seed: int
    state: State
    place: Place | None = None
    late: Place | None = None
    events: tuple[Happening, ...] = ()


def parting(cell: str, seed: int, first: RunFiles, second: RunFiles) -> Parting:
    """Compare the captures of two runs.

    Raises
    ------
    LabError
        If captures cannot be read.
    """
    names = [sorted(path.name for path in files.pcap.iterdir()) for files in (first, second)]
    if names[0] == names[1] and all(
        (first.pcap / name).read_bytes() == (second.pcap / name).read_bytes() for name in names[0]
    ):
        return Parting(cell, seed, "same")
    ours, theirs = read_captured(first), read_captured(second)
    by_clock = not (ours.real_time or theirs.real_time)
    found = [
        where(_point(ours, role), _packets(ours, role), _packets(theirs, role), by_clock=by_clock)
        for role in ours.captures
        if role in theirs.captures
    ]
    place = _earliest(content for content, _ in found)
    late = _earliest(late for _, late in found)
    if place and late and place.time_s <= late.time_s:
        late = None
    at = place or late
    if at is None:
        return Parting(cell, seed, "alike")
    events = [
        one
        for side, run, files in (("A", ours, first), ("B", theirs, second))
        for one in _happenings(side, run, files, at.time_s)
    ]
    return Parting(cell, seed, "part", place, late, tuple(_merged(events)))


def _merged(events: Iterable[Happening]) -> list[Happening]:
    """Give events in the order of time, each that both sides have at one time once."""
    found: list[Happening] = []
    for one in sorted(events, key=lambda one: one.time_s):
        same = (
            place
            for place, other in enumerate(found)
            if other.side not in (one.side, _BOTH)
            and (other.event, other.packet) == (one.event, one.packet)
            and abs(other.time_s - one.time_s) < APART_NS / 1e9
        )
        place = next(same, None)
        if place is None:
            found.append(one)
        else:
            found[place] = replace(one, side=_BOTH)
    return found


def _earliest(places: Iterable[Place | None]) -> Place | None:
    return min((one for one in places if one), key=lambda one: one.time_s, default=None)


def _point(run: CapturedRecord, role: str) -> str:
    """Give the host and place of a capture, ``R1-in``."""
    return str(run.expect["captures"][role])


def _packets(run: CapturedRecord, role: str) -> Packets:
    """Give the packets of a capture with their times after the epoch."""
    packets = run.captures[role].packets.copy()
    packets["time_ns"] -= run.epoch_ns
    return packets


def where(
    point: str, first: Packets, second: Packets, *, by_clock: bool = True
) -> tuple[Place | None, Place | None]:
    """Find the first packet whose content differs, and one before it that has another time.

    Parameters
    ----------
    point : str
        Where both were captured.
    first, second : Packets
        Captures of A and B, times after the epoch.
    by_clock : bool
        Whether times mean something: those of two real runs differ from the first packet on.
    """
    ours, theirs = content(first), content(second)
    common = min(ours.size, theirs.size)
    differs = np.flatnonzero(ours[:common] != theirs[:common])
    parts = int(differs[0]) if differs.size else common
    place = None
    if parts < max(ours.size, theirs.size):
        place = _place(point, parts, (first, second), (ours, theirs))
    if not by_clock:
        return place, None
    apart = np.abs(first["time_ns"][:parts] - second["time_ns"][:parts]) >= APART_NS
    late = np.flatnonzero(apart)
    at = int(late[0]) if late.size else None
    return place, None if at is None else _place(point, at, (first, second), (ours, theirs))


def _place(
    point: str, index: int, packets: Sequence[Packets], contents: Sequence[NDArray[Any]]
) -> Place:
    there = [index < one.size for one in packets]
    first, second = (
        int(one["time_ns"][index]) / 1e9 if is_there else None
        for one, is_there in zip(packets, there, strict=True)
    )
    ours, theirs = (
        packet_text(one[index]) if is_there else ""
        for one, is_there in zip(contents, there, strict=True)
    )
    return Place(point, index, _fields(contents, index), (first, second), (ours, theirs))


#: Fields that tell flows, and directions, apart.
_ENDS = ("src", "dst", "src_high", "dst_high", "sport", "dport", "protocol")


def _fields(contents: Sequence[NDArray[Any]], index: int) -> tuple[str, ...]:
    """Name the fields in which two packets of one flow differ."""
    if any(index >= one.size for one in contents):
        return ()
    first, second = (one[index] for one in contents)
    differing = [name for name in CONTENT.names or () if np.any(first[name] != second[name])]
    return () if set(differing) & set(_ENDS) else tuple(differing)


def content(packets: Packets) -> NDArray[Any]:
    """Give what is compared of packets, array of CONTENT."""
    found = np.zeros(packets.size, CONTENT)
    for name in _PLAIN:
        found[name] = packets[name]
    label, _, backward = _trace.connections(packets)
    tcp = label >= 0
    side = 2 * label + backward
    acks = tcp & ((packets["flags"] & ACK) != 0)
    found["seq"][tcp] = _from_first(side[tcp], packets["seq"][tcp])
    found["ack"][acks] = _from_first(side[acks], packets["ack"][acks]) + 1
    edges = packets["sack"] - (packets["ack"] - found["ack"])[:, np.newaxis]
    count = np.arange(edges.shape[1]) < 2 * packets["sacks"][:, np.newaxis]
    found["sack"] = np.where(count & acks[:, np.newaxis], edges, 0)
    return found


def _from_first(side: NDArray[np.int64], numbers: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Count numbers from the first one of their side, modulo 2 to the 32."""
    _, first, own = np.unique(side, return_index=True, return_inverse=True)
    result: NDArray[np.uint32] = numbers - numbers[first][own]
    return result


_FLAGS = "FSRPAUEC"


def packet_text(one: Any) -> str:
    """Describe a packet of CONTENT: ``10.0.0.1:20002 > 10.0.3.2:5001 PA seq 961 +960 ack 1``."""
    src, dst = (address_text(one[f"{end}_high"], one[end]) for end in ("src", "dst"))
    flags = "".join(letter for bit, letter in enumerate(_FLAGS) if int(one["flags"]) >> bit & 1)
    words = [
        f"{src}:{one['sport']} > {dst}:{one['dport']} {flags or '.'} seq {one['seq']}",
        *((f"+{one['payload']}",) if one["payload"] else ()),
        *((f"ack {one['ack']}",) if int(one["flags"]) & ACK else ()),
        f"window {one['window']}",
        *((f"tos {one['tos']}",) if one["tos"] else ()),
        *((f"mss {one['mss']}",) if one["mss"] else ()),
        *((f"scale {one['window_scale']}",) if one["window_scale"] >= 0 else ()),
        *(("sack permitted",) if one["sack_permitted"] else ()),
        *(("timestamps",) if one["timestamps"] else ()),
    ]
    blocks = [f"{a}..{b}" for a, b in one["sack"].reshape(-1, 2)[: int(one["sacks"])]]
    return " ".join([*words, *(("sack", *blocks) if blocks else ())])


def _happenings(side: str, run: CapturedRecord, files: RunFiles, at_s: float) -> list[Happening]:
    """Give retransmissions and drops of the queue shortly before an instant, and from it on."""
    packets, transit = _packets(run, "sender"), run.transit
    sent, lost = np.flatnonzero(run.recovery.kind > 0), np.flatnonzero(transit.lost)
    time_s = (
        np.concatenate([packets["time_ns"][sent], transit.arrival_ns[lost] - run.epoch_ns]) / 1e9
    )
    order = np.argsort(time_s, kind="stable")
    before = int(np.sum(time_s < at_s - APART_NS / 1e9))
    near = order[max(0, before - BEFORE) : before + BEHIND]
    again, dropped = _retransmissions(run, files, packets), _drops(run)
    return [
        Happening(side, float(time_s[one]), *again(sent[one]))
        if one < sent.size
        else Happening(side, float(time_s[one]), *dropped(lost[one - sent.size]))
        for one in near
    ]


def _retransmissions(
    run: CapturedRecord, files: RunFiles, packets: Packets
) -> Callable[[int], tuple[str, str]]:
    """Give what describes a retransmission by its row, with the kernel's cause if it has a log."""
    found, logged = content(packets), _logged(files)

    def described(row: int) -> tuple[str, str]:
        kind = KIND_NAMES[int(run.recovery.kind[row])]
        cause = _cause(logged, packets[row], int(packets["time_ns"][row]) + run.epoch_ns)
        words = EVENTS[kind][0] if kind in EVENTS else kind.replace("_", " ")
        event = f"{words} (kernel: {cause})" if cause.replace(" ", "_") not in kind else words
        return event, packet_text(found[row])

    return described


def _drops(run: CapturedRecord) -> Callable[[int], tuple[str, str]]:
    """Give what describes a drop by its row among the packets that entered the queue."""
    entered = _packets(run, "ingress")
    found = content(entered) if entered.size == run.transit.arrival_ns.size else None
    node = _point(run, "ingress").partition("-")[0]

    def described(row: int) -> tuple[str, str]:
        size = int(run.transit.wire_length[row])
        text = packet_text(found[row]) if found is not None else f"{size} bytes"
        return f"drop at {node}", text

    return described


#: Times and causes by source port and sequence number.
Logged = Mapping[tuple[int, int], Sequence[tuple[int, str]]]


def _logged(files: RunFiles) -> Logged:
    found: dict[tuple[int, int], list[tuple[int, str]]] = {}
    for log in read_logs(files).values():
        for one in log.entries:
            key = int(one["sport"]), int(one["seq"])
            found.setdefault(key, []).append((int(one["time_ns"]), CAUSES[int(one["cause"])]))
    return found


def _cause(logged: Logged, packet: Any, time_ns: int) -> str:
    near = logged.get((int(packet["sport"]), int(packet["seq"])), ())
    return next((c for at, c in near if abs(at - time_ns) < _LOGGED_NS), "").replace("_", " ")


_WORDS = {
    "same": "the same bytes",
    "alike": "alike but for initial sequence numbers, IP identifications and timestamps",
}


def parting_table(found: Sequence[Parting]) -> Table:
    """Give the first packet that differs of each pair of captures, as either side has it."""
    rows: list[tuple[str, ...]] = []
    for one in found:
        pair = f"{one.cell}, seed {one.seed}"
        if one.state != "part":
            rows.append((pair, "", "nothing", "", _WORDS[one.state]))
        for what, at in (("time", one.late), ("packet", one.place)):
            if at:
                named = ", ".join(at.fields).replace("_", " ") or what
                head = (pair, f"{at.point}, packet {at.index}", named)
                for side, time, packet in zip("AB", at.times_s, at.packets, strict=True):
                    when = side if time is None else f"{side} {time:.6f}"
                    rows.append((*head, when, packet or "no more packets"))
                    head = ("", "", "")
    return table_of(
        "packets",
        "First packet that differs",
        (
            *("cell", "capture", "differs in"),
            *(Column("side, time (s)", fit="whole"), "packet"),
        ),
        rows,
        f"Times of less than {APART_NS // 1000} µs apart are alike; packets count from 0, sequence "
        "numbers from the first of each direction.",
        close=True,
    )


def event_table(one: Parting) -> Table:
    """Give the events of both sides around the first packet that differs."""
    rows = [(each.side, f"{each.time_s:.6f}", each.event, each.packet) for each in one.events]
    wholes = (Column(name, fit="whole") for name in ("side", "time (s)"))
    return table_of(
        "events",
        f"Events around it: {one.cell}, seed {one.seed}",
        (*wholes, "event", "packet"),
        rows,
        close=True,
    )
