"""Sweeps on the command line, on the fake testbed: runs, what is skipped, tables, sensitivity."""

from __future__ import annotations

import csv
import json
import shutil

import pytest

from tcpf_lab.testbed import registry
from tcpf_lab.testbed.fake import FakeTestbed

AXIS = ("--set", "traffic.socket_buffer=1 MB..2 MB:1 MB")
FAKE = ("--testbed", "fake", "--seeds", "2")
ONE, TWO = (f"nomark+red-traffic.socket_buffer={size}-flows3-seed" for size in ("1MB", "2MB"))


class OtherTestbed(FakeTestbed):
    """A second place with runs of its own."""

    name = "other"


def states(said):
    return {row["run"]: row["state"] for row in json.loads(said)}


def of_members(said):
    return [(row["experiment"], row["run"][-5:], row["state"]) for row in json.loads(said)]


def test_a_range_makes_runs_each_in_a_directory_of_its_own(quick, spec, tmp_path):
    status, said, _ = quick("run", spec, *FAKE, *AXIS, "--json")
    assert status == 0
    runs = json.loads(said)["runs"]
    assert [(run["run"], run["settings"]["traffic.socket_buffer"]) for run in runs] == [
        *((f"{ONE}{seed}", "1 MB") for seed in (1, 2)),
        *((f"{TWO}{seed}", "2 MB") for seed in (1, 2)),
    ]
    root = tmp_path / "results/tiny/fake"
    manifest = json.loads((root / f"{TWO}1" / "manifest.json").read_text())
    assert manifest["settings"] == {"traffic.socket_buffer": "2 MB"}
    rows = list(csv.DictReader((root / "table.csv").open()))
    assert [(row["case"], row["traffic.socket_buffer"], row["n"]) for row in rows] == [
        ("NoMark+RED", "1 MB", "2"),
        ("NoMark+RED", "2 MB", "2"),
    ]
    assert "| NoMark+RED | 1 MB " in (root / "table.md").read_text()


def test_a_sweep_goes_on_where_it_ended_and_shares_nothing_with_the_plain_runs(quick, spec):
    quick("run", spec, *FAKE)
    quick("run", spec, *FAKE, *AXIS, "--only", "traffic.socket_buffer=2MB")
    found = states(quick("status", spec, *FAKE, *AXIS, "--json")[1])
    assert found == {
        **{f"{ONE}{seed}": "missing" for seed in (1, 2)},
        **{f"{TWO}{seed}": "complete" for seed in (1, 2)},
    }
    again = json.loads(quick("run", spec, *FAKE, *AXIS, "--json")[1])["runs"]
    assert [run["state"] for run in again] == ["finished", "finished", "skipped", "skipped"]
    assert set(states(quick("status", spec, *FAKE, "--json")[1]).values()) == {"complete"}


def test_another_value_beside_the_axis_makes_its_runs_stale(quick, spec):
    quick("run", spec, *FAKE, *AXIS)
    found = states(quick("status", spec, *FAKE, *AXIS, "--set", "tcp.sack=false", "--json")[1])
    assert set(found.values()) == {"stale"}


def test_the_state_of_a_sweep_is_a_row_per_value(quick, spec):
    quick("run", spec, *FAKE, *AXIS, "--only", "traffic.socket_buffer=1 MB")
    lines = quick("status", spec, *FAKE, *AXIS)[1].splitlines()
    heading = "case traffic.socket_buffer flows complete stale outdated failed missing size"
    assert lines[0].split() == heading.split()
    assert [line.split()[1:9] for line in lines[1:]] == [
        ["1", "MB", "3", "2", "-", "-", "-", "-"],
        ["2", "MB", "3", "-", "-", "-", "-", "2"],
    ]


def test_a_runs_own_file_repeats_it(quick, spec, tmp_path):
    quick("run", spec, *FAKE, *AXIS)
    run = tmp_path / "results/tiny/fake" / f"{TWO}2"
    metrics = (run / "metrics.json").read_bytes()
    shutil.copy(run / "run.yaml", tmp_path / "again.yaml")
    shutil.rmtree(run)
    status, said, _ = quick("run", "again.yaml", "--testbed", "fake", "--json")
    assert status == 0
    assert [row["run"] for row in json.loads(said)["runs"]] == [run.name]
    assert (run / "metrics.json").read_bytes() == metrics


def test_the_conditions_of_a_sweep_name_what_differs(quick, spec, tmp_path):
    quick("run", spec, *FAKE, "--set", "tcp.sack=[true, false]")
    text = (tmp_path / "results/tiny/fake/table.md").read_text().replace("\u00a0", " ")
    assert "sysctl-2.2 SACK or sysctl-2.2 no SACK" in text


