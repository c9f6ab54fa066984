"""The protocol with the agent on a host, JSON lines over a channel, and parallel work on hosts.

Requests are answered in order, each within its own time limit.  A thread sends a beat and a request
for the time every few seconds; without beats the agent undoes everything.  An agent that does not
answer for too long is lost, with all its pending requests.
"""

from __future__ import annotations

import concurrent.futures
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from tcpf_lab.base.errors import TestbedError
from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.ssh import hosts
from tcpf_lab.testbed.ssh.clock import Exchange
from tcpf_lab.testbed.ssh.hosts import BROKEN, Host, Process, lost
from tcpf_lab.testbed.uml import guest

PROTOCOL = 1
#: Interval of beats, s.
BEAT_S = 5.0
#: An agent that sends nothing for so many times its `silence` is lost: it has given up too.
LOST_AFTER = 1.5
#: Time limit of requests that take no time themselves, s: an emulated machine may be slow.
PATIENCE_S = 120.0
#: How often a waiting thread checks whether to stop, s.
LOOK_EVERY_S = 0.2
T = TypeVar("T")


def beside(work: Callable[[], T]) -> Future[T]:
    """Do ``work`` in a daemon thread."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - the future carries it
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def side_by_side(
    work: Callable[[str], T], names: Iterable[str], look: Callable[[], None] = lambda: None
) -> dict[str, T]:
    """Do ``work`` for each of ``names`` at once.

    Parameters
    ----------
    work : callable
        Called with one of the names.
    names : iterable of str
        The hosts.
    look : callable
        Called periodically meanwhile; what it raises ends the waiting.

    Returns
    -------
    dict of str to what ``work`` returns
        In the order of ``names``.

    Raises
    ------
    KeyboardInterrupt
        If the runs are to stop; what is under way is not waited for.
    """
    futures = {name: beside(partial(work, name)) for name in names}
    pending = set(futures.values())
    while pending:
        done, pending = concurrent.futures.wait(
            pending, LOOK_EVERY_S, concurrent.futures.FIRST_EXCEPTION
        )
        for future in done:
            future.result()
        if guest.stopping():
            raise KeyboardInterrupt
        look()
    return {name: future.result() for name, future in futures.items()}


@dataclass(frozen=True)
class Request:
    """A request to an agent."""

    do: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    node: str | None = None  #: for messages
    text: str = ""  #: description for messages
    patience: float = PATIENCE_S


#: Called with host, request, duration in s, and the error, if any.
Note = Callable[[str, Request, float, str | None], None]


@dataclass
class _Pending:
    request: Request
    answer: Future[Any]
    at: float


class Agent:
    """A running agent.

    Parameters
    ----------
    host : Host
        Where it runs.
    process : Process
        The agent's program, just started.
    inventory : Inventory
        Gives the testbed's name, for messages, and the silence.
    note : callable, optional
        Called for every request once it is answered.
    """

    def __init__(
        self, host: Host, process: Process, inventory: Inventory, note: Note | None = None
    ) -> None:
        self.host = host
        self.process = process
        self._testbed = inventory.testbed
        self._silence = LOST_AFTER * inventory.silence
        self._note = note
        self._exchanges: list[Exchange] = []
        self._numbers = itertools.count(1)
        self._pending: dict[int, _Pending] = {}
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._ready: Future[dict[str, Any]] = Future()
        self._fault: TestbedError | None = None
        self._ended = threading.Event()
        self._heard = time.monotonic()
        for work in (self._read, self._beat):
            threading.Thread(target=work, daemon=True, name=f"agent on {host.name}").start()

    def ready(self, timeout: float = PATIENCE_S) -> dict[str, Any]:
        """Await the agent's first line, and return it.

        Raises
        ------
        TestbedError
            If there is none in time, or it speaks another protocol.
        """
        try:
            first = self._ready.result(timeout)
        except TimeoutError:
            raise TestbedError(
                f"the agent sent nothing for {timeout:g} s{hosts.tail(self.process.errors())}",
                where=f"host {self.host.name}",
                hint="check that the host responds and that its `python3` is 3.9 or newer",
            ) from None
        if first.get("protocol") != PROTOCOL:
            raise TestbedError(
                f"the agent speaks protocol {first.get('protocol')}, not {PROTOCOL}",
                where=f"host {self.host.name}",
                hint="reinstall tcpf-lab: its parts are of different versions",
            )
        return first

    def ask(self, request: Request) -> Future[Any]:
        """Send a request; the future gets the reply's value, or `TestbedError`."""
        answer: Future[Any] = Future()
        number = next(self._numbers)
        with self._lock:
            if self._fault is not None:
                answer.set_exception(self._fault)
                return answer
            self._pending[number] = _Pending(request, answer, time.monotonic())
        self._send({"id": number, "do": request.do, **request.arguments})
        return answer

    def call(self, request: Request) -> Any:
        """Send a request and await its value.

        Raises
        ------
        TestbedError
            If it is refused, or the agent is lost, or does not answer in time.
        """
        answer = self.ask(request)
        while not answer.done():
            with suppress(TimeoutError):
                return answer.result(LOOK_EVERY_S)
            with suppress(TestbedError):  # the answer is that error then
                self.check()
        return answer.result()

    def check(self) -> None:
        """Raise if the agent is lost, or an answer is overdue.

        Raises
        ------
        TestbedError
            Naming host and request.
        """
        now = time.monotonic()
        with self._lock:
            late = [p for p in self._pending.values() if now - p.at > p.request.patience]
            silent = now - self._heard > self._silence and not self._ended.is_set()
        if silent:
            self.give_up(lost(self.host.name, self._under_way(), TimeoutError()))
            self.process.close()  # so that nobody waits for it either
        elif late:
            request = late[0].request
            self.give_up(
                TestbedError(
                    f"`{_words(request)}` did not finish within {request.patience:g} s",
                    where=self._where(request.node),
                    hint="check the load of the host, which undoes the run's changes",
                )
            )
        if self._fault is not None:
            raise self._fault

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """Readings of the host's clock so far."""
        return tuple(self._exchanges)

    @property
    def usable(self) -> bool:
        """Whether it still accepts requests."""
        return self._fault is None and not self._ended.is_set()

    def finished(self) -> None:
        """Ignore its silence from now on: it is about to end."""
        self._ended.set()

    def close(self) -> None:
        """Let go of it."""
        self._ended.set()
        self.process.close()

    def give_up(self, fault: TestbedError) -> None:
        """Count the agent as lost: all its requests end in ``fault``."""
        with self._lock:
            self._fault = self._fault or fault
            pending, self._pending = list(self._pending.values()), {}
            if not self._ready.done():
                self._ready.set_exception(self._fault)
        self._ended.set()
        for each in pending:
            each.answer.set_exception(self._fault)

    def _send(self, message: Mapping[str, Any]) -> None:
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        try:
            with self._sending:
                self.process.write(line)
        except BROKEN as error:
            self.give_up(self._gone(error))

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_S):
            if self._ready.done():
                self._send({"do": "beat"})
                sent = time.monotonic_ns()
                self.ask(Request("clock")).add_done_callback(partial(self._keep, sent))

    def _keep(self, sent: int, answer: Future[Any]) -> None:
        if answer.exception() is None:
            self._exchanges.append(Exchange(sent, time.monotonic_ns(), answer.result()))

    def _read(self) -> None:
        error: BaseException = EOFError()
        try:
            for line in self.process.output:
                self._heard = time.monotonic()
                self._receive(json.loads(line))
        except (*BROKEN, ValueError) as broken:
            error = broken
        if not self._ended.is_set():
            self.give_up(self._gone(error))

    def _receive(self, message: dict[str, Any]) -> None:
        if "ready" in message:
            with self._lock:
                if not self._ready.done():
                    self._ready.set_result(message)
            return
        with self._lock:
            pending = self._pending.pop(message["id"], None)
        if pending is None:
            return
        request, seconds = pending.request, time.monotonic() - pending.at
        if message["ok"]:
            pending.answer.set_result(message.get("value"))
            self._report(request, seconds, None)
            return
        fault = hosts.refused(
            self._where(request.node), self._testbed, _words(request), message["error"]
        )
        pending.answer.set_exception(fault)
        self._report(request, seconds, fault.message)

    def _report(self, request: Request, seconds: float, fault: str | None) -> None:
        """Call ``note``; if that fails, the error names the log, not the connection."""
        if self._note is None or request.do == "clock":
            return
        try:
            self._note(self.host.name, request, seconds, fault)
        except OSError as error:
            self.give_up(
                TestbedError(
                    f"cannot write the request log: {error.strerror or error}",
                    where=str(error.filename or "this machine"),
                    hint="check the free space of this machine's disk (`df -h`), then run again",
                )
            )

    def _gone(self, error: BaseException) -> TestbedError:
        """Return the error for the end of input: the agent has ended, or the connection has."""
        status = self.process.status(1.0)
        if status is None:
            return lost(self.host.name, self._under_way(), error)
        return hosts.failed(
            f"host {self.host.name}", self._testbed, "the agent", status, self.process.errors()
        )

    def _under_way(self) -> str:
        with self._lock:
            pending = [p.request for p in self._pending.values() if p.request.do != "clock"]
        return f"during `{_words(pending[0])}`" if pending else "between two steps"

    def _where(self, node: str | None) -> str:
        return f"host {self.host.name}" + (f" (role {node})" if node else "")


def _words(request: Request) -> str:
    return request.text or request.do
