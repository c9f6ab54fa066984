"""Binary lists that a guest wrote, as they were or in zstandard."""

from __future__ import annotations

from pathlib import Path

import zstandard

from tcpf_lab.metrics.evidence import UnreadableError

#: Bytes; no run has so long a list, and a few kilobytes can unpack to any number.
MOST = 10**9


def content(path: Path) -> bytes:
    """Read a whole list.

    Parameters
    ----------
    path : Path
        The list, or its ``.zst``.

    Raises
    ------
    FileNotFoundError
        If it is missing.
    UnreadableError
        If it cannot be read, is damaged, or unpacks to more than `MOST` bytes.
    """
    try:
        if path.suffix != ".zst":
            return path.read_bytes()
        return _unpacked(path)
    except FileNotFoundError:
        raise
    except (OSError, zstandard.ZstdError) as error:
        raise UnreadableError(f"cannot be read: {error}") from None


def _unpacked(path: Path) -> bytes:
    found = bytearray()
    with path.open("rb") as packed:
        for block in zstandard.ZstdDecompressor().read_to_iter(packed):
            found += block
            if len(found) > MOST:
                raise UnreadableError(f"unpacks to more than {MOST} bytes: no run has such a list")
    return bytes(found)
