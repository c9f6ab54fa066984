"""Collections on the command line: one pool, each run in its experiment's own directory."""

from __future__ import annotations

import csv
import json

import pytest

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


def states(said):
    return [(row["experiment"], row["run"][-5:], row["state"]) for row in json.loads(said)]


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
    found = states(quick("status", both, "--testbed", "fake", "--seeds", "2", "--json")[1])
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
    found = states(lab("run", both, "--dry-run", *words)[1])
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
    assert len(states(lab("run", both, "--dry-run", *words)[1])) == 4


def test_experiments_of_one_name_would_mix_their_results(lab, both):
    status, _, complaints = lab("run", both, "--set", "name=same", "--dry-run")
    assert status == 2
    assert "2 experiments are called 'same'" in complaints


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
    names = [name for name, *_ in states(lab("run", path, *words, "--json")[1])]
    assert names == ["smoke", "some-limit-60-kb"]
    status, _, complaints = lab("run", path, *words[:3], "--only", "case=Mine")
    assert (status, "unknown case 'Mine'" in complaints) == (2, True)


def test_a_name_that_is_set_is_the_name_of_the_results(quick, spec, tmp_path):
    quick("run", spec, "--testbed", "fake", "--seeds", "1", "--set", "name=renamed")
    assert (tmp_path / "results/renamed/fake/table.csv").exists()
