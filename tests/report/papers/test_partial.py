"""No page of a shipped experiment needs all of its runs, or all numbers of one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from run_tree import member

from tcpf_lab.papers.registry import pages_of
from tcpf_lab.report.claims.judge import Verdict
from tcpf_lab.report.claims.page import markdown
from tcpf_lab.spec.load import dump, load
from tcpf_lab.spec.sweep import Run

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
PAGES = {
    "aqm_bakeoff": "queues",
    "buffers_full": "buffers",
    "buffers_tenth": "buffers",
    "ef_count": "ef",
    "ef_fairness": "ef",
    "ef_flows": "ef",
    "ef_prediction": "ef",
    "ef_single": "ef",
    "parking_lot": "parking-lot",
    "rio_overlap": "rio",
    "rio_readings": "rio",
    "short_flows": "short-flows",
}


def every_other(run: Run) -> Mapping[str, Any] | None:
    return {} if run.seed % 2 and run.case_name != first_case(run) else None


def first_case(run: Run) -> str:
    return next(iter(run.experiment.cases))


def empty_sections(run: Run) -> Mapping[str, Any]:
    absent = ("users", "background", "pftk", "cross", "bottlenecks", "per_flow", "by_dscp")
    return dict.fromkeys(absent)


@pytest.mark.parametrize("found", [every_other, empty_sections])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_partial_runs_is_written(tmp_path: Path, name: str, found: Any) -> None:
    text = dump(load(EXPERIMENTS / f"{name}.yaml"))
    (page,) = pages_of([member(tmp_path, text, found)], f"tcpf-lab run {name}.yaml")
    assert page.name == PAGES[name]
    assert markdown(page)


@pytest.mark.parametrize("name", PAGES)
def test_without_a_run_nothing_is_judged(tmp_path: Path, name: str) -> None:
    experiment = load(EXPERIMENTS / f"{name}.yaml")
    (page,) = pages_of([member(tmp_path, dump(experiment), lambda _: None)], "tcpf-lab run x.yaml")
    assert {claim.judgement.verdict for claim in page.claims} <= {Verdict.OPEN}
