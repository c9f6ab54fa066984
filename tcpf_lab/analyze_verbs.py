"""The verb that analyses captures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tcpf_lab import analyze_request, analyzing, command_line, terminal
from tcpf_lab.analyze_request import FORMATS, PRINTED, SORTED, Asked
from tcpf_lab.analyzing import Looked
from tcpf_lab.errors import RequestError
from tcpf_lab.options import AsJson, At, MinRto, Probes, Profile
from tcpf_lab.plot_request import parse_flows
from tcpf_lab.report.captures_shown import SHOWN, capture_tables, event_tables
from tcpf_lab.spec.suggest import unknown

_Paths = Annotated[
    list[str], typer.Argument(metavar="PATH...", help="Captures, `-`, runs or results.")
]
_Host = Annotated[
    list[str] | None,
    typer.Option("--host", metavar="ADDRESS", help="Only flows from or to it; also 10.0.0.0/24."),
]
_Port = Annotated[
    list[int] | None, typer.Option("--port", metavar="N", help="Only flows from or to this port.")
]
_Dscp = Annotated[
    list[str] | None,
    typer.Option("--dscp", metavar="NAME", help="Only flows that begin with this code point."),
]
_Flow = Annotated[
    str | None, typer.Option("--flow", metavar="LIST", help="Only these flows, counted from 0.")
]
_Sort = Annotated[
    str,
    typer.Option("--sort", metavar="COLUMN", help=f"Of {', '.join(SORTED)}; largest first."),
]
_Top = Annotated[
    int | None,
    typer.Option(
        "--top", metavar="N", min=0, help=f"So many flows; 0: all. Tables: {SHOWN} without it."
    ),
]
_Events = Annotated[
    bool, typer.Option("--events", help="List what was sent again, and why, event by event.")
]
_Output = Annotated[
    list[Path] | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help=f"Its suffix says the format: {', '.join(FORMATS)}. More than once for several.",
    ),
]
_Format = Annotated[
    str, typer.Option("--format", metavar="|".join(PRINTED), help="How it is printed.")
]


def analyze(
    paths: _Paths,
    host: _Host = None,
    port: _Port = None,
    dscp: _Dscp = None,
    flow: _Flow = None,
    sort: _Sort = "",
    top: _Top = None,
    events: _Events = False,
    output: _Output = None,
    form: _Format = "table",
    min_rto: MinRto = None,
    profile: Profile = "linux",
    at: At = None,
    probes: Probes = True,
    as_json: AsJson = False,
) -> None:
    """Say how TCP recovered from loss in captures, or rebuild the metrics of runs."""
    if form not in PRINTED:
        raise RequestError(unknown(f"unknown format '{form}'", form, PRINTED), where="--format")
    files = {path: analyze_request.format_of(path) for path in output or ()}
    asked = Asked(
        paths=tuple(dict.fromkeys(path for path in paths if not Path(path).is_dir())),
        options=analyze_request.options_of(min_rto, profile, at, probes=probes),
        choice=analyze_request.choice_of(host or (), port or (), dscp or (), parse_flows(flow)),
        sort=analyze_request.sort_of(sort),
        top=top,
        events=events,
    )
    rebuilt = _rebuilt([path for path in paths if Path(path).is_dir()])
    with terminal.reading(asked.paths) as progress:
        looked = analyzing.look(asked, progress)
    written = list(files) if looked.analyses else []
    for path in written:
        _write(path, analyzing.content(looked, files[path]))
    _tell(looked, rebuilt, written, "json" if as_json else form)
    _complain(looked, told=form == "table" and not (as_json or files))


def _rebuilt(paths: Sequence[str]) -> Sequence[Path]:
    """Rebuild the metrics of runs; which runs."""
    if not paths:
        return ()
    from tcpf_lab import campaign  # here and below: a capture should not pay for the import

    return campaign.rebuild(paths)


def _write(path: Path, text: str | bytes) -> None:
    from tcpf_lab.report.document import write_document

    write_document(path, text)


def _tell(looked: Looked, rebuilt: Sequence[Path], written: Sequence[Path], form: str) -> None:
    """Print what was found, unless it was written into files; which files."""
    if form == "json":
        runs, files = ([str(path) for path in paths] for paths in (rebuilt, written))
        terminal.print_json({**analyzing.document(looked), "runs": runs, "written": files})
        return
    for path in rebuilt:
        typer.echo(f"rebuilt {path}")
    for path in written:
        typer.echo(str(path))
    if written or not looked.analyses:
        return
    if form == "table":
        _tables(looked)
        return
    typer.echo(analyzing.content(looked, form), nl=False)


def _tables(looked: Looked) -> None:
    """Print tables; those of events are short only if asked."""
    width = terminal.width()
    if looked.asked.events:
        for part in event_tables(looked.frames.events, width):
            terminal.show(part)
        return
    for number, capture in enumerate(looked.described):
        if number:
            typer.echo()
        for part in capture_tables(capture, width, top=looked.asked.top, by=looked.asked.sort):
            terminal.show(part)


def _complain(looked: Looked, *, told: bool) -> None:
    """Say on standard error what is wrong with captures; end if one could not be read at all."""
    for found in looked.analyses:
        if found.capture.truncated and not told:
            typer.echo(f"warning: {found.capture.name}: {found.capture.truncated}", err=True)
    for problem in looked.problems:
        typer.echo(f"error: {problem}", err=True)
    if looked.problems:
        raise typer.Exit(looked.problems[0].exit_status)


def main() -> None:
    """Run the command line with this verb alone, whose libraries are quickly loaded."""
    app = command_line.new_app()
    app.callback()(lambda: None)  # the verb keeps its name, although there is no other
    app.command()(analyze)
    command_line.run(app)
