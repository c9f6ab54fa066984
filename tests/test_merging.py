"""Results of two machines become one by copying."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from test_runner import Here, kinds

import tcpf_lab
from tcpf_lab.run.runner import run_all
from tcpf_lab.spec.load import load
from tcpf_lab.spec.sweep import Run, expand

FAKE = ("--testbed", "fake")


@pytest.fixture
def runs(spec: Path) -> tuple[Run, ...]:
    return expand(load(spec).on("native"))


@pytest.fixture
def halves(fake, runs, tmp_path: Path) -> tuple[Path, Path]:
    """Return two results directories that have no run in common."""
    a, b = tmp_path / "a", tmp_path / "b"
    list(run_all(runs[:1], fake, a, Here()))
    list(run_all(runs[1:], fake, b, Here()))
    return a, b


def copied(source: Path, target: Path) -> None:
    """Do what ``cp -r a/. b/`` does."""
    shutil.copytree(source, target, dirs_exist_ok=True)


def test_two_halves_copied_together_are_the_whole(lab, fake, spec, runs, halves, tmp_path) -> None:
    a, b = halves
    copied(a, b)
    found = json.loads(lab("status", spec, *FAKE, "--results", "b", "--json")[1])
    assert {run["state"] for run in found} == {"complete"}
    (listed,) = json.loads(lab("status", "--results", "b", "--json")[1])["experiments"]
    assert (listed["complete"], listed["failed"]) == (3, 0)
    assert set(kinds(run_all(runs, fake, b, Here())).values()) == {"skipped"}
    list(run_all(runs, fake, tmp_path / "whole", Here()))
    merged, made = (tcpf_lab.load(at) for at in (b, tmp_path / "whole"))
    assert merged.cells.equals(made.cells)
    assert len(merged.runs) == 3


def test_kept_captures_are_analysed_where_they_were_copied_to(lab, fake, runs, tmp_path) -> None:
    for name, run in zip("ab", runs[:2], strict=True):
        list(run_all([run], fake, tmp_path / name, Here(), keep_pcaps=True))
    copied(tmp_path / "a", tmp_path / "b")
    status, said, _ = lab("analyze", "b")
    assert (status, said.count("rebuilt")) == (0, 2)


def test_run_of_another_kernel_is_stale_where_it_was_copied_to(
    lab, fake, spec, runs, halves, tmp_path
) -> None:
    other = replace(fake, kernel="another kernel")
    list(run_all(runs[:1], other, tmp_path / "a", Here()))
    copied(tmp_path / "a", tmp_path / "b")
    found = json.loads(lab("status", spec, *FAKE, "--results", "b", "--json")[1])
    assert [run["state"] for run in found] == ["stale", "complete", "complete"]


def test_unfinished_runs_that_came_along_are_made(fake, runs, halves) -> None:
    a, b = halves
    left = a / "tiny" / "fake" / "nomark+red-flows3-seed1"
    left.rename(left.with_name(f"{left.name}.partial"))
    copied(a, b)
    assert kinds(run_all(runs, fake, b, Here())) == {1: "finished", 2: "skipped", 3: "skipped"}
