"""What a run says of itself: which one it is, and what it was made from and with."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tcpf_lab
from tcpf_lab.plan.compose import Plan
from tcpf_lab.results import FORMAT, as_json
from tcpf_lab.spec.model import to_data
from tcpf_lab.spec.sweep import Run
from tcpf_lab.testbed.base import Testbed


def manifest_of(run: Run, plan: Plan, testbed: Testbed, commit: str) -> dict[str, Any]:
    """Give a run's manifest: what it is, what it was made with, what has to hold of it."""
    parts = testbed.identity(plan)
    return {
        "format": FORMAT,
        "tcpf_lab": tcpf_lab.__version__,
        "git_commit": commit,
        "experiment": run.experiment.name,
        "testbed": testbed.name,
        "run": run.id,
        "config": run.experiment.config or run.experiment.name,
        "case": run.case_name,
        "flows": run.flows,
        "seed": run.seed,
        **({"settings": dict(run.settings)} if run.settings else {}),
        "clock": testbed.clock,
        "window_s": list(plan.window),
        "made_from": made_from(run, plan, parts),
        "testbed_identity": _hash(as_json(parts)),
        "expect": plan.expect,
        "facts": testbed.facts(plan),
    }


def made_from(run: Run, plan: Plan, testbed: Mapping[str, str]) -> dict[str, str]:
    """Hash, by name, what a run is made from: it is stale if one differs.

    Parameters
    ----------
    run : Run
        Its resolved spec counts, without the title.
    plan : Plan
        What is carried out.
    testbed : mapping of str to str
        `Testbed.identity` for the plan; empty if it is unknown.
    """
    untitled = run.experiment.model_copy(update={"title": ""})
    parts = {"spec": as_json(to_data(untitled)), "plan": str(plan), **testbed}
    return {name: _hash(content) for name, content in parts.items()}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def git_commit() -> str:
    """Name the commit of a checkout (with ``+changes`` if it was edited), or say ``release``."""
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return "release"
    command = ["git", "-C", str(root), "describe", "--always", "--abbrev=12", "--dirty=+changes"]
    try:
        reply = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return reply.stdout.strip()
