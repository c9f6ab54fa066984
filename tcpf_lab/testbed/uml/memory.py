"""Files that hold guests' memory, given from one guest of a process to the next.

A page's first touch, which the host finds and clears it for, costs more than what a short run does
with it; a page that an earlier guest has touched costs next to nothing.  A guest finds old contents
in memory that it has not written, as real hardware does after a reset.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

#: A file that holds more than this is not kept: larger guests run for long.
KEPT_BYTES = 256 * 2**20
_kept: dict[Path, IO[bytes]] = {}


@contextmanager
def memory_file(directory: Path) -> Iterator[int]:
    """Give a file in ``directory``, without a name, that no other guest uses, as a descriptor.

    It is kept for this process's next guest unless an exception says that this one may not have
    ended.

    Raises
    ------
    OSError
        If it cannot be made.
    """
    file = _kept.pop(directory, None) or tempfile.TemporaryFile(dir=directory)  # noqa: SIM115
    try:
        yield file.fileno()
    except BaseException:
        file.close()
        raise
    if directory in _kept or _held(file) > KEPT_BYTES:
        file.close()
    else:
        _kept[directory] = file


def kept_bytes(directory: Path) -> int:
    """Return what this process's next guest need not take of the space in ``directory``."""
    return _held(_kept[directory]) if directory in _kept else 0


def _held(file: IO[bytes]) -> int:
    return os.fstat(file.fileno()).st_blocks * 512


def _leave_to_parent() -> None:
    """A process that was forked gives its guests other files than its parent."""
    for file in _kept.values():
        file.close()
    _kept.clear()


os.register_at_fork(after_in_child=_leave_to_parent)
