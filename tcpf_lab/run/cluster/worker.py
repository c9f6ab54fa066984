"""What a worker of a cluster does: tell what it is, keep a kernel package, make one run.

`link` calls these functions by name, so a worker needs this program in the very same version;
`identity` gives it.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import pickle
import platform
import shutil
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from distributed import get_worker

import tcpf_lab
from tcpf_lab import _trace
from tcpf_lab.base import making
from tcpf_lab.base.errors import InterruptedRunError, LabError, TestbedError
from tcpf_lab.plan.compose import compose
from tcpf_lab.results import checksums, storage
from tcpf_lab.results.layout import RunFiles, complete
from tcpf_lab.results.storage import ArchiveError
from tcpf_lab.run import runner
from tcpf_lab.run.runner import Event, Task
from tcpf_lab.spec.sweep import Run
from tcpf_lab.testbed.base import Testbed
from tcpf_lab.testbed.uml import guest
from tcpf_lab.testbed.uml import package as uml_package
from tcpf_lab.testbed.uml.guest import UmlTestbed
from tcpf_lab.testbed.uml.package import Package

#: What decides about the bytes of a result besides this program; of others the versions may differ.
NUMERICAL = ("numpy", "zstandard")
#: States of a worker's task in which somebody still waits for its result.
_WANTED = ("executing", "long-running")
_CLOSED = ("closing", "closed", "failed")
#: What a claim to a core begins with, for all workers of a machine.
_CLAIM = "\0tcpf-lab-worker-on-core-"

#: The task that a thread is at work on: `worker` and `key`.
_at_work = threading.local()


@dataclass(frozen=True)
class Order:
    """One run, to be made elsewhere."""

    task: Task
    packages: Mapping[str, str]  #: hash of the package of each kernel, as `Outfit` has them
    code: str  #: hash of the program that is to make it


@dataclass(frozen=True)
class Delivery:
    """What a worker sends back."""

    event: Event
    packed: bytes  #: the run directory, complete or as far as a failed run came
    sha256: str  #: of ``packed``
    worker: str


def _code() -> str:
    """Hash this program's sources."""
    root = Path(tcpf_lab.__file__).parent
    digest = hashlib.sha256(_trace.SOURCES.encode())
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        if name.parts[:1] != ("shipped",) or name.name == "__init__.py":
            digest.update(f"{name.as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


#: Of the code that this process has loaded: the files may change while it runs.
CODE = _code()


def identity() -> dict[str, str]:
    """Describe this process in what has to be the same at both ends."""
    return {
        "tcpf-lab": f"{tcpf_lab.__version__} ({CODE})",
        "Python": ".".join(map(str, sys.version_info[:2])),
        "machine": platform.machine(),
        **{name: version(name) for name in NUMERICAL},
    }


def has_package(digest: str) -> bool:
    """Tell whether this machine keeps a kernel package, whole."""
    return uml_package.received(digest) is not None


async def receive(package: Package) -> None:
    """Keep a kernel package."""
    await asyncio.to_thread(uml_package.receive, package)


async def problems(
    testbed: Testbed, packages: Mapping[str, str], samples: Sequence[Run]
) -> list[str]:
    """List what stands in the way of runs like ``samples`` on this machine; ready it for them."""
    return await asyncio.to_thread(_problems, _here(testbed, packages), samples)


def _problems(testbed: Testbed, samples: Sequence[Run]) -> list[str]:
    return list(dict.fromkeys(p for run in samples for p in testbed.check(compose(run))))


def make(packed: bytes) -> Delivery:
    """Make a run in a directory of its own; ``packed`` is a pickled :class:`Order`.

    Raises
    ------
    TestbedError
        If this process is of another version than who ordered the run.
    InterruptedRunError
        If nobody waits for the run any more, or this worker is to end; the run's guest has ended,
        and nothing is left of it.
    """
    order: Order = pickle.loads(packed)
    if order.code != CODE:
        raise TestbedError(f"this worker has another version of tcpf-lab: {CODE}, not {order.code}")
    worker: Any = get_worker()
    _at_work.worker, _at_work.key = worker, worker.get_current_task()
    guest.stop_when(_unwanted)
    _pin()
    with TemporaryDirectory(prefix="run-", dir=worker.local_directory) as directory:
        try:
            return _make(order, Path(directory), worker.address)
        except KeyboardInterrupt:  # which would end the worker
            raise InterruptedRunError("the run is not wanted any more") from None


def _make(order: Order, results: Path, worker: str) -> Delivery:
    task = order.task
    files = replace(task.files, results=results)
    here = replace(task, testbed=_here(task.testbed, order.packages), files=files)
    event = runner.carry_out(here)
    done, partial = files.run(task.run.id), files.partial(task.run.id)
    root = done.root if done.root.exists() else partial.root
    packed = storage.pack(root, storage.contents(root))
    detail = event.detail.replace(str(results), str(task.files.results))
    return Delivery(replace(event, detail=detail), packed, storage.sha256(packed), worker)


def _here(testbed: Testbed, packages: Mapping[str, str]) -> Testbed:
    """Return the testbed with the kernels of this machine's packages."""
    if not isinstance(testbed, UmlTestbed):
        return testbed
    known = {"": testbed.kernel, **testbed.named}
    root = uml_package.received_directory()
    here = {name: uml_package.at(known[name], root / digest) for name, digest in packages.items()}
    return replace(testbed, kernel=here.pop("", testbed.kernel), named=here)


def _unwanted() -> bool:
    """Tell whether the run that this thread makes was cancelled, or its worker is to end."""
    task = _at_work.worker.state.tasks.get(_at_work.key)
    closing = _at_work.worker.status.name in _CLOSED
    return closing or task is None or task.state not in _WANTED


def _pin() -> None:
    """Keep this thread, and the guests it starts, on a core that no other worker has."""
    core = _own_core()
    if core is not None:
        os.sched_setaffinity(0, {core[0]})


@cache
def _own_core() -> tuple[int, socket.socket] | None:
    """Claim a core by a name that ends with this process; None if all of them are taken."""
    for core in sorted(os.sched_getaffinity(0)):
        claim = socket.socket(socket.AF_UNIX)
        with suppress(OSError):
            claim.bind(f"{_CLAIM}{core}")
            return core, claim
        claim.close()
    return None


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
    if storage.sha256(delivery.packed) != delivery.sha256:
        raise ArchiveError("it arrived damaged")
    shutil.rmtree(partial.root, ignore_errors=True)
    making.make_directory(partial.root, new=True)
    storage.unpack(delivery.packed, partial.root)


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
