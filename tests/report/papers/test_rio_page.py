"""The page on RIO, from runs whose numbers are the paper's simulation, or differ from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_tree import member

from tcpf_lab.metrics.series import Series, write_series
from tcpf_lab.papers.rio.measured import SCENARIOS, answer, frame_of, rio_cells, scenario_of
from tcpf_lab.papers.rio.page import build, period
from tcpf_lab.papers.rio.router import ACCESS_S, rio_table
from tcpf_lab.report.claims.judge import Verdict
from tcpf_lab.report.claims.page import Page, cells_of, drawn, markdown
from tcpf_lab.report.contents.subject import Member
from tcpf_lab.results.layout import write_json
from tcpf_lab.spec.load import load
from tcpf_lab.spec.queue import Rio
from tcpf_lab.spec.sweep import Run, expand

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
TEXT = """\
name: rio_{name}
title: RIO
topology:
  dumbbell: {{access: 100 Mbit, bottleneck: 48 Mbit, delay: 100 ms, mtu: 986 B, pairs: 2}}
tcp: {{profile: sysctl-2.2, sack: true}}
traffic: {{start_spread: 1 s, warmup: 20 s, duration: 60 s}}
cases:
  Fully: {{queue: {{in_min: 20 kB, in_max: 100 kB, out_min: 20 kB, out_max: 100 kB, {common}}}}}
  Non: {{queue: {{in_min: 60 kB, in_max: 100 kB, out_min: 20 kB, out_max: 60 kB, {common}}}}}
  Partially: {{queue: {{in_min: 60 kB, in_max: 100 kB, out_min: 20 kB, out_max: 100 kB, {common}}}}}
matrix: {{case: all, flows: [2], seed: 1..3}}
"""
COMMON = (
    "kind: rio, limit: 100 kB, in_probability: 0.01, out_probability: 0.06, "
    "mode: wred, uniformize: none, ewma: 0"
)
OVERLAP = TEXT.format(name="overlap", common=COMMON)
COUPLED = TEXT.format(name="readings", common=COMMON.replace("mode: wred", "mode: coupled"))
#: 60 s of a window of 60.5 s are judged.
SECONDS = 60.0

Values = Mapping[str, float]


def simulated(run: Run) -> Values:
    assert isinstance(run.case.queue, Rio)
    return rio_table(scenario_of(run.case.queue, 1000) or "").simulated


def numbers(of: Callable[[Run], Values | None]) -> Callable[[Run], dict[str, Any] | None]:
    """Turn quantities of the paper into counts of a run's code points, AF11 (10) being IN."""

    def made(run: Run) -> dict[str, Any] | None:
        values = of(run)
        if values is None:
            return None
        came = {"10": values["T_in"], "0": values["T"] - values["T_in"]}
        lost = {"10": values["p_in"], "0": values["p_out"]}
        return {
            "metrics": {
                "backlog_mean_bytes": 1000 * values["q"],
                "backlog_max_bytes": values.get("most", 100_000),
            },
            "by_dscp": {
                code: {
                    "packets": SECONDS * rate,
                    "packets_per_s": rate,
                    "packets_lost": SECONDS * rate * lost[code],
                    "loss_percent": 100 * lost[code],
                    "packet_loss_percent": 100 * lost[code],
                }
                for code, rate in came.items()
            },
        }

    return made


def tree(results: Path, text: str, of: Callable[[Run], Values | None]) -> Member:
    return member(results, text, numbers(of))


def page(*members: Member) -> Page:
    made = build(members, "tcpf-lab run rio_overlap.yaml")
    assert made is not None
    return made


def verdicts(of: Page) -> dict[str, Verdict]:
    return {claim.id: claim.judgement.verdict for claim in of.claims}


def with_series(of: Member, least: float) -> None:
    """Give every run a queue that swings from so many packets to 100."""
    for run in expand(of.experiment):
        files = of.section.source.files.run(run.id)
        bins, none = np.arange(800), np.zeros((2, 80), np.uint32)
        queue = 1000 * (least + (100 - least) * (bins % 2))
        series = Series(
            np.array([20.0, 80.0]),
            np.array(1.0),
            np.array(0.1),
            none,
            none,
            none,
            queue.astype(np.float32),
            queue.astype(np.uint32),
            np.zeros(800, np.uint32),
        )
        write_series(files, series)


def test_the_simulations_numbers_meet_every_target(tmp_path: Path) -> None:
    ours = tree(tmp_path, OVERLAP, simulated)
    with_series(ours, 1)
    assert set(verdicts(page(ours)).values()) == {Verdict.HOLDS}


def test_ten_per_cent_less_throughput_and_twice_the_queue_are_refuted(tmp_path: Path) -> None:
    def other(run: Run) -> Values:
        values = simulated(run)
        return {**values, "T": 0.9 * values["T"], "q": 2 * values["q"], "most": 50_000}

    ours = tree(tmp_path, OVERLAP, other)
    with_series(ours, 40)
    told = verdicts(page(ours))
    assert told["rio-T"] is told["rio-q"] is told["rio-swings"] is Verdict.REFUTED
    assert told["rio-model"] is Verdict.REFUTED
    assert told["rio-order"] is Verdict.HOLDS


def test_scatter_about_a_target_is_noise(tmp_path: Path) -> None:
    def noisy(run: Run) -> Values:
        values = simulated(run)
        return {**values, "T": values["T"] * (1 + 0.02 * (run.seed - 2))}

    assert verdicts(page(tree(tmp_path, OVERLAP, noisy)))["rio-T"] is Verdict.NOISE


