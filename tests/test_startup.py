"""What the command line loads before it does anything."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tcpf_lab.cli import main, plan
from tcpf_lab.testbed.uml import preflight

SENDERS = Path(__file__).parent / "data" / "senders"
#: What takes long to load.
HEAVY = (
    "numpy",
    "pandas",
    "scipy",
    "matplotlib",
    "tcpf_lab._trace",
    "paramiko",
    "tcpf_lab.metrics",
)


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
    assert not loaded.intersection(f"tcpf_lab.cli.{verb.module}" for verb in main.VERBS.values())


def test_plan_needs_nothing_of_what_makes_or_reads_runs() -> None:
    assert not loaded_by("plan", "configA.yaml").intersection(
        {*HEAVY, "tcpf_lab.run.runner", "tcpf_lab.report"}
    )


def test_captures_are_analysed_without_what_draws() -> None:
    assert not loaded_by("analyze", "--help").intersection({"matplotlib", "tcpf_lab.run.campaign"})


def test_output_that_lacks_the_letters_of_a_name_has_their_escapes(tmp_path: Path) -> None:
    shutil.copy(SENDERS / "modern.pcap.zst", tmp_path / "日本.pcap.zst")
    done = subprocess.run(
        [sys.executable, "-m", "tcpf_lab", "analyze", "日本.pcap.zst"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SENDERS.parents[2]), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert r"\u65e5\u672c.pcap.zst" in done.stdout


@pytest.mark.parametrize(
    ("words", "limit_mb", "status"),
    [
        (("--help",), 40, 1),
        (("plan", "smoke", "--check"), 100, 0),
        (("doctor", "-h"), 100, 1),
        *(((verb, "-h"), 290, 1) for verb in ("run", "report", "analyze", "plot", "model")),
        (("run", "-h"), 1000, 0),
    ],
)
def test_a_limit_of_memory_ends_in_one_message_that_names_it(
    words: tuple[str, ...], limit_mb: int, status: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tcpf_lab", *words],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit_mb * 2**20,) * 2),
    )
    assert done.returncode == status, done.stderr
    if status:
        message, _hint = done.stderr.splitlines()
        assert f"ulimit -v, the limit of address space, is {limit_mb} MB" in message


def test_memory_that_ends_later_on_names_the_limit_too(
    lab: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_more(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(plan, "choose", no_more)
    status, _, complaint = lab("plan", "smoke")
    assert status == 1
    assert complaint.startswith("error: memory is short: ")


def test_a_guest_larger_than_the_limit_is_refused_before_it_boots(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (1000 * 2**20,) * 2)
    assert "limit of address space, is 1000 MB" in str(preflight.memory_problem(1000))
    assert not preflight.memory_problem(100)