def test_a_sweep_in_a_collection_is_part_of_its_level(quick, spec, tmp_path):
    (tmp_path / "both.yaml").write_text(
        f"name: both\nexperiments:\n  - {spec}\n"
        f"  - {{spec: {spec}, factor: buffer, level: swept, set: ['{AXIS[1]}']}}\n"
    )
    status, said, _ = quick("run", "both.yaml", *FAKE, "--json")
    assert status == 0
    runs = [(run["experiment"], run["run"]) for run in json.loads(said)["runs"]]
    assert runs[2:] == [("both-buffer-swept", f"{name}{n}") for name in (ONE, TWO) for n in (1, 2)]
    rows = list(csv.DictReader((tmp_path / "results/both/fake/table.csv").open()))
    assert [(row["level"], row["traffic.socket_buffer"]) for row in rows] == [
        ("", ""),
        ("swept", "1 MB"),
        ("swept", "2 MB"),
    ]
    found = json.loads(quick("compare", "both.yaml", *FAKE, "--sensitivity", "--json")[1])
    assert found["factors"][0]["levels"] == [
        "swept, traffic.socket_buffer=1 MB",
        "swept, traffic.socket_buffer=2 MB",
    ]
    only = ("--only", "traffic.socket_buffer=2 MB", "--dry-run", "--json")
    assert list(states(quick("run", "both.yaml", *FAKE, *only)[1])) == [f"{TWO}1", f"{TWO}2"]


def test_sensitivity_ranks_the_axes(quick, spec, monkeypatch):
    two = (*AXIS, "--set", "tcp.sack=[true, false]")
    quick("run", spec, *FAKE, *two)
    found = json.loads(quick("compare", spec, *FAKE, *two, "--sensitivity", "--json")[1])
    assert [factor["name"] for factor in found["factors"]] == ["tcp.sack", "traffic.socket_buffer"]
    assert found["design"][0].startswith("full factorial: tcp.sack (2 values), traffic.")
    monkeypatch.setenv("COLUMNS", "80")
    said = quick("compare", spec, *FAKE, *two, "--sensitivity")[1]
    assert "Effects" in said


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("--sensitivity",), 1, "nothing varies"),
        (("--sensitivity", *AXIS), 1, "no level has a usable run"),
        (("--sensitivity", "--testbed", "uml"), 2, "--sensitivity needs exactly one testbed"),
        (AXIS, 1, "no published cell has a usable run"),
    ],
)
def test_what_cannot_be_compared_is_said(quick, spec, words, status, message):
    quick("run", spec, *FAKE)
    ended, _, complaints = quick("compare", spec, *FAKE, *words)
    assert (ended, message in complaints) == (status, True), complaints


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--set", "traffic.socket_buffer=1 MB..2 MB"), "needs a step"),
        (("--set", "traffic.socket_bufer=1 MB..2 MB:1 MB"), "Did you mean 'socket_buffer'?"),
        ((*AXIS, "--only", "traffic.socket_buffer=3 MB"), "allowed: 1 MB, 2 MB"),
        (("--only", "traffic.socket_buffer=1 MB"), "unknown key 'traffic.socket_buffer'"),
        (("--only", "colour=red"), "unknown key 'colour'; allowed: config, case, flows, seed"),
    ],
)
def test_a_mistake_is_answered_before_anything_runs(quick, spec, words, message):
    status, _, complaints = quick("run", spec, *FAKE, *words)
    assert (status, message in complaints) == (2, True), complaints


def test_two_testbeds_are_compared_value_by_value(quick, spec, fake, monkeypatch):
    other = OtherTestbed(fake.recorded)
    monkeypatch.setitem(registry.TESTBEDS, "other", lambda: other)
    for name in ("fake", "other"):
        quick("run", spec, "--testbed", name, "--seeds", "2", *AXIS)
    words = (*FAKE, "--testbed", "other", *AXIS, "--json")
    found = json.loads(quick("compare", spec, *words)[1])
    assert [cell["case"] for cell in found["cells"]] == [
        "NoMark+RED, traffic.socket_buffer=1 MB",
        "NoMark+RED, traffic.socket_buffer=2 MB",
    ]


# Collections on the command line: one pool, each run in its experiment's own directory.

TEXT = """\
name: both
title: Two buffers
experiments:
  - {spec}
  - {{spec: {spec}, factor: buffer, level: 2 MB, set: [traffic.socket_buffer=2 MB]}}
"""


@pytest.fixture
def both(spec, tmp_path):
    path = tmp_path / "both.yaml"
    path.write_text(TEXT.format(spec=spec))
    return path


def test_runs_of_all_experiments_are_made_each_in_its_own_directory(quick, both, tmp_path):
    status, said, _ = quick("run", both, "--testbed", "fake", "--seeds", "2", "--json")
    result = json.loads(said)
    assert status == 0
    assert [(run["experiment"], run["state"]) for run in result["runs"]] == [
        *[("tiny", "finished")] * 2,
        *[("both-buffer-2-mb", "finished")] * 2,
    ]
    root = tmp_path / "results"
    assert result["results"] == "results/both/fake"
    assert (root / "both-buffer-2-mb/fake/nomark+red-flows3-seed2/metrics.json").exists()
    assert {"results/both/fake/table.md", "results/both/fake/table.csv"} <= set(result["written"])


