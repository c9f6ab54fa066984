"""The numbers of a run without captures: from TCP_INFO and the counters of the queue.

Both are read at the two ends of the measured window, so their differences are the window's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tcpf_lab.metrics import definitions
from tcpf_lab.metrics import retransmission_log as log
from tcpf_lab.metrics.agreement import WRAPS, kernel_alone
from tcpf_lab.metrics.capacity import mean_rate
from tcpf_lab.metrics.captured import kernel_words, planned_port
from tcpf_lab.metrics.counters import QueueWindow, queue_window
from tcpf_lab.metrics.definitions import goodput, mean_goodput, utilisation
from tcpf_lab.metrics.record import Record, UnreadableError
from tcpf_lab.metrics.validity import Check, acked_by_kernel, check_counted
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.spec.graph import HEADERS
from tcpf_lab.trace.follow import KIND_NAMES


@dataclass(frozen=True)
class Numbers:
    """The parts of ``metrics.json`` that differ by what a run left behind.

    Attributes
    ----------
    metrics : dict
        Numbers of the whole run; None where one is undefined or was not measured.
    by_dscp : dict
        Loss by code point.
    per_flow : list of dict
        A row per flow of the plan.
    truth : dict
        The kernel's count of timeouts, and what it was compared with.
    checks : list of Check
        The verdict is made of them.
    unmeasured : tuple of str
        Names in `metrics` that cannot be measured in such a run.
    """

    metrics: dict[str, float | int | None]
    by_dscp: dict[str, dict[str, float | int]]
    per_flow: list[dict[str, Any]]
    truth: dict[str, Any]
    checks: list[Check]
    unmeasured: tuple[str, ...] = ()


@dataclass(frozen=True)
class Extra:
    """What only some runs have in ``metrics.json``.

    Attributes
    ----------
    metrics : dict
        More of ``metrics``, or better values of what is there: numbers, or None.
    sections : dict
        Sections of their own by name.
    checks : list of Check
        More of the verdict (`tcpf_lab.metrics.validity.apply`).
    """

    metrics: dict[str, float | int | None] = field(default_factory=dict)
    sections: dict[str, Any] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)


def or_none(function: Callable[..., float], *arguments: Any) -> float | None:
    """Value of a metric, None where it is undefined (JSON has no NaN)."""
    try:
        return function(*arguments)
    except ValueError:
        return None


def per_minute(run: Record, expiries: int | None) -> float | None:
    """Give timeouts per flow and minute; None where they are not known."""
    if expiries is None:
        return None
    return or_none(definitions.per_flow_minute, expiries, run.count, run.seconds)


#: Reasons of retransmissions that `metrics` counts packets of.
_COUNTED = [name for name in KIND_NAMES.values() if name not in ("rto", "syn_rto")]
#: Metrics that need packets.
PACKETS_ONLY: tuple[str, ...] = (
    "loss_percent",
    "timeout_episodes",
    *(f"{name}_packets" for name in _COUNTED),
    "backlog_mean_bytes",
    "backlog_max_bytes",
    "queueing_delay_mean_s",
    "queueing_delay_p95_s",
)
#: Metrics from the senders' TCP_INFO.
_OF_FLOWS = ("timeouts", "timeouts_per_flow_minute", "retransmissions", "goodput_bytes_per_s")
#: Of ``tcpi_options``: time stamps; and the bytes of that option.
_STAMPED, _STAMPS = 1, 12
_SECOND = ("retransmitted_percent", "goodput_ip_bytes_per_s")
_FAIRNESS = ("goodput_cov", "goodput_jain", "goodput_min_max")


def from_counters(files: RunFiles, run: Record) -> Numbers:
    """Work out the numbers of a run without captures.

    Parameters
    ----------
    files : RunFiles
        The run's directory.
    run : Record
        What was read from it.

    Raises
    ------
    TraceError
        If the kernel's list of retransmissions is damaged.
    """
    expiries = syn_expiries(files, run)
    flows = [_flow_row(run, flow, expiries) for flow in range(run.count)]
    metrics = {
        **of_flows(run, flows),
        **_second_readings(run),
        **_of_queue(files, run),
        **dict.fromkeys(PACKETS_ONLY),
    }
    silent = (*_OF_FLOWS, *_FAIRNESS, "syn_timeouts")
    unknown = [name for name in silent if metrics[name] is None and not _known(flows, name)]
    unknown += [name for name in _SECOND if metrics[name] is None]
    return Numbers(
        metrics=metrics,
        by_dscp={},
        per_flow=flows,
        truth=kernel_alone(files, run, flows),
        checks=check_counted(files, run),
        unmeasured=(*PACKETS_ONLY, *unknown),
    )


def _known(flows: Sequence[dict[str, Any]], metric: str) -> bool:
    """Whether every flow has the number that a metric of the whole run is made of."""
    name = {"timeouts_per_flow_minute": "timeouts"}.get(metric, metric)
    name = "goodput_bytes_per_s" if metric in _FAIRNESS else name
    return all(flow[name] is not None for flow in flows)


def syn_expiries(files: RunFiles, run: Record) -> dict[int, list[int]] | None:
    """Give the instants, ns, at which a connection's SYN was retransmitted, by its source port.

    Returns
    -------
    dict or None
        None if the senders' kernels have no list of retransmissions.

    Raises
    ------
    TraceError
        If such a list is damaged, or a node's clock is not known.
    """
    logs = log.read_logs(files)
    if not logs:
        return None
    found: dict[int, list[int]] = {}
    for node, listed in logs.items():
        entries = listed.entries[listed.entries["cause"] == log.SYN_RTO]
        clock = run.clocks.of(node)
        times = entries["time_ns"] if clock is None else clock.run_time(entries["time_ns"])
        for port, at in zip(entries["sport"].tolist(), times.tolist(), strict=True):
            found.setdefault(port, []).append(at)
    return found


def _flow_row(run: Record, flow: int, expiries: dict[int, list[int]] | None) -> dict[str, Any]:
    """Give the numbers of one flow by the rules of `tcpf_lab.metrics.captured.flow_row`.

    The kernel counts timeouts and retransmissions of the SYN with those of data.  Its list tells
    them apart; without the list, a flow that was up when the window began had none in it.
    """
    port = planned_port(run, flow)
    ends = [run.samples[label][flow] if run.samples else None for label in ("start", "end")]
    own = None if expiries is None else expiries.get(-1 if port is None else port, [])
    begin, end = run.instant(flow, "start"), run.instant(flow, "end")
    syn = None if own is None else sum(at <= end for at in own)
    within = 0 if own is None else sum(begin < at <= end for at in own)
    whole = (ends[1] or {}).get("total_rto")
    return {
        "flow": flow,
        "source_port": port,
        "goodput_bytes_per_s": _goodput(ends, begin, end),
        "timeouts": _difference(ends, "total_rto", within, WRAPS),
        "timeouts_whole_run": None if whole is None else whole - (syn or 0),
        "syn_timeouts": syn,
        "retransmissions": _difference(ends, "total_retrans", within),
        "events": dict.fromkeys(KIND_NAMES.values()),
        "kernel": kernel_words(ends[1]) if ends[1] else None,
    }


def _goodput(ends: Sequence[dict[str, Any] | None], begin: int, end: int) -> float | None:
    first, last = ends
    if first is None or last is None:
        return None
    return float(goodput(acked_by_kernel(first), acked_by_kernel(last), begin, end))


def _difference(
    ends: Sequence[dict[str, Any] | None], name: str, less: int, wraps: int = 2**32
) -> int | None:
    """What a counter of TCP_INFO gained within the window, less what is not to be counted."""
    first, last = ends
    if not first or not last or name not in last:
        return None
    return (int(last[name]) - int(first.get(name, 0))) % wraps - less


def of_flows(run: Record, flows: list[dict[str, Any]]) -> dict[str, float | int | None]:
    """Give the numbers of all flows together; None where one is not known of a flow."""
    shares = [flow["goodput_bytes_per_s"] for flow in flows]
    known = [] if None in shares else shares
    expiries = _sum(flows, "timeouts")
    return {
        "timeouts": expiries,
        "timeouts_per_flow_minute": per_minute(run, expiries),
        "syn_timeouts": _sum(flows, "syn_timeouts"),
        "retransmissions": _sum(flows, "retransmissions"),
        "goodput_bytes_per_s": or_none(mean_goodput, known),
        "goodput_cov": or_none(definitions.coefficient_of_variation, known),
        "goodput_jain": or_none(definitions.jain_index, known),
        "goodput_min_max": or_none(definitions.min_max_ratio, known),
    }


def _second_readings(run: Record) -> dict[str, float | None]:
    """Loss as the share of bytes retransmitted, and goodput with headers, by TCP_INFO."""
    ends = zip(run.samples["start"], run.samples["end"], strict=True) if run.samples else ()
    flows = list(ends)
    sent, again = (
        sum(_difference(pair, name, 0, 2**64) or 0 for pair in flows)
        for name in ("bytes_sent", "bytes_retrans")
    )
    shares = [_with_headers(run, flow, pair) for flow, pair in enumerate(flows)]
    known = [share for share in shares if share is not None]
    return {
        "retransmitted_percent": 100 * again / sent if sent else None,
        "goodput_ip_bytes_per_s": or_none(mean_goodput, known if len(known) == len(flows) else []),
    }


def _with_headers(run: Record, flow: int, ends: Sequence[dict[str, Any]]) -> float | None:
    """Goodput of a flow with the headers of full segments, None before it is connected."""
    payload = _goodput(ends, run.instant(flow, "start"), run.instant(flow, "end"))
    segment = int(ends[1].get("snd_mss", 0))
    stamped = int(ends[1].get("options", 0)) & _STAMPED
    if payload is None or not segment:
        return None
    headers = HEADERS[run.expect.get("ip", 4)]
    return payload * (segment + headers + _STAMPS * bool(stamped)) / segment


def _sum(flows: list[dict[str, Any]], name: str) -> int | None:
    values = [flow[name] for flow in flows]
    return None if None in values else sum(values)


def _of_queue(files: RunFiles, run: Record) -> dict[str, float | int | None]:
    """Use of the bottleneck and loss in it; None if the counters cannot be read."""
    place = run.expect["bottleneck"]
    try:
        found: QueueWindow = queue_window(files, place["device"])
    except UnreadableError:  # reported by `window_counters`
        return {"packet_loss_percent": None, "utilisation": None}
    rate = mean_rate(place, run.window_s)
    return {
        "packet_loss_percent": 100 * found.drops / found.arrivals if found.arrivals > 0 else None,
        "utilisation": or_none(utilisation, found.bytes, rate, run.seconds),
    }
