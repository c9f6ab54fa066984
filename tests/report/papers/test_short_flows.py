"""The page on short transfers, from runs with known completion times."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_tree import member

from tcpf_lab.papers.workloads import completions, lot_blocks, lot_claims, short_flows
from tcpf_lab.report.claims.judge import Verdict
from tcpf_lab.report.claims.page import CellRuns, Page, PaperRun, cells_of, drawn, markdown
from tcpf_lab.report.contents.subject import Member
from tcpf_lab.report.section import Cell, Section, Source
from tcpf_lab.results.layout import ExperimentFiles, RunFiles
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


# The page on the parking lot, from cells with known numbers.

SECTION = Section(Source(ExperimentFiles(Path("made-up"), "parking_lot", "uml"), (), "", ""), ())
CASES = ("TB+RIO", "TCPF+RIO")


def found(count: int, timeouts: float, *, cross: float = 10) -> dict[str, Any]:
    return {
        "metrics": {
            "timeouts": timeouts,
            "goodput_bytes_per_s": 12000.0 / count,
            "goodput_cov": 0.1,
        },
        "cross": [{"goodput_bytes_per_s": 11000.0, "timeouts": cross}] * count,
        "bottlenecks": [{"utilisation": 0.98, "packet_loss_percent": 4.0}] * count,
    }


def cell(case: str, count: int, *runs: dict[str, Any]) -> CellRuns:
    settings = (("topology.parking_lot.bottlenecks", str(count)),)
    return CellRuns(
        SECTION,
        Cell("parking_lot", case, 20, (), False, settings),
        tuple(PaperRun(seed, RunFiles(Path(f"run{seed}")), one) for seed, one in enumerate(runs)),
    )


def cells(ours: float = 5, theirs: float = 100) -> list[CellRuns]:
    """Three seeds of each case with 1 to 3 bottlenecks; timeouts grow with the seed."""
    return [
        cell(case, count, *(found(count, base * (seed + 1), cross=base) for seed in range(3)))
        for case, base in zip(CASES, (theirs, ours), strict=True)
        for count in (1, 2, 3)
    ]


def lot_page(of: list[CellRuns]) -> Page:
    return Page("parking-lot", "", tuple(lot_blocks(of, "tcpf-lab run parking_lot.yaml")))


def lot_verdicts(of: list[CellRuns]) -> list[Verdict]:
    return [claim.judgement.verdict for claim in lot_claims(of)]


def test_fewer_timeouts_hold_and_as_many_do_not() -> None:
    assert lot_verdicts(cells()) == [Verdict.HOLDS] * 2
    assert lot_verdicts(cells(ours=100)) == [Verdict.REFUTED] * 2


def test_seeds_that_disagree_are_noise() -> None:
    sides = [cell("TB+RIO", 1, *(found(1, 10) for _ in range(3)))]
    sides.append(cell("TCPF+RIO", 1, *(found(1, many) for many in (2, 9, 25))))
    assert lot_verdicts(sides)[0] is Verdict.NOISE


def test_a_case_that_was_not_run_leaves_it_open() -> None:
    some = [one if one.case == "TB+RIO" else cell(one.case, 2) for one in cells()]
    assert lot_verdicts(some) == [Verdict.OPEN] * 2
    assert "missing: TCPF+RIO, 1 bottleneck" in markdown(lot_page(some))


def test_numbers_are_those_of_the_runs() -> None:
    text = markdown(lot_page(cells()))
    rows = [[word.strip() for word in line.strip("|").split("|")] for line in text.splitlines()]
    assert [
        *("3", "TCPF+RIO", "4000 ± 0", "10.0 ± 12.4", "0.100 ± 0.000", "11000 ± 0"),
        *("15.0 ± 0.0", "0.980 ± 0.000", "4.00 ± 0.00", "3"),
    ] in rows
    assert ["2", "1.00 ± 0.00", "0.05 ± 0.00", "1.00 ± 0.00", "0.05 ± 0.00"] in rows


def test_cross_traffic_of_which_a_number_lacks_has_none() -> None:
    silent = found(2, 5)
    silent["cross"] = [{"timeouts": 3}, {"timeouts": None}]
    text = markdown(lot_page([cell("TB+RIO", 2, silent)]))
    row = next(line for line in text.splitlines() if line.startswith("| 2 "))
    assert [word.strip() for word in row.strip("|").split("|")][5:7] == ["–", "–"]


def test_figure_is_drawn() -> None:
    (figure,) = lot_page(cells()).drawings
    assert len(figure.points) == 3 * 2 * 3
    assert drawn(figure, ["png"])["png"].startswith(b"\x89PNG")
