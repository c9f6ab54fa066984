"""A run over time: per-flow goodput, retransmissions and timeouts, and the bottleneck's queue."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tcpf_lab.base.errors import TraceError
from tcpf_lab.base.making import write
from tcpf_lab.metrics.captured import CapturedRecord
from tcpf_lab.metrics.record import made_without_captures, with_captures_instead
from tcpf_lab.results.command import again, command
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.trace.follow import RTO, SYN_RTO
from tcpf_lab.trace.passage import Backlog

_EARLIEST = (1980, 1, 1, 0, 0, 0)  # the date of every entry, or no two files would be equal
_FASTEST = 1  # of the levels of compression: a quarter larger than usual, in a quarter of the time


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays by name, as `numpy.load` reads them."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, values in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy", _EARLIEST)
            entry.compress_type = zipfile.ZIP_DEFLATED
            array = io.BytesIO()
            np.lib.format.write_array(array, values, version=(1, 0))
            archive.writestr(entry, array.getvalue(), compresslevel=_FASTEST)
    write(path, content.getvalue())


#: Length of a bin of the flows' numbers, and of the queue's: some ten RTTs, and half of one.
FLOW_BIN_S, QUEUE_BIN_S = 1.0, 0.1
_FLOW_BIN_NS, _QUEUE_BIN_NS = 1_000_000_000, 100_000_000


@dataclass(frozen=True)
class Series:
    """What is in ``series.npz``; the first bin of everything begins at the run's epoch.

    Attributes
    ----------
    window_s : float64, shape (2,)
        The measured window, seconds after the epoch; the last bin ends with or after it.
    flow_bin_s, queue_bin_s : float64, shape ()
        Length of the bins: of all with a row per flow, and of the others.
    acked_bytes : uint32, shape (flows, n)
        Payload bytes newly acknowledged, by the capture at the sender.
    retransmissions, timeouts : uint32, shape (flows, n)
        Retransmitted data segments, and the number that a timeout retransmitted.
    backlog_mean_bytes : float32, shape (m,)
        Time average of the bottleneck's queue, counted as ``tc`` does.
    backlog_max_bytes : uint32, shape (m,)
        Its maximum length.
    packets_lost : uint32, shape (m,)
        Packets that came to the queue and never left it, by the time at which they came.
    """

    window_s: NDArray[np.float64]
    flow_bin_s: NDArray[np.float64]
    queue_bin_s: NDArray[np.float64]
    acked_bytes: NDArray[np.uint32]
    retransmissions: NDArray[np.uint32]
    timeouts: NDArray[np.uint32]
    backlog_mean_bytes: NDArray[np.float32]
    backlog_max_bytes: NDArray[np.uint32]
    packets_lost: NDArray[np.uint32]

    @property
    def flow_time_s(self) -> NDArray[np.float64]:
        """Start of each bin of the flows, shape (n,)."""
        return np.asarray(np.arange(self.acked_bytes.shape[1]) * self.flow_bin_s, np.float64)

    @property
    def queue_time_s(self) -> NDArray[np.float64]:
        """Start of each bin of the queue, shape (m,)."""
        return np.asarray(np.arange(self.packets_lost.size) * self.queue_bin_s, np.float64)


def series_of(run: CapturedRecord, line: Backlog) -> Series:
    """Bin a run from its epoch to the end of its window.

    Parameters
    ----------
    run : Record
        What was read from it.
    line : Backlog
        Its bottleneck's queue.

    Returns
    -------
    Series
        Flows that never came up have zeros.
    """
    seconds = max(1, -(-(run.window_ns[1] - run.epoch_ns) // _FLOW_BIN_NS))
    edges = run.epoch_ns + _FLOW_BIN_NS * np.arange(seconds + 1)
    fine = run.epoch_ns + _QUEUE_BIN_NS * np.arange(10 * seconds + 1)
    again, expired = _recoveries(run, edges)
    mean, largest = backlog_in_bins(line.time_ns, line.size, fine)
    return Series(
        window_s=np.array(run.window_s),
        flow_bin_s=np.array(FLOW_BIN_S),
        queue_bin_s=np.array(QUEUE_BIN_S),
        acked_bytes=acked_in_bins(run, edges),
        retransmissions=again,
        timeouts=expired,
        backlog_mean_bytes=mean.astype(np.float32),
        backlog_max_bytes=largest.astype(np.uint32),
        packets_lost=_counts(run.transit.arrival_ns[run.transit.lost], fine).astype(np.uint32),
    )


def acked_in_bins(run: CapturedRecord, edges_ns: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Payload bytes newly acknowledged, by the capture at the sender: shape (flows, bins)."""
    time = run.captures["sender"].packets["time_ns"]
    acked = np.zeros((run.count, edges_ns.size - 1), np.uint32)
    for flow, row in enumerate(run.row):
        if row >= 0:
            back = run.flows.split(int(row))[1]
            total = np.concatenate([[0], run.recovery.acked[back]])
            acked[flow] = np.diff(total[np.searchsorted(time[back], edges_ns)])
    return acked


