"""The columns of what two captures say of a box between them."""

from __future__ import annotations

from tcpf_lab.report.export.columns import Column, Kind, Layout

_BOTH = "the two captures"


def _columns(*rows: tuple[str, Kind, str, str], optional: bool = False) -> tuple[Column, ...]:
    return tuple(
        Column(name, kind, unit, meaning, _BOTH, optional) for name, kind, unit, meaning in rows
    )


_ENDS = _columns(
    ("src", "text", "", "address of the sender"),
    ("sport", "count", "", "its port"),
    ("dst", "text", "", "address of the receiver"),
    ("dport", "count", "", "its port"),
    ("protocol", "count", "", "IP protocol number"),
)
_LOSS = (
    *_columns(
        ("packets", "count", "", "packets that entered"),
        ("packets_lost", "count", "", "those that did not leave"),
    ),
    *_columns(
        ("loss_percent", "number", "%", "the same in bytes of IP"),
        ("packet_loss_percent", "number", "%", "the same in packets"),
        optional=True,
    ),
)
_DELAY_MEAN = _columns(
    (
        "delay_mean_s",
        "number",
        "s",
        "mean delay; the least of all counts 0 unless clocks are known",
    ),
    optional=True,
)

CROSSING_PACKETS = Layout(
    "crossing_packets",
    "packet that entered",
    (
        *_columns(
            ("record", "count", "", "its record in the first capture, from 0"),
            ("time_ns", "count", "ns", "when it entered, after 1970-01-01 UTC by the first clock"),
        ),
        *_ENDS,
        *_columns(
            ("seq", "count", "", "TCP sequence number; 0 for other protocols"),
            ("payload_bytes", "count", "bytes", "payload"),
            ("ip_length", "count", "bytes", "length from the IP header on"),
            ("dscp", "count", "", "code point with which it entered"),
            ("judged", "truth", "", "whether the second capture would have its departure"),
            ("lost", "truth", "", "whether it did not leave"),
            ("overtaken", "truth", "", "whether a packet that came later left earlier"),
        ),
        *_columns(
            ("dscp_out", "count", "", "code point with which it left"),
            ("departure_ns", "count", "ns", "when it left, by the first clock"),
            (
                "delay_s",
                "number",
                "s",
                "time between; the least of all counts 0 unless clocks are known",
            ),
            optional=True,
        ),
    ),
)
CROSSING_FLOWS = Layout(
    "crossing_flows",
    "flow that entered",
    (
        *_ENDS,
        *_columns(("dscp", "count", "", "code point of its first packet")),
        *_LOSS,
        *_columns(("longest_run", "count", "", "most packets lost in a row")),
        *_DELAY_MEAN,
    ),
)
CROSSING_DSCP = Layout(
    "crossing_dscp",
    "code point with which packets entered",
    (*_columns(("dscp", "count", "", "code point")), *_LOSS),
)
CROSSING_TIME = Layout(
    "crossing_time",
    "part of the time",
    (
        *_columns(("time_s", "number", "s", "its begin, after the first packet that entered")),
        *_LOSS,
        *_DELAY_MEAN,
        *_columns(("delay_max_s", "number", "s", "greatest delay, likewise"), optional=True),
    ),
)
#: What `tcpf_lab.crossing` gives.
CROSSING_FRAMES = (CROSSING_PACKETS, CROSSING_FLOWS, CROSSING_DSCP, CROSSING_TIME)
