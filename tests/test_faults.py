"""A dozen faults of the suite, planted into real runs; and what the suite itself is made of."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tcpf_lab.testbed import registry
from tcpf_lab.testbed.uml import kernel
from tools.faults import __main__, lane
from tools.faults.command import Command
from tools.faults.damage import spoil
from tools.faults.kinds import KINDS, draw
from tools.faults.stage import answer, fingerprint, run_ids

pytestmark = pytest.mark.full

ROOT = Path(__file__).parent.parent
#: The others take longer: they start guests of another size, or build.
SOON = (
    *("controller", "worker", "guest", "tcpdump", "interrupt", "disk-full", "read-only"),
    *("clock-forward", "capture", "record", "two", "place-full"),
)


@pytest.mark.uml
@pytest.mark.nightly
def test_a_dozen_faults_leave_whole_runs_no_process_and_the_same_numbers(uml, tmp_path):
    """In a process of its own: a fork of this one has no threads of libraries it has used."""
    only = [word for kind in SOON for word in ("--only", kind)]
    place, found = tmp_path / "work", tmp_path / "found.json"
    words = ["--seed", "1", "--faults", str(len(SOON)), "--work", place, "--output", found, *only]
    ended = subprocess.run([sys.executable, "-m", "tools.faults", *words], cwd=ROOT, check=False)
    assert ended.returncode in (0, 1)
    outcomes = json.loads(found.read_text(encoding="utf-8"))["faults"]
    assert sorted(each["kind"] for each in outcomes) == sorted(SOON)
    assert [(e["kind"], e["what"], e["problems"]) for e in outcomes if e["state"] == "failed"] == []
    assert ended.returncode == 0
    unmounted = [KINDS[each["kind"]].mounts for each in outcomes if each["state"] == "not run"]
    assert all(unmounted), "only what needs mounts may be left out"
    assert sum(each["state"] == "passed" for each in outcomes) >= 7
    assert list(place.glob("fault-*")) == []


@pytest.mark.uml
def test_the_cache_that_faults_begin_with_has_two_sound_entries(uml, tmp_path):
    """Were one damaged, every fault in it would compile the kernel again."""
    lane.prepare_cache(tmp_path)
    entries = {facts.parent.resolve() for facts in tmp_path.glob("tcpf-lab/kernel/*/kernel.json")}
    assert [kernel.damage(entry) for entry in entries] == [(), ()]


@pytest.mark.parametrize("words", [["--output", "missing/x.json"], ["--work", ""]])
def test_a_place_that_cannot_be_is_refused_before_any_fault(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "testbed", lambda _: None)
    monkeypatch.setattr(lane, "load", lambda: pytest.fail("the work has begun"))
    (tmp_path / "mine").touch()
    app = __main__.typer.Typer()
    app.command()(__main__.main)
    reply = CliRunner().invoke(app, ["--output", "x.json", *words])
    assert reply.exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_the_same_seed_draws_the_same_faults_and_every_kind_comes_early():
    faults = draw(5, 60)
    assert draw(5, 30) == faults[:30]
    assert draw(6, 30) != faults[:30]
    assert {fault.kind for fault in faults[: len(KINDS)]} == set(KINDS)
    for fault in faults:
        assert set(fault.finished) <= set(run_ids())
        assert (len(fault.finished) == 4) == KINDS[fault.kind].finished
        assert 0 <= fault.delay <= 6


@pytest.mark.parametrize("seed", range(8))
def test_a_spoiled_file_is_never_what_it_was(tmp_path, seed):
    path = tmp_path / "file.json"
    before = b'{"a": 1}' if seed % 4 else b""
    path.write_bytes(before)
    spoil(path, random.Random(seed), json=True)
    assert not path.exists() or path.read_bytes() != before


def test_a_fingerprint_leaves_out_the_log_and_who_made_a_run(tmp_path):
    for name, commit in (("one", "a"), ("two", "b")):
        run = tmp_path / name
        (run / "log").mkdir(parents=True)
        (run / "log/console.txt").write_text(name)
        (run / "manifest.json").write_text(json.dumps({"git_commit": commit, "seed": 1}))
        (run / "metrics.json").write_text("{}")
    one, two = tmp_path / "one", tmp_path / "two"
    assert fingerprint(one, whole=False) == fingerprint(two, whole=False)
    assert fingerprint(one) != fingerprint(two)
    (two / "metrics.json").write_text("{ }")
    assert fingerprint(one, whole=False) != fingerprint(two, whole=False)


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Return a function that starts `tcpf-lab` with a stand-in for its interpreter."""

    def start(script: str) -> Command:
        program = tmp_path / "program"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(program))
        return Command(("run",), tmp_path, "command", {}).start()

    return start


def test_an_answer_is_judged_by_status_message_and_traceback(command):
    assert answer(command("echo the disk is full >&2; exit 1"), (1,), "disk is full") == []
    assert "ended with 3" in answer(command("exit 3"), (0, 1), "")[0]
    assert "did not print" in answer(command("echo sorry; exit 1"), (1,), "disk is full")[0]
    said = "echo 'Traceback (most recent call last):'; exit 0"
    assert "shows a traceback" in answer(command(said), (0,), "")[0]
    assert "ended with -9" in answer(command("kill -9 $$"), (0,), "")[0]


def test_a_process_that_outlives_its_command_is_found(command):
    """In a process of its own, which becomes the parent of the orphan."""
    script = (
        "import subprocess, sys; sys.path[:0] = sys.argv[1:]\n"
        "from tools.faults import processes\n"
        "processes.adopt()\n"
        "subprocess.run(['sh', '-c', 'sleep 600 & exit 0'], check=True)\n"
        "left = processes.remaining(0.2)\n"
        "print([process.words for process in left])\n"
        "processes.end(left)\n"
        "print(processes.remaining(5.0))\n"
    )
    reply = subprocess.run(
        [sys.executable, "-c", script, str(ROOT)], capture_output=True, text=True
    )
    assert reply.stdout.splitlines() == ["[('sleep', '600')]", "[]"], reply.stderr
