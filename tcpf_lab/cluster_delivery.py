"""Keep what a worker sends back: verified, unpacked beside its final place, renamed when whole."""

from __future__ import annotations

import shutil
from dataclasses import replace

from tcpf_lab import archive, checksums, making
from tcpf_lab.archive import ArchiveError
from tcpf_lab.cluster_worker import Delivery
from tcpf_lab.errors import LabError
from tcpf_lab.results import RunFiles, complete
from tcpf_lab.runner import Event, Task


def keep(task: Task, delivery: Delivery | Exception, worker: str) -> Event:
    """Put a finished run where it belongs, or what a failed one has left, and say how it ended.

    Parameters
    ----------
    task : Task
        The run as it was ordered.
    delivery : Delivery or Exception
        What came back; or why nothing did.
    worker : str
        Who made it: named if the run failed.
    """
    partial = task.files.partial(task.run.id)
    try:
        if isinstance(delivery, Exception):
            return _failed(task, worker, f"run {task.run.id}: {_said(delivery)}")
        _unpack(delivery, partial)
        if delivery.event.kind == "failed":
            return _failed(task, worker, delivery.event.detail, delivery.event.seconds)
        _require_undamaged(partial)
        complete(partial, task.files.run(task.run.id))
    except (LabError, OSError) as error:
        shutil.rmtree(partial.root, ignore_errors=True)  # a part of a run explains nothing
        event = _failed(task, worker, f"run {task.run.id}: {_said(error)}")
        return replace(event, disk_full=making.is_disk_full(error))
    return replace(delivery.event, run=task.run)


def _unpack(delivery: Delivery, partial: RunFiles) -> None:
    if archive.sha256(delivery.packed) != delivery.sha256:
        raise ArchiveError("it arrived damaged")
    shutil.rmtree(partial.root, ignore_errors=True)
    making.make_directory(partial.root, new=True)
    archive.unpack(delivery.packed, partial.root)


def _require_undamaged(run: RunFiles) -> None:
    """Hold a run to its own record: the archive's hash does not know what was damaged before it."""
    if damaged := checksums.damaged(run, captures=True):
        raise ArchiveError(f"damaged on the worker: {', '.join(damaged)}")


def _said(error: Exception) -> str:
    if isinstance(error, LabError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return f"{type(error).__name__}: {error}"


def _failed(task: Task, worker: str, detail: str, seconds: float = 0.0) -> Event:
    return Event(task.run, "failed", seconds, False, f"{detail}\n  worker: {worker}")
