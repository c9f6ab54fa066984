"""Places that run full or cannot be written: the results, the guests' memory.

Each is mounted in the mount namespace that `enter_namespace` has made: it is gone with this
process, and nobody else sees it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.faults.stage import DONE, FAILED, REFUSED, Fault, Injected, Stage, answer, until_moment

_CLONE_NEWNS = 0x00020000
_KB, _MB = 2**10, 2**20
_FULL = r"the disk is full|No space left on device"
_MEMORY = "/dev/shm"  # noqa: S108


def enter_namespace() -> bool:
    """Take this process's mounts apart from the system's; False if that is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS):
        return False
    _run("mount", "--make-rprivate", "/")
    _mount_memory(Path(_MEMORY), "50%")
    return True


def _run(*words: str) -> bool:
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def _mount_memory(at: Path, size: str) -> None:
    subprocess.run(
        ("mount", "-t", "tmpfs", "-o", f"size={size},mode=1777", "faults", str(at)), check=True
    )


@contextmanager
def _disk(stage: Stage) -> Iterator[None]:
    """Put the results on a disk of their own while the block runs, and back again after it."""
    moved = stage.root / "moved"
    stage.files.results.rename(moved)
    stage.files.results.mkdir()
    _mount_memory(stage.files.results, "200m")
    _run("cp", "-a", f"{moved}/.", str(stage.files.results))
    try:
        yield
    finally:
        _run("mount", "-o", "remount,rw", str(stage.files.results))
        kept = stage.root / "kept"
        _run("cp", "-a", f"{stage.files.results}/.", str(kept))
        _run("umount", "--lazy", str(stage.files.results))
        stage.files.results.rmdir()
        kept.rename(stage.files.results)
        _run("rm", "-rf", str(moved))


def _room(path: Path) -> int:
    free = os.statvfs(path)
    return free.f_bavail * free.f_frsize


def _fill(path: Path, leave: int) -> Path:
    """Write a file that leaves so many bytes of free space."""
    filler = path / "filler"
    with filler.open("wb") as handle:
        while (size := _room(path) - leave) > 0:
            try:
                os.posix_fallocate(handle.fileno(), 0, size)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
            else:
                break
    return filler


def disk_small(stage: Stage, _fault: Fault, rng: random.Random) -> Injected:
    """Begin with little disk space for results."""
    leave = int(2 ** rng.uniform(12, 20))
    with _disk(stage):
        filler = _fill(stage.files.results, leave)
        command = stage.command("full").fork()
        problems = answer(command, (DONE, FAILED, REFUSED), _FULL)
        filler.unlink()
    hit = command.status != DONE
    return Injected(f"{leave // _KB} kB of disk space for results", hit, problems)


def disk_filled(stage: Stage, fault: Fault, rng: random.Random) -> Injected:
    """Fill the disk during runs."""
    leave = rng.choice((0, 4 * _KB, 64 * _KB))
    with _disk(stage):
        command = stage.command("full").fork()
        hit = until_moment(stage, fault, command)
        filler = _fill(stage.files.results, leave) if hit else None
        problems = answer(command, (DONE, FAILED, REFUSED), _FULL)
        if filler:
            filler.unlink()
    hit = hit and command.status != DONE
    return Injected(f"disk filled, {leave // _KB} kB left", hit, problems)


def read_only(stage: Stage, fault: Fault, rng: random.Random) -> Injected:
    """Make the results read-only, before the command begins or while it is at work."""
    first = rng.random() < 0.5
    with _disk(stage):
        where = ("mount", "-o", "remount,ro", str(stage.files.results))
        done = first and _run(*where)
        command = stage.command("read-only").fork()
        if not first:
            until_moment(stage, fault, command)
            while command.running and not (done := _run(*where)):
                time.sleep(0.002)  # refused as long as any file is open for writing
        problems = answer(command, (DONE, FAILED, REFUSED), "Read-only file system")
    hit = done and command.status != DONE
    return Injected(f"results read-only {'from the start' if first else 'at work'}", hit, problems)


def memory_small(stage: Stage, _fault: Fault, rng: random.Random) -> Injected:
    """Leave no directory with space for guest memory."""
    size = rng.choice((8, 100, 700))
    with _small_memory(stage, size):
        command = stage.command("no-memory").fork()
        problems = answer(command, (FAILED,), "no directory can hold guest memory")
    return Injected(f"{size} MB for guests' memory", True, problems)


def memory_filled(stage: Stage, fault: Fault, rng: random.Random) -> Injected:
    """Fill the space for guest memory during runs."""
    leave = rng.choice((0, 1, 8)) * _MB
    with _small_memory(stage, 1200):
        command = stage.command("no-memory").fork()
        hit = until_moment(stage, fault, command)
        filler = _fill(Path(_MEMORY), leave) if hit else None
        problems = answer(
            command, (DONE, FAILED), "no space left for the file|no directory can hold guest"
        )
        if filler:
            filler.unlink()
    hit = hit and command.status != DONE
    return Injected(f"space for guest memory filled, {leave // _MB} MB left", hit, problems)


@contextmanager
def _small_memory(stage: Stage, size_mb: int) -> Iterator[None]:
    """Let guests' memory have so much room in all places where it may be."""
    places = (Path(_MEMORY), stage.temporary, Path("/var/tmp"))  # noqa: S108
    for place, size in zip(places, (size_mb, 1, 1), strict=True):
        _mount_memory(place, f"{size}m")
    try:
        yield
    finally:
        for place in places:
            _run("umount", "--lazy", str(place))
