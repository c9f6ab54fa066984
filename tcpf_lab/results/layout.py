"""Directories and file names of runs: the only module that spells them.

A run is written to ``<id>.partial`` and renamed to ``<id>`` when it is whole, so a directory
without that suffix is always complete.  ``docs/results.md`` describes every file.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

from tcpf_lab.base import making
from tcpf_lab.base.errors import RequestError

#: Version of the run directory's layout, written to ``manifest.json`` and ``metrics.json``.
FORMAT = 2
#: What reads an earlier one.
_READERS = {1: "tcpf-lab 0.1"}
#: The files that say of which version they are.
_RECORDS = ("manifest.json", "metrics.json")
#: Directory of the figures of a report, beside its tables.
FIGURES = "figures"
#: What a calibration has concluded: the report on it is made of this file alone.
OUTCOME = "calibration.json"
PARTIAL = ".partial"
#: An older run while a newer one takes its place.
REPLACED = ".replaced" + PARTIAL


class FormatError(RequestError):
    """A record of a run whose directory has another layout."""


@dataclass(frozen=True)
class RunFiles:
    """The files of one run directory (complete or partial)."""

    root: Path

    @property
    def spec(self) -> Path:
        """The resolved spec of this one run; running it repeats the run."""
        return self.root / "run.yaml"

    @property
    def plan(self) -> Path:
        """The commands, as ``tcpf-lab plan`` prints them."""
        return self.root / "plan.txt"

    @property
    def manifest(self) -> Path:
        """Facts about the run, written once."""
        return self.root / "manifest.json"

    @property
    def metrics(self) -> Path:
        """Derived numbers and the validity verdict; rebuilt by ``tcpf-lab analyze``."""
        return self.root / "metrics.json"

    @property
    def series(self) -> Path:
        """Goodput of the flows and length of the queue over time, derived like the metrics."""
        return self.root / "series.npz"

    @property
    def transfers(self) -> Path:
        """What closed-loop users transferred, derived like the metrics."""
        return self.root / "transfers.npz"

    @property
    def groups(self) -> Path:
        """Throughput and delay of groups of flows over time, derived like the metrics."""
        return self.root / "groups.npz"

    @property
    def probes(self) -> Path:
        """What probes sent and how long it took, derived like the metrics."""
        return self.root / "probes.npz"

    @property
    def checksums(self) -> Path:
        """What every other file holds, as ``sha256sum`` writes it."""
        return self.root / "SHA256SUMS"

    @property
    def log(self) -> Path:
        """Console and standard error of every program."""
        return self.root / "log"

    @property
    def pcap(self) -> Path:
        """Captures, stored only with ``--keep-pcaps``."""
        return self.root / "pcap"

    @property
    def stats(self) -> Path:
        """Counters read from the testbed."""
        return self.root / "stats"

    def capture(self, point: str) -> Path:
        """Path of the capture taken at ``point``: compressed or plain."""
        plain = self.pcap / f"{point}.pcap"
        packed = plain.with_suffix(".pcap.zst")
        return packed if packed.exists() else plain

    def create(self) -> None:
        """Make the directory, which has to be new, and its sub-directories.

        Raises
        ------
        LabError
            If it cannot be made, or something is there.
        """
        for directory in (self.root, self.log, self.pcap, self.stats):
            making.make_directory(directory, new=True)

    @property
    def derived(self) -> tuple[Path, ...]:
        """What the analysis writes, whether it is there or not."""
        return self.metrics, self.series, self.transfers, self.groups, self.probes

    def own(self) -> Iterator[Path]:
        """Yield the files that make a run but for ``SHA256SUMS``: none that it did not write."""
        records = (self.spec, self.plan, self.manifest, *self.derived)
        inside = (path for part in (self.log, self.pcap, self.stats) for path in part.rglob("*"))
        for path in (*records, *inside):
            if path.is_file() and not path.is_symlink():
                yield path


@dataclass(frozen=True)
class ExperimentFiles:
    """``<results>/<experiment>/<testbed>/``: the runs of one experiment on one testbed."""

    results: Path
    experiment: str
    testbed: str

    @property
    def root(self) -> Path:
        """Directory that holds the runs and the tables."""
        return self.results / self.experiment / self.testbed

    def run(self, run_id: str) -> RunFiles:
        """Files of a complete run."""
        return RunFiles(self.root / run_id)

    def partial(self, run_id: str) -> RunFiles:
        """Files of the same run while it is being made."""
        return RunFiles(self.root / (run_id + PARTIAL))

    def discard(self, run_id: str) -> None:
        """Remove what an end by force has left of a run that was being made, or replaced."""
        shutil.rmtree(self.partial(run_id).root, ignore_errors=True)
        making.remove(self.run(run_id + REPLACED).root)

    def runs(self) -> Iterator[RunFiles]:
        """Yield every complete run, in name order."""
        if not self.root.is_dir():
            return
        for path in sorted(self.root.iterdir()):
            if path.is_dir() and not path.name.endswith(PARTIAL) and (path / "run.yaml").exists():
                yield RunFiles(path)

    def locked(self) -> AbstractContextManager[None]:
        """Keep every other program from making or removing runs here: `locked`."""
        return locked(self.root)

    def report(self, suffix: str) -> Path:
        """Path of ``report.pdf``, ``report.html`` or ``report.md``."""
        return self.root / f"report.{suffix}"

    def table(self, suffix: str) -> Path:
        """Path of ``table.md`` or ``table.csv``."""
        return self.root / f"table.{suffix}"

    def figure(self, name: str, suffix: str) -> Path:
        """Path of a figure."""
        return self.root / FIGURES / f"{name}.{suffix}"

    def data(self, name: str, suffix: str) -> Path:
        """Path of a tidy table for other programs."""
        return self.root / "data" / f"{name}.{suffix}"

    def flent(self, run: str) -> Path:
        """Path of a run for Flent."""
        return self.root / "flent" / f"{run}.flent.gz"


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep every other program from making or removing runs in a directory.

    The lock is on the directory itself: it leaves no file, and ends with the last process that has
    it open, workers included.

    Raises
    ------
    LabError
        If another program holds it, or the directory cannot be made.
    """
    making.make_directory(directory)
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise RequestError(f"cannot be used: {error.strerror}", where=str(directory)) from None
    try:
        with suppress(OSError):  # a file system without locks has to do without
            _lock(handle, directory)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, directory: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RequestError(
            "another tcpf-lab process is using this directory",
            where=str(directory),
            hint="wait until it ends, or use another directory: --results DIR",
        ) from None


