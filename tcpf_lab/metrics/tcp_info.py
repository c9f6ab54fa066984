"""Samples of TCP_INFO: congestion window, RTT and rates of each flow over time."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.base.errors import TraceError
from tcpf_lab.metrics.record import read_clocks
from tcpf_lab.metrics.retransmission_log import unpacked
from tcpf_lab.results.command import again
from tcpf_lab.results.layout import RunFiles

#: ``struct info_record`` of ``kernel/traffic/tcpf-traffic.c``: ``time_ns`` counts from the epoch,
#: ``cwnd``, ``ssthresh`` and ``unacked`` are segments, rates are bytes/s.
SAMPLE = np.dtype(
    [
        ("time_ns", "<i8"),
        *((name, "<u4") for name in ("flow", "cwnd", "ssthresh", "rtt_us", "rttvar_us", "rto_us")),
        *((name, "<u8") for name in ("pacing_rate", "delivery_rate")),
        *((name, "<u8") for name in ("bytes_acked", "bytes_retrans")),
        *((name, "<u4") for name in ("min_rtt_us", "unacked", "delivered", "delivered_ce")),
        *((name, "<u4") for name in ("total_retrans", "ca_state")),
    ]
)
#: An array of `SAMPLE`, shape (n,), by flow and then by time.
Samples: TypeAlias = NDArray[Any]
_PREFIX = "tcp-info-"


def read_tcp_info(files: RunFiles) -> Samples:
    """Read the samples of all flows of a run, times by the run's clock.

    Raises
    ------
    TraceError
        If the run has none, or a file is cut off.
    """
    clocks, found = read_clocks(files), []
    for path in sorted(files.stats.glob(f"{_PREFIX}*.bin*")):
        content = unpacked(path) if path.suffix == ".zst" else path.read_bytes()
        if len(content) % SAMPLE.itemsize:
            raise TraceError("is cut off", where=str(path), hint=f"`{again(files)}`")
        samples = np.frombuffer(content, SAMPLE).copy()
        node = path.name.removeprefix(_PREFIX).partition(".")[0]
        if (clock := clocks.of(node)) is not None:
            own = clock.own_epoch_ns + samples["time_ns"]
            samples["time_ns"] = clock.run_time(own) - clocks.epoch_ns
        found.append(samples)
    if not found:
        raise TraceError(
            "the run has no samples of TCP_INFO",
            where=str(files.stats),
            hint="make the run with --set 'traffic.tcp_info=100 ms'",
        )
    every = np.concatenate(found)
    return every[np.lexsort((every["time_ns"], every["flow"]))]
