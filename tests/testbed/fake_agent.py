"""A host that is this machine, and an agent that records what it is asked and does nothing.

What is not the agent is real: files are pushed and fetched by the programs of this machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from tcpf_lab.base.errors import TestbedError
from tcpf_lab.testbed.inventory import Inventory

NSEC = 10**9


class LocalProcess:
    """A program of this machine, as `tcpf_lab.testbed.ssh.hosts.Process`."""

    def __init__(self, argv: Sequence[str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe)
        self.output: IO[bytes] = self._process.stdout

    def write(self, data: bytes) -> None:
        self._process.stdin.write(data)

    def end_input(self) -> None:
        self._process.stdin.close()

    def errors(self) -> str:
        return self._process.stderr.read().decode()

    def status(self, timeout: float) -> int | None:
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


class FakeAgent:
    """Answers requests as the agent does; `faults` and `deaf` say where it does not."""

    def __init__(self, host: FakeHost, state: Path) -> None:
        read, self._write = os.pipe()
        self.output: IO[bytes] = os.fdopen(read, "rb")
        self.requests: list[dict[str, Any]] = []
        self.under_way: list[int] = []
        self.silent = False
        self.host = host
        self.state = state
        self.files = state
        self._status: int | None = None
        self._gone = threading.Event()
        self._lock = threading.Lock()
        if not host.mute:
            self.say_ready()

    def say_ready(self) -> None:
        about = {"protocol": 1, "boot_id": self.host.boot_id, "pid": 1, "time_ns": 1}
        self._reply({"ready": True, **about})

    def write(self, data: bytes) -> None:
        if self._gone.is_set():
            raise OSError("the channel is closed")
        for line in data.splitlines():
            threading.Thread(target=self._handle, args=(json.loads(line),), daemon=True).start()

    def end_input(self) -> None:
        self.host.hung_up = True
        self.exit(0)

    def errors(self) -> str:
        return self.host.last_words

    def status(self, timeout: float) -> int | None:
        self._gone.wait(timeout)
        return self._status

    def close(self) -> None:
        self.exit(None)

    def exit(self, status: int | None) -> None:
        with self._lock:
            if not self._gone.is_set():
                self._status = status
                self._gone.set()
                os.close(self._write)

    def _reply(self, message: dict[str, Any]) -> None:
        with self._lock:
            if not self._gone.is_set():
                os.write(self._write, json.dumps(message).encode() + b"\n")

    def _handle(self, request: dict[str, Any]) -> None:
        self.silent = self.silent or request["do"] == self.host.silent_from
        if self.silent:
            return
        if request["do"] == "clock":
            now = time.time_ns() + self.host.ahead_ns
            value = {"time_ns": now + self.host.set_ns, "monotonic_ns": now - NSEC}
            self._reply({"id": request["id"], "ok": True, "value": value})
            return
        self.requests.append(request)
        if request["do"] == "beat":
            return
        if request["do"] in self.host.deaf:
            self.under_way.append(request["id"])
            return
        if request["do"] in self.host.dies_at:
            self.exit(self.host.dies_at[request["do"]])
            return
        fault = next((f for fault in self.host.faults if (f := fault(request))), None)
        if fault is not None:
            error = {"command": None, "status": None, "output": "", **fault}
            self._reply({"id": request["id"], "ok": False, "error": error})
            return
        if request["do"] == "end":  # what is under way is given up
            for number in self.under_way:
                error = {"message": "cancelled", "command": None, "status": None, "output": ""}
                self._reply({"id": number, "ok": False, "error": error})
        self._reply({"id": request["id"], "ok": True, "value": self._done(request)})
        if request["do"] == "end":
            self.exit(0)

    def _done(self, request: dict[str, Any]) -> Any:
        match request:
            case {"do": "begin", "token": token}:
                self.files = self.state / "runs" / token / "files"
                self.files.mkdir(parents=True)
                return {"files": str(self.files)}
            case {"do": "facts"}:
                return {
                    "uname": {
                        "release": "6.12.0-fake",
                        "version": "#1",
                        "machine": os.uname().machine,
                    }
                }
            case {"do": "start", "starts": starts}:
                for start in starts:
                    for name in (start["output"], start["errors"]):
                        self._file(name, f"{start['name']} says something")
            case {"do": "lateness"}:
                return self.host.lateness
            case {"do": "end"}:
                left = [*self.host.left, *self.host.lost]
                return {"undone": len(self.requests), "left": left, "lost": self.host.lost}
            case {"output": str(output)}:
                self._file(output, f"{request['do']} on {self.host.name}")
        return None

    def _file(self, name: str | None, text: str) -> None:
        if name:
            path = self.files / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


class FakeHost:
    """This machine, called as the inventory wants it to be."""

    client_address = ""

    def __init__(self, name: str, boot_id: str = "one kernel", ahead_ns: int = 0) -> None:
        self.name = name
        self.boot_id = boot_id
        self.ahead_ns = ahead_ns
        self.set_ns = 0  #: by which somebody has set the clock during a run
        self.faults: list[Callable[[dict[str, Any]], dict[str, Any] | None]] = []
        self.deaf: set[str] = set()
        self.silent_from: str | None = None
        self.mute = False
        self.dies_at: dict[str, int | None] = {}
        self.left: list[str] = []
        self.lost: list[str] = []
        self.lateness: dict[str, float] = {}
        self.last_words = ""
        self.hung_up = False
        self.closed = False
        self.unreachable: TestbedError | None = None
        self.agent: FakeAgent | None = None

    def start(self, argv: Sequence[str], silence: float | None = None) -> Any:
        if "serve" in argv:
            self.agent = FakeAgent(self, Path(argv[-1]) / self.name)
            return self.agent
        return LocalProcess(argv)

    def close(self) -> None:
        self.closed = True
        if self.agent is not None:
            self.agent.close()

    @property
    def requests(self) -> list[dict[str, Any]]:
        """What the agent was asked, beats left out."""
        asked = self.agent.requests if self.agent else []
        return [request for request in asked if request["do"] != "beat"]

    def done(self, what: str) -> list[dict[str, Any]]:
        """Give the requests of one kind."""
        return [request for request in self.requests if request["do"] == what]


class FakeNetwork:
    """Connects to the fake hosts of an inventory, as `tcpf_lab.testbed.ssh.session.Connect`."""

    def __init__(self, *hosts: FakeHost) -> None:
        self.hosts = {host.name: host for host in hosts}
        self.connected: Counter[str] = Counter()

    def __call__(self, inventory: Inventory, name: str) -> FakeHost:
        host = self.hosts[name]
        if host.unreachable is not None:
            raise host.unreachable
        self.connected[name] += 1
        return host

    def __getitem__(self, name: str) -> FakeHost:
        return self.hosts[name]
