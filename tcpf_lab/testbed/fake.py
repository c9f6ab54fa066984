"""A testbed that executes nothing: it copies a recorded run.

For tests of everything around a testbed, and to look at the program without a kernel.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tcpf_lab.base.errors import TestbedError
from tcpf_lab.plan.compose import Plan
from tcpf_lab.plan.step import Command, LoadModule
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.testbed.base import IN_VIRTUAL_TIME


@dataclass(frozen=True)
class FakeTestbed:
    """Copy ``log``, ``pcap`` and ``stats`` of a recorded run for every plan."""

    recorded: Path
    kernel: str = "recorded"  #: represents all inputs that may change results
    failing_seeds: tuple[int, ...] = ()  #: seeds whose run is to fail
    #: Commands that fail, with their status and output.
    failing: Mapping[tuple[str, ...], tuple[int, str]] = field(default_factory=dict)
    modules: tuple[str, ...] = ("sch_rio", "sch_frio", "act_tcpf", "act_token")

    name = "fake"
    clock = "virtual"
    generator = IN_VIRTUAL_TIME
    parallel = True

    def check(self, plan: Plan) -> tuple[str, ...]:
        """Return the problems: a missing recording or missing modules."""
        found = [] if self.recorded.is_dir() else [f"no recorded run in {self.recorded}"]
        loaded = (step.name for step in plan.steps if isinstance(step, LoadModule))
        found += [f"not built: {name}" for name in loaded if name not in self.modules]
        return tuple(found)

    def execute(self, plan: Plan, run: RunFiles, seed: int) -> None:
        """Copy the recording, or fail if ``seed``, or a command of ``plan``, is to fail.

        A file of the plan that the recording lacks is empty.
        """
        if seed in self.failing_seeds:
            raise TestbedError("asked to fail", where=f"run with seed {seed}")
        for step in plan.steps:
            if isinstance(step, Command) and step.argv in self.failing:
                status, output = self.failing[step.argv]
                text = f"`{shlex.join(step.argv)}` ended with status {status}: {output}"
                raise TestbedError(text, where=f"role {step.node}")
        for name in ("log", "pcap", "stats"):
            shutil.copytree(self.recorded / name, run.root / name, dirs_exist_ok=True)
        for path in _outputs(plan):
            if not any((run.root / f"{path}{packed}").exists() for packed in ("", ".zst")):
                (run.root / path).touch()

    def identity(self, plan: Plan) -> dict[str, str]:  # noqa: ARG002 - nothing of a plan is needed
        """Return the recording's kernel."""
        return {"kernel": self.kernel}

    def facts(self, plan: Plan) -> dict[str, Any]:  # noqa: ARG002
        """Return the name of the recording."""
        return {"recorded": self.recorded.name}


def _outputs(plan: Plan) -> Iterator[str]:
    for step in plan.steps:
        for path in (getattr(step, "output", None), getattr(step, "errors", None)):
            if path and not getattr(step, "optional", False):
                yield path
