"""What is fuzzed of the records of a run: a run of which one file is another, analysed and shown.

A message to the user is an answer; whatever else is raised is what is looked for.
"""

from __future__ import annotations

from collections.abc import Callable

from tcpf_lab.base.errors import LabError
from tcpf_lab.report.export.tidy import tables
from tcpf_lab.report.frames.results import sections_below
from tcpf_lab.report.frames.run import Run as FramedRun
from tcpf_lab.report.plots.runs import read_run
from tcpf_lab.report.section import collect, read_series
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.run import runner
from tcpf_lab.spec.load import load
from tcpf_lab.testbed.uml import guest
from tools.fuzz import text_runs


def records(data: bytes) -> str:
    """Analyse a run one of whose files is another: its first line is the file's name."""
    return _with_file(data, lambda files: str(runner.analyse(files)["validity"]["valid"]))


def metrics(data: bytes) -> str:
    """Make tables and frames of runs of which one file is another, and read a guest's console."""
    return _with_file(data, _shown)


def _shown(files: RunFiles) -> str:
    run = FramedRun(files)
    readers: tuple[Callable[[], object], ...] = (
        lambda: read_series(files),
        run.flow_series,
        run.queue_series,
        lambda: collect(text_runs.experiment_files(files), text_runs.cells(files)),
        lambda: tables(sections_below(files.root, include_invalid=True)),
        lambda: (run.flows, run.dscp, run.checks, run.window, run.valid, run.captures),
        lambda: read_run(files, load(files.spec)).goodputs(),
        lambda: guest.faults((files.log / "console.txt").read_text(errors="replace")),
    )
    refused = 0
    for read in readers:
        try:
            read()
        except LabError as error:
            str(error).encode()
            refused += 1
    return f"{refused} refused"


def _with_file(data: bytes, work: Callable[[RunFiles], str]) -> str:
    """Put the file into the run that has one of that name, work with it, and put all back."""
    name, _, content = data.partition(b"\n")
    found = text_runs.having(name.decode("ascii", "replace"))
    if found is None:
        return "no such file"
    files, path = found
    kept = {place: place.read_bytes() for place in (path, *text_runs.derived(files))}
    path.unlink()
    path.write_bytes(content)
    try:
        return work(files)
    except LabError as error:
        str(error).encode()
        return "refused"
    finally:
        for place, before in kept.items():
            place.write_bytes(before)
