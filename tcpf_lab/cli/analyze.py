"""The verbs for captures: analyze and device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tcpf_lab.base.errors import LabError, RequestError
from tcpf_lab.cli import console
from tcpf_lab.cli.main import echo
from tcpf_lab.cli.options import AsJson, Senders, argument, option
from tcpf_lab.metrics.device import describe_device, match_captures
from tcpf_lab.report.captures import (
    SHOWN,
    capture_tables,
    device_tables,
    event_tables,
    many,
    packet_table,
)
from tcpf_lab.report.document import write_document
from tcpf_lab.run import analyzing
from tcpf_lab.run.analyzing import (
    BIN,
    FORMATS,
    MAX_DELAY,
    PRINTED,
    SORTED,
    TOP_BY,
    CaptureRequest,
    CaptureResults,
    device_options,
    format_of,
)
from tcpf_lab.run.plotting import parse_flows
from tcpf_lab.spec.words import one_of
from tcpf_lab.trace import packet

if TYPE_CHECKING:
    from tcpf_lab.results.layout import RunFiles

#: Exit status if a part of a capture was skipped because it is damaged.
DAMAGED = 3

_Flow = Annotated["tuple[int, ...] | None", option("analyze --flow", parser=parse_flows)]


def analyze(
    paths: Annotated[list[str], argument("analyze PATH...")],
    *,
    host: Annotated[list[str] | None, option("analyze --host")] = None,
    port: Annotated[list[int] | None, option("analyze --port")] = None,
    dscp: Annotated[list[str] | None, option("analyze --dscp")] = None,
    flow: _Flow = None,
    sort: Annotated[str, option("analyze --sort", ", ".join(SORTED))] = "",
    top: Annotated[int | None, option("analyze --top", TOP_BY, SHOWN, min=0)] = None,
    events: Annotated[bool, option("analyze --events")] = False,
    packets: Annotated[int | None, option("analyze --packets", min=0)] = None,
    output: Annotated[list[Path] | None, option("analyze -o --output", ", ".join(FORMATS))] = None,
    form: Annotated[str, option("analyze --format", metavar="|".join(PRINTED))] = "table",
    senders: Senders,
    as_json: AsJson = False,
) -> None:
    """Report retransmissions, timeouts and their causes in captures, or recompute runs' metrics."""
    files = {path: analyzing.format_of(path) for path in output or ()}
    printed = analyzing.printed_of(form, as_json=as_json, written=bool(files))
    paths = analyzing.spread(paths)
    roots = [path for path in paths if analyzing.is_directory(path)]
    request = CaptureRequest(
        paths=tuple(path for path in paths if path not in roots),
        options=senders,
        choice=analyzing.choice_of(host or (), port or (), dscp or (), flow or ()),
        sort=sort and one_of(sort, SORTED, "column", "--sort"),
        top=top,
        events=events or packets is not None,
    )
    if packets is not None and (len(request.paths) != 1 or roots or files or printed != "table"):
        message = "shows one capture as a table"
        raise RequestError(message, where=f"--packets {packets}")
    if not request.paths:
        _refuse_useless(request, files, printed)
    runs = _runs(roots)
    with console.reading(request.paths) as progress:
        found = analyzing.analyse_captures(request, progress)
    written = _write(found, files)
    if packets is None:
        _print(found, written, printed)
    elif found.analyses:
        _show_packets(found, packets)
    rebuilt, failed = _rebuild(runs, printed)
    if printed == "json":
        lists = {"runs": list(map(str, rebuilt)), "written": list(map(str, written))}
        console.print_json({**analyzing.document(found), **lists})
    _complain(found, failed, shown=printed == "table" and not files and packets is None)


def _refuse_useless(request: CaptureRequest, files: Mapping[Path, str], printed: str) -> None:
    """Refuse options for captures without a capture."""
    given = [*request.given, *(f"-o {path}" for path in files)]
    if printed not in ("table", "json"):
        given.append(f"--format {printed}")
    if given:
        message = "applies to captures only"
        raise RequestError(message, where=given[0])


def _runs(paths: Sequence[str]) -> dict[str, list[RunFiles]]:
    """Find the runs whose metrics are recomputed, by directory."""
    if not paths:
        return {}
    from tcpf_lab.run import campaign  # here and below: a capture should not pay for the import

    return {path: campaign.stored_runs(Path(path)) for path in paths}


