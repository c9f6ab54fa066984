"""Captures, flows and events for a human: tables that fit a terminal of 80 columns or more."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from tcpf_lab.base.errors import legible
from tcpf_lab.report import table
from tcpf_lab.report.style import EVENTS
from tcpf_lab.report.table import NOTHING, plain, table_of
from tcpf_lab.spec.words import format_dscp

if TYPE_CHECKING:
    import pandas as pd

    from tcpf_lab.trace.packet import Frame


_AT = {
    "sender": "taken at the sender",
    "receiver": "taken at the receiver: the sender's behaviour is inferred",
    "between": "taken between the ends: the sender's behaviour is inferred",
}
#: Packets that are not analysed, in the singular and the plural.
_NOT_ANALYSED = {
    "not_ip": ("is not IP", "are not IP"),
    "not_tcp": ("is not TCP", "are not TCP"),
    "fragments": ("is a later fragment", "are later fragments"),
    "duplicates": ("is a copy of the one before", "are copies of those before"),
    "short": ("is cut within its headers", "are cut within their headers"),
}


def headline(capture: dict[str, Any]) -> Text:
    """Give a capture's size, its number of flows and where it was taken.

    Parameters
    ----------
    capture : dict
        As `tcpf_lab.metrics.capture.describe` gives it.
    """
    every, chosen = capture["flow_count"], capture["totals"]["flows"]
    size = f"{many(capture['packets'], 'packet')} in {seconds(capture['duration_s'])} s"
    count = (
        many(every, "flow") if chosen == every else f"{grouped(chosen)} of {many(every, 'flow')}"
    )
    place = f"; {_place(capture)}" if every else ""
    name = legible(capture["file"], keep="")
    return Text.assemble((name, "bold"), f": {capture['format']}, {size}, {count}{place}")


def _place(capture: dict[str, Any]) -> str:
    """Give the place where a capture with flows was taken."""
    if capture["one_way_count"] == capture["flow_count"]:
        return "taken where only one direction passes"
    if capture["at"] == "sender" and not capture["handshake_count"]:
        return "no handshake: assumed to be taken at the sender"
    return _AT[capture["at"]]


def remarks(capture: dict[str, Any]) -> Iterator[Text]:
    """Give what was not analysed, and the limits of the analysis.

    Parameters
    ----------
    capture : dict
        As `tcpf_lab.metrics.capture.describe` gives it.
    """
    skipped = [
        f"{grouped(capture[key])} {one if capture[key] == 1 else several}"
        for key, (one, several) in _NOT_ANALYSED.items()
        if capture[key]
    ]
    if skipped:
        yield dim(f"not analysed: {', '.join(skipped)}")
    yield from map(_warning, _weaknesses(capture))
    if capture["truncated"]:
        yield _warning(capture["truncated"])


def _weaknesses(capture: dict[str, Any]) -> Iterator[str]:
    """Give the limits of the analysis."""
    every, alone = capture["flow_count"], capture["one_way_count"]
    if not every and capture["packets"] > sum(capture[key] for key in _NOT_ANALYSED):
        yield "no flow: none of its TCP packets carries data, or begins a connection"
    flows = capture["flows"]
    if flows and alone == every and not any(flow["data_packets"] for flow in flows):
        yield "acknowledgements only: the data took another path"
    elif alone:
        whose = "" if alone == every else f" of {grouped(alone)} of {many(every, 'flow')}"
        yield (
            f"no acknowledgements{whose}: causes of retransmissions are unknown, and there are no "
            "timeouts, round-trip times or acknowledged bytes"
        )
    bare = every - alone - capture["handshake_count"]
    if bare > 0 and capture["at"] != "sender":
        whose = many(bare, "flow") if bare < every else "the flows"
        yield f"without a handshake, {whose} are analysed as if captured at the sender"


def _warning(text: str) -> Text:
    return Text(text, style="yellow")


def dim(text: str) -> Text:
    """Give a line that explains others."""
    return Text(text, style="dim")


def grouped(number: int) -> str:
    """Write a whole number, with thin gaps where it is long."""
    return f"{int(number):,}".replace(",", " ") if abs(int(number)) > 9999 else str(int(number))


def many(number: int, thing: str) -> str:
    """Write how many of a thing there are."""
    return f"{grouped(number)} {thing}{'' if number == 1 else 's'}"


def milliseconds(seconds: float) -> str:
    """Write a time in milliseconds: tenths, or two digits of less than one.

    Examples
    --------
    >>> milliseconds(0.2), milliseconds(0.0000213)
    ('200.0', '0.021')
    """
    value = 1e3 * seconds
    return f"{value:.1f}" if value >= 1 or value <= 0 else f"{value:.2g}"


def seconds(number: float) -> str:
    """Write a time in seconds, with fewer decimals where it is long."""
    return f"{number:.3f}" if number < 100 else f"{number:.1f}"


#: Rows of a table by default.
SHOWN = 20
#: Columns from this rank on are left out where nothing is in them.
_OPTIONAL = 10


def aligned_table(
    columns: Iterable[tuple[str, bool]], rows: Iterable[Iterable[str]]
) -> RenderableType:
    """Give a table without lines.

    Parameters
    ----------
    columns : iterable of (str, bool)
        Headings, and whether what is below is aligned to the right.
    rows : iterable of iterable of str
        Entries, as they are: no markup.
    """
    every = (table.Column(heading, "number" if right else "text") for heading, right in columns)
    return plain(table_of("", "", every, rows))


@dataclass(frozen=True)
class Column:
    """A column of a table; those of low rank stand together where the table must be split."""

    heading: str
    entries: tuple[str, ...]
    rank: int
    right: bool = True

    @property
    def fit(self) -> table.Fit:
        """How it is set where there is no room: sentences are folded, names are not."""
        return "folded" if any(" " in entry for entry in self.entries) else "whole"

    @property
    def filled(self) -> bool:
        """Whether there is anything in it."""
        return any(entry not in ("", NOTHING, "0") for entry in self.entries)


def column(heading: str, rank: int, entries: Iterable[str], *, right: bool = True) -> Column:
    """Give a column; the one of the lowest rank names the rows."""
    return Column(heading, tuple(entries), rank, right)


def ranked_table(columns: Sequence[Column]) -> RenderableType:
    """Give a table without lines, which is split into blocks of columns where it is too wide.

    Parameters
    ----------
    columns : sequence of Column
        From left to right; entries are as they are: no markup.
    """
    every = (
        table.Column(one.heading, "number" if one.right else "text", fit=one.fit) for one in columns
    )
    rows = zip(*(one.entries for one in columns), strict=True)
    ranked = sorted(range(len(columns)), key=lambda place: columns[place].rank)
    return plain(table_of("", "", every, rows), order=tuple(ranked))


def host(address: str) -> str:
    """Write an address so that a port may follow."""
    return f"[{address}]" if ":" in address else address


_ENDS = ("src", "sport", "dst", "dport")


def capture_tables(
    capture: dict[str, Any], *, top: int | None = None, by: str = ""
) -> Iterator[RenderableType]:
    """Give what a terminal shows of a capture: the capture, its retransmissions, its flows.

    Parameters
    ----------
    capture : dict
        As `tcpf_lab.metrics.capture.describe` gives it, its flows in the order to show.
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
        yield ranked_table(_kind_columns(totals))
    if totals["flows"]:
        yield Text()
        most = SHOWN if top is None else top or totals["flows"]
        rows = capture["flows"][:most]
        yield ranked_table(_flow_columns(rows))
        if len(rows) < totals["flows"]:
            yield dim(f"{_share(rows, totals, by)}; --top 0 shows all")


