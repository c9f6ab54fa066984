"""Create directories and write files; an error names what is in the way.

Nothing is written through a symbolic link. A results directory may itself be a link to an existing
directory, such as one on another disk.
"""

from __future__ import annotations

import errno
import os
import shlex
import shutil
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from tcpf_lab.base.errors import DiskFullError, LabError, RequestError

# os.path returns False where Path raises (no permission); Path.open has no opener.
# ruff: noqa: PTH105, PTH110, PTH112, PTH113, PTH114, PTH115


#: The disk is full, or the user's quota on it.
_FULL = (errno.ENOSPC, errno.EDQUOT)
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)


def make_directory(path: Path, *, new: bool = False) -> None:
    """Create a directory and its parents.

    Raises
    ------
    LabError
        If it cannot be created, or it exists and ``new`` is set.
    """
    try:
        path.mkdir(parents=True, exist_ok=not new)
    except OSError as error:
        raise refused(path, error) from None


def write(path: Path, content: bytes) -> None:
    """Write a file atomically, replacing an existing one.

    Raises
    ------
    LabError
        If it cannot be written, or ``path`` is a symbolic link.
    """
    if os.path.islink(path):
        raise _link(path)
    temporary = path.with_name(path.name + ".new")
    file = opened(temporary, "wb")
    try:
        with file:
            file.write(content)
        os.replace(temporary, path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        error.filename = str(path)
        raise refused(path, error) from None


def require_place(path: Path, *, directory: bool = False) -> None:
    """Refuse an output file or directory that cannot be written, before any work.

    Its parent must exist, so that a misspelt one is not created.

    Raises
    ------
    RequestError
        Naming what is in the way, and the command that helps.
    """
    above, there = path.parent, os.path.lexists(path)
    if os.path.islink(path) and not (directory and os.path.isdir(path)):
        raise _link(path)
    if not os.path.lexists(above):
        hint = f"`mkdir -p {shlex.quote(str(above))}`"
        raise RequestError("no such directory", where=str(above), hint=hint)
    if not os.path.isdir(above):
        raise refused(path, FileExistsError(errno.EEXIST, "", str(above)))
    if there and not (os.path.isdir(path) if directory else os.path.isfile(path)):
        kind = "a directory" if directory else "a regular file"
        raise RequestError(f"exists and is not {kind}", where=str(path), hint="choose another name")
    place = path if there and directory else above
    if not os.access(place, os.W_OK | os.X_OK):
        raise refused(path, PermissionError(errno.EACCES, f"{place} is read-only", str(path)))


def opened(path: Path, mode: str) -> IO[Any]:
    """Open a file for writing without following a link or blocking on a pipe.

    Raises
    ------
    LabError
        If it cannot be opened.
    """

    def no_follow(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)

    try:
        return open(path, mode, opener=no_follow)
    except OSError as error:
        raise refused(path, error) from None


def remove(path: Path) -> None:
    """Remove a directory and its contents; of a symbolic link only the link."""
    if os.path.islink(path):
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


def refused(path: Path, error: OSError) -> LabError:
    """Return the error for a ``path`` that could not be created or written, with a hint."""
    if is_disk_full(error):
        return DiskFullError("the disk is full", where=str(path))
    at = Path(os.fsdecode(error.filename or path))
    for place in (at, *at.parents):
        if os.path.islink(place) and (place == at or not os.path.exists(place)):
            return _link(place)
        if os.path.lexists(place) and (place != at or error.errno == errno.EEXIST):
            if not os.path.isdir(place):
                return RequestError("is a file, not a directory", where=str(place))
            break
    if error.errno == errno.EEXIST:
        hint = f"`rm -r {shlex.quote(str(at))}`, if you do not need it"
        return RequestError("already exists", where=str(at), hint=hint)
    hint = "choose a directory that you may write to" if error.errno in _REFUSED else ""
    return LabError(f"cannot be written: {error.strerror or error}", where=str(at), hint=hint)


def is_disk_full(error: Exception | None) -> bool:
    """Return whether an error means that the disk, or the quota on it, is full."""
    full = isinstance(error, OSError) and error.errno in _FULL
    return full or isinstance(error, DiskFullError)


def free_bytes(path: Path) -> int:
    """Return the free bytes of the disk that holds, or would hold, a directory."""
    place = path.absolute()
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def _link(path: Path) -> RequestError:
    target = os.readlink(path)
    remove_it = f"`rm {shlex.quote(str(path))}`"
    if os.path.exists(path):
        message = f"is a symbolic link to {target}; tcpf-lab writes through no link"
        return RequestError(message, where=str(path), hint=remove_it)
    full = shlex.quote(str(path.parent / target))
    return RequestError(
        f"is a symbolic link to {target}, which does not exist",
        where=str(path),
        hint=f"`mkdir -p {full}`, or {remove_it}",
    )
