"""The agent: requests on standard input, replies on standard output, and its end.

The main thread only listens, so that it hears the controller whatever is under way; a second one
carries requests out, one after the other; a third writes.  However the conversation ends, the run
is undone: by the request ``end``, or by the agent itself when its input ends, nothing is heard for
too long, or gets a signal to end; and by the watch process if the agent cannot.
"""

from __future__ import annotations

import json
import os
import queue
import select
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

from tcpf_lab.testbed.ssh.agent import facts, journal, undo
from tcpf_lab.testbed.ssh.agent.session import Session, carry_out
from tcpf_lab.testbed.ssh.agent.system import AgentError, Cancelled

#: Version of the protocol, sent in the first line.
PROTOCOL = 1
_FLUSH_S = 5.0
_BEAT_S = 1.0
#: The watch treats an agent as hung that sends nothing for twice its silence, and this on top, s.
_GRACE_S = 10.0


class Agent:
    """One conversation.

    Parameters
    ----------
    state : Path
        The state directory.
    silence : float
        After so long without a word the controller is lost, s.
    """

    def __init__(self, state: Path, silence: float) -> None:
        self._state = state
        self._silence = silence
        self._cancel = threading.Event()
        self._requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._session: Session | None = None
        self._token: str | None = None
        self._watch = undo.start(state, 2 * silence + _GRACE_S)
        self._beaten = 0.0
        self._writer = threading.Thread(target=self._write, daemon=True)

    def serve(self) -> NoReturn:
        """Serve requests until the end."""
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, lambda n, _: self._leave(f"received {signal.Signals(n).name}"))
        threading.stack_size(1 << 18)  # there may be a thread for each of hundreds of programs
        self._writer.start()
        threading.Thread(target=self._work, daemon=True).start()
        self._say(
            ready=True,
            protocol=PROTOCOL,
            boot_id=journal.boot_id(),
            pid=os.getpid(),
            time_ns=time.time_ns(),
        )
        rest = b""
        while True:
            data = self._hear()
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._take(line)

    def _hear(self) -> bytes:
        """Wait for input, and leave if there is to be none."""
        until = time.monotonic() + self._silence
        while (left := until - time.monotonic()) > 0:
            ready, _, _ = select.select([0, self._watch.gone], [], [], min(left, _BEAT_S))
            self._beat()
            if self._watch.gone in ready:
                self._leave("the watch process has ended")
            if 0 in ready:
                data = os.read(0, 1 << 16)
                return data if data else self._leave("the connection to the controller has ended")
        return self._leave(f"no message from the controller for {self._silence:g} s")

    def _beat(self) -> None:
        if time.monotonic() - self._beaten > _BEAT_S / 2:
            self._beaten = time.monotonic()
            self._watch.beat()

    def _take(self, line: bytes) -> None:
        """Answer simple requests at once, and queue the others."""
        try:
            request = json.loads(line)
            word = request["do"]
        except (ValueError, KeyError, TypeError):
            self._refuse(None, AgentError(f"not a request: {line[:200]!r}"))
            return
        if word == "beat":
            return
        if word == "clock":
            value = {"time_ns": time.time_ns(), "monotonic_ns": time.monotonic_ns()}
            self._say(id=request.get("id"), ok=True, value=value)
            return
        if word == "end":  # cancels all earlier requests
            self._cancel.set()
        self._requests.put(request)

    def _work(self) -> None:
        while True:
            request = self._requests.get()
            try:
                value = self._carry_out(request)
            except AgentError as error:
                self._refuse(request.get("id"), error)
            except Exception as error:  # noqa: BLE001 - reported to the controller, whatever it is
                self._refuse(request.get("id"), AgentError(f"{type(error).__name__}: {error}"))
            else:
                self._say(id=request.get("id"), ok=True, value=value)
                if request["do"] == "end":
                    self._exit(1 if value["left"] else 0)

    def _carry_out(self, request: dict[str, Any]) -> Any:
        word = request["do"]
        if word == "end":
            return self._end()
        if self._cancel.is_set():
            raise Cancelled
        if word == "facts":
            return facts.gather(self._state)
        if word == "begin":
            return self._begin(request)
        if self._session is None:
            raise AgentError(f"'{word}' before 'begin'")
        return carry_out(self._session, request)

    def _begin(self, request: dict[str, Any]) -> dict[str, str]:
        if self._session is not None:
            raise AgentError(f"run {self._token} has begun already")
        token = request["token"]
        for run in journal.unfinished(self._state):
            if run["alive"] or run["token"] == token:
                how = f"is under way (process {run['pid']})" if run["alive"] else "is not undone"
                raise AgentError(f"run {run['token']} {how} on this host")
        self._token = token
        self._watch.run(token)
        self._session = Session(
            self._state, token, bool(request["owner"]), request.get("plugins"), self._cancel
        )
        return {"files": str(self._session.files)}

    def _end(self) -> dict[str, Any]:
        if self._token is None:
            return {"undone": 0, "left": [], "lost": []}
        if self._session is not None:
            self._session.close()
        result = undo.undo(self._state, self._token, agent=os.getpid())
        return {"undone": result.undone, "left": result.left, "lost": result.lost}

    def _say(self, **message: Any) -> None:
        self._lines.put(json.dumps(message, separators=(",", ":")) + "\n")

    def _refuse(self, number: int | None, error: AgentError) -> None:
        self._say(id=number, ok=False, error=error.reply())

    def _write(self) -> None:
        """Write replies; a controller that does not read them holds nothing else up."""
        while (line := self._lines.get()) is not None:
            data = line.encode()
            while data:
                try:
                    data = data[os.write(1, data) :]
                except OSError:  # nobody reads any more, which input tells too
                    return

    def _exit(self, status: int) -> NoReturn:
        self._lines.put(None)
        self._writer.join(_FLUSH_S)
        os._exit(status)

    def _leave(self, reason: str) -> NoReturn:
        """Undo the run as another program in this process: so nothing else goes on in it.

        The main thread alone calls this.  If it fails, the watch process does the same.
        """
        if self._token is None:
            os._exit(0)
        self._watch.leaving()
        root = str(Path(__file__).parents[4])
        start = "import sys; sys.path.insert(0, sys.argv.pop(1)); "
        start += "from tcpf_lab.testbed.ssh.agent.__main__ import main; main()"
        words = ["leave", "--state", str(self._state), "--run", self._token, "--reason", reason]
        os.execv(sys.executable, [sys.executable, "-c", start, root, *words])
