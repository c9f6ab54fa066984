"""Probes: what an application felt, idle and under load, from the records of its programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.metrics.definitions import percentile
from tcpf_lab.metrics.from_counters import Extra, or_none
from tcpf_lab.metrics.in_force import CheckResult, verdict
from tcpf_lab.metrics.record import Clock, Record, UnreadableError, text_of
from tcpf_lab.metrics.retransmission_log import unpacked
from tcpf_lab.metrics.series import read_arrays, write_arrays
from tcpf_lab.metrics.validity import apply
from tcpf_lab.results.layout import RunFiles, read_json

#: Records of ``tcpf-probe``: times in ns after the epoch, by the clock of who wrote them.
DATAGRAM = np.dtype(
    [("number", "<u4"), ("zero", "<u4"), ("sent_ns", "<i8"), ("received_ns", "<i8")]
)
EXCHANGE = np.dtype([("flow", "<u4"), ("state", "<u4"), ("start_ns", "<i8"), ("end_ns", "<i8")])
_FINISHED, _FAILED = 0, 2
#: A line of ``ping -D``: when the reply came, which request it answers, and after how long.
_REPLY = re.compile(r"^\[(\d+)\.(\d+)\] .*icmp_seq=(\d+) .*time=([\d.]+) ms", re.MULTILINE)
#: What it says at its end: how many it sent, and in what time.
_SENT = re.compile(r"^(\d+) packets transmitted, .* time (\d+)ms$", re.MULTILINE)
#: Sequence numbers of echo requests, which begin again after the last.
_SEQUENCES = 1 << 16
PERCENTILES = (50, 95, 99)


@dataclass(frozen=True)
class Sent:
    """What a probe sent: one entry per packet or exchange, in the order of sending.

    Attributes
    ----------
    time_s : float64, shape (n,)
        When it was sent, seconds after the epoch.
    took_s : float64, shape (n,)
        Delay, round-trip time or completion time; NaN for what was lost, failed or cut off.
    lost : bool, shape (n,)
        Whether it was lost or failed.
    """

    time_s: NDArray[np.float64]
    took_s: NDArray[np.float64]
    lost: NDArray[np.bool_]


def probes(files: RunFiles, run: Record) -> Extra:
    """Give the section ``probes``, and write ``probes.npz``.

    Each probe has numbers ``idle``, of what it sent before the earliest ``start`` of a group, and
    ``load``, of what it sent in the measured window; of packets without the last second, and half
    of the window at most, as they may still be under way: packets or exchanges, loss in per cent,
    mean, percentiles and maximum of the delay (``udp``: one way), round-trip time (``icmp``) or
    completion time (``request``) in seconds, and jitter: the mean magnitude of the inter-packet
    delay variation (IPDV, RFC 5481), of consecutive packets of which neither was lost; None for
    ``request``, whose exchanges are no packets. Of ``icmp`` it is that of round-trip times.

    Parameters
    ----------
    files : RunFiles
        The run's directory.
    run : Record
        What was read from it.

    Returns
    -------
    Extra
        Empty for a run without probes.
    """
    wanted = run.expect.get("probes")
    if not wanted:
        return Extra()
    found: dict[str, Sent] = {}
    unreadable: list[str] = []
    for probe in wanted:
        try:
            found[probe["name"]] = read_probe(files, run, probe)
        except UnreadableError as error:
            unreadable.append(str(error))
    arrays: dict[str, NDArray[Any]] = {}
    for name, sent in found.items():
        arrays |= {f"{name}_time_s": sent.time_s, f"{name}_took_s": sent.took_s}
    write_arrays(files.probes, arrays)
    there = (probe for probe in wanted if probe["name"] in found)
    return Extra(
        sections={"probes": [_described(run, probe, found[probe["name"]]) for probe in there]},
        checks=apply({"probes_ran": lambda *_: _ran(found, unreadable)}, files, run),
    )


def read_probes(files: RunFiles) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Read ``probes.npz``: of each probe when it sent, s after the epoch, and how long it took, s.

    What was lost or cut off took NaN.

    Raises
    ------
    TraceError
        If the run has no probes, or the file is damaged.
    """
    names = [probe["name"] for probe in read_json(files.metrics).get("probes") or ()]
    found = read_arrays(
        files, files.probes, [f"{n}_{k}_s" for n in names for k in ("time", "took")]
    )
    return {name: (found[f"{name}_time_s"], found[f"{name}_took_s"]) for name in names}


