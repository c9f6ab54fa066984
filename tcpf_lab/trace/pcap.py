"""Read classic pcap captures: plain or zstd, from a file or standard input."""

from __future__ import annotations

import mmap
import struct
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tcpf_lab.errors import TraceError
from tcpf_lab.trace import scan as scanner
from tcpf_lab.trace.packet import PACKET, Packets

_HEADER = 24
_MAGIC = {
    b"\xd4\xc3\xb2\xa1": (False, 1000),
    b"\xa1\xb2\xc3\xd4": (True, 1000),
    b"\x4d\x3c\xb2\xa1": (False, 1),
    b"\xa1\xb2\x3c\x4d": (True, 1),
}
_ZSTD = b"\x28\xb5\x2f\xfd"
_FOREIGN = {
    b"\x0a\x0d\x0d\x0a": (
        "a pcapng capture; only classic pcap is read",
        "convert it: tcpdump -r {file} -w capture.pcap (or: editcap -F pcap {file} capture.pcap)",
    ),
    b"\x1f\x8b": ("compressed with gzip", "unpack it: gzip -dc {file} | tcpf-lab analyze -"),
    b"\xfd7zXZ": ("compressed with xz", "unpack it: xz -dc {file} | tcpf-lab analyze -"),
}
_LINKS = {
    scanner.NULL: "BSD loopback",
    scanner.ETHERNET: "Ethernet",
    scanner.RAW_OPENBSD: "raw IP",
    scanner.RAW_BSD: "raw IP",
    scanner.RAW: "raw IP",
    scanner.LOOP: "OpenBSD loopback",
    scanner.SLL: "Linux cooked",
    scanner.RAW_IPV4: "raw IPv4",
    scanner.RAW_IPV6: "raw IPv6",
    scanner.SLL2: "Linux cooked v2",
}
#: libpcap refuses to write longer records (MAXIMUM_SNAPLEN).
_LARGEST_RECORD = 262_144


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
    short : int
        Records whose IP or TCP header was cut off by the snapshot length.
    truncated : str
        What is wrong with the end of the file; empty if it is whole.
    data : buffer
        The capture's bytes (`tcpf_lab.trace.packet.address_text` wants them).
    """

    name: str
    packets: Packets
    records: int
    not_ip: int
    short: int
    truncated: str
    data: Any


def read_capture(path: Path | str, *, accept_truncated: bool = False) -> Capture:
    """Read a capture into arrays.

    Parameters
    ----------
    path : Path or str
        A pcap file, ``.zst`` or plain; ``-`` is standard input.
    accept_truncated : bool
        Take a capture whose last record is not whole (its writer was killed) with a warning.

    Raises
    ------
    TraceError
        Missing, empty, not a pcap, damaged, or truncated.

    Notes
    -----
    Format: https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-03.html.
    """
    name = str(path)
    data = _unpacked(_contents(name), name)
    layout = _layout(bytes(data[:_HEADER]), name)
    buffer = np.frombuffer(data, np.uint8)
    packets, counters, at, status = _scan(buffer, layout)
    problem = _problem(status, counters, at, buffer.size, name)
    if problem and (status == scanner.BROKEN or not accept_truncated):
        raise TraceError(problem.message, where=name, hint=problem.hint)
    if problem:
        warnings.warn(f"{name}: {problem.message}", stacklevel=2)
    records, not_ip, short = (int(value) for value in counters)
    return Capture(name, packets, records, not_ip, short, problem.message if problem else "", data)


def _contents(name: str) -> Any:
    """Bytes of the file, mapped where possible."""
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        with Path(name).open("rb") as file:
            if Path(name).is_file() and Path(name).stat().st_size:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return file.read()
    except FileNotFoundError:
        raise TraceError("no such capture", where=name) from None
    except OSError as error:
        raise TraceError(f"cannot read the capture: {error.strerror}", where=name) from None


def _unpacked(data: Any, name: str) -> Any:
    if data[:4] != _ZSTD:
        return data
    import zstandard  # here, because a plain capture should not pay for the import

    reader = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
    try:
        return reader.read()
    except zstandard.ZstdError as error:
        raise TraceError(f"damaged zstd data: {error}", where=name) from None


def _layout(head: bytes, name: str) -> tuple[bool, int, int, int]:
    """Byte order, nanoseconds per fraction, link type and largest record of a capture."""
    if not head:
        raise TraceError("the capture is empty (0 bytes)", where=name, hint="was tcpdump killed?")
    for magic, (message, hint) in _FOREIGN.items():
        if head.startswith(magic):
            raise TraceError(message, where=name, hint=hint.format(file=name))
    if head[:4] not in _MAGIC:
        raise TraceError(
            f"not a pcap capture: it begins with {head[:4].hex(' ')}",
            where=name,
            hint="give a capture written by 'tcpdump -w' (plain or .zst)",
        )
    if len(head) < _HEADER:
        raise TraceError(
            f"truncated in the file header: {len(head)} of {_HEADER} bytes", where=name
        )
    big, unit = _MAGIC[head[:4]]
    snaplen, link = struct.unpack(">II" if big else "<II", head[16:24])
    link &= 0xFFFF  # the upper bits describe frame check sequences
    if link not in _LINKS:
        known = ", ".join(f"{text} ({number})" for number, text in _LINKS.items())
        raise TraceError(f"unknown link type {link}; known are {known}", where=name)
    return big, unit, link, max(snaplen, _LARGEST_RECORD) if snaplen < 1 << 27 else _LARGEST_RECORD


def _scan(data: Any, layout: tuple[bool, int, int, int]) -> tuple[Packets, Any, int, int]:
    """Run the scanner, giving it more room when its guess of the number of packets was low."""
    room = data.size // 80 + 64
    packets, counters = np.zeros(room, PACKET), scanner.new_counters()
    at, row, status = scanner.scan(data, _HEADER, layout, packets, 0, counters)
    while status == scanner.FULL:
        room += int((data.size - at) / at * room * 1.1) + 64
        packets = np.concatenate([packets, np.zeros(room - packets.size, PACKET)])
        at, row, status = scanner.scan(data, at, layout, packets, row, counters)
    return packets[:row], counters, at, status


def _problem(status: int, counters: Any, at: int, size: int, name: str) -> TraceError | None:
    """Describe a capture that does not end where a record ends."""
    number = int(counters[scanner.RECORDS]) + 1
    place = f"packet {number} at byte {at}"
    whole = f"{number - 1} packets before it are whole"
    if status == scanner.CUT:
        return TraceError(
            f"truncated in {place}: {size - at} bytes are left of it; {whole}",
            where=name,
            hint="accept a truncated end, if the capturing program was killed",
        )
    if status == scanner.BROKEN:
        return TraceError(f"damaged: {place} has no credible header; {whole}", where=name)
    return None
