"""A run whose packets were captured: what the captures hold, read once, and its flows' numbers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.base.errors import TraceError
from tcpf_lab.metrics import definitions
from tcpf_lab.metrics.capacity import changes, last_drained_s, longest_drain_s
from tcpf_lab.metrics.counters import longest_pause_ns, ring_of
from tcpf_lab.metrics.definitions import acknowledged_at, goodput
from tcpf_lab.metrics.in_force import CheckResult, verdict
from tcpf_lab.metrics.record import (
    Record,
    UnreadableError,
    in_order,
    read_record,
    stats_json,
    with_captures_instead,
)
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.trace.analysis import Options, Profile
from tcpf_lab.trace.follow import KIND_NAMES, RTO, SYN_RTO, Recovery, classify
from tcpf_lab.trace.packet import Capture, Flows, Packets, find_flows, read_capture, segments
from tcpf_lab.trace.passage import (
    MAX_DELAY_NS,
    MarkArray,
    Marks,
    Transit,
    cross,
    cross_marks,
)

#: The captures that every run has, unless it was made without any.
ROLES = ("sender", "ingress", "egress")
#: A queue may hold a packet a little longer than its limit and rate allow.
_MARGIN_NS = 100_000_000
#: A machine with a clock of its own may stand still, with packets in its queues; virtual ones wait.
_STALL_NS = 10_000_000_000
#: Where packets overtake each other, a few of one flow may wait as long as the others keep coming.
_REORDERING_NS = 60_000_000_000


@dataclass(frozen=True)
class Way:
    """One direction through the bottleneck of a run with groups.

    Attributes
    ----------
    name : str
        ``up`` or ``down``.
    expect : dict
        Its queue, as the plan has it: ``bottleneck`` and ``qdisc``.
    entered, left : array of MARK
        Captured before and behind the queue, in the order of time; of TCP alone without probes.
    ends : array of ENDS
        What the marks' ``flow`` counts.
    transit : Transit
        A row per packet of `entered`.
    """

    name: str
    expect: dict[str, Any]
    entered: MarkArray
    left: MarkArray
    ends: NDArray[Any]
    transit: Transit


@dataclass(frozen=True)
class CapturedRecord(Record):
    """One run, ready for the metrics that come from packets.

    Attributes
    ----------
    captures : dict of str to Capture
        By role: ``sender``, ``ingress``, ``egress``; ``cross_ingress`` where traffic that passes
        the bottleneck alone enters it by another link than the plan's flows; ``sender_down``,
        ``ingress_down`` and ``egress_down`` where flows go the other way too. Then ``sender`` has
        the packets of all flows, each as captured near its sender.
    flows, recovery : Flows, Recovery
        Of the capture at the sender.
    row : int64, shape (n,)
        For each flow of the plan its row in `flows`, -1 if none was captured.
    transit : Transit
        The bottleneck.
    max_delay_ns : int
        How long before the window's end a packet enters the queue at the latest to be judged.
    ways : tuple of Way
        Directions with a queue under test, of a run with groups; empty without groups.
    """

    captures: dict[str, Capture]
    flows: Flows
    recovery: Recovery
    row: NDArray[np.int64]
    transit: Transit
    max_delay_ns: int
    ways: tuple[Way, ...] = ()

    def judged(self, transit: Transit) -> NDArray[np.bool_]:
        """Packets that entered in the window, early enough to have left before its end."""
        start, end = self.window_ns
        came = transit.arrival_ns
        return (came >= start) & (came < end - self.max_delay_ns)

    @property
    def options(self) -> Options:
        """What is known of the senders, to follow their packets in the capture."""
        profile: Profile = "classic" if self.classic else "linux"
        return Options(self.rto_min_ns, self.probes, profile, "sender", self.linux22)


def read_captured(files: RunFiles) -> CapturedRecord:
    """Read the record and the captures of a run.

    Raises
    ------
    TraceError
        If a capture or a record cannot be read, or the run was made without captures.
    RequestError
        If the manifest is missing.
    """
    return with_captures(files, read_record(files))


def with_captures(files: RunFiles, record: Record) -> CapturedRecord:
    """Add what the captures hold to the record of a run; raises as `read_captured`."""
    if not record.was_captured:
        raise TraceError(
            "the run was made without captures",
            where=str(files.root),
            hint=with_captures_instead(files),
        )
    captures = {
        role: _capture(files, record, record.expect["captures"][role])
        for role in (*ROLES, *record.expect["captures"].keys() - set(ROLES))
    }
    if "sender_down" in captures:
        captures["sender"] = _joined(captures, record)
    packets = captures["sender"].packets
    flows = find_flows(packets)
    delay = max_delay_ns(record.expect) + longest_pause_ns(record)
    reordering = 0 if record.expect["qdisc"].get("in_order", True) else _REORDERING_NS
    stay = delay + reordering + (_STALL_NS if record.real_time else 0)
    ways = tuple(_ways(record, captures, stay))
    transits = [way.transit for way in ways] or [
        cross(_entered(captures), captures["egress"].packets, max_delay_ns=stay)
    ]
    return CapturedRecord(
        **{field.name: getattr(record, field.name) for field in fields(Record)},
        captures=captures,
        flows=flows,
        recovery=classify(
            packets,
            rto_min_ns=record.rto_min_ns,
            probes=record.probes,
            classic=record.classic,
            linux22=record.linux22,
        ),
        row=_rows(flows, packets, record.expect, record.count),
        transit=transits[0],
        max_delay_ns=_judged_delay_ns(record, delay, transits),
        ways=ways,
    )


def _ways(record: Record, captures: dict[str, Capture], stay: int) -> Iterator[Way]:
    """Match what entered the queue of each direction with what left it."""
    if "groups" not in record.expect:
        return
    directions = {"up": ("", record.expect)}
    if "opposite" in record.expect:
        directions["down"] = ("_down", record.expect["opposite"])
    for name, (suffix, expect) in directions.items():
        marks = Marks()
        entered, left = (
            marks.of(captures[role].packets) for role in (f"ingress{suffix}", f"egress{suffix}")
        )
        transit = cross_marks(entered, left, max_delay_ns=stay)
        yield Way(name, expect, entered, left, marks.ends, transit)


def _joined(captures: dict[str, Capture], record: Record) -> Capture:
    """Give what passed the senders, of either direction: each flow as captured near its sender."""
    down = np.zeros(1 << 16, np.bool_)
    for group in record.expect["groups"]:
        if group["direction"] == "down":
            first = int(record.expect["source_port"]) + int(group["first"])
            down[first : first + int(group["flows"])] = True
    parts = []
    for role, wanted in (("sender", False), ("sender_down", True)):
        packets = captures[role].packets
        parts.append(packets[(down[packets["sport"]] | down[packets["dport"]]) == wanted])
    return replace(captures["sender"], packets=in_order(np.concatenate(parts)))


def _entered(captures: dict[str, Capture]) -> Packets:
    """What entered the bottleneck, in the order of time: cross traffic comes by a link of its own.

    Both captures are of one node, and so by one clock.
    """
    if "cross_ingress" not in captures:
        return captures["ingress"].packets
    both = np.concatenate([captures[role].packets for role in ("ingress", "cross_ingress")])
    return both[np.argsort(both["time_ns"], kind="stable")]


def max_delay_ns(expect: dict[str, Any]) -> int:
    """Longest stay in the bottleneck's queue: its backlog at its rate, and a margin.

    Half a second at least.
    """
    backlog = _largest_backlog(expect)
    if backlog is None:
        return MAX_DELAY_NS
    drain = 1e9 * longest_drain_s(expect["bottleneck"], backlog)
    return max(MAX_DELAY_NS, round(drain) + _MARGIN_NS)


def _largest_backlog(expect: dict[str, Any]) -> float | None:
    """The queue's limit, bytes; twice as much where acknowledgements share the wire."""
    wanted = expect["qdisc"]
    limit = wanted.get("limit", wanted.get("options", {}).get("limit"))
    if limit is None:
        return None
    return float(limit) * (2 if ring_of(expect, expect["bottleneck"]["device"]) else 1)


