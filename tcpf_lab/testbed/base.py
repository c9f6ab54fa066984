"""What every testbed can do - three methods, and the errors they end in - and what is looked at."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tcpf_lab.plan.compose import Plan
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.spec.traffic import Generator

#: Traffic generators for experiments that name none: what is fast where time is computed, and what
#: everybody knows where it passes.
IN_VIRTUAL_TIME: Generator = "native"
ON_HOSTS: Generator = "iperf3"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str
    cure: str = ""


class Testbed(Protocol):
    """A place where a plan can be carried out."""

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
        """Give each part that may change ``plan``'s results: runs of others are stale."""

    def check(self, plan: Plan) -> tuple[str, ...]:
        """Return everything that stands in the way of ``plan``, before anything is touched."""

    def execute(self, plan: Plan, run: RunFiles, seed: int) -> None:
        """Carry ``plan`` out and fill ``run``'s ``log``, ``pcap`` and ``stats``.

        Raises
        ------
        TestbedError
            Naming the run, the cause and the log.
        """

    def facts(self, plan: Plan) -> dict[str, Any]:
        """Describe for the manifest what ``plan`` runs on: kernel, modules, programs."""


#: Runs after ``setpriv`` has asked for the signal: a parent gone by then would never cause it.
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
    Where this process has ended before the signal was asked for, the command is not run. The shell
    in between adds ``PWD`` to the environment.
    """
    shell = ("/bin/sh", "-c", _UNLESS_ORPHAN, str(os.getpid()))
    return ["setpriv", "--pdeathsig", signal, *shell, *command]
