"""The columns of the frames that are not exported: of claims, and of one run over time."""

from __future__ import annotations

from tcpf_lab.report.export.columns import Column, Kind, Layout

_SERIES, _CAPTURE, _CAPTURES = "series.npz", "the capture", "captures R1-in and R1-out"


def _flow(source: str, optional: bool = False) -> Column:
    meaning = "number of the flow, from 0"
    return Column("flow", "count", "", meaning, source, optional)


def _columns(source: str, *rows: tuple[str, Kind, str, str]) -> tuple[Column, ...]:
    return tuple(Column(name, kind, unit, meaning, source) for name, kind, unit, meaning in rows)


FLOW_SERIES = Layout(
    "flow_series",
    "flow and second of the run",
    (
        _flow(_SERIES),
        *_columns(
            _SERIES,
            ("time_s", "number", "s", "start of the second, after the run's epoch"),
            ("goodput_bytes_per_s", "number", "bytes/s", "payload acknowledged in it"),
            ("retransmissions", "count", "", "data segments sent again in it"),
            ("timeouts", "count", "", "those of them that a timer sent"),
        ),
    ),
)

QUEUE_SERIES = Layout(
    "queue_series",
    "tenth of a second of the run",
    _columns(
        _SERIES,
        ("time_s", "number", "s", "start of the interval, after the run's epoch"),
        ("backlog_mean_bytes", "number", "bytes", "time average of the bottleneck's queue"),
        ("backlog_max_bytes", "count", "bytes", "its greatest length"),
        ("packets_lost", "count", "", "packets that came in it and were dropped"),
    ),
)

_FORWARD: tuple[str, Kind, str, str] = (
    *("forward", "truth", ""),
    "whether it runs from the data's sender to its receiver",
)
_HEADER: tuple[tuple[str, Kind, str, str], ...] = (
    ("seq", "count", "bytes", "first byte of the payload; 0 is the SYN; raw if of no flow"),
    ("ack", "count", "bytes", "next byte awaited from the other side, counted alike"),
    ("payload_bytes", "count", "bytes", "bytes behind the TCP header"),
    ("ip_bytes", "count", "bytes", "bytes from the IP header on"),
    ("wire_bytes", "count", "bytes", "the whole frame, Ethernet header included"),
    ("dscp", "count", "", "code point"),
    ("flags", "count", "", "TCP flags: FIN 1, SYN 2, RST 4, PSH 8, ACK 16"),
)
_REASON = Column(
    "retransmission",
    "text",
    "",
    "why it was sent again: `rto`, `fast`, `sack_recovery`, `partial_ack`, `post_rto`, `tlp`, "
    "`unknown` or `syn_rto`; missing if it was not, and in captures that are not the sender's",
    _CAPTURE,
    optional=True,
)

PACKETS = Layout(
    "packets",
    "packet of a capture",
    (
        *_columns(_CAPTURE, ("time_s", "number", "s", "when it passed, after the run's epoch")),
        _flow(_CAPTURE, optional=True),
        *_columns(_CAPTURE, _FORWARD, *_HEADER),
        _REASON,
    ),
)

RETRANSMISSIONS = Layout(
    "retransmissions",
    "data segment or SYN that was sent again",
    (
        *_columns(_CAPTURE, ("time_s", "number", "s", "when it was sent, after the run's epoch")),
        _flow(_CAPTURE),
        *_columns(
            _CAPTURE,
            ("seq", "count", "bytes", "first byte of the payload; the SYN is byte 0"),
            ("payload_bytes", "count", "bytes", "bytes behind the TCP header"),
            ("retransmission", "text", "", "why it was sent again, as in `packets`"),
            ("backoff", "count", "", "of a timeout, how many went before it without progress"),
        ),
    ),
)

BOTTLENECK = Layout(
    "bottleneck",
    "packet that came to the bottleneck's queue",
    (
        *_columns(_CAPTURES, ("time_s", "number", "s", "when it came, after the run's epoch")),
        Column("delay_s", "number", "s", "time in the queue", _CAPTURES, optional=True),
        *_columns(_CAPTURES, ("lost", "truth", "", "whether it never left")),
        _flow(_CAPTURES, optional=True),
        *_columns(_CAPTURES, _FORWARD, *_HEADER),
    ),
)

BACKLOG = Layout(
    "backlog",
    "change of the bottleneck's queue",
    _columns(
        _CAPTURES,
        ("time_s", "number", "s", "when it changed, after the run's epoch"),
        ("backlog_bytes", "count", "bytes", "its length from then on, Ethernet headers included"),
    ),
)

CLAIMS = Layout(
    "claims",
    "claim of the papers",
    (
        *_columns(
            "[compare.md](compare.md)",
            ("claim", "text", "", "its name"),
            ("source", "text", "", "where it is made"),
            ("statement", "text", "", "what must be true, thresholds included"),
            ("published_verdict", "text", "", "verdict on the papers' own tables"),
            (
                "verdict",
                "text",
                "",
                "`holds`, `refuted`, `within noise`, `too few seeds` or `not decidable`",
            ),
            ("holding", "count", "", "checks of the claim that hold"),
            ("measured", "count", "", "checks of the claim whose cells were measured"),
            ("checks", "count", "", "checks of the claim"),
        ),
    ),
)

PUBLISHED = Layout(
    "published",
    "published cell and metric",
    _columns(
        "published tables",
        ("config", "text", "", "configuration"),
        ("case", "text", "", "marker and queue"),
        ("flows", "count", "", "TCP connections that send at the same time"),
        ("metric", "text", "", "name of the metric, a column of `runs`"),
        ("unit", "text", "", "its unit"),
        ("value", "number", "", "what is printed, in `unit`"),
    ),
)

#: What `tcpf_lab.load` gives besides the tables, in this order.
FRAMES = (
    *(CLAIMS, PUBLISHED),
    *(FLOW_SERIES, QUEUE_SERIES, PACKETS, RETRANSMISSIONS, BOTTLENECK, BACKLOG),
)
