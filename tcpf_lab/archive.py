"""A directory as one string of bytes, to be sent elsewhere: tar in zstandard.

Only directories and regular files are packed or unpacked, and nothing that is unpacked leaves its
directory or replaces a file.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import zstandard

from tcpf_lab.errors import LabError

#: Text and counters of a run compress fivefold at this level, at some 100 MB/s.
LEVEL = 3


class ArchiveError(LabError):
    """What arrived is not what was sent, or is not an archive that may be unpacked."""


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
        raise ArchiveError(f"a damaged archive: {error}") from None
    except FileExistsError as error:
        raise ArchiveError(f"a name occurs twice in an archive: {error.filename}") from None


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
        raise ArchiveError(f"a name in an archive leads elsewhere: '{name}'")
    return path


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
        return
    content = tar.extractfile(member) if member.isreg() else None
    if content is None:
        raise ArchiveError(f"neither a file nor a directory in an archive: '{member.name}'")
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as sink:  # follows no link and replaces nothing
        shutil.copyfileobj(content, sink)
    if member.mode & 0o100:
        target.chmod(0o755)
