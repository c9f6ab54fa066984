"""The page on both readings of Reno, from runs that have published numbers or others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_tree import member

from tcpf_lab.papers.reno import build, cell_rows, gain_rows, nearer, readings_of
from tcpf_lab.report.claims.judge import Verdict
from tcpf_lab.report.claims.page import Numbers, Page, drawn, markdown
from tcpf_lab.report.claims.published import published
from tcpf_lab.report.contents.subject import Member
from tcpf_lab.spec.sweep import Run

TEXT = """\
name: {name}
title: Configuration {config}
reference: {{config: {config}}}
topology: {{chain: {{access: 100 Mbit, bottleneck: 10 Mbit, delay: 200 ms}}}}
tcp: {{profile: sysctl-2.2, sack: false{recovery}}}
traffic: {{start_spread: 2 s, warmup: 5 s, duration: 30 s}}
cases:
  TCPF+FRIO: {{queue: {{kind: bfifo, limit: 100 kB}}}}
  TB+RIO: {{queue: {{kind: bfifo, limit: 100 kB}}}}
matrix: {{case: all, flows: [100, 50], seed: 1..3}}
"""
#: Times the published number.
Factor = Callable[[Run], float]


def side(results: Path, config: str, recovery: str, factor: Factor = lambda _: 1.0) -> Member:
    def found(run: Run) -> dict[str, Any]:
        known = published(config, run.case_name, run.flows) or {}
        return {"metrics": {name: factor(run) * value for name, value in known.items()}}

    told = f", recovery: {recovery}" if recovery else ""
    name = f"config{config}_{recovery or 'plain'}"
    return member(results, TEXT.format(name=name, config=config, recovery=told), found)


def page(*members: Member) -> Page:
    made = build(members, "tcpf-lab run reno.yaml")
    assert made is not None
    return made


def test_without_the_reno_of_1990_there_is_no_page(tmp_path: Path) -> None:
    assert build([side(tmp_path, "B", "")], "") is None
    assert build([side(tmp_path, "B", "newreno")], "") is None


def test_reading_with_the_published_numbers_is_nearer(tmp_path: Path) -> None:
    members = side(tmp_path, "B", "", lambda _: 2.0), side(tmp_path, "B", "reno")
    found = readings_of(members)
    rows = cell_rows(found)
    assert len(rows) == 2 * 2 * 4
    assert {row[-1] for row in rows if row[3] != "timeouts"} == {"Reno of 1990"}
    first = rows[0]
    assert first == (
        *("B", "100", "TCPF+FRIO", "timeouts", "62", "124.0 ± 0.0", "62.0 ± 0.0"),
        "–",  # nobody knows how long the published runs took
    )
    text = markdown(page(*members))
    assert (
        "Of 12 numbers of cells nearer to the published: 0 with NewReno, 12 with Reno of 1990;"
        in text
    )


def test_equal_factors_leave_gains_as_published_and_undecided(tmp_path: Path) -> None:
    found = readings_of([side(tmp_path, "D", "newreno", lambda _: 2), side(tmp_path, "D", "reno")])
    row = next(row for row in gain_rows(found) if row[3] == "TB+RIO / TCPF+FRIO")
    assert row == (
        *("D", "100", "timeouts", "TB+RIO / TCPF+FRIO", "10.8", "10.8 ± 0.0", "10.8 ± 0.0"),
        "within noise",
    )


@pytest.mark.parametrize(
    ("newreno", "reno", "said"),
    [
        ({1: 10.0, 2: 11.0}, {1: 20.0, 2: 22.0}, "NewReno"),
        ({1: 40.0, 2: 44.0}, {1: 10.0, 2: 11.0}, "Reno of 1990"),
        ({1: 5.0, 2: 20.0}, {1: 20.0, 2: 5.0}, "within noise"),
        ({1: 10.0}, {1: 20.0}, "NewReno"),
        ({1: 10.0}, {}, "–"),
        ({1: 0.0}, {1: 20.0}, "–"),
    ],
)
def test_nearer_is_decided_seed_by_seed(
    newreno: dict[int, float], reno: dict[int, float], said: str
) -> None:
    assert nearer([Numbers(newreno), Numbers(reno)], 10.0) == said


def test_tenfold_gain_is_judged_for_either_reading(tmp_path: Path) -> None:
    def worse(run: Run) -> float:
        return 3.0 if run.case_name == "TCPF+FRIO" else 1.0

    made = page(side(tmp_path, "B", ""), side(tmp_path, "B", "reno", worse))
    told = {claim.id: claim.judgement.verdict for claim in made.claims}
    assert told == {"reno-gain-newreno": Verdict.HOLDS, "reno-gain-reno": Verdict.REFUTED}


def test_a_reading_that_was_not_run_leaves_its_claim_open(tmp_path: Path) -> None:
    made = page(side(tmp_path, "B", "reno"))
    told = {claim.id: claim.judgement.verdict for claim in made.claims}
    assert told == {"reno-gain-newreno": Verdict.OPEN, "reno-gain-reno": Verdict.HOLDS}
    assert "missing: TB+RIO, B, 100 flows, NewReno" in markdown(made)


def test_figures_have_published_bars_beside_ours_where_they_compare(tmp_path: Path) -> None:
    members = [side(tmp_path, config, r) for config in "BD" for r in ("newreno", "reno")]
    timeouts, loss = page(*members).drawings
    assert (timeouts.name, loss.name) == ("fig-reno-timeouts", "fig-reno-loss")
    assert len(loss.points) == 2 * 2 * 2 * 3
    assert len(timeouts.points) == 2 * 2 * 2 * 2  # no published ones: those runs' length is unknown
    for figure in (timeouts, loss):
        assert drawn(figure, ["png"])["png"].startswith(b"\x89PNG")
