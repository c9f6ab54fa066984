"""What a box did to the packets that entered it, from captures on both of its sides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.base.errors import TraceError
from tcpf_lab.metrics import definitions
from tcpf_lab.metrics.definitions import mean_run, run_lengths, tally
from tcpf_lab.trace.packet import address_text
from tcpf_lab.trace.passage import Marks, Passage, passage

#: Longest stay in a box of which nothing is known.
MAX_DELAY_NS = 2_000_000_000
#: Default bin width of loss over time.
BIN_NS = 1_000_000_000


@dataclass(frozen=True)
class DeviceOptions:
    """What is known of the box, and which packets are judged.

    Attributes
    ----------
    max_delay_ns : int
        Longest possible stay.
    offset_ns : int, optional
        What the second clock shows more than the first (0: one clock); None: it is estimated.
    from_ns, to_ns : int, optional
        Only packets that arrive from then until before then, counted from the first arrival, and
        of these only such as the second capture would have the departure of.
    bin_ns : int
        Length of the parts of loss over time.
    """

    max_delay_ns: int = MAX_DELAY_NS
    offset_ns: int | None = None
    from_ns: int | None = None
    to_ns: int | None = None
    bin_ns: int = BIN_NS


def judged_of(found: Passage, known: DeviceOptions) -> tuple[NDArray[np.bool_], int]:
    """Select the packets that are counted, and count those outside the requested time.

    Raises
    ------
    TraceError
        If none is judged of those that came at that time.
    """
    came = found.transit.arrival_ns
    start, end = found.judged_ns
    after_ns = came - came[0]
    wanted = after_ns >= (known.from_ns or 0)
    if known.to_ns is not None:
        wanted &= after_ns < known.to_ns
    seen = (came >= start) & (came <= end)
    judged: NDArray[np.bool_] = seen & wanted
    if seen.any() and not judged.any():
        first, last = after_ns[seen][[0, -1]] / 1e9
        hint = f"those from {first:.6f} to {last:.6f} s are, as the second capture would have them"
        raise TraceError(
            "no packet that came in this time is judged", where="--from, --to", hint=hint
        )
    return judged, int(np.sum(~wanted))


_CE = 3


@dataclass(frozen=True)
class MatchedCaptures:
    """Two captures, matched.

    Attributes
    ----------
    before, after : str
        Their names.
    warnings : tuple of str
        What is wrong with them.
    options : DeviceOptions
        Options of the comparison.
    passage : Passage
        What became of each packet.
    judged : bool, shape (n,)
        Which of the packets that entered the numbers are about.
    outside : int
        Packets that are not judged because they came before ``from_ns``, or not before ``to_ns``.
    """

    before: str
    after: str
    warnings: tuple[str, ...]
    options: DeviceOptions
    passage: Passage
    judged: NDArray[np.bool_]
    outside: int


def match_captures(
    before: Path | str, after: Path | str, options: DeviceOptions | None = None
) -> MatchedCaptures:
    """Match two captures, taken before and after a box.

    Parameters
    ----------
    before, after : Path or str
        Captures, plain or compressed; the other direction is counted separately.
    options : DeviceOptions, optional
        What is known of the box.

    Returns
    -------
    MatchedCaptures
        Packet by packet; `describe_device` summarises it.

    Raises
    ------
    TraceError
        If a capture cannot be read, nothing of the first is in the second, or no packet is both
        requested and judged.
    """
    chosen, marks = options or DeviceOptions(), Marks()
    first, second = marks.read(before), marks.read(after)
    for path, (packets, _) in ((before, first), (after, second)):
        if not packets.size:
            raise TraceError("no IP packet in the capture", where=str(path))
    found = passage(
        first[0],
        second[0],
        marks.ends,
        max_delay_ns=chosen.max_delay_ns,
        offset_ns=chosen.offset_ns,
    )
    warnings = tuple(text for text in (first[1], second[1], _doubt(found)) if text)
    judged, outside = judged_of(found, chosen)
    return MatchedCaptures(str(before), str(after), warnings, chosen, found, judged, outside)


def _doubt(found: Passage) -> str:
    """Say that the captures are hardly of one box, if most of what left never came."""
    crossed, alone = int(np.sum(~found.transit.lost)), found.foreign
    if alone <= crossed:
        return ""
    return (
        f"only {crossed} of {crossed + alone} packets that left had come: are these the two sides "
        "of one box, at one time?"
    )


def describe_device(crossed: MatchedCaptures) -> dict[str, Any]:
    """Give loss, delay, reordering and copies in words and base units.

    Parameters
    ----------
    crossed : MatchedCaptures
        From `match_captures`.

    Returns
    -------
    dict
        ``before``, ``after``; ``clock``; ``packets`` (how many entered, were judged, came outside
        of the requested time, were lost, reordered, copied, or belong to no judgement); ``loss``;
        ``by_dscp``; ``remarked``; ``runs``; ``delay``; ``flows``; ``over_time``.
    """
    found, judged = crossed.passage, crossed.judged
    lost = found.transit.lost[judged]
    size = found.transit.ip_length[judged]
    flow = found.entered["flow"][judged]
    return {
        "before": crossed.before,
        "after": crossed.after,
        "warnings": list(crossed.warnings),
        "clock": _clock(found),
        "packets": _packets(crossed),
        "loss": loss_of(size, lost),
        "by_dscp": _by_dscp(found.transit.tos[judged] >> 2, size, lost),
        "remarked": _remarked(found, judged),
        "runs": {"all": _runs(lost), "flows": _runs(lost, flow)},
        "delay": _delay(found, judged),
        "flows": list(_flows(found, judged)),
        "over_time": list(_over_time(found, judged, crossed.options.bin_ns)),
    }


def loss_of(size: NDArray[np.int64], lost: NDArray[np.bool_]) -> dict[str, Any]:
    """Count packets and losses; percentages are None where nothing entered."""
    some = size.size > 0
    return {
        "packets": int(size.size),
        "packets_lost": int(np.sum(lost)),
        "loss_percent": 100 * definitions.loss_fraction(size, lost) if some else None,
        "packet_loss_percent": 100 * float(np.mean(lost)) if some else None,
    }


def _clock(found: Passage) -> dict[str, Any]:
    clock = found.clock
    return {
        "given": clock.given,
        "offset_ns": clock.offset_ns,
        "between_ns": list(clock.between_ns) if clock.between_ns else None,
        "drift_ppm": 1e6 * clock.drift,
        "drift_seen_ppm": 1e6 * clock.drift_seen,
        "coincidences": clock.coincidences,
        "ambiguous": clock.ambiguous,
    }


def _packets(crossed: MatchedCaptures) -> dict[str, int]:
    found, judged = crossed.passage, crossed.judged
    return {
        "entered": int(judged.size),
        "counted": int(np.sum(judged)),
        "outside": crossed.outside,
        "lost": int(np.sum(found.transit.lost[judged])),
        "reordered": int(np.sum(found.overtaken[judged])),
        "duplicates": found.transit.copies,
        "unmatched": found.foreign,
        "reverse_before": found.back[0],
        "reverse_after": found.back[1],
        "other_hosts_before": found.elsewhere[0],
        "other_hosts_after": found.elsewhere[1],
    }


def _by_dscp(dscp: Any, size: Any, lost: Any) -> dict[str, dict[str, Any]]:
    """Loss of each code point that entered; RFC 2597's p_in and p_out where a marker made two."""
    return {
        str(int(value)): loss_of(size[dscp == value], lost[dscp == value])
        for value in np.unique(dscp)
    }


