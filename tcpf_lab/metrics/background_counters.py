"""Counters of background: what its sources said, and interfaces on the way of its packets."""

from __future__ import annotations

import json
from typing import Any

from tcpf_lab.metrics.evidence import UnreadableError, text_of
from tcpf_lab.metrics.record import Record
from tcpf_lab.results import RunFiles


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
    """Give what the plan says of each source, by name; nothing where there are none."""
    return dict(run.expect.get("background", {}).get("sources", {}))


def source_counts(files: RunFiles, source: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Read what a source's program said: ``start-sample``, ``end-sample`` and ``end``."""
    name = f"source-{source['node']}.jsonl"
    found = {}
    for line in text_of(files, files.stats, name).splitlines():
        row = json.loads(line)
        found[f"{row['sample']}-sample" if "sample" in row else row["event"]] = row
    if "end" not in found:
        raise UnreadableError(f"stats/{name} has no last line: the source did not end by itself")
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
