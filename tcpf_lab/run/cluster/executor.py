"""Runs on a Dask cluster: an executor whose workers are processes on other machines.

A worker makes one run at a time and gets the next when that has ended, so it is always known which
run a worker dies with.  Such a run goes to another worker, a few times.  If the scheduler is
restarted, everything that has not arrived by then is made again.
"""

from __future__ import annotations

import queue
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, InvalidStateError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Thread
from typing import Any

from tcpf_lab.base.errors import TestbedError
from tcpf_lab.plan.compose import compose
from tcpf_lab.run import runner
from tcpf_lab.run.cluster.link import CONNECT_S, LOST, Link, Outfit, WorkerDiedError
from tcpf_lab.run.cluster.worker import CODE, Delivery, Order, keep
from tcpf_lab.run.runner import Event, Task
from tcpf_lab.spec.sweep import Run
from tcpf_lab.testbed.base import Testbed
from tcpf_lab.testbed.uml import package as uml_package
from tcpf_lab.testbed.uml.guest import UmlTestbed
from tcpf_lab.testbed.uml.package import Package

#: Interval of requests for the workers, and of attempts to reach a scheduler that is away, s.
LOOK_EVERY_S = 1.0
#: How long a scheduler may be away before the work is given up, s.
PATIENCE_S = 600.0


class Watcher:
    """Watch the workers from a thread of its own.

    A `distributed.WorkerPlugin` would not do: a worker whose plugin fails in ``setup`` logs that
    and takes work all the same, and a client that has lost its scheduler cancels its futures.

    Parameters
    ----------
    connect, notify, patience
        As for `ClusterExecutor`, which also raises what this does.
    executor : ClusterExecutor
        Gets every change by `ClusterExecutor.post`.
    """

    def __init__(
        self,
        connect: Callable[[], Link],
        executor: ClusterExecutor,
        notify: Callable[[str], None],
        patience: float = PATIENCE_S,
    ) -> None:
        self._connect, self._executor, self._notify, self._patience = (
            connect,
            executor,
            notify,
            patience,
        )
        self._known: dict[str, str] = {}  #: workers, fit or not, and which process each is
        self._trouble, self._ending = threading.Event(), threading.Event()
        self._link: Link | None = connect()
        executor.post(executor.linked, self._link)
        try:
            _require_fit(self._look(self._link))
        except BaseException:
            self._link.close()
            raise
        if not self._known:
            notify("the cluster has no worker yet; runs begin when one joins")
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def look_again(self) -> None:
        """Take the connection for lost: something that was sent through it was."""
        self._trouble.set()

    def end(self, timeout: float) -> None:
        """Stop watching; the connection stays as it is."""
        self._ending.set()
        self._thread.join(timeout)

    def _watch(self) -> None:
        seen = time.monotonic()
        while not self._ending.wait(LOOK_EVERY_S):
            try:
                link = self._connected()
                for worker, problem in self._look(link).items():
                    if problem:
                        self._notify(f"worker {worker} is left out: {problem}")
                seen = time.monotonic()
            except Exception as error:  # noqa: BLE001 - whatever it is, a new connection is the cure
                if self._ending.is_set():
                    return
                self._disconnect(error)
                if time.monotonic() - seen > self._patience:
                    self._executor.post(self._executor.given_up, _away(error, self._patience))
                    return

    def _connected(self) -> Link:
        if self._trouble.is_set():
            self._trouble.clear()
            raise ConnectionError("runs were lost")
        if self._link is None:
            self._link = self._connect()
            self._known = {}
            self._executor.post(self._executor.linked, self._link)
            self._notify("the scheduler is there again")
        return self._link

    def _disconnect(self, error: Exception) -> None:
        if self._link is None:
            return
        self._notify(
            f"the scheduler is gone: {error}; waiting for it, {self._patience:.0f} s at most"
        )
        self._executor.post(self._executor.unlinked)
        self._link.close()
        self._link = None

    def _look(self, link: Link) -> Mapping[str, str]:
        """Notice who came and went; return what is wrong with those that came."""
        workers = link.workers()
        # Between two looks a worker may have ended and another begun at its address.
        gone = {worker for worker, process in self._known.items() if workers.get(worker) != process}
        for worker in sorted(gone):
            self._executor.post(self._executor.left, worker)
            del self._known[worker]
        new = workers.keys() - self._known.keys()
        found = link.visit(new) if new else {}
        # One that has gone since then comes as a new one, or not at all.
        self._known |= {worker: workers[worker] for worker in found}
        for worker in sorted(worker for worker, problem in found.items() if not problem):
            self._executor.post(self._executor.joined, worker)
        return found


def _require_fit(found: Mapping[str, str]) -> None:
    problems = [f"{worker}: {problem}" for worker, problem in sorted(found.items()) if problem]
    if problems:
        listed = "".join(f"\n  - {problem}" for problem in problems)
        raise TestbedError(
            f"workers that cannot make these runs:{listed}",
            where="--cluster",
            hint="give them what they lack (`./lab setup` of the same tcpf-lab), start them again; "
            "or end them, and the others do the work",
        )


