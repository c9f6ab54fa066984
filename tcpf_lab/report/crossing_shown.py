"""What two captures say of a box, for a human: tables that fit a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from tcpf_lab.report.aligned_table import NOTHING, SHOWN, Column, fitting, host
from tcpf_lab.report.capture_headline import many
from tcpf_lab.spec.dscp import format_dscp


def crossing_tables(
    found: dict[str, Any], width: int, *, top: int = SHOWN
) -> Iterator[RenderableType]:
    """Give what a terminal shows.

    Parameters
    ----------
    found : dict
        From `tcpf_lab.metrics.crossing.describe_crossing`.
    width : int
        Columns of the terminal.
    top : int
        So many flows, those that lost most first, and parts of the time; 0: all.
    """
    yield Text.assemble((found["before"], "bold"), " to ", (found["after"], "bold"))
    yield from (Text(text, style="yellow") for text in found["warnings"])
    yield from _clock(found["clock"])
    yield from _remarks(found)
    yield Text()
    yield from _table(("entered with", *_LOST, "% of bytes"), _classes(found), width)
    yield Text()
    yield Text(_delay(found["delay"]))
    yield from _runs(found["runs"])
    flows = sorted(found["flows"], key=lambda row: -int(row["packets_lost"]))
    yield from _part(
        "flows", ("from", "to", *_LOST, "longest run"), map(_flow, flows), (top, width)
    )
    rows = [
        (f"{row['time_s']:g}", *_lost(row), _ms(row["delay_mean_s"]), _ms(row["delay_max_s"]))
        for row in found["over_time"]
    ]
    yield from _part(
        "parts of the time", ("from s", *_LOST, "mean ms", "max ms"), rows, (top, width)
    )


_LOST = ("packets", "lost", "% of packets")


def _clock(clock: dict[str, Any]) -> Iterator[Text]:
    if clock["given"]:
        yield Text(f"second clock less first: {_seconds(clock['offset_ns'])}, as given")
        return
    said = f"second clock less first: {_seconds(clock['offset_ns'])}, the least delay included"
    if clock["between_ns"]:
        low, high = map(_seconds, clock["between_ns"])
        said = f"second clock less first: between {low} and {high}"
    drift = f"{clock['drift_ppm']:+.2f} ppm" if clock["drift_ppm"] else "no drift"
    yield Text(f"{said}; {drift} ({many(clock['coincidences'], 'coincidence')})")
    if clock["ambiguous"]:
        yield Text("another offset explains nearly as many packets: give it", style="yellow")


def _remarks(found: dict[str, Any]) -> Iterator[Text]:
    """Say what the numbers do not count, and what else happened to packets."""
    packets = found["packets"]
    near = packets["entered"] - packets["judged"] - packets["outside"]
    said = {
        "outside of the time asked for": packets["outside"],
        "too near an end of the captures to be judged": near,
        "crossing the other way": packets["back_before"],
        "between hosts of which nothing crossed": packets["elsewhere_before"],
    }
    words = [f"{count} {text}" for text, count in said.items() if count]
    if words:
        yield Text(f"not counted: {', '.join(words)}", style="dim")
    more = {
        "overtaken by later ones": packets["overtaken"],
        "left once more than they came": packets["copies"],
        "left without having come": packets["foreign"],
        "marked with congestion experienced": found["remarked"]["congestion_experienced"],
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
    return (*_lost(row), _percent(row["loss_percent"]))


def _lost(row: dict[str, Any]) -> tuple[str, ...]:
    return str(row["packets"]), str(row["packets_lost"]), _percent(row["packet_loss_percent"])


def _flow(row: dict[str, Any]) -> tuple[str, ...]:
    ends = (f"{host(row['src'])}:{row['sport']}", f"{host(row['dst'])}:{row['dport']}")
    return (*ends, *_lost(row), str(row["longest_run"]))


def _delay(delay: dict[str, Any]) -> str:
    if not delay["packets"]:
        return "delay: no packet that was judged left"
    names = ("mean_s", "median_s", "p95_s", "p99_s", "max_s")
    said = ", ".join(f"{name.removesuffix('_s')} {_ms(delay[name])}" for name in names)
    least = "above the least of all" if delay["least_is_zero"] else f"least {_ms(delay['min_s'])}"
    return f"delay in ms ({least}): {said}"


def _runs(runs: dict[str, Any]) -> Iterator[Text]:
    for name, who in (("all", "of all packets"), ("flows", "of a flow's packets")):
        found = runs[name]
        if found["mean"] is not None:
            lengths = list(found["lengths"].items())
            said = ", ".join(f"{length}: {count}" for length, count in lengths[:8])
            more = f", … {lengths[-1][0]}: {lengths[-1][1]}" if len(lengths) > 8 else ""
            yield Text(f"lost in a row, {who}: {found['mean']:.2f} on average ({said}{more})")


def _part(
    what: str, heads: Sequence[str], rows: Any, room: tuple[int, int]
) -> Iterator[RenderableType]:
    """Give a table of some rows, and say how many there are; ``room``: rows, and columns."""
    top, width = room
    every = list(rows)
    shown = every[:top] if top else every
    if not shown:
        return
    yield Text()
    yield from _table(heads, shown, width)
    if len(shown) < len(every):
        yield Text(f"{len(shown)} of {len(every)} {what}; --top 0 shows all", style="dim")


#: What is kept where room is short, most telling first; then what else there is, from the left.
_FIRST = ("from", "from s", "entered with", "packets", "lost")


def _table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], width: int
) -> Iterator[RenderableType]:
    ranks = {head: rank for rank, head in enumerate(dict.fromkeys((*_FIRST, *heads)))}
    columns = [
        Column(head, entries, ranks[head], right=place > 0 and head != "to")
        for place, (head, entries) in enumerate(zip(heads, zip(*rows, strict=True), strict=True))
    ]
    return fitting(columns, width)


def _percent(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3f}"


def _ms(seconds: float | None) -> str:
    return NOTHING if seconds is None else f"{1e3 * seconds:.3f}"


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e9:+.6f} s"
