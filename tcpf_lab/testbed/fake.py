"""A testbed that carries nothing out: it hands over what another one recorded.

For tests of everything around a testbed, and to look at the program without a kernel.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcpf_lab.errors import TestbedError
from tcpf_lab.plan.compose import Plan
from tcpf_lab.results import RunFiles


@dataclass(frozen=True)
class FakeTestbed:
    """Copy ``log``, ``pcap`` and ``stats`` of a recorded run for every plan."""

    recorded: Path
    kernel: str = "recorded"  #: stands for all that may change results
    failing_seeds: tuple[int, ...] = ()  #: seeds whose run is to fail

    name = "fake"
    clock = "virtual"

    def check(self, plan: Plan) -> tuple[str, ...]:  # noqa: ARG002 - nothing of a plan is needed
        """Return what stands in the way: only a recording that is not there."""
        return () if self.recorded.is_dir() else (f"no recorded run in {self.recorded}",)

    def execute(self, plan: Plan, run: RunFiles, seed: int) -> None:  # noqa: ARG002
        """Copy the recording, or fail if ``seed`` is to fail."""
        if seed in self.failing_seeds:
            raise TestbedError("asked to fail", where=f"run with seed {seed}")
        for name in ("log", "pcap", "stats"):
            shutil.copytree(self.recorded / name, run.root / name, dirs_exist_ok=True)

    def identity(self, plan: Plan) -> str:  # noqa: ARG002
        """Return what it was made with: a recording is of one kernel."""
        return self.kernel

    def facts(self, plan: Plan) -> dict[str, Any]:  # noqa: ARG002
        """Say where the data comes from."""
        return {"recorded": self.recorded.name}
