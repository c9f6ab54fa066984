"""Worker processes and interrupts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import BrokenExecutor

import pytest

from tcpf_lab.run import pool


def states() -> tuple[set[signal.Signals], list[object]]:
    """Say which signals this process blocks, and what it does with interrupts."""
    return set(signal.pthread_sigmask(signal.SIG_BLOCK, ())), [
        signal.getsignal(number) for number in pool.INTERRUPTS
    ]


def test_an_interrupt_cannot_reach_a_worker_before_it_leaves_them_to_its_parent() -> None:
    context = pool._Context()
    seen = context.SimpleQueue()
    worker = context.Process(target=lambda: seen.put(states()))
    worker.start()
    blocked, _ = seen.get()
    worker.join()
    assert set(pool.INTERRUPTS) <= blocked
    assert not set(pool.INTERRUPTS) & states()[0]


def test_a_worker_ignores_interrupts_and_blocks_nothing() -> None:
    with pool.local_pool(1) as workers:
        os.kill(workers.submit(os.getpid).result(), signal.SIGINT)
        blocked, handlers = workers.submit(states).result()
    assert not set(pool.INTERRUPTS) & blocked
    assert handlers == [signal.SIG_IGN] * 2


def test_a_worker_whose_parent_died_before_it_could_notice_ends() -> None:
    context = pool._Context()
    arguments = (context.RawValue("b", 0), context.Value("i", 0), os.getppid())
    worker = context.Process(target=pool._start_worker, args=arguments)
    worker.start()
    worker.join(30)
    assert worker.exitcode == 1


def test_every_worker_has_a_core_and_the_first_one_depends_on_the_program() -> None:
    cores = sorted(os.sched_getaffinity(0))
    with pool.local_pool(1) as workers:
        own = workers.submit(os.sched_getaffinity, 0).result()
    assert own == {cores[os.getpid() % len(cores)]}


def test_a_worker_that_is_lost_takes_the_others_along_and_nobody_waits() -> None:
    began = time.monotonic()
    with pool.local_pool(2) as workers:
        # One of them is still at work when the other is lost.
        tasks = [workers.submit(_pid_after, seconds) for seconds in (0.0, 600.0)]
        os.kill(tasks[0].result(), signal.SIGKILL)
        with pytest.raises(BrokenExecutor):
            tasks[1].result()
    assert time.monotonic() - began < 300


def _pid_after(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def test_a_pool_that_is_interrupted_while_it_begins_leaves_no_worker() -> None:
    """Nothing else ends them, and the interpreter waits for its children before it ends."""
    program = """
import concurrent.futures.process as process
from tcpf_lab.run import pool

def interrupted(executor):
    assert len(executor._processes) == 2
    raise KeyboardInterrupt

process._ExecutorManagerThread = interrupted
try:
    with pool.local_pool(2) as workers:
        workers.submit(print)
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "interrupted\n"


@pytest.mark.parametrize("first", [0, 1])
def test_a_pool_ends_though_a_worker_is_killed_while_it_is_shut_down(first: int) -> None:
    """One of two idle workers has the lock that the other waits for."""

    def kill_one() -> None:
        time.sleep(0.5)
        os.kill(pids[1 - first], signal.SIGCONT)
        os.kill(pids[first], signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    with pool.local_pool(2) as workers:
        for future in [workers.submit(time.sleep, 0.2) for _ in range(2)]:
            future.result()
        pids = list(workers._processes)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        killer.start()
    killer.join()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
