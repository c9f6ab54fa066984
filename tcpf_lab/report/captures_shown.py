"""Captures, flows and events for a human: tables that fit a terminal of 80 columns or more."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from tcpf_lab.report.aligned_table import NOTHING, SHOWN, Column, fitting, host
from tcpf_lab.report.capture_headline import (
    dim,
    grouped,
    headline,
    many,
    milliseconds,
    remarks,
    seconds,
)
from tcpf_lab.report.style import EVENTS

if TYPE_CHECKING:
    import pandas as pd

    from tcpf_lab.trace.frames import Frame

_ENDS = ("src", "sport", "dst", "dport")


def capture_tables(
    capture: dict[str, Any], width: int, *, top: int | None = None, by: str = ""
) -> Iterator[RenderableType]:
    """Give what a terminal shows of a capture: the capture, its retransmissions, its flows.

    Parameters
    ----------
    capture : dict
        As `tcpf_lab.metrics.capture.describe` gives it, its flows in the order to show.
    width : int
        Columns of the terminal.
    top : int, optional
        So many flows; ``SHOWN`` by default, 0: all.
    by : str
        What the flows were sorted by.
    """
    yield headline(capture)
    yield from remarks(capture)
    totals = capture["totals"]
    if any(totals["events"].values()):
        yield Text()
        yield from fitting(_kind_columns(totals), width)
    if totals["flows"]:
        yield Text()
        most = SHOWN if top is None else top or totals["flows"]
        rows = capture["flows"][:most]
        yield from fitting(_flow_columns(rows), width)
        if len(rows) < totals["flows"]:
            yield dim(f"{_share(rows, totals, by)}; --top 0 shows all")


def _share(rows: Sequence[Any], totals: dict[str, Any], by: str) -> str:
    """Say how many of the flows these rows are, and which."""
    order = f"sorted by {by}" if by else "the first"
    return f"{len(rows)} of {totals['flows']} flows, {order}"


def _kind_columns(totals: dict[str, Any]) -> list[Column]:
    """Give a row for each kind of event that occurred."""
    counts = {kind: count for kind, count in totals["events"].items() if count}
    every = sum(counts.values())
    needless = [totals["spurious"].get(kind, 0) for kind in counts]
    words = tuple(EVENTS[kind][0] for kind in counts)
    return [
        Column("kind", tuple(counts), 0, right=False),
        Column("what made the sender send it", words, 4, right=False),
        Column("packets", tuple(map(grouped, counts.values())), 1),
        Column("%", tuple(f"{100 * count / every:.1f}" for count in counts.values()), 2),
        Column("needless", tuple(grouped(count) if count else "" for count in needless), 3),
    ]


def _flow_columns(rows: Sequence[dict[str, Any]]) -> list[Column]:
    def column(
        heading: str, rank: int, entries: Sequence[str], *, right: bool = True
    ) -> list[Column]:
        filled = any(entry not in ("", NOTHING, "0") for entry in entries)
        return [Column(heading, tuple(entries), rank, right)] if filled or rank < 10 else []

    def counts(heading: str, rank: int, key: str) -> list[Column]:
        told = [NOTHING if row[key] is None else grouped(row[key]) for row in rows]
        return column(heading, rank, told)

    def kind(heading: str, rank: int, key: str) -> list[Column]:
        return column(heading, rank, [grouped(row["events"][key]) for row in rows])

    needless = [grouped(sum(row["spurious"].values())) for row in rows]
    return [
        *counts("flow", 0, "flow"),
        *column("sender", 1, [f"{host(row['src'])}:{row['sport']}" for row in rows], right=False),
        *column("receiver", 6, [f"{host(row['dst'])}:{row['dport']}" for row in rows], right=False),
        *column("start s", 16, [seconds(row["start_s"]) for row in rows]),
        *column("time s", 13, [seconds(row["duration_s"]) for row in rows]),
        *counts("data", 5, "data_packets"),
        *counts("acked bytes", 4, "acked_bytes"),
        *counts("resent", 3, "retransmissions"),
        *counts("timeouts", 2, "timeouts"),
        *counts("SYN", 10, "syn_timeouts"),
        *kind("fast", 11, "fast"),
        *kind("SACK", 14, "sack_recovery"),
        *kind("partial", 14, "partial_ack"),
        *kind("post-RTO", 15, "post_rto"),
        *kind("TLP", 14, "tlp"),
        *kind("unknown", 12, "unknown"),
        *column("needless", 12, needless),
        *column("RTT ms", 7, [_milliseconds(row["rtt_mean_s"]) for row in rows]),
        *column("min", 17, [_milliseconds(row["rtt_min_s"]) for row in rows]),
        *column("MSS", 18, [_known(row["mss"]) for row in rows]),
        *column("DSCP", 19, [_known(row["dscp"]) for row in rows]),
        *column("options", 20, [_agreed(row) for row in rows], right=False),
    ]


def _known(number: int | None) -> str:
    return NOTHING if number is None else str(number)


def _agreed(row: dict[str, Any]) -> str:
    scale = row["window_scale"]
    words = [*["SACK"] * row["sack"], *["TS"] * row["timestamps"]]
    return " ".join([*words, *([f"WS{scale}"] if scale is not None else [])]) or NOTHING


def event_tables(
    capture: dict[str, Any],
    events: pd.DataFrame,
    width: int,
    *,
    top: int | None = None,
    by: str = "",
) -> Iterator[RenderableType]:
    """Give what a terminal shows of the events of a capture, and the rules that named them.

    Parameters
    ----------
    capture : dict
        As `tcpf_lab.metrics.capture.describe` gives it.
    events : DataFrame
        Its events, as `tcpf_lab.report.frames.captures.Captures` has them.
    width : int
        Columns of the terminal.
    top : int, optional
        So many flows were asked for: all their events are shown, and else ``SHOWN``.
    by : str
        What the flows were sorted by.
    """
    yield headline(capture)
    yield from remarks(capture)
    if len(capture["flows"]) < capture["totals"]["flows"]:
        yield dim(f"of {_share(capture['flows'], capture['totals'], by)}; --top 0 takes all")
    if not len(events):
        yield Text("no event: nothing was sent again, or out of its turn")
        return
    first = datetime.fromtimestamp(events["time_ns"].iloc[0] // 10**9, UTC)
    yield Text(f"{many(len(events), 'event')} from {first:%Y-%m-%d %H:%M:%S} UTC on")
    yield Text()
    part = events.head(SHOWN) if top is None else events
    yield from fitting(_event_columns(part), width)
    if len(part) < len(events):
        yield dim(f"{len(part)} of {grouped(len(events))} events, the first; --top 0 shows all")
    yield Text()
    rules = part[["rule", "explanation"]].drop_duplicates().sort_values("rule")
    for rule, sentence in rules.itertuples(index=False):
        yield dim(f"rule {rule}: {sentence}")


def _between(src: str, sport: int, dst: str, dport: int) -> str:
    return f"{host(src)}:{sport} > {host(dst)}:{dport}"


def _event_columns(rows: pd.DataFrame) -> list[Column]:
    def column(heading: str, rank: int, entries: Sequence[str], right: bool = True) -> Column:
        return Column(heading, tuple(entries), rank, right)

    clock = [
        datetime.fromtimestamp(at // 10**9, UTC).strftime("%H:%M:%S") + f".{at % 10**9 // 1000:06d}"
        for at in rows["time_ns"]
    ]
    ends = list(map(_between, *(rows[name] for name in _ENDS)))
    evidence = [NOTHING if missing else word for word, missing in _spurious(rows)]
    return [
        column("event", 7, [str(number) for number in rows.index]),
        column("time s", 0, [f"{at:.6f}" for at in rows["time_s"]]),
        column("UTC", 8, clock),
        column("flow", 1, [str(flow) for flow in rows["flow"]]),
        column("ends", 9, ends, False),
        column("seq", 4, [grouped(seq) for seq in rows["seq"]]),
        column("bytes", 5, [grouped(size) for size in rows["payload_bytes"]]),
        column("kind", 2, list(rows["kind"]), False),
        column("backoff", 6, [str(n) if n else "" for n in rows["backoff"]]),
        column("needless", 7, evidence, False),
        column("rule", 3, [str(rule) for rule in rows["rule"]]),
    ]


def packet_table(event: pd.Series, frames: Sequence[Frame], width: int) -> Iterator[RenderableType]:
    """Give what a terminal shows of the packets around an event.

    Parameters
    ----------
    event : Series
        A row of `tcpf_lab.report.frames.captures.Captures.events`.
    frames : sequence of Frame
        As `tcpf_lab.trace.frames.packets` gives them.
    width : int
        Columns of the terminal.
    """
    ends = (event[name] for name in _ENDS)
    yield Text(
        f"flow {event['flow']}, {_between(*ends)}: {event['kind']}, byte {grouped(event['seq'])}"
    )
    yield Text(f"rule {event['rule']}: {event['explanation']}")
    yield Text()
    (own,) = (frame for frame in frames if frame.record == event["record"])
    start, first = int(event["seq"]), int(own.tcp.seq)

    def relative(number: int) -> int:
        """Unwrap a number of the event's direction near that of its packet."""
        return start + (number - first + 2**31) % 2**32 - 2**31

    edges = [f"{relative(f.tcp.seq)}" if f.forward else "" for f in frames]
    acks = ["" if f.forward else f"{relative(f.tcp.ack)}" for f in frames]
    marks = ["*" if frame is own else "" for frame in frames]
    yield from fitting(
        [
            Column("", tuple(marks), 0, right=False),
            Column("record", tuple(str(frame.record) for frame in frames), 3),
            Column("ms", tuple(f"{(f.time_ns - own.time_ns) / 1e6:+.3f}" for f in frames), 0),
            Column("", tuple(">" if frame.forward else "<" for frame in frames), 0),
            Column("seq", tuple(edges), 1),
            Column("bytes", tuple(str(frame.payload or "") for frame in frames), 2),
            Column("ack", tuple(acks), 1),
            Column("flags", tuple(_flags(frame.tcp.flags) for frame in frames), 5, right=False),
            Column("SACK", tuple(_sacked(f, relative) for f in frames), 4, right=False),
        ],
        width,
    )


def _flags(flags: int) -> str:
    return "".join(letter for bit, letter in enumerate("FSRPAUEC") if flags >> bit & 1)


def _sacked(frame: Frame, relative: Callable[[int], int]) -> str:
    """Give the blocks of SACK."""
    import dpkt  # here: a table without packets should not pay for the import

    blocks = []
    for kind, value in dpkt.tcp.parse_opts(frame.tcp.opts):
        if kind == dpkt.tcp.TCP_OPT_SACK:
            edges = [relative(edge) for edge in struct.unpack(f">{len(value) // 4}I", value)]
            blocks += [f"{low}-{high}" for low, high in zip(edges[::2], edges[1::2], strict=True)]
    return " ".join(blocks)


def _spurious(rows: pd.DataFrame) -> Iterator[tuple[str, bool]]:
    yield from zip(rows["spurious"], rows["spurious"].isna(), strict=True)


def _milliseconds(seconds: float | None) -> str:
    return NOTHING if seconds is None else milliseconds(seconds)