def _recoveries(
    run: CapturedRecord, edges: NDArray[np.int64]
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Retransmissions and timeouts of each flow in each bin."""
    shape = (run.count, edges.size - 1)
    again, expired = np.zeros(shape, np.uint32), np.zeros(shape, np.uint32)
    time = run.captures["sender"].packets["time_ns"]
    for flow, row in enumerate(run.row):
        if row < 0:
            continue
        own = run.flows.split(int(row))[0]
        kind = run.recovery.kind[own]
        retransmitted = (kind > 0) & (kind != SYN_RTO)
        again[flow] = _counts(time[own[retransmitted]], edges)
        expired[flow] = _counts(time[own[kind == RTO]], edges)
    return again, expired


def _counts(time_ns: NDArray[np.int64], edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Events in each bin, its start included; `time_ns` ascends."""
    return np.diff(np.searchsorted(time_ns, edges))


def backlog_in_bins(
    time_ns: ArrayLike, size: ArrayLike, edges_ns: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Time average and maximum of a queue's length in each bin.

    Parameters
    ----------
    time_ns : array_like, shape (n,)
        When the length changed, in order.
    size : array_like, shape (n,)
        Length from then on; 0 before the first change.
    edges_ns : array_like, shape (m + 1,)
        Bounds of the bins, ascending.

    Returns
    -------
    tuple of (ndarray, ndarray), shape (m,)
        Both in the unit of `size`.

    Examples
    --------
    3000 from 5 on, 1000 from 15 on; the last bin is without change:

    >>> mean, largest = backlog_in_bins([5, 15], [3000, 1000], [0, 10, 20, 30])
    >>> mean.tolist(), largest.tolist()
    ([1500.0, 2000.0, 1000.0], [3000, 3000, 1000])
    """
    times, edges = np.asarray(time_ns, np.int64), np.asarray(edges_ns, np.int64)
    sizes = np.concatenate([[0], np.asarray(size, np.int64)])
    at = np.searchsorted(times, edges, side="right")  # index of the length at each edge
    since = np.concatenate([edges[:1], times])  # nothing is queued before the first change
    area = np.concatenate([[0], np.cumsum(np.diff(since) * sizes[:-1])])
    until = area[at] + (edges - since[at]) * sizes[at]
    mean = np.diff(until) / np.diff(edges)
    # A bin has the length at its start and every one up to its end, that of the end left out.
    last = np.maximum(np.searchsorted(times, edges[1:], side="left"), at[:-1])
    bounds = np.column_stack([at[:-1], last + 1]).ravel()
    largest = np.maximum.reduceat(np.append(sizes, 0), bounds)[::2]
    return np.asarray(mean, np.float64), np.asarray(largest, np.int64)


def write_series(files: RunFiles, series: Series) -> None:
    """Write ``series.npz``: the same bytes for the same numbers."""
    write_arrays(files.series, {item.name: getattr(series, item.name) for item in fields(series)})


def read_series(files: RunFiles) -> Series:
    """Read ``series.npz``.

    Raises
    ------
    TraceError
        If it is missing, damaged or of another layout.
    """
    return Series(**read_arrays(files, files.series, [field.name for field in fields(Series)]))


def read_arrays(files: RunFiles, path: Path, names: Sequence[str]) -> dict[str, Any]:
    """Read arrays by name, as `write_arrays` writes them.

    Raises
    ------
    TraceError
        If the file is missing, damaged or of another layout.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in names}
    except FileNotFoundError:
        raise _unusable(files, path, _absence(files)) from None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise _unusable(files, path, f"cannot be read: {error}") from None


def _absence(files: RunFiles) -> str:
    """Why a run has no ``series.npz``."""
    if made_without_captures(files):
        return "the run was made without captures: the times of its packets are unknown"
    return "the run has no series over time"


def _unusable(files: RunFiles, path: Path, message: str) -> TraceError:
    hint = f"`{command('analyze', files.root)}` if captures are stored, else `{again(files)}`"
    if made_without_captures(files):
        hint = with_captures_instead(files)
    return TraceError(message, where=str(path), hint=hint)
