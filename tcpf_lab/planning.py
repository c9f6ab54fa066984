"""What can be said of an experiment without running it, in a second."""

from __future__ import annotations

from typing import Any

from tcpf_lab.plan.compose import compose
from tcpf_lab.selection import Choice
from tcpf_lab.testbed import guest_plan


def size(choice: Choice) -> dict[str, Any]:
    """Say how large an experiment is."""
    seconds = sum(compose(run).virtual_seconds for run in choice.runs)
    return {"spec": str(choice.source), "runs": len(choice.runs), "virtual_seconds": seconds}


def plan_text(choice: Choice, *, instructions: bool = False) -> str:
    """Return the plan of the first run: to read, or as the guest's instructions."""
    plan = compose(choice.runs[0])
    return guest_plan.render(plan) if instructions else f"# {choice.runs[0].id}\n\n{plan}"
