"""What the command line loads before it does anything."""

from __future__ import annotations

import subprocess
import sys

from tcpf_lab import cli

#: What takes long to load.
HEAVY = ("numpy", "pandas", "scipy", "matplotlib", "numba", "paramiko", "tcpf_lab.metrics")


def loaded_by(*words: str) -> set[str]:
    """Modules that a command has loaded by the time it ends, in a process of its own."""
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        f"sys.argv = ['tcpf-lab', *{words!r}]\n"
        "from tcpf_lab.__main__ import main\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout, "it has said what it was asked"
    return set(done.stderr.split())


def test_verbs_are_listed_without_loading_them() -> None:
    loaded = loaded_by("--help")
    assert not loaded.intersection(HEAVY)
    assert not loaded.intersection(f"tcpf_lab.{verb.module}" for verb in cli.VERBS.values())


def test_plan_needs_nothing_of_what_makes_or_reads_runs() -> None:
    assert not loaded_by("plan", "configA.yaml").intersection(
        {*HEAVY, "tcpf_lab.runner", "tcpf_lab.report"}
    )


def test_captures_are_analysed_without_what_draws() -> None:
    assert not loaded_by("analyze", "--help").intersection({"matplotlib", "tcpf_lab.campaign"})
