"""Read a whole capture into arrays: pcap or pcapng, plain or packed, a file or standard input."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path

from tcpf_lab import _trace
from tcpf_lab.errors import TraceError, path_text
from tcpf_lab.trace.events import CaptureInfo
from tcpf_lab.trace.packet import Packets

_HINT = "accept a truncated end, if the capturing program was killed"


@dataclass(frozen=True, kw_only=True)
class Capture(CaptureInfo):
    """One capture in memory: its IP packets, in the order of the capture."""

    packets: Packets


def read_capture(path: Path | str, *, accept_truncated: bool = False) -> Capture:
    """Read a capture into arrays.

    Parameters
    ----------
    path : Path or str
        A pcap or pcapng file, plain or packed with zstd, gzip, xz, bzip2 or lz4; ``-`` is standard
        input.
    accept_truncated : bool
        Take a capture that ends within a record (its writer was killed) up to there, and what is
        credible of one that is damaged behind the first record, with a warning.

    Raises
    ------
    TraceError
        Missing, empty, no capture, damaged, or truncated.
    """
    info, packets, hint = _trace.read(os.fspath(path))
    name = path_text(path)
    if info["truncated"] and not accept_truncated:
        raise TraceError(info["truncated"], where=name, hint=hint or _HINT)
    if info["truncated"]:
        warnings.warn(f"{name}: {info['truncated']}", stacklevel=2)
    return Capture(name=name, packets=packets, **info)


def read_between(path: Path | str, src: bytes, sport: int, dst: bytes, dport: int) -> Packets:
    """Read the packets between two ends, in both directions, and keep no others.

    Parameters
    ----------
    path : Path or str
        As for `read_capture`; what is whole before damage is read.
    src, dst : bytes
        Addresses as in `tcpf_lab.trace.events.FLOW`: 16 bytes, an IPv4 one as ``::ffff:a.b.c.d``.
    sport, dport : int
        Ports.
    """
    return _trace.read(os.fspath(path), (src, sport, dst, dport))[1]
