"""The numbers of closed-loop users: how long transfers take, by their size."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tcpf_lab.metrics import definitions
from tcpf_lab.metrics.definitions import mean_goodput, percentile
from tcpf_lab.metrics.from_counters import Extra, or_none
from tcpf_lab.metrics.record import Record, UnreadableError
from tcpf_lab.metrics.series import write_arrays
from tcpf_lab.metrics.transfers import (
    FAILED,
    FINISHED,
    THINKING,
    UNDERWAY,
    UNTOLD,
    in_window,
    read_transfers,
    users_finished,
)
from tcpf_lab.metrics.validity import apply
from tcpf_lab.results.layout import RunFiles

#: Sizes by which throughput is told, bytes, and how far from one a transfer may be.
SIZES = {"100kB": 100_000, "500kB": 500_000, "1000kB": 1_000_000}
SIZE_TOLERANCE = 0.2
_KEPT = ("user", "number", "size", "acked", "start_ns", "end_ns", "retransmissions", "timeouts")


def users(files: RunFiles, run: Record) -> Extra:
    """Work out the numbers of a run's users, and write ``transfers.npz``.

    Parameters
    ----------
    files : RunFiles
        The run's directory.
    run : Record
        What was read from it.

    Returns
    -------
    Extra
        Empty if the run has no users.
    """
    asked = run.expect.get("users")
    if asked is None:
        return Extra()
    checks = apply({"users_finished": users_finished}, files, run)
    try:
        transfers = read_transfers(files, asked, run.clocks)
    except UnreadableError:  # the check says so
        return Extra(checks=checks)
    _write(files, transfers)
    done = in_window(transfers, run)
    return Extra(
        metrics=_metrics(run, done),
        sections={"users": {**_told(done), **_others(transfers)}},
        checks=checks,
    )


def throughput(size: ArrayLike, start_ns: ArrayLike, end_ns: ArrayLike) -> NDArray[np.float64]:
    """Throughput of each transfer, from its SYN to the peer's FIN.

    .. math:: 8 X / (t_{FIN} - t_{SYN})

    Parameters
    ----------
    size : array_like, shape (n,)
        Bytes.
    start_ns, end_ns : array_like, shape (n,)
        When the connection was begun, and when the peer's FIN had come.

    Returns
    -------
    ndarray, shape (n,)
        bit/s.

    Raises
    ------
    ValueError
        If a transfer took no time.

    Examples
    --------
    >>> throughput([100_000], [1_000_000_000], [1_500_000_000]).tolist()
    [1600000.0]
    """
    took = np.asarray(end_ns, np.int64) - np.asarray(start_ns, np.int64)
    if np.any(took <= 0):
        raise ValueError("a transfer that took no time has no throughput")
    return np.asarray(8e9 * np.asarray(size, np.float64) / took, np.float64)


def near(size: ArrayLike, wanted: float) -> NDArray[np.bool_]:
    """Tell which sizes are within 20 per cent of one, both ends included.

    Examples
    --------
    >>> near([79_999, 80_000, 120_000, 120_001], 100_000).tolist()
    [False, True, True, False]
    """
    off = np.abs(np.asarray(size, np.float64) - wanted)
    return np.asarray(off <= SIZE_TOLERANCE * wanted, np.bool_)


def _metrics(run: Record, done: NDArray[Any]) -> dict[str, float | int | None]:
    """What takes the place of the flows' numbers; what users got differs by what they drew."""
    seconds = (run.window_ns[1] - run.window_ns[0]) / 1e9
    told = not np.any(done["timeouts"] == UNTOLD)
    expiries = int(np.sum(done["timeouts"], dtype=np.int64)) if told else None
    payload = np.bincount(done["user"], done["size"], run.count) / seconds
    return {
        "timeouts": expiries,
        "timeouts_per_flow_minute": None
        if expiries is None
        else or_none(definitions.per_flow_minute, expiries, run.count, seconds),
        "syn_timeouts": None,  # in the above: TCP_INFO counts them together
        "retransmissions": int(np.sum(done["retransmissions"], dtype=np.int64)),
        "goodput_bytes_per_s": or_none(mean_goodput, payload),
    }


def _told(done: NDArray[Any]) -> dict[str, Any]:
    """Numbers of the transfers that ended in the window."""
    took = (done["end_ns"] - done["start_ns"]) / 1e9
    speed = throughput(done["size"], done["start_ns"], done["end_ns"])
    return {
        "transfers": int(done.size),
        "bytes": int(np.sum(done["size"])),
        "mean_size": float(np.mean(done["size"])) if done.size else None,
        "completion_s": {
            "mean": float(np.mean(took)) if done.size else None,
            **{f"p{at}": or_none(percentile, took, at) for at in (50, 95, 99)},
        },
        "throughput_by_size": {
            name: _mean_of(speed[near(done["size"], size)]) for name, size in SIZES.items()
        },
    }


def _mean_of(speed: NDArray[np.float64]) -> dict[str, float | int | None]:
    mean = float(np.mean(speed)) if speed.size else None
    return {"mean_bits_per_s": mean, "n": int(speed.size)}


def _others(transfers: NDArray[Any]) -> dict[str, int]:
    """Transfers of the whole run that did not end well, or not before its end."""
    return {
        name: int(np.sum(transfers["state"] == state))
        for name, state in (("failed", FAILED), ("unfinished", UNDERWAY))
    }


def _write(files: RunFiles, transfers: NDArray[Any]) -> None:
    """Write every transfer that was begun, finished or not."""
    begun = transfers[transfers["state"] != THINKING]
    columns = {name: np.ascontiguousarray(begun[name]) for name in _KEPT}
    write_arrays(files.transfers, {**columns, "finished": begun["state"] == FINISHED})
