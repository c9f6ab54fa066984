"""What every figure of one flow is drawn from: a flow of a run, or of any capture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.base.errors import LabError, RequestError, TraceError, path_text
from tcpf_lab.metrics.captured import CapturedRecord, read_captured
from tcpf_lab.metrics.record import made_without_captures
from tcpf_lab.report.plots.kinds import Subject, Wanted
from tcpf_lab.report.plots.runs import DrawnCapture, DrawnRun, under
from tcpf_lab.report.style import NO_BREAK_SPACE
from tcpf_lab.results.command import again, command
from tcpf_lab.trace.analysis import one_way
from tcpf_lab.trace.follow import Followed, follow

Times = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OneFlow:
    """A flow, packet by packet, as its data sender saw it.

    Attributes
    ----------
    name : str
        ``flow 3``.
    notes : tuple of str
        What the line under the title says of it.
    where : str
        The run or the capture, for messages.
    seen : Followed
        Its packets of both directions.
    payload : int64, shape (packets,)
        Their payload, bytes.
    time_s : float64, shape (packets,)
        When they passed: after the start of the run, or after the capture's first packet.
    lost_time_s, lost : float64, shape (losses,)
        Segments that the bottleneck dropped, and the middles of their places in the payload;
        empty for a capture.
    bounds_s : (float, float)
        From when to when it is drawn.
    warm_s : float
        Until when the run was not measured; 0 for a capture.
    one_way : bool
        Whether nothing comes back in the capture.
    run : DrawnRun, optional
        The run.
    """

    name: str
    notes: tuple[str, ...]
    where: str
    seen: Followed
    payload: NDArray[np.int64]
    time_s: Times
    lost_time_s: Times
    lost: Times
    bounds_s: tuple[float, float]
    warm_s: float = 0.0
    one_way: bool = False
    run: DrawnRun | None = None

    @property
    def axis(self) -> str:
        """What its times are."""
        first = "the start of the run" if self.run else "the capture's first packet"
        return f"Time after {first} (s)"

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Which packets passed in the time that is drawn."""
        start, end = self.bounds_s
        return np.asarray((self.time_s >= start) & (self.time_s <= end), np.bool_)

    def subtitle(self, *words: str) -> str:
        """Give the line under a figure's title."""
        if self.run:
            return under([self.run], *self.notes, *words)
        return unbroken(*self.notes, *words)

    def empty(self, what: str, hint: str = "") -> LabError:
        """Say that there is nothing to draw."""
        start, end = self.bounds_s
        return LabError(
            f"{self.name} {what} from {start:g} to {end:g} s",
            where=self.where,
            hint=hint or "choose another --time or --flow",
        )


def flow_of(
    subjects: Sequence[Subject], wanted: Wanted, kind: str, *, answered: bool = True
) -> OneFlow:
    """Read the flow that a figure is to be drawn of.

    Parameters
    ----------
    subjects : sequence of DrawnRun or DrawnCapture
        One run whose captures are stored, or one capture.
    wanted : Wanted
        ``flow``: one; by default that with most timeouts. ``time_s``: from when to when.
    kind : str
        What the figure is called, for messages.
    answered : bool
        Whether the figure is of what comes back.

    Raises
    ------
    LabError
        If there are several of them, no captures, or nothing was sent; or nothing comes back in a
        capture, and the figure needs it.
    """
    if len(subjects) != 1:
        raise RequestError(
            f"{kind} is of one run or capture, not of {len(subjects)}",
            hint="choose with --case, --flows and --seed, or name the run's directory",
        )
    if len(wanted.flow) > 1:
        raise RequestError(f"{kind} is of one flow", where="--flow")
    (subject,) = subjects
    found = (
        _of_run(subject, wanted.flow)
        if isinstance(subject, DrawnRun)
        else _of_capture(subject, wanted.flow)
    )
    found = replace(found, bounds_s=wanted.time_s or found.bounds_s)
    if found.one_way:
        _refuse_one_way(found, kind, answered)
    if not np.any(found.inside & found.seen.forward):
        raise found.empty("sent nothing")
    return found


def _refuse_one_way(flow: OneFlow, kind: str, answered: bool) -> None:
    """Refuse what a capture of one direction cannot show."""
    hint = "capture where both directions pass"
    if not np.any(flow.payload[flow.seen.forward]):
        message = "has acknowledgements only: the data took another path"
        raise LabError(f"{flow.name} {message}", where=flow.where, hint=hint)
    if answered:
        message = f"the capture has no ACK of {flow.name}, which {kind} needs"
        further = f"; `{command('plot', 'time-sequence', Path(flow.where))}` shows what was sent"
        raise LabError(message, where=flow.where, hint=hint + further)