def _judged_delay_ns(record: Record, delay: int, transits: Sequence[Transit]) -> int:
    """How long before the window's end a packet enters the queue at the latest to be judged.

    That is `delay`, its longest stay there; of a link that changes what it may stay before that
    end. The kernel's default limits hold seconds of traffic, which such a queue never has: half a
    second with these. So do limits in packets of 64 kB: the longest stay seen with these.
    """
    expect = record.expect
    if expect["qdisc"].get("default_limit"):
        return min(delay, MAX_DELAY_NS)
    if expect["qdisc"].get("whole"):
        longest = max(
            int(np.max((one.departure_ns - one.arrival_ns)[~one.lost], initial=0))
            for one in transits
        )
        return min(delay, max(MAX_DELAY_NS, longest + _MARGIN_NS))
    backlog, place = _largest_backlog(expect), expect["bottleneck"]
    if backlog is None or not changes(place):
        return delay
    end = (record.window_ns[1] - record.epoch_ns) / 1e9
    stay = round(1e9 * (end - last_drained_s(place, backlog, end))) + longest_pause_ns(record)
    return min(delay, max(MAX_DELAY_NS, stay + _MARGIN_NS))


def _capture(files: RunFiles, record: Record, point: str) -> Capture:
    """Read a capture, its times by the run's clock; a truncated one is accepted, and a check fails.

    ``R1-in`` was taken on ``R1``. With offloads a packet of several segments becomes these.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        capture = read_capture(files.capture(point), accept_truncated=True)
    if "segments" in record.expect:
        split = segments(capture.packets, **record.expect["segments"])
        capture = replace(capture, packets=split)
    return record.clocks.shifted(capture, point.partition("-")[0])


def as_queued(
    wanted: dict[str, Any], time_ns: NDArray[np.int64], record: NDArray[np.int64] | None
) -> NDArray[np.bool_]:
    """Choose the rows that a queue counts: the first of segments that it holds as one packet.

    Parameters
    ----------
    wanted : dict
        The queue, as the plan has it.
    time_ns, record : int64, shape (n,)
        When each came by, in order, and its record in the capture.
    """
    chosen = np.ones(time_ns.size, np.bool_)
    if wanted.get("whole") and record is not None:
        chosen[1:] = (np.diff(record) != 0) | (np.diff(time_ns) != 0)
    return chosen


def _rows(flows: Flows, packets: Any, expect: dict[str, Any], count: int) -> NDArray[np.int64]:
    """Find the plan's flows in the capture.

    By source port where the plan fixes it; else the `count` connections to the port that carried
    most, in the order of their source ports (programs like iperf3 have a control connection too).
    """
    row = np.full(count, -1, np.int64)
    first = expect.get("source_port")
    if first is not None:
        for k in np.flatnonzero((flows.sport >= first) & (flows.sport < first + count)):
            row[int(flows.sport[k]) - int(first)] = k
        return row
    towards = np.flatnonzero(flows.dport == int(expect["port"]))
    carried = [int(np.sum(packets["payload"][flows.split(int(k))[0]])) for k in towards]
    chosen = towards[np.argsort(carried, kind="stable")[::-1][:count]]
    chosen = chosen[np.argsort(flows.sport[chosen], kind="stable")]
    row[: chosen.size] = chosen
    return row


#: How long it may take in real time to read TCP_INFO, or to take an acknowledgement.
READING_NS = 50_000_000


def gained_bytes(run: CapturedRecord, flow: int) -> int:
    """Payload bytes of a flow acknowledged within its window, according to the capture."""
    (first, _), (last, _) = (_acknowledged(run, flow, at) for at in ("start", "end"))
    return last - first


def is_possible_gain(run: CapturedRecord, flow: int, counted: int) -> bool:
    """Whether TCP_INFO may count `counted` instead of `gained_bytes`.

    In virtual time an acknowledgement can arrive at the very instant at which TCP_INFO is read, and
    either may come first.  In real time reading takes a while, and so does an acknowledgement from
    where it is captured to the socket: all between the bounds of `READING_NS` around is possible.
    """
    if not run.real_time:
        starts, ends = (_acknowledged(run, flow, at) for at in ("start", "end"))
        return counted in {last - first for first in starts for last in ends}
    starts, ends = (_acknowledged(run, flow, at, READING_NS, READING_NS) for at in ("start", "end"))
    return min(ends) - max(starts) <= counted <= max(ends) - min(starts)


def _acknowledged(
    run: CapturedRecord, flow: int, label: str, before: int = 1, after: int = 0
) -> tuple[int, int]:
    """Payload bytes acknowledged shortly after a label's instant and shortly before it, in ns."""
    row = int(run.row[flow])
    if row < 0:
        return 0, 0
    back = run.flows.split(row)[1]
    came = run.captures["sender"].packets["time_ns"][back]
    acked, at = run.recovery.acked[back], run.instant(flow, label)
    stop = run.stop_ns(flow)  # what comes later answers a connection that is gone
    at = at if stop is None else min(at, stop)
    return acknowledged_at(came, acked, at + after), acknowledged_at(came, acked, at - before)


