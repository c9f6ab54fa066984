"""What is fuzzed of the records of a run: a run of which one file is another, analysed and shown.

There are two runs to put a damaged file into: one with captures, and one of users and background.
A message to the user is an answer; whatever else is raised is what is looked for.
"""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tcpf_lab.base.errors import LabError
from tcpf_lab.report.export.tidy import tables
from tcpf_lab.report.frames.results import sections_below
from tcpf_lab.report.frames.run import Run as FramedRun
from tcpf_lab.report.plots.runs import read_run
from tcpf_lab.report.section import Cell, collect, read_series
from tcpf_lab.results.layout import ExperimentFiles, RunFiles
from tcpf_lab.run import runner
from tcpf_lab.run.runner import Task, carry_out
from tcpf_lab.spec.load import load, parse
from tcpf_lab.spec.sweep import expand
from tcpf_lab.testbed.fake import FakeTestbed
from tcpf_lab.testbed.uml import guest
from tools.parts import RECORDED, recorded_run

#: The run without captures: its numbers come from what the files below ``stats`` count.
_COUNTED = """
name: counted
topology: {chain: {access: 100 Mbit, bottleneck: 10 Mbit, delay: 20 ms}}
tcp: {profile: sysctl-2.2, sack: true}
traffic: {start_spread: 0 s, warmup: 1 s, duration: 2 s, captures: false,
  users: {think: 1 s, size: 9 kB}}
cases:
  TCPF+Prio:
    marker: {kind: tcpf, interval: 400 ms, tokens: 296 kB, in: AF11, out: AF12}
    queue: {kind: rio, limit: 500 kB, in_min: 50 kB, in_max: 490 kB, in_probability: 0.005,
      out_min: 10 kB, out_max: 200 kB, out_probability: 0.25}
    background: {ef: {kind: onoff, share: 0.2, packet: 500 B, on: 20 ms, dscp: EF}}
matrix: {case: all, flows: 3, seed: 1}
"""
#: No path below a run is as long.
_LONGEST = 100
#: What reports read of a run; the analysis reads the rest.
_SHOWN = ("metrics.json", "manifest.json", "series.npz", "run.yaml", "log/console.txt")
#: Larger files are captures.
_LARGEST = 60_000
_EPOCH = 1_000_000_002 * 10**9


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
        lambda: collect(experiment_files(files), cells(files)),
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
    found = having(name.decode("ascii", "replace"))
    if found is None:
        return "no such file"
    files, path = found
    kept = {place: place.read_bytes() for place in (path, *derived(files))}
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


def memory() -> str | None:
    """Give a directory without a disk behind it, if there is one."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108


@functools.cache
def bases() -> Mapping[str, RunFiles]:
    """Make the runs, once, by name."""
    results = Path(tempfile.mkdtemp(prefix="fuzz-", dir=memory()))
    atexit.register(shutil.rmtree, results, ignore_errors=True)
    recorded = (recorded_run() / "experiment.yaml").read_text(encoding="utf-8")
    return {
        "captured": _made(recorded, results, {}),
        "counted": _made(_COUNTED, results, _counted()),
    }


def _made(text: str, results: Path, files: Mapping[str, bytes]) -> RunFiles:
    """Make the first run of an experiment by the fake testbed, and put files into it."""
    testbed = FakeTestbed(RECORDED)
    run = expand(parse(text, "experiment").on(testbed.generator))[0]
    place = ExperimentFiles(results, run.experiment.name, testbed.name)
    done = place.run(run.id)
    event = carry_out(Task(run, testbed, place, keep_pcaps=True, commit="none"))
    if event.kind != "finished":
        raise RuntimeError(event.detail)
    for name, content in files.items():
        (done.root / name).write_bytes(content)
    return done


def having(name: str) -> tuple[RunFiles, Path] | None:
    """Give the run and the file called ``BASE/PATH``; None if there is no such file."""
    base, _, path = name.partition("/")
    run = bases().get(base)
    if run is None or not path.isascii() or "\0" in path or ".." in path or len(path) > _LONGEST:
        return None
    place = run.root / path
    return (run, place) if place.is_file() and place.is_relative_to(run.root) else None


def derived(files: RunFiles) -> list[Path]:
    """Give the files of a run that analysing it writes anew."""
    return [path for path in (files.metrics, files.series, files.transfers) if path.exists()]


def experiment_files(files: RunFiles) -> ExperimentFiles:
    """Give the directory that a run is in."""
    folder = files.root.parent
    return ExperimentFiles(folder.parent.parent, folder.parent.name, folder.name)


def cells(files: RunFiles) -> list[Cell]:
    """Give the cell of the matrix that a run alone is."""
    name = files.root.parent.parent.name
    case = "NoMark+RED" if files.root.name.startswith("nomark") else "TCPF+Prio"
    flows = int(files.root.name.split("-flows")[1].split("-")[0])
    return [Cell(name, case, flows, (files.root.name,), published=False)]


def _counted() -> dict[str, bytes]:
    """Give the files that the recorded run has not got, as a run of users has them."""
    record = struct.Struct("<qqQQIIIHBB")
    rows = [
        record.pack(1_100_000_000 + k, 1_900_000_000, 9000, 9000, k, 0, 1, 0, 2, 0)
        for k in range(3)
    ]
    head = struct.pack("<8sIIQq", b"tcpuser1", record.size, 3, len(rows), _EPOCH)
    told = [
        {"sample": "start", "packets": 5, "bytes": 2500, "time_ns": 10**9},
        {"sample": "end", "packets": 50, "bytes": 25000, "time_ns": 3 * 10**9},
        {"event": "end", "packets": 51, "bytes": 25500, "late_ns": 0},
    ]
    node = (RECORDED / "stats" / "qdisc-R1.json").read_bytes()
    interface = (RECORDED / "stats" / "dev-R2.txt").read_bytes()
    return {
        "stats/users-S.bin": head + b"".join(rows),
        "stats/source-EF.jsonl": "".join(json.dumps(row) + "\n" for row in told).encode(),
        **{f"stats/qdisc-window-{end}-R1.json": node for end in ("start", "end")},
        **{f"stats/dev-window-{end}-R2.txt": interface for end in ("start", "end")},
    }


def _records() -> Iterator[tuple[str, bytes]]:
    return (found for found in _files() if not found[1].startswith(_only_shown()))


def _metrics() -> Iterator[tuple[str, bytes]]:
    shown = tuple(name.encode() for name in _SHOWN)
    return (found for found in _files() if found[1].partition(b"\n")[0].endswith(shown))


def _only_shown() -> tuple[bytes, ...]:
    """What the analysis writes, and does not read."""
    names = ("metrics.json", "series.npz", "run.yaml", "plan.txt", "transfers.npz", "log/console")
    return tuple(f"{base}/{name}".encode() for base in bases() for name in names)


def _files() -> Iterator[tuple[str, bytes]]:
    for base, run in bases().items():
        for path in sorted(run.root.rglob("*")):
            if path.is_file() and path.stat().st_size < _LARGEST:
                name = f"{base}/{path.relative_to(run.root)}"
                yield name.replace("/", "-"), name.encode() + b"\n" + path.read_bytes()


#: What gives the inputs that a target begins with, by name.
SEEDS = {"records": _records, "metrics": _metrics}
