"""What was asked of two captures, before and after a box, read from words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tcpf_lab.base.errors import RequestError
from tcpf_lab.base.units import UnitError, parse_duration
from tcpf_lab.metrics.crossing import BoxKnown, cross_captures

if TYPE_CHECKING:
    from tcpf_lab.report.frames.captures import Crossing


#: Longest stay, and length of the parts of loss over time, unless something else is asked for.
MAX_DELAY, BIN = "2 s", "1 s"


def crossing(
    before: Path | str,
    after: Path | str,
    *,
    offset: str | None = None,
    max_delay: str = MAX_DELAY,
    start: str | None = None,
    end: str | None = None,
    bin: str = BIN,  # noqa: A002 - the option of the command line
) -> Crossing:
    """Say what a box did to packets, from captures on both of its sides.

    Parameters
    ----------
    before, after : Path or str
        The captures: of what enters, of what leaves.
    offset : str, optional
        What the second capture's clock shows more, ``0`` for one clock; None: it is found out, and
        the least delay counts 0.
    max_delay : str
        Longest possible stay in the box.
    start, end : str, optional
        Only packets that come from then until before then, after the first one: ``--from`` and
        ``--to`` of the command line.
    bin : str
        Length of the parts of loss over time.

    Returns
    -------
    Crossing
        Frames `packets`, `flows`, `by_dscp`, `over_time`; the rest is in `described`.

    Raises
    ------
    RequestError
        If a time is none, or not allowed.
    TraceError
        If a capture cannot be read, nothing of the first is in the second, or no packet of the
        time that was asked for is judged.
    """
    from tcpf_lab.report.frames.captures import Crossing  # here: pandas takes a while to load

    return Crossing(cross_captures(before, after, box_known(offset, max_delay, start, end, bin)))


def box_known(
    offset: str | None = None,
    max_delay: str = MAX_DELAY,
    start: str | None = None,
    end: str | None = None,
    part: str = BIN,
) -> BoxKnown:
    """Read what is known of the box, and which packets are judged.

    Parameters
    ----------
    offset, max_delay, start, end, part : str
        As `crossing` takes them, ``part`` for its ``bin``.

    Raises
    ------
    RequestError
        If one is no time or too short, or the end is not after the start.
    """
    first = None if start is None else nanoseconds(start, "--from")
    last = None if end is None else nanoseconds(end, "--to", least=1)
    if first is not None and last is not None and first >= last:
        message = "the time ends before it starts"
        raise RequestError(message, where=f"--from {start} --to {end}")
    return BoxKnown(
        max_delay_ns=nanoseconds(max_delay, "--max-delay", least=1),
        offset_ns=None if offset is None else nanoseconds(offset, "--offset", signed=True),
        from_ns=first,
        to_ns=last,
        bin_ns=nanoseconds(part, "--bin", least=1_000),
    )


def nanoseconds(text: str | float, option: str, *, signed: bool = False, least: int = 0) -> int:
    """Read a time such as ``1.5 s`` or, if it may have a sign, ``-3 h``; plain 0 is allowed.

    Raises
    ------
    RequestError
        If it is no time, or less than `least`.
    """
    word, where = str(text).strip(), f"{option} {text}"
    minus = signed and word.startswith("-")
    digits = word[1:].strip() if minus or (signed and word.startswith("+")) else word
    try:
        value = 0 if digits == "0" else round(1e9 * parse_duration(digits))
    except UnitError as error:
        what, _, advice = error.message.partition("; ")
        raise RequestError(what, where=where, hint=advice) from None
    if value < least:
        raise RequestError(f"at least {least} ns are needed", where=where, hint="write 200 ms")
    return -value if minus else value