def _share(rows: Sequence[Any], totals: dict[str, Any], by: str) -> str:
    """Give the number of flows shown, and their order."""
    order = f"sorted by {by}" if by else "the first"
    return f"{len(rows)} of {totals['flows']} flows, {order}"


def _kind_columns(totals: dict[str, Any]) -> list[Column]:
    """Give a row for each kind of event that occurred."""
    counts = {kind: count for kind, count in totals["events"].items() if count}
    every = sum(counts.values())
    spurious = [totals["spurious"].get(kind, 0) for kind in counts]
    return [
        column("kind", 0, counts, right=False),
        column("cause", 4, [EVENTS[k][0] for k in counts], right=False),
        column("packets", 1, map(grouped, counts.values())),
        column("%", 2, [f"{100 * count / every:.1f}" for count in counts.values()]),
        column("spurious", 3, [grouped(count) if count else "" for count in spurious]),
    ]


def _flow_columns(rows: Sequence[dict[str, Any]]) -> list[Column]:
    def counts(heading: str, rank: int, key: str) -> Column:
        texts = [NOTHING if row[key] is None else grouped(row[key]) for row in rows]
        return column(heading, rank, texts)

    def kind(heading: str, rank: int, key: str) -> Column:
        return column(heading, rank, [grouped(row["events"][key]) for row in rows])

    spurious = [grouped(sum(row["spurious"].values())) for row in rows]
    columns = [
        counts("flow", 0, "flow"),
        column("sender", 1, [f"{host(row['src'])}:{row['sport']}" for row in rows], right=False),
        column("receiver", 6, [f"{host(row['dst'])}:{row['dport']}" for row in rows], right=False),
        column("start s", 16, [seconds(row["start_s"]) for row in rows]),
        column("time s", 13, [seconds(row["duration_s"]) for row in rows]),
        counts("data", 5, "data_packets"),
        counts("acked bytes", 4, "acked_bytes"),
        counts("rexmit", 3, "retransmissions"),
        counts("timeouts", 2, "timeouts"),
        counts("SYN", 10, "syn_timeouts"),
        kind("fast", 11, "fast"),
        kind("SACK", 14, "sack_recovery"),
        kind("partial", 14, "partial_ack"),
        kind("post-RTO", 15, "post_rto"),
        kind("TLP", 14, "tlp"),
        kind("unknown", 12, "unknown"),
        column("spurious", 12, spurious),
        column("RTT ms", 7, [_milliseconds(row["rtt_mean_s"]) for row in rows]),
        column("min RTT ms", 17, [_milliseconds(row["rtt_min_s"]) for row in rows]),
        column("MSS", 18, [_text(row["mss"]) for row in rows]),
        column("DSCP", 19, [_text(row["dscp"]) for row in rows]),
        column("options", 20, [_agreed(row) for row in rows], right=False),
    ]
    return [one for one in columns if one.rank < _OPTIONAL or one.filled]