def _away(error: Exception, patience: float) -> TestbedError:
    return TestbedError(
        f"the scheduler has not come back for {patience:.0f} s: {error}",
        where="--cluster",
        hint="start it and its workers; the same command goes on from what is complete",
    )


#: Workers that a run may take with it before it counts as failed.
DEATHS = 3
#: Runs that are fetched or unpacked at a time: what limits that is one disk and one connection.
HANDS = 2


@dataclass(eq=False)
class Job:
    """A run that was asked for."""

    task: Task
    future: Future[Event]
    key: str = ""  #: of the latest attempt
    worker: str = ""  #: that is at it
    sent: Any = None  #: what `Link.fetch` wants
    died: list[str] = field(default_factory=list)  #: workers that ended or left with it


class ClusterExecutor(Executor):
    """Make runs on the workers of a cluster.

    Dask's own scheduling would not do: it counts a lost worker against every run that it had been
    assigned, begun or not, by a limit of the scheduler (``allowed-failures``); its ``retries`` are
    of runs that raise, which a worker that dies is not; its ``resources`` are what whoever starts
    a worker declares.

    Parameters
    ----------
    connect : callable
        Gives a new connection to the scheduler.
    packages : mapping of str to str
        Hash of each kernel's package that the workers have been given.
    notify : callable
        Gets messages for the user, from another thread.
    patience : float
        How long a scheduler may be away, s.

    Raises
    ------
    RequestError
        If no scheduler answers.
    TestbedError
        Naming every worker that is there and cannot make the runs, and why.
    """

    def __init__(
        self,
        connect: Callable[[], Link],
        packages: Mapping[str, str],
        notify: Callable[[str], None],
        patience: float = PATIENCE_S,
    ) -> None:
        self._packages, self._notify = packages, notify
        self._link: Link | None = None
        self._idle: dict[str, None] = {}  #: workers without a run, in the order they became so
        self._waiting: deque[Job] = deque()
        self._running: dict[str, Job] = {}
        self._open: set[Job] = set()  #: all runs that somebody waits for
        self._error: Exception | None = None  #: why there will be no more
        self._keeping = 0  #: runs that have arrived and are not unpacked yet
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._watcher = Watcher(connect, self, notify, patience)
        self._hands = ThreadPoolExecutor(HANDS, "fetch")
        self._aside = ThreadPoolExecutor(1, "analyse")
        self._dispatcher = Thread(target=self._dispatch, daemon=True)
        self._dispatcher.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **_words: Any) -> Future[Any]:
        """Make the run of a task; or analyse it again: that is done here, by its counters."""
        (task,) = args
        job = Job(task, Future())
        job.future.set_running_or_notify_cancel()
        self._open.add(job)
        job.future.add_done_callback(lambda _future: self._open.discard(job))
        if fn is runner.analyse_again:
            self._aside.submit(self._analyse, job)
        else:
            self.post(self._accept, job)
        return job.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002
        """End all work: what is being unpacked becomes whole, what is being made is cancelled."""
        self._watcher.end(2 * CONNECT_S)
        self._inbox.put(None)
        self._dispatcher.join()
        for pool in (self._hands, self._aside):
            pool.shutdown(wait=False, cancel_futures=True)
        if self._link:
            self._link.cancel([job.sent for job in self._running.values()])
        for pool in (self._hands, self._aside):
            pool.shutdown()
        if self._link:
            self._link.close()

    def post(self, act: Callable[..., None], *words: Any) -> None:
        """Have the dispatcher do something: it alone changes who does what."""
        self._inbox.put(partial(act, *words))

    def _dispatch(self) -> None:
        while (act := self._inbox.get()) is not None:
            try:
                act()
            except Exception as error:  # noqa: BLE001 - who waits for a run must get it
                self.given_up(error)

    # What the watcher says.

    def linked(self, link: Link) -> None:
        """Use another connection, which has no workers yet."""
        self._link = link

    def unlinked(self) -> None:
        """Put back everything that was sent: the connection is gone."""
        self._link = None
        self._idle.clear()
        if self._running:
            self._notify(f"{len(self._running)} runs were under way: they are made again")
        for job in reversed(self._running.values()):
            self._waiting.appendleft(job)
        self._running.clear()

    def joined(self, worker: str) -> None:
        """Use a worker."""
        self._idle[worker] = None
        self._assign()

    def left(self, worker: str) -> None:
        """Use a worker no more, and have its run made by another."""
        self._idle.pop(worker, None)
        for job in [job for job in self._running.values() if job.worker == worker]:
            if self._link:
                self._link.cancel([job.sent])  # and with it whoever waits for it
            self._died(job)

    def given_up(self, error: Exception) -> None:
        """Let every run that is still to come end with an error."""
        self._error = error
        self._waiting.clear()
        self._running.clear()
        for job in list(self._open):
            with suppress(InvalidStateError):  # one that is being stored just now
                job.future.set_exception(error)

    # A run's way: accepted, assigned, ended, fetched, arrived, stored.

    def _accept(self, job: Job) -> None:
        if self._error:
            job.future.set_exception(self._error)
            return
        self._waiting.append(job)
        self._assign()

    def _assign(self) -> None:
        most = HANDS + len(self._idle) + len(self._running)  # else results pile up on the workers
        while self._link and self._waiting and self._idle and self._keeping <= most:
            job, worker = self._waiting.popleft(), next(iter(self._idle))
            del self._idle[worker]
            run = job.task.run
            job.worker, job.key = worker, f"{run.experiment.name}-{run.id}-{uuid.uuid4().hex}"
            self._running[job.key] = job
            order = Order(job.task, self._packages, CODE)
            try:
                job.sent = self._link.start(order, worker, job.key, partial(self.post, self._ended))
            except LOST:
                self._lost(job.key)

    def _ended(self, key: str) -> None:
        job = self._running.get(key)
        if job and self._link:
            self._hands.submit(self._fetch, self._link, key, job)

    def _fetch(self, link: Link, key: str, job: Job) -> None:
        try:
            self.post(self._arrived, key, link.fetch(job.sent))
        except WorkerDiedError:
            self.post(self._killed, key)
        except LOST:
            self.post(self._lost, key)
        except Exception as error:  # noqa: BLE001 - whatever the worker could not do fails this run
            self.post(self._arrived, key, error)

    def _arrived(self, key: str, delivery: Delivery | Exception) -> None:
        job = self._running.pop(key, None)
        if job is None:
            return  # it was given up before, and is made again
        self.joined(job.worker)
        self._keeping += 1
        self._hands.submit(self._keep, job, delivery)

    def _keep(self, job: Job, delivery: Delivery | Exception) -> None:
        try:
            event = keep(job.task, delivery, job.worker)
        except Exception as error:  # noqa: BLE001 - who waits for the run must get it
            self.post(self.given_up, error)
        else:
            with suppress(InvalidStateError):  # the work was given up
                job.future.set_result(event)
        self.post(self._stored)

    def _stored(self) -> None:
        self._keeping -= 1
        self._assign()

    def _lost(self, key: str) -> None:
        """Something was lost, and no worker died: the scheduler, or the connection to it."""
        if key in self._running:
            self._watcher.look_again()

    def _killed(self, key: str) -> None:
        if key in self._running:
            self._died(self._running[key])

    def _died(self, job: Job) -> None:
        del self._running[job.key]
        job.died.append(job.worker)
        run = job.task.run
        if len(job.died) < DEATHS:
            self._notify(f"worker {job.worker} is gone; another makes its run {run.id}")
            self._waiting.appendleft(job)
            self._assign()
            return
        detail = (
            f"run {run.id}: {DEATHS} workers ended or left while they made it: "
            f"{', '.join(job.died)}\n"
            "  try: read their logs; look for the out-of-memory killer (dmesg), or raise "
            "`dask worker --memory-limit`; or a longer --lifetime, if they left by it"
        )
        job.future.set_result(Event(run, "failed", valid=False, detail=detail))

    def _analyse(self, job: Job) -> None:
        try:
            event = runner.analysed(job.task)
        except Exception as error:  # noqa: BLE001 - who waits for the run must get it
            job.future.set_exception(error)
            return
        if event is None:
            self.post(self._accept, job)
        else:
            job.future.set_result(event)


