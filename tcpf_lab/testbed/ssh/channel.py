"""The conversation with the agent on one host, JSON lines over a channel, and hosts side by side.

Requests are answered in order, each within a time that whoever asks gives.  A thread lets the agent
hear a beat every few seconds, without which it would undo everything, and asks for the time: an
agent that has not answered anything for too long is lost, and with it everything still asked of it.
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
#: An agent hears from us so often, s.
BEAT_S = 5.0
#: An agent that has said nothing for so many times its own `silence` is lost: it has given up too.
LOST_AFTER = 1.5
#: For an answer that takes no time of its own, s: an emulated machine may be slow.
PATIENCE_S = 120.0
#: How often somebody who waits looks for a reason to stop, s.
LOOK_EVERY_S = 0.2
T = TypeVar("T")


def beside(work: Callable[[], T]) -> Future[T]:
    """Do ``work`` in a thread that nobody has to wait for when the program ends."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - whoever awaits the future gets it
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
        Told one of the names.
    names : iterable of str
        The hosts.
    look : callable
        Called every now and then meanwhile; what it raises ends the waiting.

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
    """Something asked of an agent."""

    do: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    node: str | None = None  #: for messages
    text: str = ""  #: the plan's words for it, for messages
    patience: float = PATIENCE_S


#: Told host, request, seconds taken, and the error if there was one.
Note = Callable[[str, Request, float, str | None], None]


@dataclass
class _Asked:
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
        Told of every request once it is answered.
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
        self._asked: dict[int, _Asked] = {}
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
                f"the agent said nothing for {timeout:g} s{hosts.tail(self.process.said())}",
                where=f"host {self.host.name}",
                hint="is `python3` there 3.9 or newer, and the machine responsive?",
            ) from None
        if first.get("protocol") != PROTOCOL:
            raise TestbedError(
                f"the agent speaks protocol {first.get('protocol')}, not {PROTOCOL}",
                where=f"host {self.host.name}",
                hint="install tcpf-lab again: its own parts do not fit each other",
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
            self._asked[number] = _Asked(request, answer, time.monotonic())
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
            Naming host, and what was asked.
        """
        now = time.monotonic()
        with self._lock:
            late = [a for a in self._asked.values() if now - a.at > a.request.patience]
            silent = now - self._heard > self._silence and not self._ended.is_set()
        if silent:
            self.give_up(lost(self.host.name, self._under_way(), TimeoutError()))
            self.process.close()  # so that nobody waits for it either
        elif late:
            request = late[0].request
            self.give_up(
                TestbedError(
                    f"`{_words(request)}` was not done within {request.patience:g} s",
                    where=self._where(request.node),
                    hint="is the host overloaded? Look at it; nothing has to be tidied up there",
                )
            )
        if self._fault is not None:
            raise self._fault

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """What the host's clock has said to the beats so far."""
        return tuple(self._exchanges)

    @property
    def usable(self) -> bool:
        """Whether it can still be asked anything."""
        return self._fault is None and not self._ended.is_set()

    def finished(self) -> None:
        """Take no notice of its silence from now on: it is about to end."""
        self._ended.set()

    def close(self) -> None:
        """Let go of it."""
        self._ended.set()
        self.process.close()

    def give_up(self, fault: TestbedError) -> None:
        """Count the agent as lost: whatever is asked of it ends in ``fault``."""
        with self._lock:
            self._fault = self._fault or fault
            asked, self._asked = list(self._asked.values()), {}
            if not self._ready.done():
                self._ready.set_exception(self._fault)
        self._ended.set()
        for each in asked:
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
            asked = self._asked.pop(message["id"], None)
        if asked is None:
            return
        request, seconds = asked.request, time.monotonic() - asked.at
        if message["ok"]:
            asked.answer.set_result(message.get("value"))
            self._tell(request, seconds, None)
            return
        fault = hosts.refused(
            self._where(request.node), self._testbed, _words(request), message["error"]
        )
        asked.answer.set_exception(fault)
        self._tell(request, seconds, fault.message)

    def _tell(self, request: Request, seconds: float, fault: str | None) -> None:
        """Tell whoever takes notes; a note that cannot be taken is no fault of the connection."""
        if self._note is None or request.do == "clock":
            return
        try:
            self._note(self.host.name, request, seconds, fault)
        except OSError as error:
            self.give_up(
                TestbedError(
                    f"the log of requests cannot be written: {error.strerror or error}",
                    where=str(error.filename or "this machine"),
                    hint="is the disk of this machine full? `df -h`; then run again",
                )
            )

    def _gone(self, error: BaseException) -> TestbedError:
        """Say why nothing more is to be read: the agent has ended, or the connection has."""
        status = self.process.status(1.0)
        if status is None:
            return lost(self.host.name, self._under_way(), error)
        return hosts.failed(
            f"host {self.host.name}", self._testbed, "the agent", status, self.process.said()
        )

    def _under_way(self) -> str:
        with self._lock:
            asked = [a.request for a in self._asked.values() if a.request.do != "clock"]
        return f"during `{_words(asked[0])}`" if asked else "between two steps"

    def _where(self, node: str | None) -> str:
        return f"host {self.host.name}" + (f" (role {node})" if node else "")


def _words(request: Request) -> str:
    return request.text or request.do
