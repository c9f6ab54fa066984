"""Archives in cpio's ``newc`` format, which a kernel unpacks into its first root."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

_DIRECTORY, _FILE, _PROGRAM, _LINK = 0o040755, 0o100600, 0o100755, 0o120777
_END = "TRAILER!!!"


@dataclass(frozen=True)
class Entry:
    """A file of the archive; its directories need not be named."""

    content: bytes
    mode: int = _PROGRAM


def program(content: bytes) -> Entry:
    """Return a file that everyone may read and run."""
    return Entry(content)


def private(content: bytes) -> Entry:
    """Return a file for its owner alone, as keys must be."""
    return Entry(content, _FILE)


def link(target: str) -> Entry:
    """Return a symbolic link."""
    return Entry(target.encode(), _LINK)


def archive(entries: Mapping[str, Entry], directories: tuple[str, ...] = ()) -> bytes:
    """Return the archive; the same entries give the same bytes.

    Parameters
    ----------
    entries : mapping
        Name, without a slash in front, to what is there.
    directories : tuple of str
        Directories that are to exist even if they are empty.
    """
    parents = {str(parent) for name in entries for parent in PurePosixPath(name).parents}
    every = {name: Entry(b"", _DIRECTORY) for name in sorted((parents | {*directories}) - {"."})}
    every |= entries
    blocks = [_block(number, name, entry) for number, (name, entry) in enumerate(every.items(), 1)]
    return b"".join((*blocks, _block(0, _END, Entry(b"", 0))))


def _block(number: int, name: str, entry: Entry) -> bytes:
    links, no_time, no_owner, device = 1, 0, (0, 0), (0, 0, 0, 0)
    size = len(entry.content)
    words = (number, entry.mode, *no_owner, links, no_time, size, *device, len(name) + 1, 0)
    header = b"070701" + "".join(f"{word:08x}" for word in words).encode()
    return _padded(header + name.encode() + b"\0") + _padded(entry.content)


def _padded(block: bytes) -> bytes:
    return block + bytes(-len(block) % 4)
