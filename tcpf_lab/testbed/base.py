"""The interface of testbeds, and the results of checks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tcpf_lab.plan.compose import Plan
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.spec.traffic import Generator

#: Traffic generators of experiments that name none: the fastest in virtual time, the best-known one
#: in real time.
IN_VIRTUAL_TIME: Generator = "native"
ON_HOSTS: Generator = "iperf3"


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str
    ok: bool
    detail: str
    fix: str = ""


class Testbed(Protocol):
    """Executes plans."""

    @property
    def name(self) -> str:
        """Directory name below ``<results>/<experiment>/``."""

    @property
    def clock(self) -> str:
        """``virtual`` (deterministic) or ``real``."""

    @property
    def generator(self) -> Generator:
        """Traffic generator of an experiment that names none."""

    @property
    def parallel(self) -> bool:
        """Whether several runs can be made at a time."""

    def identity(self, plan: Plan) -> dict[str, str]:
        """Return the inputs that may change ``plan``'s results: runs with others are stale."""

    def check(self, plan: Plan) -> tuple[str, ...]:
        """Return all problems that prevent ``plan``, without changing anything."""

    def execute(self, plan: Plan, run: RunFiles, seed: int) -> None:
        """Execute ``plan`` and fill ``run``'s ``log``, ``pcap`` and ``stats``.

        Raises
        ------
        TestbedError
            Naming the run, the cause and the log.
        """

    def facts(self, plan: Plan) -> dict[str, Any]:
        """Return kernel, modules and programs of ``plan`` for the manifest."""


#: Runs after ``setpriv`` has requested the signal: a parent that is gone by then never causes it.
_UNLESS_ORPHAN = '[ "$PPID" = "$0" ] || exit 1; exec "$@"'


def bound(command: Sequence[str], signal: str = "KILL") -> list[str]:
    """Return the command that runs ``command`` and gets ``signal`` when its parent ends.

    Parameters
    ----------
    command : sequence of str
        Program and arguments.
    signal : str
        Name without ``SIG``.

    Notes
    -----
    If this process ends before the signal is requested, the command does not run. The shell in
    between adds ``PWD`` to the environment.
    """
    shell = ("/bin/sh", "-c", _UNLESS_ORPHAN, str(os.getpid()))
    return ["setpriv", "--pdeathsig", signal, *shell, *command]


def is_of(release: str, version: str) -> bool:
    """Tell whether a kernel's release, ``6.12.117+deb12-amd64``, is of a version, ``6.12``."""
    return release == version or release.startswith((f"{version}.", f"{version}-"))
