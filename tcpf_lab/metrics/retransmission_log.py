"""The senders' own word: every retransmission and probe that the kernel logged, and its cause.

A kernel with ``CONFIG_TCP_RETRANS_LOG`` (the project's patch 0007) keeps the list per network
namespace; a run has it as ``stats/retransmissions-<node>.bin.zst``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

from tcpf_lab.base.errors import TraceError
from tcpf_lab.metrics.record import UnreadableError
from tcpf_lab.results.layout import RunFiles

#: Bytes; no run has so long a list, and a few kilobytes can unpack to any number.
MOST = 10**9


def unpacked(path: Path) -> bytes:
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


#: What made the kernel send; the place is the number in the file.
CAUSES = (
    *("other", "rto", "fast", "recovery", "post_rto", "tlp", "tlp_new", "reordering_timer"),
    *("syn_rto", "synack_rto", "synack_asked", "synack_fast_open"),
    *("window_rto", "window_probe", "keepalive", "not_congestion"),
)
OTHER, RTO, FAST, RECOVERY, POST_RTO, TLP, TLP_NEW, REORDERING_TIMER = range(8)
SYN_RTO, SYNACK_RTO, SYNACK_ASKED, SYNACK_FAST_OPEN = range(8, 12)
WINDOW_RTO, WINDOW_PROBE, KEEPALIVE, NOT_CONGESTION = range(12, 16)
#: Bits of ``marks``: the device took it; first retransmission of a recovery; SACK was agreed on.
SENT, FIRST, SACK = 1, 2, 4
#: Bits of ``tcp_flags``.
FIN, SYN = 1, 2

#: An entry as the kernel writes it.  Sequence numbers are those of the packets, SYN and FIN count
#: as one each; ``rto_us`` is the RTO before this expiration doubled it; ``retransmits``
#: counts consecutive expirations, this one included; ``cwnd`` to ``segments`` are packets.
ENTRY = np.dtype(
    [
        ("time_ns", "<i8"),
        ("src", "u1", (16,)),
        ("dst", "u1", (16,)),
        ("sport", "<u2"),
        ("dport", "<u2"),
        ("seq", "<u4"),
        ("end", "<u4"),
        ("una", "<u4"),
        ("nxt", "<u4"),
        ("rto_us", "<u4"),
        ("srtt_us", "<u4"),
        ("cwnd", "<u4"),
        ("sacked", "<u2"),
        ("lost", "<u2"),
        ("retransmitted", "<u2"),
        ("segments", "<u2"),
        ("segment_size", "<u2"),
        ("cause", "u1"),
        ("state", "u1"),
        ("backoff", "u1"),
        ("retransmits", "u1"),
        ("tcp_flags", "u1"),
        ("marks", "u1"),
    ]
)
#: How a list begins; the last byte is its version.
MAGIC = b"tcpretr2"
#: These bytes, the size of an entry, how many are missing, how many follow.
HEAD = struct.Struct("<8sIIQ")
_PREFIX, _PLAIN, _PACKED = "retransmissions-", ".bin", ".bin.zst"


@dataclass(frozen=True)
class RetransmissionLog:
    """What one node logged.

    Attributes
    ----------
    entries : array of ENTRY, shape (n,)
        In the order of sending.
    missing : int
        Entries that the kernel had no memory for.
    """

    entries: NDArray[Any]
    missing: int


def read_log(path: Path) -> RetransmissionLog:
    """Read a node's list.

    Parameters
    ----------
    path : Path
        ``/proc/net/tcp_retransmissions`` as it was copied, or its ``.zst``.

    Raises
    ------
    TraceError
        If it cannot be read, is not such a list, or has fewer entries than its header states.
    """
    try:
        content = unpacked(path)
    except FileNotFoundError as error:
        raise TraceError(f"cannot be read: {error}", where=str(path)) from None
    except UnreadableError as error:
        raise TraceError(str(error), where=str(path)) from None
    if not content.startswith(MAGIC):
        if content.startswith(MAGIC[:-1]):
            raise _damaged(f"of another version: {content[:8]!r}, not {MAGIC!r}", str(path))
        raise TraceError(
            f"not a list of retransmissions: it begins with {content[:8]!r}, not {MAGIC!r}",
            where=str(path),
        )
    if len(content) < HEAD.size:
        raise _damaged(f"cut: {len(content)} of {HEAD.size} bytes of its head", str(path))
    _, size, missing, count = HEAD.unpack_from(content)
    rest = len(content) - HEAD.size
    if size != ENTRY.itemsize or rest % ENTRY.itemsize:
        raise _damaged(
            f"{rest} bytes after the head are not entries of {ENTRY.itemsize} bytes "
            f"(header: {size} bytes each)",
            f"{path}, byte {HEAD.size}",
        )
    entries = np.frombuffer(content, ENTRY, offset=HEAD.size)
    if entries.size < count:  # more than that: added while it was read
        raise _damaged(f"cut: {entries.size} of {count} entries", f"{path}, byte {len(content)}")
    return RetransmissionLog(entries, missing)


def _damaged(message: str, where: str) -> TraceError:
    hint = "repeat the run, or read it with the version that made it"
    return TraceError(message, where=where, hint=hint)


def read_logs(files: RunFiles) -> dict[str, RetransmissionLog]:
    """Read the lists of a run by node; empty if its kernel records none.

    Raises
    ------
    TraceError
        If one is damaged.
    """
    found = {}
    for path in sorted(files.stats.glob(f"{_PREFIX}*{_PLAIN}*")):
        node = path.name.removeprefix(_PREFIX).removesuffix(_PACKED).removesuffix(_PLAIN)
        found[node] = read_log(path)
    return found


def as_packets(entries: NDArray[Any]) -> NDArray[Any]:
    """Give an entry for every packet on the wire.

    Parameters
    ----------
    entries : array of ENTRY, shape (n,)
        One may stand for several segments, which the kernel cuts apart later.

    Returns
    -------
    array of ENTRY, shape (m,)
        In the same order, ``segments`` 1 each; what the device refused (mark `SENT` missing) is
        left out.
    """
    sent = entries[entries["marks"] & SENT > 0]
    count = np.where(sent["segment_size"] > 0, np.maximum(sent["segments"], 1), 1).astype(np.int64)
    packets = np.repeat(sent, count)
    place = np.arange(packets.size) - np.repeat(np.cumsum(count) - count, count)
    size = packets["segment_size"].astype(np.int64)
    begin = packets["seq"].astype(np.int64) + place * size
    last = place == np.repeat(count, count) - 1
    packets["seq"] = begin & 0xFFFFFFFF
    packets["end"] = np.where(last, packets["end"], (begin + size) & 0xFFFFFFFF)
    packets["segments"] = 1
    return packets