def packed(testbed: UmlTestbed, samples: Sequence[Run]) -> dict[str, Package]:
    """Pack the kernels of runs, each once; return them by the names that plans have for them."""
    plans = {plan.kernel or "": plan for plan in map(compose, samples)}
    kernels = {name: testbed.kernel_of(plan) for name, plan in plans.items()}
    once = {kernel.key: kernel for kernel in kernels.values()}
    packages = {key: uml_package.pack(kernel) for key, kernel in once.items()}
    return {name: packages[kernel.key] for name, kernel in kernels.items()}


@contextmanager
def cluster_executor(
    address: str, testbed: Testbed, samples: Sequence[Run], notify: Callable[[str], None]
) -> Iterator[ClusterExecutor]:
    """Yield an executor on the cluster of a scheduler, whatever ends the block.

    Parameters
    ----------
    address : str
        Of the scheduler, as ``tcp://scheduler:8786``.
    testbed : Testbed
        ``uml``, with the kernel that the workers are given.
    samples : sequence of Run
        One run of each kind: workers whose machine cannot make them are refused.
    notify : callable
        Gets messages for the user.

    Raises
    ------
    RequestError, TestbedError
        As `ClusterExecutor`.
    """
    assert isinstance(testbed, UmlTestbed), "held by `campaign.check_cluster`"
    outfit = Outfit(testbed, packed(testbed, samples), samples)
    executor = ClusterExecutor(lambda: Link(address, outfit), outfit.digests, notify)
    try:
        yield executor
    finally:
        executor.shutdown()
