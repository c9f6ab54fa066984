"""Half-duplex wires: what their stations counted, and whether it adds up."""

from __future__ import annotations

from typing import Any

from tcpf_lab.metrics.counters import TIMES, Station, station
from tcpf_lab.metrics.from_counters import Extra
from tcpf_lab.metrics.in_force import Finding, verdict
from tcpf_lab.metrics.record import Record, UnreadableError
from tcpf_lab.metrics.validity import apply
from tcpf_lab.results.layout import RunFiles

#: Of IEEE 802.3: preamble and delimiter in bits; checksum and shortest frame in bytes.
_PREAMBLE, _FCS, _SHORTEST = 64, 4, 64
#: The shortest frame that ``ip`` counts: an Ethernet header.
_HEADER = 14


def wires(files: RunFiles, run: Record) -> Extra:
    """Give the section ``wires`` of a run with half-duplex links.

    Each wire has the shares of the measured window in which it carried frames that arrived
    (``busy``), collisions (``contention``) and neither (``idle``), and the whole run's
    ``collisions``, ``deferred`` and ``excessive`` of its two stations, in the order of ``devices``.

    Parameters
    ----------
    files : RunFiles
        The run's directory.
    run : Record
        What was read from it.

    Returns
    -------
    Extra
        Empty for a run without such links.
    """
    if "wires" not in run.expect:
        return Extra()
    sections = {"wires": [_wire(files, wire["devices"]) for wire in run.expect["wires"]]}
    tests = {"wires_in_force": _in_force, "wires_add_up": _add_up}
    return Extra(sections=sections, checks=apply(tests, files, run))


def _wire(files: RunFiles, devices: list[str]) -> dict[str, Any]:
    """Describe one wire; what cannot be read is None, and a check says so."""
    try:
        ends = [station(files, device) for device in devices]
        start, end = (station(files, devices[0], f"-window-{at}") for at in ("start", "end"))
    except UnreadableError:
        return {"devices": devices}
    length = end.age_ns - start.age_ns
    return {
        "devices": devices,
        **{name: (end.counts[name] - start.counts[name]) / length for name in TIMES},
        **{key: [e.counts[key] for e in ends] for key in ("collisions", "deferred", "excessive")},
    }


def _in_force(files: RunFiles, run: Record) -> Finding:
    """Each link must be a wire of the rate that was asked for, its stations have such rings."""
    problems = []
    for wire in run.expect["wires"]:
        for device in wire["devices"]:
            found = station(files, device)
            asked = {name: wire[name] for name in ("rate_bits_per_s", "ring")}
            problems += [
                f"{device}: {name} is {getattr(found, name)}, not {wanted}"
                for name, wanted in asked.items()
                if getattr(found, name) != wanted
            ]
    return verdict(problems, f"{len(run.expect['wires'])} half-duplex links")


def _add_up(files: RunFiles, run: Record) -> Finding:
    """What a station has sent must have arrived, and taken the time that its bits take."""
    problems = []
    for wire in run.expect["wires"]:
        near, far = (station(files, device) for device in wire["devices"])
        both = " and ".join(wire["devices"])
        if near.sent != far.received or far.sent != near.received:
            problems.append(f"{both}: not all that one sent the other received")
        busy = near.counts["busy"]
        low, high = (
            sum(_on_wire(end, padding) for end in (near, far)) for padding in (False, True)
        )
        if not low <= busy <= high:
            problems.append(f"{both}: busy for {busy} ns, but the frames take {low} to {high} ns")
    return verdict(problems, "all that was sent has arrived, in the time that frames take")


def _on_wire(end: Station, padding: bool) -> int:
    """Time that a station's frames take, ns: at least, or if as many are padded as can be."""
    packets, size = end.sent
    size = max(size + _FCS * packets, _SHORTEST * packets)
    more = (_SHORTEST - _FCS - _HEADER) * packets if padding else 0
    return (packets * _PREAMBLE + 8 * (size + more)) * 10**9 // end.rate_bits_per_s
