"""What a queue counted within the measured window: the difference of two readings of ``tc``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tcpf_lab.metrics.evidence import UnreadableError, qdiscs, stats_json
from tcpf_lab.metrics.in_force import Finding, verdict
from tcpf_lab.metrics.record import Record
from tcpf_lab.metrics.wire_counters import ring_of
from tcpf_lab.results import RunFiles

#: A shaper may send so many bytes more than its rate says: a burst, and the packet after it.
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
        said = f"the reading of {device} at the window's {label} shows no root qdisc with counters"
        raise UnreadableError(said) from None


def _root(shown: dict[str, Any]) -> QueueReading:
    return QueueReading(*(int(shown[name]) for name in ("bytes", "packets", "drops", "qlen")))


def window_counters(files: RunFiles, run: Record) -> Finding:
    """Both readings must be there and agree: with each other, the last reading and the rate.

    That they were taken on time is `tcpf_lab.metrics.real_time.started_on_time`'s question; in
    virtual time nothing can be late.
    """
    devices = run.expect.get("window_counters")
    if not devices:
        return None, "queues were not read at the window's ends"
    problems: list[str] = []
    for device in devices:
        window = queue_window(files, device)
        (whole, *_) = [_root(q) for q in qdiscs(files, device) if q.get("root")]
        problems += [f"{device}: {said}" for said in _contradictions(window, whole)]
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
    start, end = run.window_ns
    most = float(place["rate_bits_per_s"]) / 8 * (end - start) / 1e9
    largest = window.bytes / max(window.packets, 1)
    burst = _BURST_PACKETS + ring_of(run.expect, place["device"])
    if window.bytes <= most + burst * max(largest, 1514.0):
        return []
    return [f"{place['device']}: {window.bytes} bytes in a window of at most {most:.0f}"]
