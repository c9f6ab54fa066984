"""The verb that draws."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from tcpf_lab.cli import console, main
from tcpf_lab.cli.main import echo
from tcpf_lab.cli.options import (
    AsJson,
    IncludeInvalid,
    Senders,
    WhichRuns,
    argument,
    option,
    spelt_out,
)
from tcpf_lab.report.document import write_document
from tcpf_lab.report.plots.kinds import (
    DELAYS,
    ENTRIES,
    KINDS,
    SCALES,
    Kind,
    Wanted,
    draw,
    kind_named,
    metric_named,
)
from tcpf_lab.report.section import SUFFIXES
from tcpf_lab.run.analyzing import format_of
from tcpf_lab.run.plotting import FigureRequest, Gathered, gather, parse_flows, parse_time
from tcpf_lab.spec.words import one_of

_OF_CAPTURES = ("", " (runs or a capture)", " (runs, or captures before and after a queue)")
#: Help of the verb.
ABOUT = "\n\n".join(
    (
        "Draw a figure from runs or captures.  KIND chooses the figure:",
        *(f"{kind.name}: {kind.answers}{_OF_CAPTURES[kind.captures]}" for kind in KINDS.values()),
    )
)


_Flow = Annotated["tuple[int, ...] | None", option("plot --flow", parser=parse_flows)]
_Time = Annotated["tuple[float, float] | None", option("plot --time", parser=parse_time)]


def plot(
    kind: Annotated[str, argument("plot KIND", ", ".join(KINDS))],
    what: Annotated[list[str], argument("plot SPEC|DIR|CAPTURE...")],
    *,
    output: Annotated[list[Path] | None, option("plot -o --output", ", ".join(SUFFIXES))] = None,
    case: Annotated[str | None, option("plot --case")] = None,
    flows: Annotated[str | None, option("plot --flows")] = None,
    seed: Annotated[str | None, option("plot --seed")] = None,
    flow: _Flow = None,
    metric: Annotated[str | None, option("plot --metric")] = None,
    parameter: Annotated[str, option("plot --x")] = "",
    delay: Annotated[str, option("plot --delay", metavar="|".join(DELAYS))] = "",
    probe: Annotated[str, option("plot --probe")] = "",
    by: Annotated[str, option("plot --by", metavar="|".join(ENTRIES))] = "",
    time: _Time = None,
    scale: Annotated[str, option("plot --scale", metavar="|".join(SCALES))] = "",
    runs: WhichRuns,
    include_invalid: IncludeInvalid = False,
    senders: Senders,
    as_json: AsJson = False,
) -> None:
    """Draw a figure from runs or captures."""
    wanted = Wanted(
        metric_named(metric) if metric is not None else None,
        *(flow or (), parameter, delay and one_of(delay, DELAYS, "word", "--delay")),
        *(probe, by and one_of(by, ENTRIES, "word", "--by")),
        *(time, scale and one_of(scale, SCALES, "word", "--scale")),
    )
    figure = kind_named(kind, wanted)
    files = _files(output or [], figure, metric)
    lists = {"case": case, "flows": flows, "seed": seed}
    filters = {key: text for key, text in lists.items() if text is not None}
    request = FigureRequest(tuple(what), filters, include_invalid, runs, senders)
    _print(figure, _write(figure, request, wanted, files), list(files), as_json)


def _write(kind: Kind, request: FigureRequest, wanted: Wanted, files: dict[Path, str]) -> Gathered:
    """Draw the figure into files; give its data."""
    found = gather(request, kind)
    drawn = draw(kind, found.subjects, wanted, list(dict.fromkeys(files.values())))
    for path, suffix in files.items():
        write_document(path, drawn[suffix])
    for capture in found.captures:
        if capture.truncated:
            echo(f"warning: {capture.path}: {capture.truncated}", err=True)
    return found


def _files(output: Sequence[Path], kind: Kind, metric: str | None) -> dict[Path, str]:
    """Give the format of every file that is to be written; a PNG here if none is named."""
    named = output or [Path(f"{kind.name}{f'-{metric}' if metric else ''}.png")]
    return {path: format_of(path, SUFFIXES) for path in named}


def _print(kind: Kind, found: Gathered, files: Sequence[Path], as_json: bool) -> None:
    if as_json:
        console.print_json(
            {
                "kind": kind.name,
                "written": [str(path) for path in files],
                "runs": [str(run.files.root) for run in found.runs],
                "captures": [str(capture.path) for capture in found.captures],
                "left_out": dict(found.left_out),
            }
        )
        return
    if found.remark:
        echo(found.remark, err=True)
    for path in files:
        echo(path)


app = main.new_app()
app.command(help=ABOUT)(spelt_out(plot))
