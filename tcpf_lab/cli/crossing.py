"""The verb that looks at a box from both of its sides."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tcpf_lab.base.errors import RequestError
from tcpf_lab.cli import console
from tcpf_lab.cli.main import echo
from tcpf_lab.cli.options import AsJson
from tcpf_lab.metrics.crossing import cross_captures, describe_crossing
from tcpf_lab.report.captures import SHOWN, crossing_tables
from tcpf_lab.report.document import write_document
from tcpf_lab.run.analyzing import format_of
from tcpf_lab.run.crossing import BIN, MAX_DELAY, box_known

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
    str | None,
    typer.Option(
        "--from", metavar="TIME", help="Only packets that come from then on, after the first one."
    ),
]
_To = Annotated[
    str | None,
    typer.Option("--to", metavar="TIME", help="Only packets that come before then."),
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
    max_delay: _Delay = MAX_DELAY,
    from_time: _From = None,
    to_time: _To = None,
    part: _Bin = BIN,
    output: _Output = None,
    top: _Top = SHOWN,
    as_json: AsJson = False,
) -> None:
    """Say what a box did to packets, from captures on both of its sides."""
    files = {path: format_of(path, FORMATS) for path in output or ()}
    known = box_known(offset, max_delay, from_time, to_time, part)
    if before == after == "-":
        raise RequestError("standard input can be read once", hint="name a file for one of them")
    crossed = cross_captures(before, after, known)
    if files:
        from tcpf_lab.report.frames.captures import Crossing  # here: pandas takes a while to load

        frames = Crossing(crossed)
        for path, suffix in files.items():
            write_document(path, frames.write(suffix))
    found = describe_crossing(crossed)
    if as_json:
        console.print_json({**found, "written": [str(path) for path in files]})
        return
    for shown in crossing_tables(found, console.width(), top=top):
        console.show(shown)
    for path in files:
        echo(path)
