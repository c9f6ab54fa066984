"""Run a guest's kernel as a host process: in a group of its own, watched, never left."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tcpf_lab.testbed.parent import bound
from tcpf_lab.testbed.withheld import GivenTime, QueuedTime

#: How often a waiting worker looks whether it should stop, s.
LOOK_EVERY_S = 0.2
#: Most that the time between two looks may count: a clock that jumps makes no guest hang.
LONGEST_LOOK_S = 2.0

_should_stop: Callable[[], bool] = lambda: False  # noqa: E731
_watcher = threading.local()


def stop_when(condition: Callable[[], bool]) -> None:
    """Make every guest of this process end with ``KeyboardInterrupt`` once ``condition`` holds."""
    global _should_stop
    _should_stop = condition


def stopping() -> bool:
    """Tell whether the condition given to :func:`stop_when` holds: what runs here is to end.

    What somebody who watches the run (:func:`watched`) raises comes from here.
    """
    getattr(_watcher, "look", lambda: None)()
    return _should_stop()


@contextmanager
def watched(look: Callable[[], None]) -> Iterator[None]:
    """Call ``look`` while this thread awaits a run; what it raises ends the run."""
    _watcher.look = look
    try:
        yield
    finally:
        del _watcher.look


def run(
    command: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
    console: BinaryIO,
    deadline: float,
) -> int | None:
    """Run the guest in ``directory`` to its end.

    Returns
    -------
    int or None
        Exit status, negative for a signal; None if it was killed after ``deadline`` seconds in
        which the machine had its processors and the guest did not wait for one of them.

    Raises
    ------
    KeyboardInterrupt
        If the condition given to :func:`stop_when` came true.
    """
    guest = subprocess.Popen(
        bound(command),
        cwd=directory,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=console,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        return _wait(guest, deadline)
    finally:
        _kill_group(guest)


def _wait(guest: subprocess.Popen[bytes], deadline: float) -> int | None:
    descriptor, passed = os.pidfd_open(guest.pid), GivenTime(longest=LONGEST_LOOK_S)
    queued = QueuedTime(guest.pid)
    try:
        while True:
            ended, _, _ = select.select([descriptor], [], [], LOOK_EVERY_S)
            if ended:
                return guest.wait()
            if stopping():
                raise KeyboardInterrupt
            if passed.seconds() - queued.seconds() > deadline:
                return None
    finally:
        os.close(descriptor)


def _kill_group(guest: subprocess.Popen[bytes]) -> None:
    """Kill the kernel and the guest's processes, which share its process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # all of them have ended
        os.killpg(guest.pid, signal.SIGKILL)
    guest.wait()
