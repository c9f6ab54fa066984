"""What is fuzzed of the files that a user or a run brings: each as one function of its bytes.

A message to the user is an answer; whatever else is raised is what is looked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from fuzz import text_runs
from tcpf_lab import checked_analysis
from tcpf_lab.errors import LabError
from tcpf_lab.metrics.series import read_series
from tcpf_lab.plan.compose import compose
from tcpf_lab.report.collect import collect
from tcpf_lab.report.export.tidy import tables
from tcpf_lab.report.frames.found import sections_below
from tcpf_lab.report.frames.one_run import Run as FramedRun
from tcpf_lab.report.plots.runs import read_run
from tcpf_lab.results import RunFiles
from tcpf_lab.spec import load
from tcpf_lab.spec.collection import Collection
from tcpf_lab.spec.model import Experiment
from tcpf_lab.spec.sweep import expand
from tcpf_lab.testbed import guest_plan, uml_console
from tcpf_lab.testbed.inventory import Inventory

#: An experiment with more flows or runs than that is not planned: it takes its time.
_FEW_FLOWS, _FEW_RUNS = 200, 500


def spec(data: bytes) -> str:
    """Read an experiment or a collection, write it again, and plan its first run.

    Raises
    ------
    AssertionError
        If an error is without a line, or what is written is not what was read.
    """
    found = _read(data, load.load_any)
    if isinstance(found, Collection | str):
        return str(type(found).__name__)
    assert isinstance(found, Experiment)
    text = load.dump(found)
    assert load.parse(text, "written") == found, "what is written is not what was read"
    matrix = found.matrix
    if len(matrix.flows) * len(matrix.seed) > _FEW_RUNS or min(matrix.flows) > _FEW_FLOWS:
        return "large experiment"
    runs = expand(found)
    names = {run.id for run in runs}
    assert len(names) == len(runs), "two runs have one name"
    assert all("/" not in name and len(name) < 230 for name in names), "no name of a directory"
    fewest = min(runs, key=lambda run: run.flows)
    guest_plan.render(compose(fewest))
    return "experiment"


def inventory(data: bytes) -> str:
    """Read an inventory.

    Raises
    ------
    AssertionError
        If an error is without a line.
    """
    found = _read(data, lambda path: load.load_as(path, Inventory))
    return found if isinstance(found, str) else "inventory"


def _read(data: bytes, read: Callable[[Path], object]) -> object:
    """Give what was read, or that it was refused: with a line, if it has any."""
    memory = os.memfd_create("file")
    try:
        os.write(memory, data)
        path = Path(f"/proc/self/fd/{memory}")
        return read(path)
    except load.SpecError as error:
        for problem in load.each(error):
            place, _, line = problem.where.rpartition(":")
            told = place == str(path) and line.isdecimal()
            assert told or "larger than" in problem.message, f"no line: {problem.where}"
        str(error).encode()
        return "refused"
    finally:
        os.close(memory)


def records(data: bytes) -> str:
    """Analyse a run one of whose files is another: its first line is the file's name."""
    return _with_file(data, lambda files: str(checked_analysis.analyse(files)["validity"]["valid"]))


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
        lambda: read_run(files, load.load(files.spec)).goodputs(),
        lambda: uml_console.faults((files.log / "console.txt").read_text(errors="replace")),
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


#: By the names that the command line takes.
TARGETS: Mapping[str, Callable[[bytes], str]] = {
    "spec": spec,
    "inventory": inventory,
    "records": records,
    "metrics": metrics,
}
#: Those of whole runs, which have to be made first.
OF_RUNS = ("records", "metrics")
