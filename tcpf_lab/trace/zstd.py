"""Notice that zstd data end within a frame, which their unpacker does not tell."""

from __future__ import annotations

import io
from typing import Any

_MAGIC = b"\x28\xb5\x2f\xfd"
_BLOCK_HEADER, _SKIPPABLE_HEADER, _CHECKSUM = 3, 8, 4
_RUN = 1


class ZstdFrames(io.RawIOBase):
    """Hand zstd data on and follow their frames and blocks (RFC 8878, section 3.1).

    Raises
    ------
    EOFError
        On reading, where the data end within a frame.
    """

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._head = bytearray()
        self._skip = 0
        self._need = len(_MAGIC) + 1
        self._in_blocks = False
        self._checksum = 0

    def readable(self) -> bool:
        """Whether it can be read: always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read, and follow what was read."""
        count = int(self._raw.readinto(buffer) or 0)
        if count:
            self._follow(memoryview(buffer)[:count])
        elif self._skip or self._head or self._in_blocks:
            raise EOFError("the last frame is not whole")
        return count

    def _follow(self, data: memoryview) -> None:
        at = 0
        while at < len(data):
            if self._skip:
                step = min(self._skip, len(data) - at)
                self._skip -= step
            else:
                step = min(self._need - len(self._head), len(data) - at)
                self._head += data[at : at + step]
                if len(self._head) == self._need:
                    self._header()
            at += step

    def _header(self) -> None:
        """Take the header that is complete now, of a block or a frame."""
        head, self._head = self._head, bytearray()
        if self._in_blocks:
            bits = int.from_bytes(head, "little")
            self._skip = 1 if bits >> 1 & 3 == _RUN else bits >> 3
            if bits & 1:
                self._skip += self._checksum
                self._in_blocks, self._need = False, len(_MAGIC) + 1
        elif head[:4] == _MAGIC:
            self._skip, self._checksum = _frame_header(head[4])
            self._in_blocks, self._need = True, _BLOCK_HEADER
        elif len(head) < _SKIPPABLE_HEADER:
            self._head, self._need = head, _SKIPPABLE_HEADER
        else:
            self._skip = int.from_bytes(head[4:], "little")
            self._need = len(_MAGIC) + 1


def _frame_header(descriptor: int) -> tuple[int, int]:
    """Bytes of a frame's header behind its descriptor, and of its checksum."""
    single = descriptor >> 5 & 1
    content = (single, 2, 4, 8)[descriptor >> 6]
    dictionary = (0, 1, 2, 4)[descriptor & 3]
    return 1 - single + dictionary + content, _CHECKSUM * (descriptor >> 2 & 1)
