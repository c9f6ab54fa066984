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
from dataclasses import dataclass
from pathlib import Path
from typing import IO

#: A file that holds more than this is not kept: larger guests run for long.
KEPT_BYTES = 384 * 2**20
#: Guests after which huge pages are worth it: they cost what they save in four to ten runs.
HUGE_AFTER = 4


@dataclass
class Memory:
    """A file without a name that holds the memory of one guest at a time."""

    file: IO[bytes]
    guests: int = 0  #: that have had it

    @property
    def environment(self) -> dict[str, str]:
        """What tells the guest's kernel of it (patch ``0018``)."""
        huge = {"UML_MEMORY_HUGE": "1"} if self.guests >= HUGE_AFTER else {}
        return {"UML_MEMORY_FD": str(self.file.fileno()), **huge}

    @property
    def held_bytes(self) -> int:
        """What it takes of its file system."""
        return os.fstat(self.file.fileno()).st_blocks * 512


_kept: dict[Path, Memory] = {}


@contextmanager
def memory_file(directory: Path, empty: bool = False) -> Iterator[Memory]:
    """Give a file in ``directory`` that no other guest uses.

    It is kept for this process's next guest, which finds the old contents unless it asks for an
    ``empty`` one, except after an exception: then this guest may not have ended.

    Raises
    ------
    OSError
        If it cannot be made.
    """
    memory = _kept.pop(directory, None)
    if memory is None:
        memory = Memory(tempfile.TemporaryFile(dir=directory))  # noqa: SIM115
    if empty:
        memory.file.truncate(0)
        memory.guests = 0
    try:
        yield memory
    except BaseException:
        memory.file.close()
        raise
    memory.guests += 1
    if directory in _kept or memory.held_bytes > KEPT_BYTES:
        memory.file.close()
    else:
        _kept[directory] = memory


def kept_bytes(directory: Path) -> int:
    """Return what this process's next guest need not take of the space in ``directory``."""
    return _kept[directory].held_bytes if directory in _kept else 0


def _leave_to_parent() -> None:
    """A process that was forked gives its guests other files than its parent."""
    for memory in _kept.values():
        memory.file.close()
    _kept.clear()


os.register_at_fork(after_in_child=_leave_to_parent)
