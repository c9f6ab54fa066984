"""The one place that makes the directories and files that are ours, and says why one cannot be.

Nothing is made through a symbolic link, which would put it elsewhere: what is there in place of a
file of ours, or of a directory that has to be new, is refused.  The directory that holds them may
be a link to one that exists: results on another disk.
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

# os.path says no where Path raises, of what nobody may look at; Path.open has no opener.
# ruff: noqa: PTH105, PTH110, PTH112, PTH113, PTH114, PTH115


#: The disk is full, or the user's quota on it.
_FULL = (errno.ENOSPC, errno.EDQUOT)
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)


def make_directory(path: Path, *, new: bool = False) -> None:
    """Make a directory and those above it; one that is there does, unless it has to be new.

    Raises
    ------
    LabError
        If it cannot be made, or is there although it has to be new.
    """
    try:
        path.mkdir(parents=True, exist_ok=not new)
    except OSError as error:
        raise refused(path, error) from None


def write(path: Path, content: bytes) -> None:
    """Write a file so that a reader never sees half of it; what is there is replaced.

    Raises
    ------
    LabError
        If it cannot be written, or a symbolic link is there.
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
    """Refuse a file, or a directory, that a user wants written and that cannot be: before any work.

    The directory that it is to be in has to be there: one that is misspelt is not made.

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
        raise RequestError(f"is not {kind}", where=str(path), hint="choose another name")
    place = path if there and directory else above
    if not os.access(place, os.W_OK | os.X_OK):
        raise refused(path, PermissionError(errno.EACCES, f"{place} is read-only", str(path)))


def opened(path: Path, mode: str) -> IO[Any]:
    """Open a file of ours to write it: no link is followed, and no pipe awaits its reader.

    Raises
    ------
    LabError
        If it cannot be opened, or is none.
    """

    def ours(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)

    try:
        return open(path, mode, opener=ours)
    except OSError as error:
        raise refused(path, error) from None


def remove(path: Path) -> None:
    """Remove a directory with what is in it; a link to one alone, not what it leads to."""
    if os.path.islink(path):
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


def refused(path: Path, error: OSError) -> LabError:
    """Say why nothing can be made at ``path``, and what to try."""
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
        hint = f"`rm -r {shlex.quote(str(at))}`, if it is not needed"
        return RequestError("is there already, and is not replaced", where=str(at), hint=hint)
    hint = "name a place that you may write in" if error.errno in _REFUSED else ""
    return LabError(f"cannot be written: {error.strerror or error}", where=str(at), hint=hint)


def is_disk_full(error: Exception | None) -> bool:
    """Tell whether something could not be written because there was no room left."""
    full = isinstance(error, OSError) and error.errno in _FULL
    return full or isinstance(error, DiskFullError)


def free_bytes(path: Path) -> int:
    """Give the room on the disk that a directory is on, or will be on once it is made."""
    place = path.absolute()
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def _link(path: Path) -> RequestError:
    target = os.readlink(path)
    remove_it = f"`rm {shlex.quote(str(path))}`"
    if os.path.exists(path):
        message = f"is a symbolic link to {target}, and nothing is made through one"
        return RequestError(message, where=str(path), hint=remove_it)
    full = shlex.quote(str(path.parent / target))
    return RequestError(
        f"is a symbolic link to {target}, which does not exist",
        where=str(path),
        hint=f"`mkdir -p {full}`, or {remove_it}",
    )