def read_probe(files: RunFiles, run: Record, probe: Mapping[str, Any]) -> Sent:
    """Read what one probe sent, by the run's clock.

    Raises
    ------
    UnreadableError
        If its records are missing or cut off.
    """
    return _READERS[probe["kind"]](files, run, probe)


def _records(files: RunFiles, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
    packed = files.stats / f"{name}.zst"
    path = packed if packed.exists() else files.stats / name
    if not path.exists():
        raise UnreadableError(f"stats/{name} is missing")
    content = unpacked(path) if path == packed else path.read_bytes()
    if len(content) % dtype.itemsize:
        raise UnreadableError(f"stats/{name} is cut off")
    return np.frombuffer(content, dtype)


def _after_epoch(run: Record, clock: Clock | None, own: NDArray[np.int64]) -> NDArray[np.int64]:
    """Give instants after the epoch of a node's clock as such of the run's clock."""
    if clock is None:
        return own.astype(np.int64)
    return clock.run_time(clock.own_epoch_ns + own.astype(np.int64)) - run.epoch_ns


def _datagrams(files: RunFiles, run: Record, probe: Mapping[str, Any]) -> Sent:
    """Every planned datagram; those that were never received are lost."""
    found = _records(files, probe["records"], DATAGRAM)
    _, first = np.unique(found["number"], return_index=True)
    found = found[first]
    count = int(probe["count"])
    time = probe["start_s"] + probe["interval_s"] * np.arange(count)
    took = np.full(count, np.nan)
    there = found["number"] < count
    number = found["number"][there]
    sent, received = (
        _after_epoch(run, run.clocks.of(probe[node]), found[column][there])
        for node, column in (("sender", "sent_ns"), ("receiver", "received_ns"))
    )
    time[number], took[number] = sent / 1e9, (received - sent) / 1e9
    return Sent(time, took, np.isnan(took))


def _echoes(files: RunFiles, run: Record, probe: Mapping[str, Any]) -> Sent:
    """Every echo request; those without a reply are lost, and were sent evenly between the others.

    Sequence numbers have 16 bits: of those alike a reply answers the one whose turn was nearest.
    """
    text = text_of(files, files.stats, probe["records"])
    summary = _SENT.search(text)
    if summary is None:
        raise UnreadableError(f"stats/{probe['records']} is cut off")
    count = int(summary[1])
    interval = float(summary[2]) / 1e3 / (count - 1) if count > 1 else probe["interval_s"]
    time, took = np.full((2, count), np.nan)
    last, last_sent = 0, float(probe["start_s"])
    clock = run.clocks.of(probe["sender"])
    for second, part, sequence, milliseconds in _REPLY.findall(text):
        delay = float(milliseconds) / 1e3
        came = int(second) * 10**9 + int(part.ljust(9, "0"))
        own = came - (run.epoch_ns if clock is None else clock.own_epoch_ns)
        sent = _after_epoch(run, clock, np.array([own]))[0] / 1e9 - delay
        turn = last + (sent - last_sent) / interval
        place = int(sequence) - 1
        place += _SEQUENCES * round((turn - place) / _SEQUENCES)
        if 0 <= place < count and np.isnan(took[place]):
            time[place], took[place] = sent, delay
            last, last_sent = place, sent
    lost = np.isnan(took)
    return Sent(_between(time, probe["start_s"], interval), took, lost)


def _between(time_s: NDArray[np.float64], start_s: float, interval_s: float) -> NDArray[np.float64]:
    """Fill in times that are NaN, evenly between those known, which the interval goes on from."""
    number = np.arange(time_s.size)
    known = np.flatnonzero(~np.isnan(time_s))
    if not known.size:
        return np.asarray(start_s + interval_s * number, np.float64)
    first, last = known[0], known[-1]
    filled = np.interp(number, known, time_s[known])
    before, after = np.minimum(number - first, 0), np.maximum(number - last, 0)
    return np.asarray(filled + interval_s * (before + after), np.float64)


def _exchanges(files: RunFiles, run: Record, probe: Mapping[str, Any]) -> Sent:
    """Every exchange that was begun; what the end of the run cut off took no time, nor was lost."""
    found = np.sort(_records(files, probe["records"], EXCHANGE), order="start_ns")
    clock = run.clocks.of(probe["receiver"])
    start, end = (_after_epoch(run, clock, found[name]) for name in ("start_ns", "end_ns"))
    done = found["state"] == _FINISHED
    took = np.where(done, (end - start) / 1e9, np.nan)
    return Sent(start / 1e9, took, np.asarray(found["state"] == _FAILED, np.bool_))


_READERS: Mapping[str, Callable[[RunFiles, Record, Mapping[str, Any]], Sent]] = {
    "icmp": _echoes,
    "udp": _datagrams,
    "request": _exchanges,
}


def load_span(kind: str, window_s: tuple[float, float]) -> tuple[float, float]:
    """Give from when to when a probe sends what counts as under load, s after the epoch."""
    start, end = window_s
    # Packets that are sent at the very end may still be under way.
    return start, end if kind == "request" else end - min(1.0, (end - start) / 2)


def _described(run: Record, probe: Mapping[str, Any], sent: Sent) -> dict[str, Any]:
    begins = min(float(group["start_s"]) for group in run.expect["groups"] if group["flows"])
    start, end = load_span(probe["kind"], run.window_s)
    idle, load = sent.time_s < begins, (sent.time_s >= start) & (sent.time_s < end)
    packets = probe["kind"] != "request"
    return {
        **{key: probe[key] for key in ("name", "kind", "direction")},
        "idle": _numbers(sent, idle, packets=packets) if np.any(idle) else None,
        "load": _numbers(sent, load, packets=packets),
    }


def _numbers(sent: Sent, chosen: NDArray[np.bool_], *, packets: bool) -> dict[str, Any]:
    took, count = sent.took_s[chosen], int(np.sum(chosen))
    known = took[~np.isnan(took)]
    return {
        "sent": count,
        "loss_percent": 100 * int(np.sum(sent.lost[chosen])) / count if count else None,
        "mean_s": float(np.mean(known)) if known.size else None,
        **{f"p{at}_s": or_none(percentile, known, at) for at in PERCENTILES},
        "max_s": float(np.max(known)) if known.size else None,
        "jitter_s": jitter(took) if packets else None,
    }


def jitter(delay_s: NDArray[np.float64]) -> float | None:
    """Mean magnitude of the inter-packet delay variation (IPDV, RFC 5481), s.

    Parameters
    ----------
    delay_s : float64, shape (n,)
        Delays in the order of sending; NaN for lost packets.

    Returns
    -------
    float or None
        None without two consecutive packets that arrived.

    Examples
    --------
    >>> jitter(np.array([1.0, 3.0, np.nan, 9.0, 8.0]))
    1.5
    """
    variation = np.abs(np.diff(delay_s))
    known = variation[~np.isnan(variation)]
    return float(np.mean(known)) if known.size else None


def _ran(found: Mapping[str, Sent], unreadable: list[str]) -> CheckResult:
    """Every probe sent something, and something came back."""
    if unreadable:
        return False, unreadable[0]
    problems = [
        f"{name}: nothing arrived of {sent.time_s.size} sent"
        for name, sent in found.items()
        if np.all(np.isnan(sent.took_s))
    ]
    total = sum(sent.time_s.size for sent in found.values())
    return verdict(problems, f"{len(found)} probes, {total} packets or exchanges")