def complete(partial: RunFiles, final: RunFiles) -> None:
    """Rename a finished run into place, replacing an older one of the same name."""
    trash = final.root.with_name(final.root.name + REPLACED)
    making.remove(trash)
    if os.path.lexists(final.root):
        final.root.rename(trash)
    partial.root.rename(final.root)
    making.remove(trash)


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as readable, byte-stable JSON, atomically."""
    write_text(path, as_json(value))


def as_json(value: Any) -> str:
    """Give ``value`` as readable JSON, the same bytes for the same value."""
    return json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n"


_WIDTH = 100


def as_lines(value: Any) -> str:
    """Return ``value`` as JSON with one line for what fits into it and for each list of numbers.

    It is half as long as that of `as_json`, and a difference shows where it is.
    """
    return _lines(value) + "\n"


def _lines(value: Any, depth: int = 0) -> str:
    whole = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ": "))
    if len(whole) + depth <= _WIDTH or not isinstance(value, dict | list):
        return whole
    if isinstance(value, list) and not any(isinstance(one, dict | list) for one in value):
        return whole
    pad, end = "\n" + " " * (depth + 1), "\n" + " " * depth
    if isinstance(value, list):
        return f"[{pad}{f',{pad}'.join(_lines(one, depth + 1) for one in value)}{end}]"
    named = (f"{json.dumps(name)}: {_lines(one, depth + 1)}" for name, one in value.items())
    return f"{{{pad}{f',{pad}'.join(named)}{end}}}"


def write_text(path: Path, text: str) -> None:
    """Write a text file as `making.write` does."""
    making.write(path, text.encode("utf-8"))


def open_regular(path: Path) -> BufferedReader:
    """Open a file to read: a pipe in its place would keep us waiting, a device would never end.

    Raises
    ------
    OSError
        If it cannot be opened, or is no regular file.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    return path.open("rb")


#: What is added to the name of a file that zstd has packed, and how large it may be unpacked.
PACKED, _MOST_BYTES = ".zst", 1 << 30


def packed(text: str) -> bytes:
    """Pack a text with zstd, as `read_json` unpacks it: the same bytes for the same text."""
    import zstandard  # here: most commands pack nothing

    return zstandard.ZstdCompressor(level=19, write_checksum=True).compress(text.encode("utf-8"))


def _unpacked(content: bytes) -> bytes:
    import zstandard

    try:
        return zstandard.ZstdDecompressor().decompress(content, max_output_size=_MOST_BYTES)
    except zstandard.ZstdError as error:
        raise ValueError(f"not a zstd file: {error}") from None


def read_json(path: Path) -> Any:
    """Read JSON; that of a name with ``.zst`` at its end is unpacked.

    Raises
    ------
    RequestError
        If the file is missing or broken.
    FormatError
        If it is a record of a run of another format.
    """
    try:
        with open_regular(path) as file:
            content = file.read()
        whole = _unpacked(content) if path.suffix == PACKED else content
        found = json.loads(whole.decode("utf-8"))
    except FileNotFoundError:
        raise RequestError("no such file", where=str(path)) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise RequestError(f"cannot be read: {reason}", where=str(path)) from None
    except (ValueError, RecursionError) as error:  # neither JSON nor, at times, UTF-8
        raise RequestError(f"not JSON: {error}", where=str(path)) from None
    if path.name in _RECORDS and isinstance(found, dict):
        _require_format(found.get("format"), path)
    return found


def _require_format(version: object, path: Path) -> None:
    if type(version) is not int or version < 1 or version == FORMAT:
        return  # what reads a record says what is wrong with it
    reader = _READERS.get(version, "a later tcpf-lab")
    message = f"has format {version}, which {reader} reads; this version reads format {FORMAT}"
    raise FormatError(message, where=str(path))
