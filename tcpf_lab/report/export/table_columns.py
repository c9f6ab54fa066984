"""The columns of the tables that are exported: what is known of runs, cells and flows."""

from __future__ import annotations

from tcpf_lab.report.export.columns import SENT_AGAIN, Column, Kind, Layout

_MANIFEST, _METRICS = "manifest.json", "metrics.json"


def _of_manifest(name: str, kind: Kind, meaning: str, unit: str = "") -> Column:
    return Column(name, kind, unit, meaning, f"{_MANIFEST}: {name}")


def _metric(name: str, kind: Kind, unit: str, meaning: str) -> Column:
    """A number of ``metrics.json``; counts are defined if they were measured, others may not be."""
    source = f"{_METRICS}: metrics"
    return Column(name, kind, unit, meaning, source, optional=kind == "number", measured=True)


_CELL = (
    _of_manifest("experiment", "text", "name of the experiment"),
    _of_manifest("testbed", "text", "testbed that carried the run out"),
    _of_manifest(
        "config", "text", "configuration of the published tables, else the experiment's name"
    ),
    Column("factor", "text", "", "what a collection varies; empty for nothing", "the collection"),
    Column("level", "text", "", "its value; empty for nothing", "the collection"),
    _of_manifest("case", "text", "marker and queue, a row of the papers' tables"),
    _of_manifest("flows", "count", "TCP connections that send at the same time"),
)
#: What says which run a row belongs to.
KEY = (
    *_CELL,
    _of_manifest("seed", "count", "what start times and the kernel's randomness are drawn from"),
    _of_manifest("run", "text", "name of the run's directory"),
)
_VERDICT = (
    Column("valid", "truth", "", "whether every check passed", f"{_METRICS}: validity"),
    Column(
        "reasons", "text", "", "checks that failed, with their details", f"{_METRICS}: validity"
    ),
)
_WHEN = (
    _of_manifest("clock", "text", "`virtual`, or `real` where nodes have clocks of their own"),
    Column("window_start_s", "number", "s", "t0, where measuring begins", f"{_MANIFEST}: window_s"),
    Column("window_end_s", "number", "s", "t1, where it ends", f"{_MANIFEST}: window_s"),
)
_NUMBERS = (
    _metric("timeouts", "count", "", "expiries of retransmission timers, all flows"),
    _metric("timeouts_per_flow_minute", "number", "1/min", "`timeouts` per flow and minute"),
    _metric("syn_timeouts", "count", "", "expiries that sent a SYN again, from the run's start"),
    _metric("timeout_episodes", "count", "", "timeouts, one with all its back-offs counting once"),
    _metric(
        "loss_percent", "number", "%", "bytes that the bottleneck dropped, of those it was sent"
    ),
    _metric("packet_loss_percent", "number", "%", "the same, every packet counting once"),
    _metric("retransmitted_percent", "number", "%", "payload sent again, of all that was sent"),
    _metric("goodput_bytes_per_s", "number", "bytes/s", "payload acknowledged, mean of the flows"),
    _metric("goodput_ip_bytes_per_s", "number", "bytes/s", "the same with IP and TCP headers"),
    _metric("goodput_cov", "number", "", "σ / mean of the flows' goodput"),
    _metric("goodput_jain", "number", "", "Jain's index of the flows' goodput, 1 if all are equal"),
    _metric("goodput_min_max", "number", "", "least goodput of a flow / greatest"),
    _metric("utilisation", "number", "", "share of the bottleneck's rate that was used"),
    _metric("retransmissions", "count", "", "data segments sent again, whatever the reason"),
    _metric("fast_packets", "count", "", "segment that a fast recovery began with"),
    _metric("sack_recovery_packets", "count", "", "further segments of a recovery with SACK"),
    _metric("partial_ack_packets", "count", "", "further segments of a recovery without SACK"),
    _metric("post_rto_packets", "count", "", "segments sent again in slow start after a timeout"),
    _metric("tlp_packets", "count", "", "tail loss probes that sent data again"),
    _metric("unknown_packets", "count", "", "retransmissions that none of these explains"),
    _metric("backlog_mean_bytes", "number", "bytes", "time average of the bottleneck's queue"),
    _metric("backlog_max_bytes", "count", "bytes", "greatest length of the bottleneck's queue"),
    _metric("queueing_delay_mean_s", "number", "s", "mean time that a packet spent in the queue"),
    _metric("queueing_delay_p95_s", "number", "s", "time that 95 % of the packets do not exceed"),
)
_TRUTH = tuple(
    Column(name, "count", "", meaning, f"{_METRICS}: truth", optional=True)
    for name, meaning in (
        ("timeouts_pcap", "timeouts by the capture, SYN included, from the run's start"),
        ("timeouts_kernel", "the same by the kernel's own counter"),
    )
)
_MADE_WITH = (
    _of_manifest("tcpf_lab", "text", "version of the program that made the run"),
    _of_manifest("git_commit", "text", "its commit"),
    _of_manifest("testbed_identity", "text", "hash of kernel, modules and programs"),
    Column(
        "analysis",
        "text",
        "",
        "version of the analysis that made the numbers",
        f"{_METRICS}: analysis",
    ),
)