def flow_row(run: CapturedRecord, flow: int, gained: int) -> dict[str, Any]:
    """Give the numbers of one flow; one that never came up has only zeros.

    ``timeouts`` and ``retransmissions`` are those of the window (data only); ``timeouts_whole_run``
    and ``syn_timeouts`` run from the start to the end sample, as the kernel's ``total_rto`` does.
    ``events`` counts retransmissions in the window by their cause.
    """
    begin, end = run.instant(flow, "start"), run.instant(flow, "end")
    row = int(run.row[flow])
    own = run.flows.split(row)[0] if row >= 0 else np.empty(0, np.int64)
    time, kind = run.captures["sender"].packets["time_ns"][own], run.recovery.kind[own]
    rto, syn = time[kind == RTO], time[kind == SYN_RTO]
    start_ns, end_ns = run.window_ns
    again = time[(kind > 0) & (kind != SYN_RTO)]
    sample = run.samples["end"][flow] if run.samples else None
    return {
        "flow": flow,
        "source_port": int(run.flows.sport[row]) if row >= 0 else planned_port(run, flow),
        "goodput_bytes_per_s": float(goodput(0, gained, begin, end)),
        "timeouts": definitions.count_between(rto, start_ns, end_ns),
        "timeouts_whole_run": int(np.sum(rto <= end)),
        "syn_timeouts": int(np.sum(syn <= end)),
        "retransmissions": definitions.count_between(again, start_ns, end_ns),
        "events": {
            name: definitions.count_between(time[kind == number], start_ns, end_ns)
            for number, name in KIND_NAMES.items()
        },
        "kernel": kernel_words(sample) if sample else None,
    }


