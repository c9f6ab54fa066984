"""The plan of each shipped experiment: its steps, and the guest's instructions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from door import ROOT, Hold, tcpf_lab
from ruamel.yaml import YAML

pytestmark = pytest.mark.oracle

EXPERIMENTS = ROOT / "experiments"


def shipped() -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Yield each experiment with what a collection sets in it, as options of the command line."""
    for path in sorted(EXPERIMENTS.glob("*.yaml")):
        content = read(path)
        if "cases" in content:
            yield path, ()
        for member in content.get("experiments", ()):
            if not isinstance(member, str) and "set" in member:
                options = (option for one in member["set"] for option in ("--set", str(one)))
                yield EXPERIMENTS / f"{member['spec']}.yaml", tuple(options)


def read(path: Path) -> Any:
    return YAML(typ="safe").load(path)


def test_plan_of_the_first_run_of_each_case(hold: Hold) -> None:
    found = {}
    for path, options in dict.fromkeys(shipped()):
        for case in read(path)["cases"]:
            words = (path.name, *options, "--only", f"case={case}")
            guest = tcpf_lab("plan", "--instructions", *words)
            if guest.status:  # what a collection sets leaves some cases out
                found[" ".join(words)] = [guest.status]
                continue
            plan = "" if options else tcpf_lab("plan", *words).out
            found[" ".join(words)] = [digest(text) for text in (guest.out, plan) if text]
    hold("plans.json.zst", found)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
