"""Entries of the kernel's list of retransmissions, made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.metrics import retransmission_log as log

S, D = ([*[0] * 10, 255, 255, 10, 0, 0, last] for last in (1, 2))


def entry(cause: int, seq: int, **other: Any) -> NDArray[Any]:
    """Give one entry of flow 10.0.0.1:20000 > 10.0.0.2:5001, a segment of 1000 bytes, sent."""
    made = np.zeros(1, log.ENTRY)
    values = {"src": S, "dst": D, "sport": 20000, "dport": 5001, "segments": 1} | {
        "cause": cause,
        "seq": seq,
        "end": (seq + 1000) & 0xFFFFFFFF,
        "marks": log.SENT,
        **other,
    }
    for name, value in values.items():
        made[name] = value
    return made


def as_file(*entries: NDArray[Any], missing: int = 0) -> bytes:
    """Give what /proc/net/tcp_retransmissions would hold."""
    head = log.HEAD.pack(log.MAGIC, log.ENTRY.itemsize, missing, len(entries))
    return head + b"".join(made.tobytes() for made in entries)
