"""A `tcpf-lab` process and its output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from tools.faults import processes, subject

ROOT = Path(__file__).parents[2]
#: Longest that any command may take, s: many times what it needs on a busy machine.
PATIENCE_S = 600.0
LOOK_EVERY_S = 0.01


@dataclass
class Command:
    """One `tcpf-lab`: started from the interpreter on, or forked from this process.

    Parameters
    ----------
    words : sequence of str
        Behind ``tcpf-lab``.
    directory : Path
        Where it runs.
    name : str
        Of the files that keep what it said.
    environment : mapping
        Variables besides this process's own.
    planted : mapping
        For `faults.subject`.
    """

    words: Sequence[str]
    directory: Path
    name: str
    environment: Mapping[str, str]
    planted: Mapping[str, Any] = field(default_factory=dict)
    pid: int = 0
    status: int | None = None
    began: float = 0.0

    def start(self) -> Command:
        """Start it with an interpreter of its own, which takes seconds."""
        with self.output.open("wb") as out, self.errors.open("wb") as errors:
            started = subprocess.Popen(
                [sys.executable, "-m", "tools.faults.subject", *self.words],
                cwd=self.directory,
                env={**os.environ, **self._variables(), "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                start_new_session=True,
                preexec_fn=processes.end_with_parent,
            )
        started.returncode = 0  # it is waited for here: Popen is not to
        self.pid, self.began = started.pid, time.monotonic()
        return self

    def fork(self) -> Command:
        """Start it as a copy of this process, which has loaded everything."""
        sys.stdout.flush()
        sys.stderr.flush()
        self.began = time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            self._be()
        return self

    def _be(self) -> NoReturn:
        status = 70
        try:
            processes.end_with_parent()
            os.setsid()
            for path, number in ((self.output, 1), (self.errors, 2)):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), number)
            # This process may have put others in their place, as a test's capture does.
            sys.stdout, sys.stderr = (open(n, "w", closefd=False) for n in (1, 2))  # noqa: SIM115
            os.environ.update(self._variables())
            os.chdir(self.directory)
            sys.argv = ["tcpf-lab", *self.words]
            subject.main()
            status = 0
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        except BaseException:  # noqa: BLE001 - as an interpreter ends: the traceback is judged
            import traceback

            traceback.print_exc()
            status = 1
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def _variables(self) -> dict[str, str]:
        return {**self.environment, subject.VARIABLE: json.dumps(dict(self.planted))}

    @property
    def output(self) -> Path:
        """What it printed."""
        return self.directory / f"{self.name}.out"

    @property
    def errors(self) -> Path:
        """What it complained of."""
        return self.directory / f"{self.name}.err"

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status is None

    def wait(self) -> int | None:
        """Give its exit status, negative for a signal; None if it hung, and was killed then."""
        until = time.monotonic() + PATIENCE_S
        while self.running:
            if time.monotonic() > until:
                processes.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                return None
            time.sleep(LOOK_EVERY_S)
        return self.status

    def text(self) -> str:
        """Give everything that it printed."""
        texts = (path.read_text("utf-8", "replace") for path in (self.errors, self.output))
        return "\n".join(texts)
