"""The transfers of closed-loop users, as the generator recorded them."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.metrics import retransmission_log
from tcpf_lab.metrics.in_force import CheckResult, verdict
from tcpf_lab.metrics.record import Clocks, Record, UnreadableError
from tcpf_lab.results.layout import RunFiles

#: `struct record` of ``kernel/traffic/tcpf-users.c``.
RECORD = np.dtype(
    [
        ("start_ns", "<i8"),
        ("end_ns", "<i8"),
        ("size", "<u8"),
        ("acked", "<u8"),
        ("user", "<u4"),
        ("number", "<u4"),
        ("retransmissions", "<u4"),
        ("timeouts", "<u2"),
        ("state", "u1"),
        ("error", "u1"),
    ]
)
#: Values of ``state``; a user's last entry may be no transfer, but from when to when it thinks.
THINKING, UNDERWAY, FINISHED, FAILED = range(4)
#: Value of ``timeouts`` where the kernel does not count them.
UNTOLD = 2**16 - 1
#: ``struct head``: magic, size of a record, users, records, epoch.
HEAD = struct.Struct("<8sIIQq")
MAGIC = b"tcpuser1"
#: A transfer of which nothing has arrived after so long is stuck, unless timeouts account for it.
STUCK_NS = 60_000_000_000
#: The longest first timeout of a sender (RFC 6298, 5.7: after a lost SYN), how often it can double,
#: and Linux's longest (``TCP_RTO_MAX``).
FIRST_RTO_NS, DOUBLED, LONGEST_RTO_NS = 3_000_000_000, 5, 120_000_000_000
_NAMED = 5


def read_transfers(files: RunFiles, users: Mapping[str, Any], clocks: Clocks) -> NDArray[Any]:
    """Read what all users did.

    Parameters
    ----------
    files : RunFiles
        The run's directory.
    users : mapping
        ``expect.users`` of the manifest.
    clocks : Clocks
        Of the nodes.

    Returns
    -------
    array of RECORD, shape (n,)
        By user and number; times are ns after the epoch, by the run's clock.

    Raises
    ------
    UnreadableError
        If the records of a sender are missing or damaged.
    """
    parts = [_of_node(files, str(node), clocks) for node in users["senders"]]
    together = np.concatenate(parts) if parts else np.empty(0, RECORD)
    return together[np.lexsort((together["number"], together["user"]))]


def _of_node(files: RunFiles, node: str, clocks: Clocks) -> NDArray[Any]:
    name = f"users-{node}.bin"
    content = _content(files.stats / name, f"stats/{name}")
    if len(content) < HEAD.size or not content.startswith(MAGIC):
        raise UnreadableError(f"stats/{name} is not a list of transfers")
    _, size, _, count, epoch = HEAD.unpack_from(content)
    if size != RECORD.itemsize or len(content) != HEAD.size + count * size:
        raise UnreadableError(f"stats/{name} is cut, or of another version")
    records = np.frombuffer(content, RECORD, offset=HEAD.size).copy()
    clock = clocks.of(node)
    if clock is not None:
        for column in ("start_ns", "end_ns"):
            records[column] = clock.run_time(epoch + records[column]) - clocks.epoch_ns
    return records


def _content(path: Path, shown: str) -> bytes:
    try:
        return retransmission_log.unpacked(path if path.exists() else path.with_suffix(".bin.zst"))
    except FileNotFoundError:
        raise UnreadableError(f"{shown} is missing") from None
    except UnreadableError as error:
        raise UnreadableError(f"{shown} {error}") from None


def in_window(transfers: NDArray[Any], run: Record) -> NDArray[Any]:
    """Give the finished transfers that ended in the measured window."""
    start, end = (instant - run.epoch_ns for instant in run.window_ns)
    ended = (transfers["end_ns"] >= start) & (transfers["end_ns"] < end)
    chosen: NDArray[Any] = transfers[ended & (transfers["state"] == FINISHED)]
    return chosen


def users_connected(files: RunFiles, run: Record) -> CheckResult:
    """Every connection that a user began must have come up."""
    transfers = read_transfers(files, run.expect["users"], run.clocks)
    begun = transfers[transfers["state"] != THINKING]
    refused = begun[(begun["state"] == FAILED) & (begun["acked"] == 0)]
    if refused.size:
        return False, f"{refused.size} of {begun.size} connections never came up: {_some(refused)}"
    return True, f"{begun.size} connections of {run.count} users"


def users_finished(files: RunFiles, run: Record) -> CheckResult:
    """Every user must have done all the time what users do, and every transfer have ended well.

    What is under way at the end may be so if anything of it has arrived within a minute, or if its
    sender has retransmitted all the time: each timeout doubles the next (RFC 6298, 5.5).
    """
    transfers = read_transfers(files, run.expect["users"], run.clocks)
    state = transfers["state"]
    until = run.window_ns[1] - run.epoch_ns
    underway = transfers[state == UNDERWAY]
    timeouts = np.where(underway["timeouts"] == UNTOLD, 0.0, underway["timeouts"])
    doubled = np.minimum(timeouts, DOUBLED)
    waited = FIRST_RTO_NS * (2.0 ** (doubled + 1) - 1) + LONGEST_RTO_NS * (timeouts - doubled)
    excused = np.maximum(STUCK_NS, waited)
    stuck = underway[(underway["acked"] == 0) & (until - underway["start_ns"] > excused)]
    late = transfers[(state == THINKING) & (transfers["end_ns"] < until)]
    failed = transfers[state == FAILED]
    done = transfers[state == FINISHED]
    short = done[done["acked"] != done["size"]]
    present = np.unique(transfers["user"])
    problems = [
        f"{found.size} {what}: {_some(found)}"
        for what, found in (
            ("transfers failed", failed),
            ("transfers ended before all was acknowledged", short),
            ("transfers are stuck", stuck),
            ("users did not stop thinking", late),
        )
        if found.size
    ]
    if present.tolist() != list(range(run.count)):
        problems.append(f"{present.size} of {run.count} users are in the records")
    return verdict(
        problems, f"{done.size} transfers finished, {underway.size} under way at the end"
    )


def _some(transfers: NDArray[Any]) -> str:
    named = (
        f"user {row['user']} number {row['number']}"
        + (f" (errno {row['error']})" if row["error"] else "")
        for row in transfers[:_NAMED]
    )
    return ", ".join(named) + (" and others" if transfers.size > _NAMED else "")
