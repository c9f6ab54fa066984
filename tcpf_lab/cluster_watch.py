"""See workers of a cluster come and go, and get the scheduler back when it was away."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tcpf_lab.cluster_link import Link
from tcpf_lab.errors import TestbedError

#: How often the scheduler is asked for its workers, and looked for while it is away, s.
LOOK_EVERY_S = 1.0
#: How long a scheduler may be away before the work is given up, s.
PATIENCE_S = 600.0


class Told(Protocol):
    """Who is told what happens, by way of ``post``."""

    def post(self, act: Callable[..., None], *words: Any) -> None:
        """Have one of the other methods called, in whichever thread they belong to."""

    def linked(self, link: Link) -> None:
        """Say that there is a new connection, which has no workers yet."""

    def unlinked(self) -> None:
        """Say that the connection is gone, with all that was sent through it."""

    def joined(self, worker: str) -> None:
        """Say that a worker is ready for runs."""

    def left(self, worker: str) -> None:
        """Say that a worker is gone."""

    def given_up(self, error: Exception) -> None:
        """Say that the scheduler has not come back."""


class Watcher:
    """Watch the workers from a thread of its own.

    Parameters
    ----------
    connect : callable
        Gives a new connection to the scheduler.
    told : Told
        Who is told.
    tell : callable
        Is told what the user should know.
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
        told: Told,
        tell: Callable[[str], None],
        patience: float = PATIENCE_S,
    ) -> None:
        self._connect, self._told, self._tell, self._patience = connect, told, tell, patience
        self._known: dict[str, str] = {}  #: workers, fit or not, and which process each is
        self._trouble, self._ending = threading.Event(), threading.Event()
        self._link: Link | None = connect()
        told.post(told.linked, self._link)
        try:
            _require_fit(self._look(self._link))
        except BaseException:
            self._link.close()
            raise
        if not self._known:
            tell("the cluster has no worker yet; runs begin when one joins")
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
                        self._tell(f"worker {worker} is left out: {problem}")
                seen = time.monotonic()
            except Exception as error:  # noqa: BLE001 - whatever it is, a new connection is the cure
                if self._ending.is_set():
                    return
                self._disconnect(error)
                if time.monotonic() - seen > self._patience:
                    self._told.post(self._told.given_up, _away(error, self._patience))
                    return

    def _connected(self) -> Link:
        if self._trouble.is_set():
            self._trouble.clear()
            raise ConnectionError("runs were lost")
        if self._link is None:
            self._link = self._connect()
            self._known = {}
            self._told.post(self._told.linked, self._link)
            self._tell("the scheduler is there again")
        return self._link

    def _disconnect(self, error: Exception) -> None:
        if self._link is None:
            return
        self._tell(
            f"the scheduler is gone: {error}; waiting for it, {self._patience:.0f} s at most"
        )
        self._told.post(self._told.unlinked)
        self._link.close()
        self._link = None

    def _look(self, link: Link) -> Mapping[str, str]:
        """Notice who came and went; return what is wrong with those that came."""
        workers = link.workers()
        # Between two looks a worker may have ended and another begun at its address.
        gone = {worker for worker, process in self._known.items() if workers.get(worker) != process}
        for worker in sorted(gone):
            self._told.post(self._told.left, worker)
            del self._known[worker]
        new = workers.keys() - self._known.keys()
        found = link.visit(new) if new else {}
        # One that has gone since then comes as a new one, or not at all.
        self._known |= {worker: workers[worker] for worker in found}
        for worker in sorted(worker for worker, problem in found.items() if not problem):
            self._told.post(self._told.joined, worker)
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
