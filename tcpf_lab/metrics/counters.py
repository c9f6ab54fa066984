"""Counters of queues, background, wires and TCP: readings of ``tc``, ``ip`` and ``/proc/net``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tcpf_lab.metrics.capacity import mean_rate
from tcpf_lab.metrics.in_force import CheckResult, verdict
from tcpf_lab.metrics.record import (
    Record,
    UnreadableError,
    qdiscs,
    stats_json,
    text_of,
)
from tcpf_lab.results.layout import RunFiles


def background_drops(files: RunFiles, run: Record) -> int:
    """Give how many background packets the bottleneck dropped in the whole run.

    Raises
    ------
    UnreadableError
        If counters are missing.
    """
    every = sources(run).values()
    if not every:
        return 0
    behind = run.expect["background"]["behind"]
    found = interfaces(files, f"dev-{node_of(behind)}.txt")
    ended = found[behind]["rx_packets"] - onwards(found, behind, "tx_packets")
    return sum(int(source_counts(files, source)["end"]["packets"]) for source in every) - ended


def sources(run: Record) -> dict[str, Any]:
    """Give the plan's entry of each source, by name."""
    return dict(run.expect.get("background", {}).get("sources", {}))


def source_counts(files: RunFiles, source: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Read the output of a source's program: ``start-sample``, ``end-sample`` and ``end``."""
    name = f"source-{source['node']}.jsonl"
    found = {}
    for line in text_of(files, files.stats, name).splitlines():
        row = json.loads(line)
        found[f"{row['sample']}-sample" if "sample" in row else row["event"]] = row
    if "end" not in found:
        raise UnreadableError(f"stats/{name} has no last line: the source did not exit normally")
    return found


def onwards(found: dict[str, dict[str, int]], behind: str, counter: str) -> int:
    """Sum a counter over the interfaces by which packets leave a router for the receivers."""
    onwards = (device for device in found if device not in (behind, "lo") and "-" in device)
    return sum(found[device][counter] for device in onwards)


def interfaces(files: RunFiles, name: str) -> dict[str, dict[str, int]]:
    """Read ``/proc/net/dev``: bytes and packets of every interface."""
    places = {"rx_bytes": 0, "rx_packets": 1, "tx_bytes": 8, "tx_packets": 9}
    found = {}
    for line in text_of(files, files.stats, name).splitlines():
        device, colon, counters = line.partition(":")
        if colon:
            fields = counters.split()
            found[device.strip()] = {key: int(fields[at]) for key, at in places.items()}
    return found


def node_of(device: str) -> str:
    """Name the node of an interface."""
    return device.partition("-")[0]


def longest_pause_ns(run: Record) -> int:
    """Give how long the flows' packets may wait for the longest bursts of the sources, ns."""
    return round(1e9 * sum(float(source["longest_pause_s"]) for source in sources(run).values()))


#: Times of a wire, which add up to its age.
TIMES = ("busy", "contention", "idle")


@dataclass(frozen=True)
class Station:
    """One station, and its wire.

    Attributes
    ----------
    rate_bits_per_s, ring : int
        Of the wire, and frames that the station holds.
    sent, received : tuple of int
        Packets and bytes, Ethernet headers included.
    counts : dict
        ``collisions``, ``deferred`` and ``excessive`` (frames given up after 16 collisions) of the
        station; ``busy``, ``contention`` and ``idle``, ns, of the wire since it was made.
    """

    rate_bits_per_s: int
    ring: int
    sent: tuple[int, int]
    received: tuple[int, int]
    counts: dict[str, int]

    @property
    def age_ns(self) -> int:
        """Time since the wire was made."""
        return sum(self.counts[name] for name in TIMES)


def station(files: RunFiles, device: str, when: str = "") -> Station:
    """Read what a station counted: over the run, or up to an end of the measured window.

    Parameters
    ----------
    files : RunFiles
        The run's directory.
    device : str
        Such as ``R1-R2``.
    when : str
        ``-window-start`` or ``-window-end``.

    Raises
    ------
    UnreadableError
        If the reading is missing, or shows another kind of link.
    """
    name = f"wire{when}-{device}.json"
    shown = stats_json(files, name)
    try:
        link, count = shown[0]["linkinfo"], shown[0]["stats64"]
        if link["info_kind"] != "csma":
            raise UnreadableError(f"{device} is a link of type {link['info_kind']}, not csma")
        sent, received = (
            (int(count[way]["packets"]), int(count[way]["bytes"])) for way in ("tx", "rx")
        )
        counts = {key: int(value) for key, value in link["info_xstats"].items()}
        data = link["info_data"]
        return Station(8 * int(data["rate"]), int(data["ring"]), sent, received, counts)
    except (KeyError, IndexError, TypeError):
        raise UnreadableError(f"stats/{name} does not describe a station of a wire") from None


def ring_of(expect: Mapping[str, Any], device: str) -> int:
    """Frames that a device holds behind its queue; 0 where the link is full duplex."""
    return sum(int(wire["ring"]) for wire in expect.get("wires", ()) if device in wire["devices"])


def given_up(files: RunFiles, run: Record, device: str) -> int:
    """Frames of a device that were given up after 16 collisions; 0 where it has no shared wire."""
    return station(files, device).counts["excessive"] if ring_of(run.expect, device) else 0


#: A shaper may exceed its rate by so many bytes: a burst, and the packet after it.
_BURST_PACKETS = 4


@dataclass(frozen=True)
class QueueReading:
    """One reading of a device's root qdisc, which counts what its children do.

    Attributes
    ----------
    bytes, packets : int
        What has left since the run's begin; frames, as ``tc`` counts them.
    drops : int
        Packets dropped since then.
    waiting : int
        Packets in the queue.
    """

    bytes: int
    packets: int
    drops: int
    waiting: int


@dataclass(frozen=True)
class QueueWindow:
    """What a device's queue counted within the measured window.

    Attributes
    ----------
    start, end : QueueReading
        At the window's two ends.
    """

    start: QueueReading
    end: QueueReading

    @property
    def bytes(self) -> int:
        """Bytes of the frames that left."""
        return self.end.bytes - self.start.bytes

    @property
    def packets(self) -> int:
        """Packets that left."""
        return self.end.packets - self.start.packets

    @property
    def drops(self) -> int:
        """Packets that were dropped."""
        return self.end.drops - self.start.drops

    @property
    def arrivals(self) -> int:
        """Packets that came: they left, were dropped, or wait now and did not before."""
        return self.packets + self.drops + self.end.waiting - self.start.waiting


def window_qdiscs(files: RunFiles, device: str, label: str) -> list[dict[str, Any]]:
    """Give all queues of a device at an end of the window, as ``tc`` reported them.

    Parameters
    ----------
    files : RunFiles
        The run's directory.
    device : str
        Such as ``R1-R2``, an interface of ``R1``.
    label : str
        ``start`` or ``end``.

    Raises
    ------
    UnreadableError
        If the reading is missing or damaged.
    """
    name = f"qdisc-window-{label}-{device.partition('-')[0]}.json"
    found = stats_json(files, name)
    if not isinstance(found, list) or not all(isinstance(q, dict) for q in found):
        raise UnreadableError(f"stats/{name} is not a list of queues")
    return found


def queue_window(files: RunFiles, device: str) -> QueueWindow:
    """Read what the root qdisc of a device counted within the window.

    Raises
    ------
    UnreadableError
        If a reading is missing or damaged, or shows no root qdisc.
    """
    return QueueWindow(*(_reading(files, device, label) for label in ("start", "end")))


def _reading(files: RunFiles, device: str, label: str) -> QueueReading:
    roots = [q for q in window_qdiscs(files, device, label) if q.get("root")]
    try:
        return _root(roots[0])
    except (IndexError, KeyError, TypeError, ValueError):
        message = (
            f"the reading of {device} at the window's {label} shows no root qdisc with counters"
        )
        raise UnreadableError(message) from None


def _root(shown: dict[str, Any]) -> QueueReading:
    return QueueReading(*(int(shown[name]) for name in ("bytes", "packets", "drops", "qlen")))


def window_counters(files: RunFiles, run: Record) -> CheckResult:
    """Both readings must be there and agree: with each other, the last reading and the rate.

    That they were taken on time is `tcpf_lab.metrics.validity.started_on_time`'s question; in
    virtual time nothing can be late.
    """
    devices = run.expect.get("window_counters")
    if not devices:
        return None, "queues were not read at the window's ends"
    problems: list[str] = []
    for device in devices:
        window = queue_window(files, device)
        (whole, *_) = [_root(q) for q in qdiscs(files, device) if q.get("root")]
        problems += [f"{device}: {problem}" for problem in _contradictions(window, whole)]
    problems += _too_fast(files, run)
    return verdict(problems, f"{len(devices)} queues, both readings")


def _contradictions(window: QueueWindow, whole: QueueReading) -> list[str]:
    """What cannot be: counters that fall, and packets that came fewer than none."""
    found = [
        f"{name} fell from {before} to {after} {when}"
        for name in ("bytes", "packets", "drops")
        for earlier, later, when in (
            (window.start, window.end, "within the window"),
            (window.end, whole, "after the window"),
        )
        if (after := getattr(later, name)) < (before := getattr(earlier, name))
    ]
    if window.arrivals < 0:
        found.append(f"{-window.arrivals} packets fewer than none came")
    return found


def _too_fast(files: RunFiles, run: Record) -> list[str]:
    """More than its rate has let through: the readings are further apart than the window."""
    place = run.expect["bottleneck"]
    if place["device"] not in run.expect["window_counters"]:
        return []
    window = queue_window(files, place["device"])
    most = mean_rate(place, run.window_s) / 8 * run.seconds
    largest = window.bytes / max(window.packets, 1)
    burst = _BURST_PACKETS + ring_of(run.expect, place["device"])
    if window.bytes <= most + burst * max(largest, 1514.0):
        return []
    return [f"{place['device']}: {window.bytes} bytes in a window of at most {most:.0f}"]
