"""The page on short transfers, from runs with known completion times."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_tree import member

from tcpf_lab.papers.workloads import completions, short_flows
from tcpf_lab.report.claims.judge import Verdict
from tcpf_lab.report.claims.page import Page, cells_of, drawn, markdown
from tcpf_lab.report.contents.subject import Member
from tcpf_lab.spec.sweep import Run, expand

TEXT = """\
name: short_flows
title: Short transfers
topology: {chain: {access: 100 Mbit, bottleneck: 10 Mbit, delay: 200 ms}}
tcp: {profile: sysctl-2.2, sack: true}
traffic:
  {start_spread: 2 s, warmup: 20 s, duration: 60 s, captures: false,
   users: {think: 1 s, size: 20 kB}}
cases:
  TCPF+FRIO: {queue: {kind: bfifo, limit: 100 kB}}
  TCPF+RIO: {queue: {kind: bfifo, limit: 100 kB}}
  TB+RIO: {queue: {kind: bfifo, limit: 100 kB}}
  NoMark+RED: {queue: {kind: bfifo, limit: 100 kB}}
matrix: {case: all, flows: [50, 100], seed: 1..4}
"""
MEANS = {"TCPF+FRIO": 0.8, "TCPF+RIO": 0.85, "TB+RIO": 1.0, "NoMark+RED": 1.2}


def times(of: Callable[[Run], float]) -> Callable[[Run], dict[str, Any]]:
    def made(run: Run) -> dict[str, Any]:
        mean = of(run)
        told = {"mean": mean, "p50": 0.7 * mean, "p95": 3 * mean, "p99": 8 * mean}
        return {"users": {"transfers": 4000, "completion_s": told}}

    return made


def tree(results: Path, of: Callable[[Run], float]) -> Member:
    return member(results, TEXT, times(of))


def page(of: Member) -> Page:
    made = short_flows([of], "tcpf-lab run short_flows.yaml")
    assert made is not None
    return made


def verdicts(of: Member) -> dict[str, Verdict]:
    return {claim.id: claim.judgement.verdict for claim in page(of).claims}


def with_transfers(of: Member) -> None:
    """Two transfers in each run's window of 1 and 3 s, one that ended before it, one unfinished."""
    for run in expand(of.experiment):
        end = np.array([30, 40, 19, 0]) * 10**9
        np.savez(
            of.section.source.files.run(run.id).root / "transfers.npz",
            start_ns=end - np.array([1, 3, 5, 0]) * 10**9,
            end_ns=end,
            finished=np.array([True, True, True, False]),
        )


def test_gains_beyond_ten_per_cent_hold(tmp_path: Path) -> None:
    told = verdicts(tree(tmp_path, lambda run: MEANS[run.case_name]))
    assert told == dict.fromkeys(
        ("short-red-mean", "short-red-p95", "short-tb-mean", "short-tb-p95"), Verdict.HOLDS
    )


def test_no_gain_is_refuted(tmp_path: Path) -> None:
    told = verdicts(tree(tmp_path, lambda _: 1.0))
    assert set(told.values()) == {Verdict.REFUTED}


def test_a_gain_that_some_seeds_lack_is_noise(tmp_path: Path) -> None:
    def noisy(run: Run) -> float:
        ours = run.case_name.startswith("TCPF")
        return (0.9 + 0.1 * (-1) ** run.seed) if ours else 1.0

    assert set(verdicts(tree(tmp_path, noisy)).values()) == {Verdict.NOISE}


def test_what_a_seed_adds_to_every_case_is_taken_out(tmp_path: Path) -> None:
    told = verdicts(tree(tmp_path, lambda run: MEANS[run.case_name] * 5**run.seed))
    assert set(told.values()) == {Verdict.HOLDS}


def test_a_case_without_runs_leaves_its_claims_open(tmp_path: Path) -> None:
    some = times(lambda run: MEANS[run.case_name])
    made = member(tmp_path, TEXT, lambda r: None if r.case_name == "NoMark+RED" else some(r))
    told = verdicts(made)
    assert told["short-red-mean"] is Verdict.OPEN
    assert told["short-tb-mean"] is Verdict.HOLDS
    assert "missing: NoMark+RED, 50 users" in markdown(page(made))


def test_cases_that_the_paper_does_not_compare_have_no_claims(tmp_path: Path) -> None:
    text = TEXT.replace("TCPF+FRIO", "new").replace("TCPF+RIO", "old")
    made = member(tmp_path, text, times(lambda _: 1.0))
    assert not page(made).claims
    assert "not with these cases" in markdown(page(made))


def test_tables_have_the_runs_numbers(tmp_path: Path) -> None:
    text = markdown(page(tree(tmp_path, lambda run: MEANS[run.case_name])))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    assert ["50 users", "TB+RIO", "1.000 ± 0.000", "0.700 ± 0.000"] in [row[:4] for row in rows]
    assert ["50 users", "TCPF+FRIO", "TB+RIO", "0.80 ± 0.00"] in [row[:4] for row in rows]


def test_distribution_is_of_what_ended_in_the_window(tmp_path: Path) -> None:
    made = tree(tmp_path, lambda run: MEANS[run.case_name])
    with_transfers(made)
    (first, *_) = cells_of(made.section)
    assert completions(first) == pytest.approx([1.0] * 4 + [3.0] * 4)
    names = [figure.name for figure in page(made).drawings]
    assert names == ["fig-short-flows-bars", "fig-short-flows-cdf-1", "fig-short-flows-cdf-2"]
    for figure in page(made).drawings:
        assert drawn(figure, ["png"])["png"].startswith(b"\x89PNG")