def test_one_scenario_alone_leaves_the_rest_open(tmp_path: Path) -> None:
    ours = tree(tmp_path, OVERLAP, lambda run: simulated(run) if run.case_name == "Non" else None)
    made = page(ours)
    told = verdicts(made)
    assert told["rio-no-in-loss"] is Verdict.HOLDS
    assert told["rio-T"] is told["rio-order"] is told["rio-swings"] is Verdict.OPEN
    assert made.drawings == ()
    text = markdown(made)
    assert "no run of the fully overlapped scenario" in text
    assert "fully overlapped has no run" in text


def test_model_and_paper_stand_beside_the_testbed(tmp_path: Path) -> None:
    text = markdown(page(tree(tmp_path, OVERLAP, simulated)))
    row = next(
        line
        for line in text.splitlines()
        if line.startswith("| fully overlapped") and "| T (packets/s)" in line
    )
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells == [
        *("fully overlapped", "T (packets/s)", "5946.5", "5928.4", "5928.0", "5810.6"),
        *("5810.6 ± 0.0", "1.000"),
    ]


def test_drops_by_cause_are_the_queues_own_counters(tmp_path: Path) -> None:
    ours = tree(tmp_path, OVERLAP, simulated)
    counts = {"enqueued": 9900, "early": 60, "forced": 40, "pdrop": 0}
    shown = [{"kind": "tbf"}, {"kind": "rio", "in": counts, "out": {"enqueued": 0}}]
    for run in expand(ours.experiment):
        write_json(ours.section.source.files.run(run.id).stats / "qdisc-R1.json", shown)
    text = markdown(page(ours))
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| fully overlapped") and ("| IN " in line or "| OUT " in line)
    ]
    told = {(row[1], row[2]): row[4] for row in rows}
    assert told["IN", "early"] == "0.006000 ± 0.000000"
    assert told["IN", "forced"] == "0.004000 ± 0.000000"
    assert told["OUT", "early"] == "–"


def test_models_causes_add_up_to_its_losses() -> None:
    for scenario in ("fully_overlapped", "non_overlapped", "partially_overlapped"):
        found = answer(scenario, ACCESS_S)
        for side in ("in", "out"):
            together = found.causes[side, "early"] + found.causes[side, "forced"]
            assert together == pytest.approx(found.values[f"p_{side}"], rel=1e-6)


def test_nearest_reading_is_named(tmp_path: Path) -> None:
    def far(run: Run) -> Values:
        values = simulated(run)
        return {**values, "q": 3 * values["q"]}

    near, other = tree(tmp_path, OVERLAP, simulated), tree(tmp_path, COUPLED, far)
    text = markdown(page(near, other))
    assert "Nearest to the simulation: wred, instantaneous, independent drops." in text
    assert "coupled, instantaneous, independent drops" in text
    assert "Readings of RIO" not in markdown(page(near))


def test_other_thresholds_than_the_papers_are_not_held_against_its_tables(tmp_path: Path) -> None:
    text = OVERLAP.replace("out_probability: 0.06", "out_probability: 0.5")
    found = simulated(expand(tree(tmp_path, OVERLAP, simulated).experiment)[0])
    told = verdicts(page(tree(tmp_path / "other", text, lambda _: found)))
    assert set(told.values()) == {Verdict.OPEN}


@pytest.mark.parametrize("name", ["rio_overlap", "rio_readings"])
def test_every_case_that_is_shipped_is_one_of_the_scenarios(name: str) -> None:
    experiment = load(EXPERIMENTS / f"{name}.yaml")
    queues = [case.queue for case in experiment.cases.values() if isinstance(case.queue, Rio)]
    assert len(queues) == len(experiment.cases)
    found = [scenario_of(queue, frame_of(experiment)) for queue in queues]
    assert set(found) == set(SCENARIOS)


def test_an_experiment_without_rio_has_no_page(tmp_path: Path) -> None:
    text = OVERLAP.partition("cases:")[0] + (
        "cases:\n  Plain: {queue: {kind: bfifo, limit: 100 kB}}\n"
        "matrix: {case: all, flows: [2], seed: 1..3}\n"
    )
    assert build([member(tmp_path, text, lambda _: None)], "") is None


def test_swings_are_told_by_time_and_period(tmp_path: Path) -> None:
    ours = tree(tmp_path, OVERLAP, simulated)
    with_series(ours, 1)
    text = markdown(page(ours))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    found = [row[2:] for row in rows if row[:2] == ["fully overlapped", "testbed"]]
    assert found == [["0.500 ± 0.000", *["0.000 ± 0.000"] * 3, "0.500 ± 0.000", "0.20 ± 0.00"]]
    (model,) = (row[2:7] for row in rows if row[:2] == ["fully overlapped", "model"])
    assert sum(map(float, model)) == pytest.approx(1, abs=2e-3)


def test_a_queue_that_never_rises_has_no_period(tmp_path: Path) -> None:
    ours = tree(tmp_path, OVERLAP, simulated)
    with_series(ours, 90)
    (cell, *_) = rio_cells(cells_of(ours.section))
    assert period(cell.runs.runs[0], cell.packet) is None


def test_queue_over_time_is_drawn(tmp_path: Path) -> None:
    ours = tree(tmp_path, OVERLAP, simulated)
    with_series(ours, 1)
    (figure,) = page(ours).drawings
    assert figure.name == "fig-rio-5"
    assert len(figure.points) == 2 * 100
    assert drawn(figure, ["png"])["png"].startswith(b"\x89PNG")