def _rebuild(
    runs: Mapping[str, Sequence[RunFiles]], printed: str
) -> tuple[list[Path], list[LabError]]:
    """Recompute the metrics of runs; give the files, and the runs that cannot be read."""
    if not runs:
        return [], []
    from tcpf_lab.run import campaign

    for path, those in runs.items():
        if [run.root for run in those] != [Path(path)]:
            count = many(len(those), "run")
            echo(f"rebuilding metrics.json and series.npz of {count} below {path}", err=True)
    done: list[Path] = []
    failed: list[LabError] = []
    for result in campaign.rebuild(dict.fromkeys(run for those in runs.values() for run in those)):
        if isinstance(result, LabError):
            failed.append(result)
            continue
        done.append(result)
        if printed != "json":
            echo(f"rebuilt {result}{_verdict(result)}", err=printed != "table")
    return done, failed


def _verdict(metrics: Path) -> str:
    """Give the reasons for which a run is not valid."""
    from tcpf_lab.results.layout import read_json  # here: see `analyze`

    reasons = read_json(metrics)["validity"]["reasons"]
    return f": not valid: {'; '.join(reasons)}" if reasons else ""


def _write(found: CaptureResults, files: Mapping[Path, str]) -> list[Path]:
    """Write the results into files; give their paths."""
    if not (files and found.analyses):
        return []
    from tcpf_lab.report.document import write_document

    for path, form in files.items():
        write_document(path, analyzing.content(found, form))
    return list(files)


def _print(found: CaptureResults, written: Sequence[Path], printed: str) -> None:
    """Print the results, or the paths of the files."""
    if printed == "json":
        return  # an object that has the runs, too
    for path in written:
        echo(path)
    if written or not found.analyses:
        return
    if printed == "table":
        _tables(found)
        return
    echo(analyzing.content(found, printed), nl=False)


def _tables(found: CaptureResults) -> None:
    """Print the tables of each capture: of its events with --events."""
    request = found.request
    for number, capture in enumerate(found.described):
        if number:
            echo()
        if request.events:
            every = found.frames.events
            events = every[every["capture"] == capture["file"]]
            parts = event_tables(capture, events, top=request.top, by=request.order)
        else:
            parts = capture_tables(capture, top=request.top, by=request.order)
        for part in parts:
            console.show(part)


def _show_packets(found: CaptureResults, number: int) -> None:
    """Print the packets around an event.

    Raises
    ------
    RequestError
        If there is no such event.
    """
    (path,), events = found.request.paths, found.frames.events
    if path == "-":
        message = "standard input cannot be read twice"
        raise RequestError(message, where=f"--packets {number}", hint="name a file")
    if number >= len(events):
        there = f"events 0 to {len(events) - 1}" if len(events) else "no event"
        raise RequestError(f"the capture has {there}", where=f"--packets {number}")
    event = events.iloc[number]
    for part in packet_table(event, packet.packets(path, event)):
        console.show(part)


def _complain(results: CaptureResults, failed: Sequence[LabError], *, shown: bool) -> None:
    """Print problems on standard error; exit with a status unless only the end is cut."""
    for found in results.analyses:
        if found.capture.truncated and not shown:
            echo(f"warning: {found.capture.name}: {found.capture.truncated}", err=True)
    problems = [*results.problems, *failed]
    for problem in problems:
        echo(f"error: {problem}", err=True)
    if problems:
        raise typer.Exit(problems[0].exit_status)
    if any(found.capture.skipped for found in results.analyses):
        raise typer.Exit(DAMAGED)


#: Formats of files of packets, by their suffix.
PACKET_FORMATS = ("csv", "parquet")


def device(
    before: Annotated[str, argument("device BEFORE")],
    after: Annotated[str, argument("device AFTER")],
    offset: Annotated[str | None, option("device --offset")] = None,
    max_delay: Annotated[str, option("device --max-delay")] = MAX_DELAY,
    from_time: Annotated[str | None, option("device --from")] = None,
    to_time: Annotated[str | None, option("device --to")] = None,
    part: Annotated[str, option("device --bin")] = BIN,
    output: Annotated[list[Path] | None, option("device -o --output")] = None,
    top: Annotated[int, option("device --top", min=0)] = SHOWN,
    as_json: AsJson = False,
) -> None:
    """Compare captures before and after a device: loss, delay, marks, reordering."""
    files = {path: format_of(path, PACKET_FORMATS) for path in output or ()}
    known = device_options(offset, max_delay, from_time, to_time, part)
    if before == after == "-":
        raise RequestError("standard input can be read once", hint="name a file for one of them")
    crossed = match_captures(before, after, known)
    if files:
        from tcpf_lab.report.frames.captures import Device  # here: pandas takes a while to load

        frames = Device(crossed)
        for path, suffix in files.items():
            write_document(path, frames.write(suffix))
    found = describe_device(crossed)
    if as_json:
        console.print_json({**found, "written": [str(path) for path in files]})
        return
    for shown in device_tables(found, top=top):
        console.show(shown)
    for path in files:
        echo(path)
