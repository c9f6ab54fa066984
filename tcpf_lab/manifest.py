"""What a run says of itself: which one it is, and what it was made from and with."""

from __future__ import annotations

import hashlib
import subprocess
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
        "digest": digest(run, plan),
        "testbed_identity": testbed.identity(plan),
        "expect": plan.expect,
        "facts": testbed.facts(plan),
    }


def digest(run: Run, plan: Plan) -> str:
    """Identify what a run is made from: its resolved spec (without the title) and its plan."""
    untitled = run.experiment.model_copy(update={"title": ""})
    return hashlib.sha256(f"{as_json(to_data(untitled))}\0{plan}".encode()).hexdigest()


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