RUNS = Layout("runs", "run", (*KEY, *_VERDICT, *_WHEN, *_NUMBERS, *_TRUTH, *_MADE_WITH))

CELLS = Layout(
    "cells",
    "cell (configuration, case, number of flows) and metric",
    (
        *_CELL,
        Column("metric", "text", "", "name of the metric, a column of `runs`", "the report"),
        Column(
            "unit",
            "text",
            "",
            "unit of the three numbers that follow; empty for a count or a ratio",
            "the report",
        ),
        Column(
            "mean", "number", "", "arithmetic mean over the runs used, in `unit`", "`runs`", True
        ),
        Column(
            *("ci95", "number", ""),
            "half width of the 95 % confidence interval of the mean (Student's t), in `unit`",
            "`runs`",
            optional=True,
        ),
        Column(
            "published", "number", "", "value in the papers, in `unit`", "published tables", True
        ),
        Column("ratio", "number", "", "`mean` / `published`", "`mean`, `published`", True),
        Column("n", "count", "", "runs asked for, one per seed", "the experiment"),
        Column("valid_runs", "count", "", "complete runs that passed every check", "`runs`"),
        Column("used", "count", "", "runs that the mean is made of", "`runs`"),
    ),
)


def _of_flow(name: str, kind: Kind, unit: str, meaning: str, optional: bool = False) -> Column:
    measured = name != "flow"
    return Column(name, kind, unit, meaning, f"{_METRICS}: per_flow", optional, measured)


_KERNEL: tuple[tuple[str, Kind, str, str], ...] = (
    ("connected", "truth", "", "whether the connection was up at t1"),
    ("total_rto", "count", "", "expiries of the retransmission timer, SYN included"),
    ("total_retrans", "count", "", "segments sent again"),
    ("bytes_acked", "count", "bytes", "payload acknowledged"),
    ("bytes_retrans", "count", "bytes", "payload sent again"),
    ("rtt_us", "count", "µs", "smoothed round-trip time at t1"),
)
_IPERF3: tuple[tuple[str, Kind, str, str], ...] = (
    ("bytes_received", "count", "bytes", "payload that the server has read, whole run"),
    ("retransmits", "count", "", "segments sent again, whole run"),
)

FLOWS = Layout(
    "flows",
    "run and flow",
    (
        *KEY,
        _of_flow("flow", "count", "", "number of the flow, from 0"),
        _of_flow("source_port", "count", "", "its port at the sender", optional=True),
        _of_flow("goodput_bytes_per_s", "number", "bytes/s", "payload acknowledged in the window"),
        _of_flow("timeouts", "count", "", "timeouts in the window"),
        _of_flow("timeouts_whole_run", "count", "", "timeouts from the run's start to t1"),
        _of_flow("syn_timeouts", "count", "", "expiries that sent the SYN again"),
        _of_flow("retransmissions", "count", "", "data segments sent again in the window"),
        *(
            _of_flow(f"{name}_packets", "count", "", f"of these: {meaning}", optional=True)
            for name, meaning in SENT_AGAIN
        ),
        *(
            Column(
                f"kernel_{name}",
                kind,
                unit,
                f"{meaning}, by TCP_INFO",
                f"{_METRICS}: per_flow",
                True,
            )
            for name, kind, unit, meaning in _KERNEL
        ),
        *(
            Column(
                f"iperf3_{name}", kind, unit, f"{meaning}, by iperf3", f"{_METRICS}: per_flow", True
            )
            for name, kind, unit, meaning in _IPERF3
        ),
    ),
)

_BY_DSCP: tuple[tuple[str, Kind, str, str], ...] = (
    ("dscp", "count", "", "code point that the packets carried at the bottleneck"),
    ("packets", "count", "", "packets that came to the bottleneck's queue"),
    ("packets_per_s", "number", "packets/s", "the same by the seconds of the window"),
    ("packets_lost", "count", "", "those of them that it dropped"),
    ("loss_percent", "number", "%", "bytes dropped, of those that came"),
    ("packet_loss_percent", "number", "%", "the same, every packet counting once"),
)

DSCP = Layout(
    "dscp",
    "run and code point",
    (
        *KEY,
        *(Column(*words, f"{_METRICS}: by_dscp") for words in _BY_DSCP),
    ),
)

CHECKS = Layout(
    "checks",
    "run and check of validity",
    (
        *KEY,
        Column("check", "text", "", "name of the check", f"{_METRICS}: validity"),
        Column("ok", "truth", "", "missing if it does not apply", f"{_METRICS}: validity", True),
        Column("detail", "text", "", "what was found", f"{_METRICS}: validity"),
    ),
)

LEFT_OUT = Layout(
    "left_out",
    "run with a remark",
    (
        *_CELL,
        Column("run", "text", "", "name of the run's directory", "the experiment"),
        Column(
            "state",
            "text",
            "",
            "`missing`, `failed`, `stale`, `invalid` or `unreadable`",
            "the run's files",
        ),
        Column("reasons", "text", "", "why", "the run's files"),
        Column("used", "truth", "", "whether the means have it all the same", "the request"),
    ),
)

#: The tables that are exported, in their order.
TABLES = (RUNS, CELLS, FLOWS, DSCP, CHECKS, LEFT_OUT)
