"""What a terminal says of a capture above its tables: what it is, and what it cannot tell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from tcpf_lab.errors import legible

_AT = {
    "sender": "taken at the data's sender",
    "receiver": "taken at the data's receiver: a weaker view of what the sender did",
    "between": "taken between the ends: a weaker view of what the sender did",
}
#: What is said of one packet, and of several.
_NOT_ANALYSED = {
    "not_ip": ("is not IP", "are not IP"),
    "not_tcp": ("is not TCP", "are not TCP"),
    "fragments": ("is a later fragment", "are later fragments"),
    "copies": ("is a copy of the one before", "are copies of those before"),
    "short": ("is cut within its headers", "are cut within their headers"),
}


def headline(capture: dict[str, Any]) -> Text:
    """Say what a capture is: its size, its flows, where it was taken.

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
    """Say where a capture with flows was taken, and how much that is worth."""
    if capture["one_way_count"] == capture["flow_count"]:
        return "taken where one direction passes only"
    if capture["at"] == "sender" and not capture["handshake_count"]:
        return "no handshake in it tells where it was taken: the data's sender is assumed"
    return _AT[capture["at"]]


def remarks(capture: dict[str, Any]) -> Iterator[Text]:
    """Say what of a capture was not analysed, and what it cannot tell.

    Parameters
    ----------
    capture : dict
        As `tcpf_lab.metrics.capture.describe` gives it.
    """
    said = [
        f"{grouped(capture[key])} {one if capture[key] == 1 else several}"
        for key, (one, several) in _NOT_ANALYSED.items()
        if capture[key]
    ]
    if said:
        yield dim(f"not analysed: {', '.join(said)}")
    yield from map(_warning, _weaknesses(capture))
    if capture["truncated"]:
        yield _warning(capture["truncated"])


def _weaknesses(capture: dict[str, Any]) -> Iterator[str]:
    """Say what the capture cannot tell."""
    every, alone = capture["flow_count"], capture["one_way_count"]
    if not every and capture["packets"] > sum(capture[key] for key in _NOT_ANALYSED):
        yield "no flow: none of its TCP packets carries data, or begins a connection"
    flows = capture["flows"]
    if flows and alone == every and not any(flow["data_packets"] for flow in flows):
        yield "acknowledgements only: the data that they are for went another way"
    elif alone:
        whose = "" if alone == every else f" of {grouped(alone)} of {many(every, 'flow')}"
        yield (
            f"nothing comes back{whose}: what was sent again is seen, but not why (unknown), and "
            "neither timeouts nor round trips nor what was acknowledged can be told"
        )
    bare = every - alone - capture["handshake_count"]
    if bare > 0 and capture["at"] != "sender":
        whose = many(bare, "flow") if bare < every else "the flows"
        yield f"without a handshake, {whose} can only be followed as if captured at the sender"


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
