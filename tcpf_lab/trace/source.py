"""The bytes of a capture, piece by piece: from a file or standard input, unpacked on the way."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from tcpf_lab.errors import TraceError
from tcpf_lab.trace.zstd import ZstdFrames

_LONGEST_MAGIC = 6
#: An unpacker that stops keeps back what it had unpacked for the same request, so requests to one
#: that only gives all or nothing are small.
_PIECE = 4096


class _Rejoined(io.RawIOBase):
    """A stream whose first bytes were read already, to see what it is."""

    def __init__(self, head: bytes, rest: Any) -> None:
        self._head, self._rest = memoryview(head), rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._head:
            return int(self._rest.readinto(buffer) or 0)
        count = min(len(buffer), len(self._head))
        buffer[:count] = self._head[:count]
        self._head = self._head[count:]
        return count


def _zstd(raw: Any) -> Any:
    import zstandard  # here and below, because a plain capture should not pay for the import

    frames: Any = ZstdFrames(raw)
    return zstandard.ZstdDecompressor().stream_reader(frames, read_across_frames=True)


def _lz4(raw: Any) -> Any:
    import pyarrow

    return pyarrow.CompressedInputStream(pyarrow.PythonFile(raw, mode="r"), "lz4")


#: First bytes -> name, what unpacks it.
_PACKERS: dict[bytes, tuple[str, Callable[[Any], Any]]] = {
    b"\x28\xb5\x2f\xfd": ("zstd", _zstd),
    b"\x1f\x8b": ("gzip", lambda raw: gzip.GzipFile(fileobj=raw)),
    b"\xfd7zXZ\0": ("xz", lzma.LZMAFile),
    b"BZh": ("bzip2", bz2.BZ2File),
    b"\x04\x22\x4d\x18": ("lz4", _lz4),
}


def _damage() -> tuple[type[Exception], ...]:
    """Exceptions by which the unpackers say that their input is damaged."""
    found: list[type[Exception]] = [OSError, EOFError, zlib.error, lzma.LZMAError]
    if "zstandard" in sys.modules:
        found.append(sys.modules["zstandard"].ZstdError)
    return tuple(found)


class Source:
    """The bytes of one capture.

    Parameters
    ----------
    path : Path or str
        A file; ``-`` is standard input.  What is packed with zstd, gzip, xz, bzip2 or lz4 is
        recognised by its first bytes, whatever its name.

    Attributes
    ----------
    name : str
        The path as text.
    packed : str
        What it is packed with; empty if it is not.
    problem : str
        Why the unpacker stopped early; empty if it did not.

    Raises
    ------
    TraceError
        If the file is missing or cannot be read.
    """

    def __init__(self, path: Path | str) -> None:
        self.name = str(path)
        self.problem = ""
        self._file: IO[bytes] | None = None
        raw: Any = self._standard_input() if self.name == "-" else self._opened()
        head = self._guarded(lambda: _first(raw))
        self.packed, unpacker = next(
            (found for magic, found in _PACKERS.items() if head.startswith(magic)), ("", None)
        )
        rejoined = _Rejoined(head, raw)
        self._stream: Any = unpacker(rejoined) if unpacker else rejoined
        self._unpack: Callable[[memoryview], int] = getattr(self._stream, "readinto1", self._piece)

    def _opened(self) -> IO[bytes]:
        try:
            self._file = Path(self.name).open("rb", buffering=0)  # noqa: SIM115 - closed by close
        except FileNotFoundError:
            raise TraceError("no such capture", where=self.name) from None
        except OSError as error:
            raise self._unreadable(error) from None
        return self._file

    def _standard_input(self) -> IO[bytes]:
        if sys.stdin is None:  # the process was started without one
            hint = "name a file, or give one: - < FILE"
            raise TraceError("standard input is closed", where=self.name, hint=hint)
        return sys.stdin.buffer

    def _unreadable(self, error: OSError) -> TraceError:
        hint = "name a capture in it" if isinstance(error, IsADirectoryError) else ""
        message = f"cannot read the capture: {error.strerror or error}"
        return TraceError(message, where=self.name, hint=hint)

    def _guarded(self, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except OSError as error:
            raise self._unreadable(error) from None

    def read_into(self, buffer: memoryview) -> int:
        """Read what is there, at most ``len(buffer)`` bytes; their number, 0 at the end.

        Damaged packed data end the capture behind what could be unpacked, and `problem` says so.
        """
        if not self.packed:
            return int(self._guarded(lambda: self._stream.readinto(buffer)) or 0)
        count = 0
        try:
            while not self.problem and count < len(buffer):
                unpacked = self._unpack(buffer[count:])
                if not unpacked:
                    break
                count += unpacked
        except _damage() as error:
            if isinstance(error, OSError) and error.errno:
                raise self._unreadable(error) from None
            self.problem = f"damaged {self.packed} data: {error}"
        return count

    def _piece(self, buffer: memoryview) -> int:
        return int(self._stream.readinto(buffer[:_PIECE]) or 0)

    @property
    def position(self) -> int:
        """Bytes of the file that were read so far, packed as they are; 0 for standard input."""
        return self._file.tell() if self._file and self._file.seekable() else 0

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self._file:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _first(raw: Any) -> bytes:
    """Read the first bytes of a stream, fewer only where it ends."""
    head = bytearray(_LONGEST_MAGIC)
    view, size = memoryview(head), 0
    while size < len(head) and (count := raw.readinto(view[size:])):
        size += count
    return bytes(head[:size])
