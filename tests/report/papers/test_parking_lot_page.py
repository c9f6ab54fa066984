"""The page on the parking lot, from cells with known numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tcpf_lab.papers.workloads import lot_blocks, lot_claims
from tcpf_lab.report.claims.judge import Verdict
from tcpf_lab.report.claims.page import CellRuns, Page, PaperRun, drawn, markdown
from tcpf_lab.report.section import Cell, Section, Source
from tcpf_lab.results.layout import ExperimentFiles, RunFiles

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


def page(of: list[CellRuns]) -> Page:
    return Page("parking-lot", "", tuple(lot_blocks(of, "tcpf-lab run parking_lot.yaml")))


def verdicts(of: list[CellRuns]) -> list[Verdict]:
    return [claim.judgement.verdict for claim in lot_claims(of)]


def test_fewer_timeouts_hold_and_as_many_do_not() -> None:
    assert verdicts(cells()) == [Verdict.HOLDS] * 2
    assert verdicts(cells(ours=100)) == [Verdict.REFUTED] * 2


def test_seeds_that_disagree_are_noise() -> None:
    sides = [cell("TB+RIO", 1, *(found(1, 10) for _ in range(3)))]
    sides.append(cell("TCPF+RIO", 1, *(found(1, many) for many in (2, 9, 25))))
    assert verdicts(sides)[0] is Verdict.NOISE


def test_a_case_that_was_not_run_leaves_it_open() -> None:
    some = [one if one.case == "TB+RIO" else cell(one.case, 2) for one in cells()]
    assert verdicts(some) == [Verdict.OPEN] * 2
    assert "missing: TCPF+RIO, 1 bottleneck" in markdown(page(some))


def test_numbers_are_those_of_the_runs() -> None:
    text = markdown(page(cells()))
    rows = [[word.strip() for word in line.strip("|").split("|")] for line in text.splitlines()]
    assert [
        *("3", "TCPF+RIO", "4000 ± 0", "10.0 ± 12.4", "0.100 ± 0.000", "11000 ± 0"),
        *("15.0 ± 0.0", "0.980 ± 0.000", "4.00 ± 0.00", "3"),
    ] in rows
    assert ["2", "1.00 ± 0.00", "0.05 ± 0.00", "1.00 ± 0.00", "0.05 ± 0.00"] in rows


def test_cross_traffic_of_which_a_number_lacks_has_none() -> None:
    silent = found(2, 5)
    silent["cross"] = [{"timeouts": 3}, {"timeouts": None}]
    text = markdown(page([cell("TB+RIO", 2, silent)]))
    row = next(line for line in text.splitlines() if line.startswith("| 2 "))
    assert [word.strip() for word in row.strip("|").split("|")][5:7] == ["–", "–"]


def test_figure_is_drawn() -> None:
    (figure,) = page(cells()).drawings
    assert len(figure.points) == 3 * 2 * 3
    assert drawn(figure, ["png"])["png"].startswith(b"\x89PNG")