def test_what_an_experiment_has_done_a_collection_does_not_repeat(quick, both, spec):
    quick("run", spec, "--testbed", "fake", "--seeds", "1")
    found = of_members(quick("status", both, "--testbed", "fake", "--seeds", "2", "--json")[1])
    assert found == [
        ("tiny", "seed1", "complete"),
        ("tiny", "seed2", "missing"),
        ("both-buffer-2-mb", "seed1", "missing"),
        ("both-buffer-2-mb", "seed2", "missing"),
    ]
    shown = quick("status", both, "--testbed", "fake")[1]
    assert shown.index("tiny") < shown.index("both-buffer-2-mb")


@pytest.mark.parametrize("wanted", ["both-buffer-2-mb", "tiny,both-buffer-2-mb"])
def test_only_takes_experiments_of_a_collection_by_name(lab, both, wanted):
    words = ("--testbed", "fake", "--only", f"config={wanted}", "--only", "seed=3", "--json")
    found = of_members(lab("run", both, "--dry-run", *words)[1])
    assert [name for name, *_ in found] == sorted(wanted.split(","), reverse=True)
    assert {seed for _, seed, _ in found} == {"seed3"}


def test_an_unknown_experiment_of_a_collection_is_answered_with_those_there_are(lab, both):
    status, _, complaints = lab("plan", both, "--only", "config=big")
    assert status == 2
    assert "unknown config 'big'; allowed: tiny, both-buffer-2-mb" in complaints


def test_a_plan_is_of_the_first_run_and_check_counts_all(lab, both):
    assert json.loads(lab("plan", both, "--check", "--json")[1])["runs"] == 6
    assert lab("plan", both)[1].startswith("# nomark+red-flows3-seed1\n")
    second = lab("plan", both, "--only", "config=both-buffer-2-mb")[1]
    assert "--buffer 2000000" in second


def test_set_changes_every_experiment(lab, both):
    words = ("--set", "matrix.seed=8..9", "--testbed", "fake", "--json")
    assert len(of_members(lab("run", both, "--dry-run", *words)[1])) == 4


def test_experiments_of_one_name_would_mix_their_results(lab, both):
    status, _, complaints = lab("run", both, "--set", "name=same", "--dry-run")
    assert status == 2
    assert "2 experiments have the name 'same'" in complaints


def test_the_report_of_factors_goes_by_level(quick, both, tmp_path):
    quick("run", both, "--testbed", "fake", "--seeds", "1")
    status, said, _ = quick(
        "report", both, "--testbed", "fake", "--seeds", "1", "--format", "table"
    )
    assert status == 0
    assert "buffer" in said
    rows = list(csv.DictReader((tmp_path / "results/both/fake/table.csv").open()))
    assert [(row["factor"], row["level"]) for row in rows] == [
        ("as it stands", ""),
        ("buffer", "2 MB"),
    ]
    assert rows[0]["loss_percent_mean"] == rows[1]["loss_percent_mean"]


def test_there_is_nothing_to_compare_with_what_nobody_published(quick, spec):
    quick("run", spec, "--testbed", "fake", "--seeds", "1")
    status, _, complaints = quick("compare", spec, "--testbed", "fake", "--seeds", "1")
    assert status == 1
    assert "no published cell has a usable run" in complaints


def test_an_unknown_key_of_only_is_answered_with_those_there_are(lab, both):
    status, _, complaints = lab("plan", both, "--only", "case_=tiny")
    assert status == 2
    assert "allowed: config, case, flows, seed. Did you mean 'case'?" in complaints


LEVELS = """\
name: some
experiments:
  - smoke
  - {spec: smoke, factor: limit, level: 60 kB, set: [cases.NoMark+TailDrop.queue.limit=60 kB]}
  - {spec: smoke, factor: profile, level: paper, set: [cases.*.marker.profile=paper]}
"""


def test_levels_that_lack_a_case_are_left_out_where_only_that_case_is_wanted(lab, tmp_path):
    path = tmp_path / "some.yaml"
    path.write_text(LEVELS)
    words = ("--dry-run", "--testbed", "fake", "--only", "case=NoMark+TailDrop", "--seeds", "1")
    names = [name for name, *_ in of_members(lab("run", path, *words, "--json")[1])]
    assert names == ["smoke", "some-limit-60-kb"]
    status, _, complaints = lab("run", path, *words[:3], "--only", "case=Mine")
    assert (status, "unknown case 'Mine'" in complaints) == (2, True)


def test_a_name_that_is_set_is_the_name_of_the_results(quick, spec, tmp_path):
    quick("run", spec, "--testbed", "fake", "--seeds", "1", "--set", "name=renamed")
    assert (tmp_path / "results/renamed/fake/table.csv").exists()