def _remarked(found: Passage, judged: NDArray[np.bool_]) -> dict[str, Any]:
    """Packets that left with another code point, and those that congestion was marked on."""
    through = judged & ~found.transit.lost
    came, left = found.transit.tos[through], found.tos_out[through]
    pairs = (came.astype(np.int64) >> 2) * 64 + (left >> 2)
    number = np.bincount(pairs, minlength=4096)
    changed = [
        {"from": int(k // 64), "to": int(k % 64), "packets": int(number[k])}
        for k in np.flatnonzero(number)
        if k // 64 != k % 64
    ]
    congested = int(np.sum((came & 3 != _CE) & (left & 3 == _CE)))
    return {"dscp": changed, "congestion_experienced": congested}


def _runs(lost: NDArray[np.bool_], flow: Any = None) -> dict[str, Any]:
    lengths = run_lengths(lost, flow)
    return {"mean": mean_run(lengths), "lengths": tally(lengths)}


def _delay(found: Passage, judged: NDArray[np.bool_]) -> dict[str, Any]:
    """Seconds between the captures: whole ones by one clock, else above the minimum."""
    stay = definitions.delays(found.transit.arrival_ns[judged], found.transit.departure_ns[judged])
    result: dict[str, Any] = {"minimum_is_zero": not found.clock.given, "packets": int(stay.size)}
    if stay.size:
        result |= {
            "min_s": float(np.min(stay)),
            "mean_s": float(np.mean(stay)),
            "median_s": definitions.percentile(stay, 50),
            "p95_s": definitions.percentile(stay, 95),
            "p99_s": definitions.percentile(stay, 99),
            "max_s": float(np.max(stay)),
        }
    return result


def _flows(found: Passage, judged: NDArray[np.bool_]) -> Iterator[dict[str, Any]]:
    """Yield loss by flow, in the order of their first packets."""
    flow = found.entered["flow"][judged].astype(np.int64)
    order = np.argsort(flow, kind="stable")
    number, begin = np.unique(flow[order], return_index=True)
    rows = np.flatnonzero(judged)[order]
    for k, own in zip(number, np.split(rows, begin[1:]), strict=True):
        stay = definitions.delays(found.transit.arrival_ns[own], found.transit.departure_ns[own])
        yield {
            **ends_of(found, int(k)),
            "dscp": int(found.transit.tos[own[0]] >> 2),
            **loss_of(found.transit.ip_length[own], found.transit.lost[own]),
            "longest_loss_run": int(np.max(run_lengths(found.transit.lost[own]), initial=0)),
            "delay_mean_s": float(np.mean(stay)) if stay.size else None,
        }


def ends_of(found: Passage, flow: int) -> dict[str, Any]:
    """Write a flow's ends."""
    ends = found.ends[flow]
    return {
        "src": address_text(int(ends["src_high"]), int(ends["src"])),
        "sport": int(ends["sport"]),
        "dst": address_text(int(ends["dst_high"]), int(ends["dst"])),
        "dport": int(ends["dport"]),
        "protocol": int(ends["protocol"]),
    }


def _over_time(found: Passage, judged: NDArray[np.bool_], bin_ns: int) -> Iterator[dict[str, Any]]:
    """Yield loss and delay in each part of the time, by arrival after the first packet."""
    rows = np.flatnonzero(judged)
    if not rows.size:
        return
    came = found.transit.arrival_ns[rows] - found.transit.arrival_ns[0]
    for own in np.split(rows, np.flatnonzero(np.diff(came // bin_ns)) + 1):
        part = int(found.transit.arrival_ns[own[0]] - found.transit.arrival_ns[0]) // bin_ns
        stay = definitions.delays(found.transit.arrival_ns[own], found.transit.departure_ns[own])
        yield {
            "time_s": part * bin_ns / 1e9,
            **loss_of(found.transit.ip_length[own], found.transit.lost[own]),
            "delay_mean_s": float(np.mean(stay)) if stay.size else None,
            "delay_max_s": float(np.max(stay)) if stay.size else None,
        }
