"""A scheduler and workers as processes of this machine: what a cluster is, but for the network."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tcpf_lab.testbed.base import bound

#: How long a scheduler may take to listen, s; machines are busy at times.
START_S = 120.0


class LocalCluster:
    """Processes that end with this one.

    Parameters
    ----------
    directory : Path
        For logs and for the workers' own files.
    environment : mapping
        What is different for them.
    """

    def __init__(self, directory: Path, environment: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self._environment = {
            **os.environ,
            "DASK_TEMPORARY_DIRECTORY": str(directory / "dask"),
            **(environment or {}),
        }
        self._port = _free_port()
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.workers: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def address(self) -> str:
        """Where the scheduler listens, also after it was started again."""
        return f"tcp://127.0.0.1:{self._port}"

    def start_scheduler(self) -> None:
        """Start the scheduler and wait until it listens."""
        words = ["scheduler", "--host", "127.0.0.1", "--port", str(self._port), "--no-dashboard"]
        self.scheduler = self._start("scheduler", words, {})
        deadline = time.monotonic() + START_S
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self._port), 1).close()
                return
            if time.monotonic() > deadline or self.scheduler.poll() is not None:
                raise RuntimeError((self.directory / "scheduler.log").read_text())
            time.sleep(0.05)

    def start_worker(self, name: str, environment: Mapping[str, str] | None = None) -> None:
        """Start a worker of one process and one thread, which nobody starts again when it ends."""
        words = ["worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        words += ["--host", "127.0.0.1", "--local-directory", str(self.files(name))]
        self.workers[name] = self._start(name, words, environment or {})

    def files(self, name: str) -> Path:
        """Directory below which a worker makes its runs."""
        return self.directory / name

    def kill_worker(self, name: str) -> None:
        """End a worker as the out-of-memory killer would."""
        _end(self.workers.pop(name), signal.SIGKILL)

    def kill_scheduler(self) -> None:
        """End the scheduler without a word to anyone."""
        if self.scheduler:
            _end(self.scheduler, signal.SIGKILL)
            self.scheduler = None

    def stop(self) -> None:
        """End everything."""
        self.kill_scheduler()
        for name in list(self.workers):
            self.kill_worker(name)

    def _start(
        self, name: str, words: list[str], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                bound([sys.executable, "-m", "dask", *words]),
                cwd=self.directory,  # first on the path of `python -m`
                env={**self._environment, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _end(process: subprocess.Popen[bytes], number: int) -> None:
    process.send_signal(number)
    process.wait()
