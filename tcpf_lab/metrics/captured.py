"""A run whose packets were captured: its record and what the captures hold, read once."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.base.errors import TraceError
from tcpf_lab.metrics.clock import Clocks
from tcpf_lab.metrics.counters import longest_pause_ns, ring_of
from tcpf_lab.metrics.record import Record, read_record, with_captures_instead
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.trace.analysis import Options, Profile
from tcpf_lab.trace.follow import Recovery, classify
from tcpf_lab.trace.packet import Capture, Flows, Packets, find_flows, read_capture
from tcpf_lab.trace.passage import MAX_DELAY_NS, Crossing, cross

#: The captures that every run has, unless it was made without any.
ROLES = ("sender", "ingress", "egress")
#: A queue may hold a packet a little longer than its limit and rate say.
_MARGIN_NS = 100_000_000
#: A machine with a clock of its own may stand still, with packets in its queues; virtual ones wait.
_STALL_NS = 10_000_000_000
#: Where packets overtake each other, a few of one flow may wait as long as the others keep coming.
_OVERTAKEN_NS = 60_000_000_000


@dataclass(frozen=True)
class CapturedRecord(Record):
    """One run, ready for the metrics that come from packets.

    Attributes
    ----------
    captures : dict of str to Capture
        By role: ``sender``, ``ingress``, ``egress``; ``cross_ingress`` where traffic that passes
        the bottleneck alone enters it by another link than the plan's flows.
    flows, recovery : Flows, Recovery
        Of the capture at the sender.
    row : int64, shape (n,)
        For each flow of the plan its row in `flows`, -1 if none was captured.
    crossing : Crossing
        The bottleneck.
    max_delay_ns : int
        Longest stay in the bottleneck's queue while the machine does not stand still.
    """

    captures: dict[str, Capture]
    flows: Flows
    recovery: Recovery
    row: NDArray[np.int64]
    crossing: Crossing
    max_delay_ns: int

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
        role: _capture(files, record.expect["captures"][role], record.clocks)
        for role in (*ROLES, *({"cross_ingress"} & record.expect["captures"].keys()))
    }
    packets = captures["sender"].packets
    flows = find_flows(packets)
    delay = max_delay_ns(record.expect) + longest_pause_ns(record)
    overtaken = 0 if record.expect["qdisc"].get("in_order", True) else _OVERTAKEN_NS
    stay = delay + overtaken + (_STALL_NS if record.real_time else 0)
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
        crossing=cross(_entered(captures), captures["egress"].packets, max_delay_ns=stay),
        max_delay_ns=delay,
    )


def _entered(captures: dict[str, Capture]) -> Packets:
    """What entered the bottleneck, in the order of time: cross traffic comes by a link of its own.

    Both captures are of one node, and so by one clock.
    """
    if "cross_ingress" not in captures:
        return captures["ingress"].packets
    both = np.concatenate([captures[role].packets for role in ("ingress", "cross_ingress")])
    return both[np.argsort(both["time_ns"], kind="stable")]


def max_delay_ns(expect: dict[str, Any]) -> int:
    """Longest stay in the bottleneck's queue: its limit in bytes at its rate, and a margin.

    Half a second at least; twice as long where acknowledgements share the wire.
    """
    wanted = expect["qdisc"]
    limit = wanted.get("limit", wanted.get("options", {}).get("limit"))
    if limit is None:
        return MAX_DELAY_NS
    place = expect["bottleneck"]
    drain = 8e9 * float(limit) / float(place["rate_bits_per_s"])
    drain *= 2 if ring_of(expect, place["device"]) else 1
    return max(MAX_DELAY_NS, round(drain) + _MARGIN_NS)


def _capture(files: RunFiles, point: str, clocks: Clocks) -> Capture:
    """Read a capture, its times by the run's clock; a truncated one is taken, the verdict says so.

    ``R1-in`` was taken on ``R1``.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        capture = read_capture(files.capture(point), accept_truncated=True)
    return clocks.shifted(capture, point.partition("-")[0])


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
