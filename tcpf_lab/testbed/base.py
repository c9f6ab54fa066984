"""What every testbed can do: three methods, and the errors they end in."""

from __future__ import annotations

from typing import Any, Protocol

from tcpf_lab.plan.compose import Plan
from tcpf_lab.results import RunFiles


class Testbed(Protocol):
    """A place where a plan can be carried out."""

    @property
    def name(self) -> str:
        """Directory name below ``<results>/<experiment>/``."""

    @property
    def clock(self) -> str:
        """``virtual`` (deterministic) or ``real``."""

    @property
    def identity(self) -> str:
        """Changes with all that may change results: a run made under another one is stale."""

    def check(self, plan: Plan) -> tuple[str, ...]:
        """Return everything that stands in the way of ``plan``, before anything is touched."""

    def execute(self, plan: Plan, run: RunFiles, seed: int) -> None:
        """Carry ``plan`` out and fill ``run``'s ``log``, ``pcap`` and ``stats``.

        Raises
        ------
        TestbedError
            Naming the run, the cause and the log.
        """

    def facts(self) -> dict[str, Any]:
        """Describe the testbed for the manifest: kernel, programs, clock."""
