"""A connection to the scheduler of a Dask cluster and, through it, to the workers.

All that is Dask's is here and in `worker`; `executor` decides what is made where.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from distributed import Client
from distributed.client import ClosedClientError
from distributed.comm.addressing import get_address_host_port
from distributed.scheduler import KilledWorker

from tcpf_lab.base.errors import InterruptedRunError, LabError, RequestError, TestbedError
from tcpf_lab.run.cluster import worker as cluster_worker
from tcpf_lab.run.cluster.worker import Delivery, Order
from tcpf_lab.spec.sweep import Run
from tcpf_lab.testbed.base import Testbed
from tcpf_lab.testbed.uml.package import Package

#: How long a scheduler may take to answer, s.
CONNECT_S = 10.0
#: What calls end in when the scheduler, or the connection to it, is gone; a run may raise them too.
LOST = (
    OSError,
    TimeoutError,
    asyncio.CancelledError,
    concurrent.futures.CancelledError,
    ClosedClientError,
)


class WorkerDiedError(LabError):
    """The worker ended while it made a run, or has given it up to end."""


@dataclass(frozen=True)
class Outfit:
    """What every worker must have before it makes a run."""

    testbed: Testbed
    packages: Mapping[str, Package]  #: by the kernel that plans name; of the others: ""
    samples: Sequence[Run]  #: one of each kind, to see whether the worker's machine can make them

    @property
    def digests(self) -> dict[str, str]:
        """Hash of the package of each kernel."""
        return {name: package.digest for name, package in self.packages.items()}


class Link:
    """A connection to a scheduler.

    Parameters
    ----------
    address : str
        As ``tcp://scheduler:8786``.
    outfit : Outfit
        What workers are given, and held to.

    Raises
    ------
    RequestError
        If nothing answers there, or it is not an address.
    """

    def __init__(self, address: str, outfit: Outfit) -> None:
        self._outfit = outfit
        try:
            get_address_host_port(address)  # a client for no address at all is slow to give up
            self._client: Any = Client(  # type: ignore[no-untyped-call]
                address, timeout=CONNECT_S, set_as_default=False, direct_to_workers=False
            )
        except (OSError, ValueError, TimeoutError) as error:
            raise RequestError(
                f"no scheduler answers: {str(error).partition(': Stream')[0]}",
                where=f"--cluster {address}",
                hint="`dask scheduler` starts one and prints its address, tcp://HOST:8786; then on "
                "each machine `dask worker tcp://HOST:8786 --nthreads 1 --nworkers CORES`",
            ) from None

    @property
    def connected(self) -> bool:
        """Whether the connection is up, as far as is known."""
        return bool(self._client.status == "running")

    def workers(self) -> dict[str, str]:
        """Return the addresses of all workers that the scheduler knows, and which process is there.

        Raises
        ------
        LOST
            If the scheduler does not answer.
        """
        if not self.connected:
            raise ConnectionError("not connected")
        known = self._client.sync(self._client.scheduler.identity)["workers"]
        # Each process makes itself a directory; its address and its name may be an earlier one's.
        return {address: f"{w['id']} in {w['local_directory']}" for address, w in known.items()}

    def visit(self, workers: set[str]) -> dict[str, str]:
        """Make workers ready for runs; return for each what is in the way, or nothing."""
        found = self._different(workers)
        alike = {worker for worker, problem in found.items() if not problem}
        found |= self._equip(alike)
        ready = {worker for worker in alike if not found[worker]}
        answers = self._ask(
            ready,
            cluster_worker.problems,
            self._outfit.testbed,
            self._outfit.digests,
            self._outfit.samples,
        )
        for worker, answer in answers.items():
            found[worker] = str(answer) if isinstance(answer, Exception) else "; ".join(answer)
        return found

    def start(self, order: Order, worker: str, key: str, ended: Callable[[str], None]) -> Any:
        """Send a run to a worker; ``ended`` is called with ``key`` in another thread, once.

        Returns
        -------
        object
            For :meth:`fetch` and :meth:`close`.
        """
        future = self._client.submit(
            cluster_worker.make,
            pickle.dumps(order),
            key=key,
            workers=[worker],
            pure=False,
        )
        future.add_done_callback(lambda _future: ended(key))
        return future

    def fetch(self, future: Any) -> Delivery:
        """Get a run that has ended, and let the cluster forget it.

        Raises
        ------
        WorkerDiedError
            If the scheduler gave it up, because its worker died; or the worker did, to end.
        TestbedError
            If the worker's machine has not let it make the run.
        LOST
            If it was lost with its worker or its scheduler.
        """
        try:
            delivery = future.result()
        except (KilledWorker, InterruptedRunError):
            raise WorkerDiedError("the worker died, or left") from None
        except LOST as error:
            if future.status != "error":
                raise
            # Raised by the run itself: to take that for a lost scheduler would never end.
            raise TestbedError(
                f"the worker could not make it: {type(error).__name__}: {error}",
                hint="read its log; check free space in its --local-directory",
            ) from None
        finally:
            future.release()
        assert isinstance(delivery, Delivery)
        return delivery

    def cancel(self, futures: Iterable[Any]) -> None:
        """Let workers end what they make; whoever waits in :meth:`fetch` is told as well."""
        with suppress(*LOST):
            self._client.cancel(list(futures))

    def close(self) -> None:
        """End the connection; with it the scheduler forgets all that was sent."""
        with suppress(*LOST):
            self._client.close(timeout=CONNECT_S)

    def _ask(self, workers: Iterable[str], what: Callable[..., Any], *words: Any) -> dict[str, Any]:
        request = sorted(workers)
        if not request:
            return {}
        return dict(self._client.run(what, *words, workers=request, on_error="return"))

    def _different(self, workers: set[str]) -> dict[str, str]:
        """Say which workers are not of the version that this program is, and how they differ."""
        own = cluster_worker.identity()
        found = {}
        for worker, theirs in self._ask(workers, cluster_worker.identity).items():
            if isinstance(theirs, Exception):
                found[worker] = f"it cannot run this version of tcpf-lab: {theirs}"
                continue
            differences = [
                f"{name} is {theirs.get(name, 'not there')}, here {value}"
                for name, value in own.items()
                if theirs.get(name) != value
            ]
            found[worker] = "; ".join(differences)
        return found

    def _equip(self, workers: set[str]) -> dict[str, str]:
        """Send the kernel packages where they are lacking."""
        failed = dict.fromkeys(workers, "")
        for package in self._outfit.packages.values():
            failed |= self._send(package, {worker for worker in workers if not failed[worker]})
        return failed

    def _send(self, package: Package, workers: set[str]) -> dict[str, str]:
        """Send a package once to each cache of a host name; return what failed, or nothing."""
        failed = dict.fromkeys(workers, "")
        lacking = set(workers)
        while lacking:
            answers = self._ask(lacking, cluster_worker.has_package, package.digest)
            failed |= {w: str(a) for w, a in answers.items() if isinstance(a, Exception)}
            lacking = {w for w, has in answers.items() if has is False and not failed[w]}
            one_each = {urlsplit(worker).hostname: worker for worker in sorted(lacking)}
            answers = self._ask(one_each.values(), cluster_worker.receive, package)
            failed |= {w: str(a) for w, a in answers.items() if isinstance(a, Exception)}
            lacking -= {worker for worker in failed if failed[worker]}
        return failed
