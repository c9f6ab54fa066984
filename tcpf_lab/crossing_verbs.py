"""The verb that looks at a box from both of its sides."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tcpf_lab import terminal
from tcpf_lab.errors import RequestError
from tcpf_lab.metrics.crossing import Asked, cross_captures, describe_crossing
from tcpf_lab.options import AsJson
from tcpf_lab.report.crossing_shown import SHOWN, crossing_tables
from tcpf_lab.report.document import write_document
from tcpf_lab.units import UnitError, parse_duration

#: Formats of files of packets, by their suffix.
FORMATS = ("csv", "parquet")

_Before = Annotated[
    str, typer.Argument(metavar="BEFORE", help="Capture of what enters; `-` is standard input.")
]
_After = Annotated[str, typer.Argument(metavar="AFTER", help="Capture of what leaves.")]
_Offset = Annotated[
    str | None,
    typer.Option(
        "--offset",
        metavar="TIME",
        help="What AFTER's clock shows more, 0 for one clock; it is found out otherwise.",
    ),
]
_Delay = Annotated[
    str, typer.Option("--max-delay", metavar="TIME", help="Longest possible stay in the box.")
]
_From = Annotated[
    str | None, typer.Option("--from", metavar="TIME", help="Only packets that come from then on.")
]
_To = Annotated[
    str | None,
    typer.Option("--to", metavar="TIME", help="Only packets that come before; from the first one."),
]
_Bin = Annotated[
    str, typer.Option("--bin", metavar="TIME", help="Length of the parts of loss over time.")
]
_Output = Annotated[
    list[Path] | None,
    typer.Option(
        "-o", "--output", metavar="FILE", help="Every packet, as .csv or .parquet; more than once."
    ),
]
_Top = Annotated[
    int, typer.Option("--top", metavar="N", min=0, help="So many rows of long tables; 0: all.")
]


def crossing(
    before: _Before,
    after: _After,
    offset: _Offset = None,
    max_delay: _Delay = "2 s",
    from_time: _From = None,
    to_time: _To = None,
    part: _Bin = "1 s",
    output: _Output = None,
    top: _Top = SHOWN,
    as_json: AsJson = False,
) -> None:
    """Say what a box did to packets, from captures on both of its sides."""
    files = {path: _suffix(path) for path in output or ()}
    asked = Asked(
        max_delay_ns=nanoseconds(max_delay, "--max-delay", least=1),
        offset_ns=None if offset is None else nanoseconds(offset, "--offset", signed=True),
        from_ns=None if from_time is None else nanoseconds(from_time, "--from"),
        to_ns=None if to_time is None else nanoseconds(to_time, "--to"),
        bin_ns=nanoseconds(part, "--bin", least=1_000),
    )
    if before == after == "-":
        raise RequestError("standard input can be read once", hint="name a file for one of them")
    crossed = cross_captures(before, after, asked)
    if files:
        from tcpf_lab.report.frames.crossing import Crossing  # here: pandas takes a while to load

        frames = Crossing(crossed)
        for path, suffix in files.items():
            write_document(path, frames.write(suffix))
    found = describe_crossing(crossed)
    if as_json:
        terminal.print_json({**found, "written": [str(path) for path in files]})
        return
    for shown in crossing_tables(found, top=top):
        terminal.show(shown)
    for path in files:
        typer.echo(str(path))


def _suffix(path: Path) -> str:
    suffix = path.suffix.removeprefix(".").lower()
    if suffix not in FORMATS:
        message = f"the suffix of the file says its format: {', '.join(FORMATS)}"
        raise RequestError(message, where=f"-o {path}")
    return suffix


def nanoseconds(text: str, option: str, *, signed: bool = False, least: int = 0) -> int:
    """Read a time such as ``1.5 s`` or, if it may have a sign, ``-3 h``; plain 0 is allowed.

    Raises
    ------
    RequestError
        If it is no time, or less than `least`.
    """
    minus = signed and text.startswith("-")
    digits = text[1:].strip() if minus or (signed and text.startswith("+")) else text
    try:
        value = 0 if digits == "0" else round(1e9 * parse_duration(digits))
    except UnitError as error:
        raise RequestError(error.message, where=option, hint=error.hint) from None
    if value < least:
        raise RequestError(f"at least {least} ns are needed", where=option)
    return -value if minus else value
