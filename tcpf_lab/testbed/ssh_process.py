"""A program on a host: started, fed, read, and awaited, whatever becomes of the connection."""

from __future__ import annotations

import shlex
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Protocol

from paramiko import Channel, SSHException

from tcpf_lab.errors import TestbedError
from tcpf_lab.testbed.ssh_faults import TAIL_LINES

#: A program that says nothing for so long is taken for hung, s.
SILENCE_S = 120.0
#: What a channel, a socket and the library below raise when a connection breaks.
BROKEN = (SSHException, OSError, EOFError)
_PIECE = 1 << 15


@dataclass(frozen=True)
class Reply:
    """How a program on a host has ended."""

    status: int
    output: bytes
    errors: str

    @property
    def text(self) -> str:
        """Standard output as text."""
        return self.output.decode("utf-8", "replace")


class Process(Protocol):
    """A program that runs on a host."""

    @property
    def output(self) -> IO[bytes]:
        """Its standard output."""

    def write(self, data: bytes) -> None:
        """Write to its standard input."""

    def end_input(self) -> None:
        """Let it read the end of its input."""

    def said(self) -> str:
        """Give the last lines of its standard error."""

    def status(self, timeout: float) -> int | None:
        """Give its exit status, None if it is not known within ``timeout`` seconds."""

    def close(self) -> None:
        """Give it up."""


class Host(Protocol):
    """A place where programs can be run."""

    @property
    def name(self) -> str:
        """Its name in the inventory."""

    @property
    def client_address(self) -> str:
        """Our address as the host sees it; empty if that is not known."""

    def start(self, argv: Sequence[str], silence: float | None = None) -> Process:
        """Start a program with the rights of root."""

    def close(self) -> None:
        """Leave it."""


def run(host: Host, argv: Sequence[str], feed: bytes = b"", silence: float = SILENCE_S) -> Reply:
    """Run a program on ``host`` to its end.

    Raises
    ------
    TestbedError
        If the connection breaks, or the program says nothing for ``silence`` seconds.
    """
    try:
        process = host.start(argv, silence)
        feeder = threading.Thread(target=_feed, args=(process, feed), daemon=True)
        feeder.start()
        output = process.output.read()
        status = process.status(silence)
        process.close()
        feeder.join(silence)
    except BROKEN as error:
        raise lost(host.name, f"during `{_short(argv)}`", error) from None
    if status is None:
        raise lost(host.name, f"during `{_short(argv)}`", EOFError())
    return Reply(status, output, process.said())


def _feed(process: Process, data: bytes) -> None:
    try:
        for start in range(0, len(data), _PIECE):
            process.write(data[start : start + _PIECE])
        process.end_input()
    except BROKEN:
        pass  # it ended before its input; its status says why


def _short(argv: Sequence[str]) -> str:
    text = " ".join(shlex.join(argv).split())
    return text if len(text) <= 100 else f"{text[:97]}..."


def lost(name: str, when: str, error: BaseException) -> TestbedError:
    """Give the error of a connection that broke."""
    silent = isinstance(error, TimeoutError)
    what = "nothing was heard for too long" if silent else "the connection broke"
    detail = f" ({error})" if str(error) and not silent else ""
    return TestbedError(
        f"{what} {when}{detail}",
        where=f"host {name}",
        hint="is it up, and the control network? The host undoes everything by itself once it "
        "hears nothing",
    )


class SshProcess:
    """A program at the other end of a channel."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.output: IO[bytes] = channel.makefile("rb")
        self._errors: deque[str] = deque(maxlen=TAIL_LINES)
        self._reader = threading.Thread(target=self._read_errors, daemon=True)
        self._reader.start()

    def _read_errors(self) -> None:
        try:
            for line in self._channel.makefile_stderr("rb"):
                self._errors.append(line.decode("utf-8", "replace").rstrip())
        except BROKEN:
            pass  # whoever reads the output is told

    def write(self, data: bytes) -> None:
        """Write to its standard input."""
        self._channel.sendall(data)

    def end_input(self) -> None:
        """Let it read the end of its input."""
        self._channel.shutdown_write()

    def said(self) -> str:
        """Give the last lines of its standard error."""
        self._reader.join(1.0)
        return "\n".join(self._errors)

    def status(self, timeout: float) -> int | None:
        """Give its exit status, None if it is not known within ``timeout`` seconds."""
        if not self._channel.status_event.wait(timeout):
            return None
        status: int = self._channel.recv_exit_status()
        return None if status < 0 else status

    def close(self) -> None:
        """Give it up."""
        self._channel.close()
