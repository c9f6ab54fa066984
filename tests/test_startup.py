"""What the command line loads before it does anything."""

from __future__ import annotations

import subprocess
import sys

import pytest

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


@pytest.mark.parametrize("words", [("--help",), ("--version",)])
def test_verbs_are_listed_without_loading_them(words: tuple[str, ...]) -> None:
    loaded = loaded_by(*words)
    assert not loaded.intersection(HEAVY)
    assert not loaded.intersection(f"tcpf_lab.{verb.module}" for verb in cli.VERBS.values())


@pytest.mark.parametrize("words", [("plan", "configA.yaml"), ("schema",)])
def test_plan_needs_nothing_of_what_makes_or_reads_runs(words: tuple[str, ...]) -> None:
    assert not loaded_by(*words).intersection({*HEAVY, "tcpf_lab.runner", "tcpf_lab.report"})


def test_captures_are_analysed_without_what_draws() -> None:
    assert not loaded_by("analyze", "--help").intersection({"matplotlib", "tcpf_lab.campaign"})


@pytest.mark.parametrize("name", cli.VERBS)
def test_list_says_of_a_verb_what_its_own_help_begins_with(name: str) -> None:
    command = cli.load(name)
    assert command.name == name or cli.VERBS[name].member == "app"
    first = " ".join(command.help.split("\n\n")[0].split())
    assert first.startswith(" ".join(cli.VERBS[name].about.split()))
