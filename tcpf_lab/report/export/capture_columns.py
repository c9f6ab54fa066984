"""The columns of what the analysis of any capture gives: captures, their flows, their events."""

from __future__ import annotations

from tcpf_lab.report.export.columns import SENT_AGAIN, Column, Kind, Layout

_CAPTURE = "the capture"
_FILE = Column("capture", "text", "", "its file, `-` for standard input", "the request")


def _columns(*rows: tuple[str, Kind, str, str], optional: bool = False) -> tuple[Column, ...]:
    return tuple(
        Column(name, kind, unit, meaning, _CAPTURE, optional) for name, kind, unit, meaning in rows
    )


CAPTURES = Layout(
    "captures",
    "capture that was analysed",
    (
        _FILE,
        *_columns(
            ("format", "text", "", "`pcap` or `pcapng`"),
            ("packets", "count", "", "records, of whatever protocol"),
            ("not_ip", "count", "", "those that are not IP"),
            ("not_tcp", "count", "", "IP packets without TCP"),
            ("fragments", "count", "", "fragments but the first, whose ports nothing tells"),
            ("short", "count", "", "packets whose headers were cut off"),
            ("copies", "count", "", "packets that were captured before, at another point"),
            ("truncated", "text", "", "what is wrong with the file; empty if whole"),
            ("skipped_bytes", "count", "bytes", "bytes not read: damaged, or behind damage"),
            ("read_share", "number", "", "share of its bytes that were not skipped, 0 to 1"),
            ("at", "text", "", "where it was taken: `sender`, `receiver` or `between`"),
            ("flow_count", "count", "", "its flows, those that were not asked for included"),
            ("one_way_count", "count", "", "those of them that nothing comes back of"),
            ("handshake_count", "count", "", "those of them of which both SYNs were captured"),
            ("start_ns", "count", "ns", "first time stamp, after 1970-01-01 UTC"),
            ("duration_s", "number", "s", "from the first time stamp to the last"),
        ),
    ),
)

_ENDS = _columns(
    ("flow", "count", "", "number of the flow in its capture, from 0"),
    ("src", "text", "", "address of the data's sender"),
    ("sport", "count", "", "its port"),
    ("dst", "text", "", "address of the receiver"),
    ("dport", "count", "", "its port"),
)
_SENT = _columns(
    ("start_s", "number", "s", "its first packet, after the first of the capture"),
    ("duration_s", "number", "s", "from its first packet to its last"),
    ("packets", "count", "", "packets from sender to receiver"),
    ("wire_bytes", "count", "bytes", "their frames, link-layer header included"),
    ("data_packets", "count", "", "those with payload"),
    ("payload_bytes", "count", "bytes", "that payload, retransmissions included"),
    ("acks", "count", "", "packets from receiver to sender with an acknowledgement"),
    ("one_way", "truth", "", "whether nothing comes back in the capture"),
)
_AGAIN = (
    *_columns(("acked_bytes", "count", "bytes", "payload acknowledged"), optional=True),
    *_columns(("retransmissions", "count", "", "data segments sent again, for whatever reason")),
    *_columns(
        ("timeouts", "count", "", "those of them that a timer sent, each back-off counted again"),
        optional=True,
    ),
    *_columns(("syn_timeouts", "count", "", "expiries that sent the SYN again")),
    *_columns(("timeout_episodes", "count", "", "timeouts, back-offs not counted"), optional=True),
)
_KINDS = _columns(
    *((f"{name}_packets", "count", "", meaning) for name, meaning in SENT_AGAIN),
    ("keepalive_packets", "count", "", "keep-alive probes, no retransmissions"),
    ("window_probe_packets", "count", "", "probes of a closed window, no retransmissions"),
    ("reordering_packets", "count", "", "segments overtaken on their way to the capture"),
    ("spurious_packets", "count", "", "retransmissions that were needless"),
    ("spurious_timeouts", "count", "", "timeouts that were needless"),
)
_PATH = (
    *_columns(
        ("rtt_min_s", "number", "s", "least round-trip time from the place of the capture"),
        ("rtt_mean_s", "number", "s", "mean of the round-trip times"),
        optional=True,
    ),
    *_columns(("rtt_samples", "count", "", "segments that it was measured on (Karn's rule)")),
    *_columns(
        ("mss", "count", "bytes", "as the receiver's SYN says, else the largest payload"),
        optional=True,
    ),
    *_columns(
        ("sack", "truth", "", "whether SACK was agreed on, or seen"),
        ("timestamps", "truth", "", "whether timestamps were agreed on, or seen"),
    ),
    *_columns(
        ("window_scale", "count", "", "shift of the receiver's window"),
        ("dscp", "count", "", "code point of the first data packet"),
        optional=True,
    ),
    *_columns(
        ("syn", "count", "", "packets from the sender with SYN"),
        ("fin", "count", "", "packets from the sender with FIN"),
        ("rst", "count", "", "packets from the sender with RST"),
    ),
)

CAPTURE_FLOWS = Layout(
    "capture_flows", "flow of a capture", (_FILE, *_ENDS, *_SENT, *_AGAIN, *_KINDS, *_PATH)
)

EVENTS = Layout(
    "events",
    "event: a packet that was sent again, or out of its turn",
    (
        _FILE,
        *_columns(
            ("time_s", "number", "s", "when it was captured, after the capture's first packet"),
            ("time_ns", "count", "ns", "the same after 1970-01-01 UTC"),
            ("record", "count", "", "number of its record in the capture, from 0"),
        ),
        *_ENDS,
        *_columns(
            ("seq", "count", "bytes", "first byte of the payload; the SYN is byte 0"),
            ("payload_bytes", "count", "bytes", "bytes behind the TCP header"),
            ("kind", "text", "", "what made the sender send it ([analyze.md](analyze.md))"),
            ("backoff", "count", "", "of a timeout, how many went before it without progress"),
        ),
        *_columns(
            (
                *("spurious", "text", ""),
                "evidence that it was needless: `dsack`, `timestamp`, `early_ack` or `ack_jump`",
            ),
            optional=True,
        ),
        *_columns(
            ("rule", "count", "", "number of the rule that told its kind"),
            ("explanation", "text", "", "that rule as a sentence"),
        ),
    ),
)

#: What `tcpf_lab.analyze` gives, in this order.
CAPTURE_FRAMES = (CAPTURES, CAPTURE_FLOWS, EVENTS)