def _of_capture(capture: DrawnCapture, wanted: tuple[int, ...]) -> OneFlow:
    flow = capture.chosen(wanted)
    packets, flows, row = capture.only(flow)
    seen = follow(packets, flows, row, capture.options)
    seen = replace(seen, kind=capture.kinds(flow, packets["record"][seen.row]))
    alone = bool(one_way(capture.found.flows[flow : flow + 1])[0])
    time = (seen.time_ns - capture.found.first_ns) / 1e9
    return OneFlow(
        name=f"flow {flow}",
        notes=(path_text(capture.path.name), capture.ends(flow), _place(capture, seen, alone)),
        where=str(capture.path),
        one_way=alone,
        seen=seen,
        payload=packets["payload"][seen.row].astype(np.int64),
        time_s=np.asarray(time, np.float64),
        lost_time_s=np.empty(0),
        lost=np.empty(0),
        bounds_s=(float(time.min()), float(time.max())) if time.size else (0.0, 0.0),
    )


def _place(capture: DrawnCapture, seen: Followed, alone: bool) -> str:
    """Say where the capture was taken, and what was done about it."""
    if alone:
        return "one direction only"
    at = capture.found.at
    words = f"taken at the {at}" if at != "between" else "taken between the ends"
    if seen.away_ns:
        return f"{words}: ACKs drawn {seen.away_ns / 1e6:.1f} ms later, when the sender has them"
    if seen.scale < 0 and capture.options.at != "sender":
        return "without its handshake: followed as if captured at the sender"
    return words


def _of_run(run: DrawnRun, wanted: tuple[int, ...]) -> OneFlow:
    record = run_record(run)
    flow = _run_flow(run, wanted)
    row = int(record.row[flow])
    end = (record.window_ns[1] - record.epoch_ns) / 1e9
    if row < 0:
        bounds = (0.0, end)
        raise LabError(
            f"flow {flow} sent nothing from {bounds[0]:g} to {bounds[1]:g} s",
            where=str(run.files.root),
            hint="choose another --flow",
        )
    packets = record.captures["sender"].packets
    seen = follow(packets, record.flows, row, record.options)
    lost_time, lost = _lost(record, row)
    return OneFlow(
        name=f"flow {flow}",
        notes=(run.case, f"flow {flow} of {run.flows}", f"seed {run.seed}"),
        where=str(run.files.root),
        seen=seen,
        payload=packets["payload"][seen.row].astype(np.int64),
        time_s=np.asarray((seen.time_ns - record.epoch_ns) / 1e9, np.float64),
        lost_time_s=lost_time,
        lost=lost,
        bounds_s=(0.0, end),
        warm_s=(record.window_ns[0] - record.epoch_ns) / 1e9,
        run=run,
    )


def run_record(run: DrawnRun) -> CapturedRecord:
    """Read a run's captures, or say how to get some.

    Raises
    ------
    TraceError
        If there are none.
    """
    if not any(run.files.pcap.glob("*.pcap*")) and not made_without_captures(run.files):
        raise TraceError(
            "this figure needs captures, and the run has none",
            where=str(run.files.root),
            hint=f"`{again(run.files, '--keep-pcaps')}` repeats the run and stores them",
        )
    return read_captured(run.files)  # which says so if there never were any


def _run_flow(run: DrawnRun, wanted: tuple[int, ...]) -> int:
    flows = run.found["per_flow"]
    if not wanted:
        return int(max(flows, key=lambda row: (row["timeouts"], row["retransmissions"]))["flow"])
    (flow,) = wanted
    if not 0 <= flow < len(flows):
        message = f"the run has flows 0 to {len(flows) - 1}"
        raise RequestError(message, where=f"--flow {flow}")
    return flow


def _lost(record: CapturedRecord, row: int) -> tuple[Times, Times]:
    """When segments of a flow came to the bottleneck and were dropped; middles of their places."""
    entered = record.captures["ingress"].packets
    mine, flows = entered["payload"] > 0, record.flows
    for name in ("src", "src_high", "dst", "dst_high", "sport", "dport"):
        mine &= entered[name] == getattr(flows, name)[row]
    gone = np.flatnonzero(record.transit.lost & mine)
    sent = record.captures["sender"].packets
    own, _ = flows.split(row)
    first = sent[own[0]]
    base = int(first["seq"]) - (0 if first["flags"] & 2 else 1)
    place = _unwrapped(entered["seq"][gone], base) - 1 + entered["payload"][gone] / 2
    time = (entered["time_ns"][gone] - record.epoch_ns) / 1e9
    return np.asarray(time, np.float64), np.asarray(place, np.float64)


def _unwrapped(numbers: NDArray[np.uint32], base: int) -> Times:
    """Count sequence numbers on from `base` beyond 32 bits; neighbours are near each other."""
    following = np.concatenate([[base], numbers]).astype(np.int64)
    near = np.mod(np.diff(following) + 2**31, 2**32) - 2**31
    return np.asarray(np.cumsum(near), np.float64)


def unbroken(*words: str) -> str:
    """Join words with commas, so that a line is broken at these only."""
    return ", ".join(word.replace(" ", NO_BREAK_SPACE) for word in words)
