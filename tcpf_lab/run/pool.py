"""Worker processes for runs on this machine: one per core, pinned, and gone when the caller is.

A first interrupt tells the workers to end their guests and leave no half run; a second one kills
them.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Container, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children
from multiprocessing.connection import wait
from multiprocessing.context import ForkContext, ForkProcess
from multiprocessing.process import BaseProcess
from typing import Any

from tcpf_lab.testbed.uml import guest

PR_SET_PDEATHSIG = 1
INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


class _Worker(ForkProcess):
    """A process that no interrupt reaches before it has learnt to leave them to its parent."""

    def start(self) -> None:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
        try:
            super().start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def terminate(self) -> None:
        """End it at once: an executor that has lost a worker asks so, and waits for the others.

        They ignore SIGTERM, and one may wait for a lock that the lost worker had.
        """
        self.kill()


class _Context(ForkContext):
    Process = _Worker


@contextmanager
def local_pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Yield an executor of ``jobs`` pinned worker processes.

    The workers are forked at the first submission, so what the caller has imported and compiled by
    then is theirs too.
    """
    context, others = _Context(), set(active_children())
    stop = context.RawValue("b", 0)  # without a lock, which a worker that is killed may have
    turn = context.Value("i", 0)
    pool = ProcessPoolExecutor(
        jobs, context, initializer=_start_worker, initargs=(stop, turn, os.getpid())
    )
    try:
        yield pool
    except BaseException:
        _second_interrupt_kills(pool)  # first: one that comes now must not find the old handler
        stop.value = 1
        _shut_down(pool, cancel=True)
        _end_forgotten(others)
        raise
    _shut_down(pool, cancel=False)


def _shut_down(pool: ProcessPoolExecutor, *, cancel: bool) -> None:
    """Wait until all workers have ended; end them if one of them is killed meanwhile.

    An idle worker waits for work with the lock that the others wait for, and once it is shut down
    and no work is left the executor no longer looks whether workers were killed.
    """
    workers = list((pool._processes or {}).values())
    threading.Thread(target=_end_together, args=(workers,), daemon=True).start()
    pool.shutdown(wait=True, cancel_futures=cancel)


def _end_together(workers: list[BaseProcess]) -> None:
    while workers:
        ended = wait([worker.sentinel for worker in workers])
        for worker in [each for each in workers if each.sentinel in ended]:
            workers.remove(worker)
            while worker.exitcode is None:  # the executor's thread is about to say so
                time.sleep(0.001)
            if worker.exitcode < 0:
                for other in workers:
                    other.kill()


def _end_forgotten(others: Container[BaseProcess]) -> None:
    """End workers of a pool that was interrupted while it started them.

    It has no thread yet that would end them, and at its end the interpreter waits for them for
    ever.
    """
    for child in active_children():
        if child not in others:
            child.kill()
            child.join()


def cores() -> int:
    """Count the processors this process may use."""
    return len(os.sched_getaffinity(0))


def _start_worker(stop: Any, turn: Any, parent: int) -> None:
    """Pin the worker, leave interrupts to the parent, and end with it."""
    with turn.get_lock():
        index, turn.value = turn.value, turn.value + 1
    processors = sorted(os.sched_getaffinity(0))
    # Two programs that have one worker each should not meet on the first core.
    os.sched_setaffinity(0, {processors[(parent + index) % len(processors)]})
    for number in INTERRUPTS:  # a whole process group gets them
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before that, and nobody would ever end this process
        os._exit(1)
    guest.stop_when(lambda: bool(stop.value))


def _second_interrupt_kills(pool: ProcessPoolExecutor) -> None:
    workers = list((pool._processes or {}).values())

    def kill(_signal: int, _frame: object) -> None:
        for worker in workers:
            worker.kill()
        os._exit(130)

    # An exception from a handler would break the executor's join and leave idle workers for ever.
    for number in INTERRUPTS:
        signal.signal(number, kill)