def _agreed(row: dict[str, Any]) -> str:
    scale = row["window_scale"]
    words = [*["SACK"] * row["sack"], *["TS"] * row["timestamps"]]
    return " ".join([*words, *([f"WS{scale}"] if scale is not None else [])]) or NOTHING


def event_tables(
    capture: dict[str, Any],
    events: pd.DataFrame,
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
    top : int, optional
        Number of flows, of which all events are shown; ``SHOWN`` events by default.
    by : str
        What the flows were sorted by.
    """
    yield headline(capture)
    yield from remarks(capture)
    if len(capture["flows"]) < capture["totals"]["flows"]:
        yield dim(f"of {_share(capture['flows'], capture['totals'], by)}; --top 0 takes all")
    if not len(events):
        yield Text("no event: no retransmission or reordering")
        return
    first = datetime.fromtimestamp(events["time_ns"].iloc[0] // 10**9, UTC)
    yield Text(f"{many(len(events), 'event')} from {first:%Y-%m-%d %H:%M:%S} UTC on")
    yield Text()
    part = events.head(SHOWN) if top is None else events
    yield ranked_table(_event_columns(part))
    if len(part) < len(events):
        yield dim(f"{len(part)} of {grouped(len(events))} events, the first; --top 0 shows all")
    yield Text()
    rules = part[["rule", "explanation"]].drop_duplicates().sort_values("rule")
    for rule, sentence in rules.itertuples(index=False):
        yield dim(f"rule {rule}: {sentence}")


def _between(src: str, sport: int, dst: str, dport: int) -> str:
    return f"{host(src)}:{sport} > {host(dst)}:{dport}"


def _event_columns(rows: pd.DataFrame) -> list[Column]:
    clock = [
        datetime.fromtimestamp(at // 10**9, UTC).strftime("%H:%M:%S") + f".{at % 10**9 // 1000:06d}"
        for at in rows["time_ns"]
    ]
    ends = list(map(_between, *(rows[name] for name in _ENDS)))
    evidence = rows["spurious"].fillna(NOTHING)
    return [
        column("event", 0, [str(number) for number in rows.index]),
        column("time s", 0, [f"{at:.6f}" for at in rows["time_s"]]),
        column("UTC", 8, clock),
        column("flow", 1, [str(flow) for flow in rows["flow"]]),
        column("ends", 9, ends, right=False),
        column("seq", 4, [grouped(seq) for seq in rows["seq"]]),
        column("bytes", 5, [grouped(size) for size in rows["payload_bytes"]]),
        column("kind", 2, rows["kind"], right=False),
        column("backoff", 6, [str(n) if n else "" for n in rows["backoff"]]),
        column("spurious", 7, evidence, right=False),
        column("rule", 3, [str(rule) for rule in rows["rule"]]),
    ]


def packet_table(event: pd.Series, frames: Sequence[Frame]) -> Iterator[RenderableType]:
    """Give what a terminal shows of the packets around an event.

    Parameters
    ----------
    event : Series
        A row of `tcpf_lab.report.frames.captures.Captures.events`.
    frames : sequence of Frame
        As `tcpf_lab.trace.packet.packets` gives them.
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

    columns = [
        column("", 1, ["*" if frame is own else "" for frame in frames], right=False),
        column("record", 0, [str(frame.record) for frame in frames]),
        column("ms", 1, [f"{(frame.time_ns - own.time_ns) / 1e6:+.3f}" for frame in frames]),
        column("dir", 0, [">" if frame.forward else "<" for frame in frames]),
        column("seq", 1, [str(relative(f.tcp.seq)) if f.forward else "" for f in frames]),
        column("bytes", 2, [str(frame.payload or "") for frame in frames]),
        column("ack", 1, ["" if f.forward else str(relative(f.tcp.ack)) for f in frames]),
        column("flags", 5, [_flags(frame.tcp.flags) for frame in frames], right=False),
        column("SACK", 4, [_sacked(frame, relative) for frame in frames], right=False),
    ]
    yield ranked_table(columns)


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


def _milliseconds(seconds: float | None) -> str:
    return NOTHING if seconds is None else milliseconds(seconds)


def device_tables(found: dict[str, Any], *, top: int = SHOWN) -> Iterator[RenderableType]:
    """Give what a terminal shows.

    Parameters
    ----------
    found : dict
        From `tcpf_lab.metrics.device.describe_device`.
    top : int
        So many flows, those that lost most first, and parts of the time; 0: all.
    """
    yield Text.assemble((found["before"], "bold"), " to ", (found["after"], "bold"))
    yield from (Text(text, style="yellow") for text in found["warnings"])
    yield from _clock(found["clock"])
    yield from _remarks(found)
    yield Text()
    yield _table(("entered with", *_LOST, "% of bytes"), _classes(found))
    yield Text()
    yield Text(_delay(found["delay"]))
    yield from _runs(found["runs"])
    flows = sorted(found["flows"], key=lambda row: -int(row["packets_lost"]))
    yield from _part("flows", ("from", "to", *_LOST, "longest run"), map(_flow, flows), top)
    rows = [
        (f"{row['time_s']:g}", *_lost(row), _ms(row["delay_mean_s"]), _ms(row["delay_max_s"]))
        for row in found["over_time"]
    ]
    yield from _part("parts of the time", ("from s", *_LOST, "mean ms", "max ms"), rows, top)


_LOST = ("packets", "lost", "% of packets")


def _clock(clock: dict[str, Any]) -> Iterator[Text]:
    if clock["given"]:
        yield Text(f"clock offset, AFTER minus BEFORE: {_seconds(clock['offset_ns'])}, as given")
        return
    offset = (
        f"clock offset, AFTER minus BEFORE: {_seconds(clock['offset_ns'])}, minimum delay included"
    )
    if clock["between_ns"]:
        low, high = map(_seconds, clock["between_ns"])
        offset = f"clock offset, AFTER minus BEFORE: between {low} and {high}"
    drift = f"{clock['drift_ppm']:+.2f} ppm" if clock["drift_ppm"] else "no drift"
    yield Text(f"{offset}; {drift} ({many(clock['coincidences'], 'coincidence')})")
    if clock["ambiguous"]:
        yield Text("another offset matches nearly as many packets: set --offset", style="yellow")


def _remarks(found: dict[str, Any]) -> Iterator[Text]:
    """Give what is not counted, and what else happened to packets."""
    packets = found["packets"]
    near = packets["entered"] - packets["counted"] - packets["outside"]
    reasons = {
        "outside the requested time": packets["outside"],
        "too near an end of the captures": near,
        "in the other direction": packets["reverse_before"],
        "of hosts without a packet in both captures": packets["other_hosts_before"],
    }
    words = [f"{count} {text}" for text, count in reasons.items() if count]
    if words:
        yield Text(f"not counted: {', '.join(words)}", style="dim")
    more = {
        "reordered (RFC 4737)": packets["reordered"],
        "duplicated (RFC 5560)": packets["duplicates"],
        "only in AFTER": packets["unmatched"],
        "marked CE": found["remarked"]["congestion_experienced"],
    }
    words = [f"{count} {text}" for text, count in more.items() if count]
    words += [
        f"{row['packets']} remarked {format_dscp(row['from'])} to {format_dscp(row['to'])}"
        for row in found["remarked"]["dscp"]
    ]
    if words:
        yield Text(f"packets: {', '.join(words)}")


def _classes(found: dict[str, Any]) -> list[tuple[str, ...]]:
    rows = [(str(format_dscp(int(dscp))), *_full(row)) for dscp, row in found["by_dscp"].items()]
    return [*rows, ("all", *_full(found["loss"]))]


def _full(row: dict[str, Any]) -> tuple[str, ...]:
    return (*_lost(row), _text(row["loss_percent"], ".3f"))


def _lost(row: dict[str, Any]) -> tuple[str, ...]:
    return str(row["packets"]), str(row["packets_lost"]), _text(row["packet_loss_percent"], ".3f")


def _flow(row: dict[str, Any]) -> tuple[str, ...]:
    ends = (f"{host(row['src'])}:{row['sport']}", f"{host(row['dst'])}:{row['dport']}")
    return (*ends, *_lost(row), str(row["longest_loss_run"]))


def _delay(delay: dict[str, Any]) -> str:
    if not delay["packets"]:
        return "delay: none, no counted packet left"
    names = ("mean_s", "median_s", "p95_s", "p99_s", "max_s")
    values = ", ".join(f"{name.removesuffix('_s')} {_ms(delay[name])}" for name in names)
    least = "above the minimum" if delay["minimum_is_zero"] else f"minimum {_ms(delay['min_s'])}"
    return f"delay in ms ({least}): {values}"


def _runs(runs: dict[str, Any]) -> Iterator[Text]:
    for name, who in (("all", "all packets"), ("flows", "packets of one flow")):
        found = runs[name]
        if found["mean"] is not None:
            counts = ", ".join(f"{length}: {count}" for length, count in found["lengths"].items())
            yield Text(f"runs of losses, {who}: {found['mean']:.2f} on average ({counts})")


def _part(what: str, heads: Sequence[str], rows: Any, top: int) -> Iterator[RenderableType]:
    """Give a table of the first ``top`` rows (0: of all), and how many there are."""
    every = list(rows)
    shown = every[:top] if top else every
    if not shown:
        return
    yield Text()
    yield _table(heads, shown)
    if len(shown) < len(every):
        yield Text(f"{len(shown)} of {len(every)} {what}; --top 0 shows all", style="dim")


#: Columns that come first where a table is split; then the others from the left.
_FIRST = ("from", "from s", "entered with", "packets", "lost")


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> RenderableType:
    ranks = {head: rank for rank, head in enumerate(dict.fromkeys((*_FIRST, *heads)))}
    columns = [
        column(head, ranks[head], entries, right=place > 0 and head != "to")
        for place, (head, entries) in enumerate(zip(heads, zip(*rows, strict=True), strict=True))
    ]
    return ranked_table(columns)


def _text(value: float | None, form: str = "") -> str:
    """Write a number in this form, or that there is none."""
    return NOTHING if value is None else format(value, form)


def _ms(seconds: float | None) -> str:
    return _text(None if seconds is None else 1e3 * seconds, ".3f")


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e9:+.6f} s"
