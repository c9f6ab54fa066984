"""What the stations of half-duplex wires counted, as ``ip -s -d -j link show`` gives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tcpf_lab.metrics.evidence import UnreadableError, stats_json
from tcpf_lab.metrics.record import Record
from tcpf_lab.results import RunFiles

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
