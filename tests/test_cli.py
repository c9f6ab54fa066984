"""The command line, on the fake testbed."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from test_runner import Here, kinds

import tcpf_lab
from tcpf_lab.base.errors import TestbedError
from tcpf_lab.results.layout import ExperimentFiles
from tcpf_lab.run import reporting
from tcpf_lab.run.runner import run_all
from tcpf_lab.spec.load import load
from tcpf_lab.spec.sweep import Run, expand
from tcpf_lab.testbed import registry
from tcpf_lab.testbed.uml import kernel, preflight


def test_run_ends_with_its_table(quick, spec, tmp_path):
    status, said, _ = quick("run", spec, "--testbed", "fake")
    assert status == 0
    root = tmp_path / "results" / "tiny" / "fake"
    rows = list(csv.DictReader(io.StringIO((root / "table.csv").read_text())))
    assert [(r["config"], r["case"], r["flows"], r["n"], r["valid_runs"]) for r in rows] == [
        ("tiny", "NoMark+RED", "3", "3", "3")
    ]
    assert float(rows[0]["loss_percent_mean"]) > 0
    assert "table.md" in said


def test_json_of_a_run_names_every_run_and_file(quick, spec):
    status, said, _ = quick("run", spec, "--testbed", "fake", "--seeds", "2", "--json")
    result = json.loads(said)
    assert status == 0
    assert [(run["run"], run["state"]) for run in result["runs"]] == [
        ("nomark+red-flows3-seed1", "finished"),
        ("nomark+red-flows3-seed2", "finished"),
    ]
    assert any(path.endswith("table.csv") for path in result["written"])


def test_failed_run_is_exit_status_1_and_named(quick, spec, fake, monkeypatch):
    broken = replace(fake, failing_seeds=(2,))
    monkeypatch.setitem(registry.TESTBEDS, "fake", lambda: broken)
    status, _, complaints = quick("run", spec, "--testbed", "fake")
    assert status == 1
    assert "run with seed 2: asked to fail" in complaints
    assert "1 of 3 runs failed" in complaints


def test_stale_run_whose_repetition_failed_is_left_out(quick, spec, fake, monkeypatch, tmp_path):
    monkeypatch.setitem(registry.TESTBEDS, "fake", lambda: replace(fake, kernel="another kernel"))
    quick("run", spec, "--testbed", "fake")
    monkeypatch.setitem(registry.TESTBEDS, "fake", lambda: replace(fake, failing_seeds=(2,)))
    quick("run", spec, "--testbed", "fake")
    table = tmp_path / "results" / "tiny" / "fake" / "table.csv"
    (row,) = csv.DictReader(io.StringIO(table.read_text()))
    assert (row["n"], row["valid_runs"]) == ("3", "2")


def test_json_is_printed_even_if_no_run_is_good_enough_for_a_table(lab, spec, monkeypatch):
    def nothing_usable(*_, **__):
        raise TestbedError("no usable run")

    monkeypatch.setattr(reporting, "report", nothing_usable)
    status, said, complaints = lab("run", spec, "--testbed", "fake", "--json")
    assert status == 1
    assert [run["state"] for run in json.loads(said)["runs"]] == ["finished"] * 3
    assert "error: no usable run" in complaints


def test_dry_run_and_status_say_what_is_missing_and_touch_nothing(quick, spec, tmp_path):
    assert "missing" in quick("run", spec, "--testbed", "fake", "--dry-run")[1]
    assert not (tmp_path / "results").exists()
    quick("run", spec, "--testbed", "fake", "--seeds", "1")
    states = json.loads(quick("status", spec, "--testbed", "fake", "--json")[1])
    assert [state["state"] for state in states] == ["complete", "missing", "missing"]
    experiments = json.loads(quick("status", "--json")[1])
    (tiny,) = experiments["experiments"]
    assert (tiny["experiment"], tiny["testbed"]) == ("tiny", "fake")
    assert (tiny["complete"], tiny["failed"]) == (1, 0)


def test_status_tells_complete_stale_failed_and_missing_runs_apart(
    quick, spec, fake, monkeypatch, tmp_path
):
    four = tmp_path / "four.yaml"
    four.write_text(spec.read_text().replace("seed: 1..3", "seed: 1..4"))
    monkeypatch.setitem(registry.TESTBEDS, "fake", lambda: replace(fake, kernel="another kernel"))
    quick("run", four, "--testbed", "fake", "--only", "seed=2")
    monkeypatch.setitem(registry.TESTBEDS, "fake", lambda: replace(fake, failing_seeds=(3,)))
    quick("run", four, "--testbed", "fake", "--only", "seed=1")
    quick("run", four, "--testbed", "fake", "--only", "seed=3")
    monkeypatch.setitem(registry.TESTBEDS, "fake", lambda: fake)
    words = ("status", four, "--testbed", "fake")
    listed = {run["run"][-5:]: run for run in json.loads(quick(*words, "--json")[1])}
    told = {seed: run["state"] for seed, run in listed.items()}
    wanted = {"seed1": "complete", "seed2": "stale", "seed3": "failed", "seed4": "missing"}
    assert told == wanted
    assert listed["seed2"]["causes"] == ["kernel"]
    shown = quick(*words)[1].splitlines()
    assert shown[-1].endswith("kernel (1)")
    head, row = (line.split() for line in shown[:2])
    counts = dict(zip(head, row, strict=False))
    assert [counts[state] for state in wanted.values()] == ["1"] * 4


def test_status_tells_runs_that_are_not_valid(quick, spec, fake, monkeypatch, tmp_path):
    spoilt = tmp_path / "spoilt"
    shutil.copytree(fake.recorded, spoilt)
    log = spoilt / "log/tcpdump-S.log"
    log.write_text(log.read_text().replace("0 packets dropped", "3 packets dropped"))
    monkeypatch.setitem(registry.TESTBEDS, "fake", lambda: replace(fake, recorded=spoilt))
    quick("run", spec, "--testbed", "fake", "--seeds", "1")
    words = ("status", spec, "--testbed", "fake")
    first, *others = json.loads(quick(*words, "--json")[1])
    assert first["invalid"] == ["captures_complete: S: the kernel dropped 3 packets"]
    assert not any("invalid" in run for run in others)
    head, row = (line.split() for line in quick(*words)[1].splitlines()[:2])
    assert dict(zip(head, row, strict=False))["invalid"] == "1"


def test_complete_runs_are_never_repeated(quick, spec, tmp_path):
    words = ("run", spec, "--testbed", "fake", "--seeds", "2", "--json")
    assert [run["state"] for run in json.loads(quick(*words)[1])["runs"]] == ["finished"] * 2
    before = as_left(tmp_path / "results" / "tiny" / "fake")
    assert len(before) > 20
    assert [run["state"] for run in json.loads(quick(*words)[1])["runs"]] == ["skipped"] * 2
    assert as_left(tmp_path / "results" / "tiny" / "fake") == before


def as_left(root: Path) -> dict[Path, tuple[int, bytes]]:
    """Give what every file of the runs holds, and when it was written."""
    files = (path for path in root.glob("*-seed*/**/*") if path.is_file())
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def test_doctor_says_what_is_missing_on_this_machine_and_the_cure(lab, monkeypatch):
    here = shutil.which
    monkeypatch.setattr(
        preflight.shutil, "which", lambda name, **path: name != "tcpdump" and here(name, **path)
    )
    nothing = {"built": False, "missing_packages": ["flex"], "modules": (), "plugins": ()}
    monkeypatch.setattr(kernel, "status", lambda: nothing)
    status, said, _ = lab("doctor", "--json")
    told = {check["name"]: (check["detail"], check["fix"]) for check in json.loads(said)}
    assert status == 1
    assert told["programs"] == ("missing programs: tcpdump", "./lab setup installs them")
    fix = "apt-get install flex, then tcpf-lab kernel build"
    assert told["kernel"] == ("not built", fix)
    shown = lab("doctor")[1]
    assert "missing programs: tcpdump" in shown
    assert fix in shown


def test_analyze_rebuilds_metrics_of_kept_captures(quick, spec, tmp_path):
    quick("run", spec, "--testbed", "fake", "--seeds", "1", "--keep-pcaps")
    run = tmp_path / "results" / "tiny" / "fake" / "nomark+red-flows3-seed1"
    before = (run / "metrics.json").read_bytes()
    (run / "metrics.json").unlink()
    status, said, _ = quick("analyze", run)
    assert (status, said.strip()) == (0, f"rebuilt {run / 'metrics.json'}")
    assert (run / "metrics.json").read_bytes() == before


def test_clean_removes_only_unfinished_runs(quick, spec, tmp_path):
    quick("run", spec, "--testbed", "fake", "--seeds", "1")
    root = tmp_path / "results" / "tiny" / "fake"
    (root / "nomark+red-flows3-seed9.partial").mkdir()
    assert "would remove" in quick("clean", "--dry-run")[1]
    assert quick("clean")[0] == 0
    assert [path.name for path in root.glob("nomark*")] == ["nomark+red-flows3-seed1"]


def test_plan_prints_commands_and_check_counts_runs(lab, spec):
    assert "tc qdisc add dev R1-R2 parent 1: handle 2: red" in lab("plan", spec)[1]
    assert json.loads(lab("plan", spec, "--check", "--json")[1])["runs"] == 3
    assert lab("plan", spec, "--instructions")[1].startswith("step\t")


def test_plan_reads_standard_input(lab, spec):
    words = [sys.executable, "-m", "tcpf_lab", "plan", "-"]
    done = subprocess.run(words, input=spec.read_text(), capture_output=True, text=True)
    assert done.stdout == lab("plan", spec)[1]
    assert done.returncode == 0, done.stderr


def test_json_of_a_plan_is_json(lab, spec):
    shown = json.loads(lab("plan", spec, "--json")[1])
    assert shown["run"] == "nomark+red-flows3-seed1"
    assert any("tc qdisc add dev R1-R2" in line for line in shown["plan"])


def test_clean_leaves_runs_alone_that_are_being_made(lab, tmp_path):
    files = ExperimentFiles(tmp_path / "results", "tiny", "fake")
    files.partial("a-run").create()
    with files.locked():
        status, _, complaints = lab("clean")
    assert status == 2
    assert "another tcpf-lab process" in complaints
    assert files.partial("a-run").root.exists()


def test_full_disk_behind_standard_output_is_told_without_a_traceback(lab, spec, monkeypatch):
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        status, _, complaints = lab("plan", spec)
        monkeypatch.undo()
        with contextlib.suppress(OSError):
            full.close()
    assert status == 1
    assert complaints == "error: standard output: No space left on device\n"


def test_version_and_schema(lab):
    assert lab("--version")[1].startswith("tcpf-lab 0.")
    assert json.loads(lab("schema")[1])["title"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run", "no-such.yaml"], "error: no-such.yaml: no such experiment"),
        (
            ["run", "smoke.yaml", "--testbed", "umm"],
            "unknown testbed 'umm'; allowed: uml, vm, fake",
        ),
        (["run", "smoke.yaml", "--only", "sed=1"], "Did you mean 'seed'?"),
        (["run", "smoke.yaml", "--seeds", "5"], "must be from 1 to 1"),
        (["run", "smoke.yaml", "--set", "traffic.duraton=5 s"], "Did you mean 'duration'?"),
        (["analyze", "no-such.pcap"], "no-such.pcap"),
        (["analyze", "."], "nothing to analyse: no run"),
        (["clean", "--results", "nowhere"], "nowhere: no such results directory"),
        (["report", "smoke.yaml", "--testbed", "fake"], "no usable run"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_request_is_answered_with_what_is_allowed(lab, words, expected):
    status, _, complaints = lab(*words)
    assert status in (1, 2)
    assert expected in complaints


@pytest.mark.parametrize(
    "words",
    [
        ["analyze", ""],
        ["analyze", "x.pcap", "-o", ""],
        ["run", ""],
        ["run", "smoke.yaml", "--results", ""],
        ["plan", ""],
        ["calibrate", ""],
        ["compare", "smoke.yaml", "--results="],
        ["report", "smoke.yaml", "--reference", ""],
        ["plot", "loss", ""],
        ["device", "", "x.pcap"],
        ["status", "--results", ""],
        ["clean", "--results", ""],
        ["model", "rio", "--page", ""],
        ["kernel", "build", "--source", ""],
        ["doctor", "--testbed", ""],
    ],
    ids=" ".join,
)
def test_an_empty_path_is_not_the_current_directory(lab, words):
    status, said, complaints = lab(*words)
    assert (status, said, complaints.count("\n")) == (2, "", 1)
    assert complaints.startswith("error: ")


def test_several_mistakes_in_a_spec_are_told_at_once(lab, tmp_path):
    (tmp_path / "bad.yaml").write_text("name: bad\ntopolgy: {}\ntcp: {profile: linux-2.3}\n")
    status, _, complaints = lab("run", "bad.yaml")
    assert status == 2
    lines = [line for line in complaints.splitlines() if line.startswith("error: bad.yaml:")]
    assert len(lines) >= 2


def test_a_closed_standard_output_is_told() -> None:
    command = f"exec {sys.executable} -m tcpf_lab --version >&-"
    said = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert said.returncode == 1
    assert said.stderr.startswith("error: standard output is closed")


def test_too_few_open_files_are_told_of_before_a_guest_boots(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(preflight.resource, "getrlimit", lambda _: (20, 20))
    found = preflight.machine_problem()
    assert found is not None
    assert found.startswith("the limit of open files is 20, a guest needs 256")


# Results of two machines become one by copying.

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
