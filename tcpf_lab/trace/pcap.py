"""Read a whole capture into arrays: pcap or pcapng, plain or packed, a file or standard input."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tcpf_lab.errors import TraceError
from tcpf_lab.trace.packet import PACKET, Packets
from tcpf_lab.trace.reader import Reader
from tcpf_lab.trace.scan import FRAGMENTS, NOT_IP, NOT_TCP, RECORDS, SHORT

_HINT = "accept a truncated end, if the capturing program was killed"
#: Most bytes of a file per packet that are assumed when room is made for its packets.
_BYTES_PER_PACKET = 80


@dataclass(frozen=True)
class Capture:
    """One capture in memory.

    Attributes
    ----------
    name : str
        File name, or ``-``.
    packets : Packets
        Its IP packets.
    records : int
        All records, those that are not IP included.
    not_ip : int
        Records of other protocols.
    not_tcp : int
        IP packets of other protocols.
    fragments : int
        Later fragments of IP packets.
    short : int
        Records whose IP or TCP header was cut off by the snapshot length or contradicts itself.
    truncated : str
        What is wrong with the file; empty if it is whole.
    format : str
        ``pcap`` or ``pcapng``.
    link_types : tuple of int
        Link types of its interfaces.
    """

    name: str
    packets: Packets
    records: int
    not_ip: int
    not_tcp: int
    fragments: int
    short: int
    truncated: str
    format: str
    link_types: tuple[int, ...]


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
    with Reader(path) as reader:
        packets = _all(reader)
    if reader.truncated and not accept_truncated:
        raise TraceError(reader.truncated, where=reader.name, hint=reader.hint or _HINT)
    if reader.truncated:
        warnings.warn(f"{reader.name}: {reader.truncated}", stacklevel=2)
    counters = reader.counters
    return Capture(
        name=reader.name,
        packets=packets,
        records=int(counters[RECORDS]),
        not_ip=int(counters[NOT_IP]),
        not_tcp=int(counters[NOT_TCP]),
        fragments=int(counters[FRAGMENTS]),
        short=int(counters[SHORT]),
        truncated=reader.truncated,
        format=reader.format,
        link_types=reader.link_types,
    )


def _all(reader: Reader) -> Packets:
    """Every packet, in an array that grows."""
    path = Path(reader.name)
    size = path.stat().st_size if path.is_file() else 0
    packets, row = np.zeros(size // _BYTES_PER_PACKET + 4096, PACKET), 0
    while (filled := reader.fill(packets, row)) > row:
        row = filled
        if row == packets.size:
            packets = np.concatenate([packets, np.zeros(row // 2, PACKET)])
    return packets[:row]
