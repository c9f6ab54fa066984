"""Read numbers of 16, 32 and 64 bits out of bytes, in compiled code.

Offsets become unsigned first: numba takes a signed index for one that may count from the end, and
that test keeps the compiler from making one load of several bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.trace.jit import inlined

Bytes = NDArray[np.uint8]


@inlined
def byte(data: Bytes, at: Any) -> Any:
    """Read one byte as a signed 64-bit number: sums of mixed sign would become floats."""
    return np.int64(data[np.uint64(at)])


@inlined
def u16(data: Bytes, at: Any) -> Any:
    """Read 16 bits in network order."""
    i = np.uint64(at)
    return (np.int64(data[i]) << 8) | np.int64(data[i + np.uint64(1)])


@inlined
def u32(data: Bytes, at: Any) -> Any:
    """Read 32 bits in network order."""
    i = np.uint64(at)
    high = (np.int64(data[i]) << 24) | (np.int64(data[i + np.uint64(1)]) << 16)
    low = (np.int64(data[i + np.uint64(2)]) << 8) | np.int64(data[i + np.uint64(3)])
    return high | low


@inlined
def u64(data: Bytes, at: Any) -> Any:
    """Read 64 bits in network order, as an unsigned number."""
    return (np.uint64(u32(data, at)) << np.uint64(32)) | np.uint64(u32(data, at + 4))


@inlined
def host16(data: Bytes, at: Any, big: Any) -> Any:
    """Read 16 bits in the byte order of the machine that wrote the capture."""
    if big:
        return u16(data, at)
    i = np.uint64(at)
    return np.int64(data[i]) | (np.int64(data[i + np.uint64(1)]) << 8)


@inlined
def host32(data: Bytes, at: Any, big: Any) -> Any:
    """Read 32 bits in the byte order of the machine that wrote the capture."""
    if big:
        return u32(data, at)
    i = np.uint64(at)
    low = np.int64(data[i]) | (np.int64(data[i + np.uint64(1)]) << 8)
    high = (np.int64(data[i + np.uint64(2)]) << 16) | (np.int64(data[i + np.uint64(3)]) << 24)
    return high | low
