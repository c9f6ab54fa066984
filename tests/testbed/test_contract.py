"""What every testbed keeps to; a new one is added to ``BEDS``."""

from __future__ import annotations

import json

import pytest

from tcpf_lab.plan.compose import compose
from tcpf_lab.results import RunFiles
from tcpf_lab.spec.sweep import expand
from tcpf_lab.testbed import base

BEDS = ["fake", pytest.param("uml", marks=pytest.mark.uml)]


@pytest.fixture(params=BEDS)
def bed(request) -> base.Testbed:
    return request.getfixturevalue(request.param)


@pytest.fixture
def plan(recorded_experiment):
    return compose(expand(recorded_experiment)[0])


def test_testbed_that_is_ready_has_no_problems(bed, plan):
    assert bed.check(plan) == ()


def test_facts_and_identity_can_be_written_down(bed, plan):
    assert json.loads(json.dumps(bed.facts(plan))) == bed.facts(plan)
    assert bed.identity(plan) == bed.identity(plan)
    assert bed.name
    assert bed.clock in ("virtual", "real")


def test_every_file_that_the_plan_names_is_there_afterwards(bed, plan, tmp_path):
    run = RunFiles(tmp_path / "run.partial")
    run.create()
    bed.execute(plan, run, seed=1)
    named = {
        path
        for step in plan.steps
        for path in (getattr(step, "output", None), getattr(step, "errors", None))
        if path
    }
    missing = {path for path in named if not (run.root / path).exists()}
    assert {path for path in missing if not (run.root / f"{path}.zst").exists()} == set()


def test_nothing_but_log_pcap_and_stats_is_left_in_the_run(bed, plan, tmp_path):
    run = RunFiles(tmp_path / "run.partial")
    run.create()
    bed.execute(plan, run, seed=1)
    assert {path.name for path in run.root.iterdir()} == {"log", "pcap", "stats"}