def planned_port(run: Record, flow: int) -> int | None:
    """Source port of a flow, if the plan fixes it."""
    first = run.expect.get("source_port")
    return None if first is None else int(first) + flow


def kernel_words(sample: dict[str, Any]) -> dict[str, Any]:
    """What a row keeps of TCP_INFO."""
    names = ("connected", "total_rto", "total_retrans", "bytes_acked", "bytes_retrans", "rtt_us")
    return {name: sample[name] for name in names if name in sample}


#: A connection begins with the name of the test, which iperf3 does not count: 36 letters and a 0.
COOKIE = 37
#: Retransmissions may differ by this share, and by a few where there are not many.
RETRANSMISSION_TOLERANCE, FEW = 0.02, 3


def generated(files: RunFiles, flow: int) -> dict[str, int]:
    """Give a flow's numbers by iperf3's report.

    Returns
    -------
    dict
        ``retransmits``: the kernel's ``tcpi_total_retrans`` at the sender, SYN included;
        ``bytes_received``: payload that the server read; ``block``: what it reads at a time.

    Raises
    ------
    UnreadableError
        If there is no such report, or it reports an error.
    """
    name = f"iperf3-{flow}.json"
    report = stats_json(files, name)
    try:
        (stream,) = report["end"]["streams"]
        return {
            "retransmits": int(stream["sender"]["retransmits"]),
            "bytes_received": int(stream["receiver"]["bytes"]),
            "block": int(report["start"]["test_start"]["blksize"]),
        }
    except (KeyError, TypeError, ValueError) as error:
        message = report.get("error") if isinstance(report, dict) else None
        reason = f"error {message!r}" if message else f"{type(error).__name__} {error}"
        raise UnreadableError(f"stats/{name} is not a report of one flow: {reason}") from None


def flow_report(files: RunFiles, run: CapturedRecord, flow: int) -> dict[str, Any] | None:
    """Give what ``per_flow`` keeps of iperf3's report; None with another generator."""
    if run.expect.get("generator") != "iperf3":
        return None
    try:
        found = generated(files, flow)
    except UnreadableError:
        return None  # reported by `flows_match`
    return {name: found[name] for name in ("retransmits", "bytes_received")}


def flows_match(files: RunFiles, run: CapturedRecord) -> CheckResult:
    """Over the whole run the captures and iperf3 must agree on each flow.

    Acknowledged bytes are those that the server has read; one that is stopped may leave less than
    a block unread.  A client may read its last count of retransmissions a little early.
    """
    if run.expect.get("generator") != "iperf3":
        return None, f"generator {run.expect.get('generator')}"
    problems, total, again = [], 0, [0, 0]
    for flow in range(run.count):
        generated_by_server = generated(files, flow)
        acked, retransmitted = _captured(run, flow)
        if (
            not 0
            <= acked - COOKIE - generated_by_server["bytes_received"]
            < generated_by_server["block"]
        ):
            counts = (
                f"capture {acked - COOKIE} bytes, iperf3 {generated_by_server['bytes_received']}"
            )
            problems.append(f"flow {flow}: {counts}")
        total += generated_by_server["bytes_received"]
        again = [again[0] + retransmitted, again[1] + generated_by_server["retransmits"]]
    counted = f"retransmissions: captures {again[0]}, iperf3 {again[1]}"
    if abs(again[0] - again[1]) > max(FEW, RETRANSMISSION_TOLERANCE * again[1]):
        problems.append(counted)
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return verdict([p + more for p in problems[:1]], f"{run.count} flows, {total} bytes, {counted}")


def _captured(run: CapturedRecord, flow: int) -> tuple[int, int]:
    """Payload bytes acknowledged over the whole run, and retransmissions, SYNs included."""
    row = int(run.row[flow])
    if row < 0:
        return 0, 0
    own, back = run.flows.split(row)
    acked = int(np.max(run.recovery.acked[back], initial=0))
    return acked, int(np.sum(run.recovery.kind[own] > 0))
