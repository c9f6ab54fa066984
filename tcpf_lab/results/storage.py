"""What results take on disk, and files and directories packed with zstandard."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, get_args

import zstandard

from tcpf_lab.base.errors import LabError
from tcpf_lab.base.making import free_bytes
from tcpf_lab.base.units import SIZE
from tcpf_lab.results.layout import PARTIAL, RunFiles

#: What there is in a results directory.  The rest: specs, plans, manifests, reports, directories.
Kind = Literal["captures", "counters", "metrics", "logs", "unfinished", "rest"]
KINDS: tuple[Kind, ...] = get_args(Kind)
#: ``st_blocks`` counts these, whatever the file system's own blocks are.
_BLOCK = 512
#: A disk with less room than this is full: what did not fit may have been larger than what is left.
_NO_ROOM = 1_000_000

_RUN = RunFiles(Path("run"))
_KIND_OF: dict[str, Kind] = {
    _RUN.pcap.name: "captures",
    _RUN.stats.name: "counters",
    _RUN.log.name: "logs",
    _RUN.metrics.name: "metrics",
    _RUN.series.name: "metrics",
    _RUN.transfers.name: "metrics",
    _RUN.groups.name: "metrics",
    _RUN.probes.name: "metrics",
}


@dataclass(frozen=True)
class Stored:
    """What one experiment has on one testbed.

    Attributes
    ----------
    complete, failed : int
        Number of runs; ``failed`` are begun and not finished, or being made.
    sizes : dict of str to int
        Bytes on disk of every `Kind`.
    """

    experiment: str
    testbed: str
    complete: int
    failed: int
    sizes: dict[Kind, int]

    @property
    def total(self) -> int:
        """Bytes of everything."""
        return sum(self.sizes.values())


@dataclass(frozen=True)
class Inventory:
    """What a results directory has on disk.

    Attributes
    ----------
    stored : tuple of Stored
        Every experiment and testbed that has runs, in the order of their names.
    elsewhere : int
        Bytes of everything else: reports of collections, reproductions, what is not ours.
    """

    stored: tuple[Stored, ...]
    elsewhere: int

    @property
    def total(self) -> int:
        """Bytes of everything."""
        return self.elsewhere + sum(each.total for each in self.stored)

    @property
    def freed_by_clean(self) -> int:
        """Bytes that failed and interrupted runs have left."""
        return sum(each.sizes["unfinished"] for each in self.stored)


def inventory(results: Path) -> Inventory:
    """Look at everything in a results directory, once."""
    stored, elsewhere = [], 0
    for experiment in _entries(results):
        if not _is_directory(experiment):
            elsewhere += _own(experiment)
            continue
        elsewhere += _own(experiment)
        for testbed in _entries(Path(experiment.path)):
            found = _stored(experiment.name, testbed)
            if found.complete or found.failed:
                stored.append(found)
            else:
                elsewhere += found.total
    return Inventory(tuple(stored), elsewhere)


def _stored(experiment: str, testbed: os.DirEntry[str]) -> Stored:
    sizes: Counter[Kind] = Counter(dict.fromkeys(KINDS, 0))
    sizes["rest"] += _own(testbed)
    complete = failed = 0
    for entry in _entries(Path(testbed.path)) if _is_directory(testbed) else ():
        if entry.name.endswith(PARTIAL):
            failed += 1
            sizes["unfinished"] += _all_of(entry)
        elif _is_directory(entry) and Path(entry.path, _RUN.spec.name).exists():
            complete += 1
            sizes["rest"] += _own(entry)
            for part in _entries(Path(entry.path)):
                sizes[_KIND_OF.get(part.name, "rest")] += _all_of(part)
        else:
            sizes["rest"] += _all_of(entry)
    return Stored(experiment, testbed.name, complete, failed, dict(sizes))


def occupied(path: Path, but: Container[str] = ()) -> int:
    """Give the bytes on disk of a directory and everything in it; 0 if it is not there.

    Parameters
    ----------
    path : Path
        What is there may come and go meanwhile.
    but : container of str
        Paths of directories in it that are left out.
    """
    try:
        own = path.lstat().st_blocks * _BLOCK
    except OSError:
        return 0
    return own + sum(_all_of(entry, but) for entry in _entries(path))


def _all_of(entry: os.DirEntry[str], but: Container[str] = ()) -> int:
    if not _is_directory(entry):
        return _own(entry)
    if entry.path in but:
        return 0
    return _own(entry) + sum(_all_of(inner, but) for inner in _entries(Path(entry.path)))


def _own(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_blocks * _BLOCK
    except OSError:  # gone meanwhile
        return 0


def _is_directory(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False)


def _entries(directory: Path) -> Iterator[os.DirEntry[str]]:
    """Yield what is in a directory, by name; nothing if it is none, or not ours to read."""
    try:
        with os.scandir(directory) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        return
    yield from entries


def readable(size: int) -> str:
    """Write a number of bytes for a reader, rounded to three digits.

    Examples
    --------
    >>> readable(0), readable(61_440), readable(1_234_567_890), readable(999_999)
    ('0 B', '61.4 kB', '1.23 GB', '1000 kB')
    """
    unit = next((unit for unit in ("GB", "MB", "kB") if size >= SIZE.units[unit]), "B")
    value = float(size / SIZE.units[unit])
    places = 0 if unit == "B" or value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{places}f} {unit}"


def is_full(directory: Path) -> bool:
    """Tell whether the disk that a directory is on has no room left to speak of."""
    try:
        return free_bytes(directory) < _NO_ROOM
    except OSError:
        return False


#: Text and counters of a run compress fivefold at this level, at some 100 MB/s.
LEVEL = 3


class ArchiveError(LabError):
    """An archive is damaged, or must not be unpacked."""


def sha256(content: bytes) -> str:
    """Return the hash by which the other side knows what was sent."""
    return hashlib.sha256(content).hexdigest()


def contents(root: Path) -> list[Path]:
    """List the directories and regular files below ``root``, relative to it, in name order."""
    found: list[Path] = []
    for directory, names, files in os.walk(root):
        below = Path(directory)
        found += [(below / name).relative_to(root) for name in (*names, *files)]
    return sorted(path for path in found if _plain(root / path))


def pack(root: Path, names: Iterable[Path]) -> bytes:
    """Pack what ``names`` (relative to ``root``) are; the same content gives the same bytes."""
    buffer = io.BytesIO()
    with (
        zstandard.ZstdCompressor(level=LEVEL).stream_writer(buffer, closefd=False) as sink,
        tarfile.open(fileobj=sink, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name in names:
            _add(tar, root, name)
    return buffer.getvalue()


def unpack(packed: bytes, root: Path) -> None:
    """Unpack what :func:`pack` made into ``root``, which has to be new or empty.

    Raises
    ------
    ArchiveError
        If it is damaged, a name leads out of ``root`` or occurs twice, or anything in it is neither
        a directory nor a regular file.
    OSError
        If it cannot be written.
    """
    try:
        with (
            zstandard.ZstdDecompressor().stream_reader(packed) as source,
            tarfile.open(fileobj=source, mode="r|") as tar,
        ):
            for member in tar:
                _extract(tar, member, root / _inside(member.name))
    except (tarfile.TarError, zstandard.ZstdError, EOFError) as error:
        raise ArchiveError(f"the archive is damaged: {error}") from None
    except FileExistsError as error:
        raise ArchiveError(f"the archive holds a name twice: {error.filename}") from None


def _plain(path: Path) -> bool:
    return not path.is_symlink() and (path.is_dir() or path.is_file())


def _add(tar: tarfile.TarFile, root: Path, name: Path) -> None:
    path = root / name
    member = tarfile.TarInfo(name.as_posix())
    if path.is_dir():
        member.type = tarfile.DIRTYPE
        tar.addfile(member)
        return
    with path.open("rb") as content:
        status = os.fstat(content.fileno())
        member.size, member.mode = status.st_size, 0o644 | status.st_mode & 0o111
        tar.addfile(member, content)


def _inside(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or not path.parts or ".." in path.parts:
        raise ArchiveError(f"the archive holds a name outside its directory: '{name}'")
    return path


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
        return
    content = tar.extractfile(member) if member.isreg() else None
    if content is None:
        message = f"the archive holds '{member.name}', neither a file nor a directory"
        raise ArchiveError(message)
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as sink:  # follows no link and replaces nothing
        shutil.copyfileobj(content, sink)
    if member.mode & 0o100:
        target.chmod(0o755)


#: Headers of bulk flows compress about sixfold at this level, at some 300 MB/s.
CAPTURE_LEVEL = 3


def compress(run: RunFiles) -> list[Path]:
    """Replace every capture of ``run`` by its compressed form."""
    return [_packed(capture) for capture in sorted(run.pcap.glob("*.pcap"))]


def compress_lists(run: RunFiles) -> list[Path]:
    """Replace every binary list of ``run``, such as retransmissions, by its compressed form."""
    return [_packed(found) for found in sorted(run.stats.glob("*.bin"))]


def _packed(path: Path) -> Path:
    target = path.with_name(f"{path.name}.zst")
    with path.open("rb") as source, target.open("wb") as sink:
        packer = zstandard.ZstdCompressor(
            level=CAPTURE_LEVEL, write_checksum=True
        )  # tells damage later
        packer.copy_stream(source, sink)
    path.unlink()
    return target
