from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from rich.console import Console
from table_builder import cell_result, known, table, with_problems, without_runs

from tcpf_lab.base.errors import LabError
from tcpf_lab.papers.thesis.claims import CLAIMS
from tcpf_lab.papers.thesis.compare import compare
from tcpf_lab.report.claims.judge import Verdict
from tcpf_lab.report.compare.published import (
    Agreement,
    Comparison,
    Conditions,
    LeftOut,
    comparison_json,
    of_requested,
)
from tcpf_lab.report.compare.scoreboard import ratio_table, scoreboard, telling
from tcpf_lab.report.compare.statistics import PUBLISHED_CELLS, CellKey
from tcpf_lab.report.section import Cell, CellResult, Problem, Source, collect
from tcpf_lab.report.style import CASES, DRAWN, SECOND_READINGS
from tcpf_lab.results.layout import ExperimentFiles
from tcpf_lab.run import campaign
from tcpf_lab.run.selection import Choice

A100 = [CellKey("A", 100, case) for case in CASES]


@pytest.fixture(scope="module")
def whole() -> Comparison:
    """The published tables as measured, every number wobbling by up to 1 % from seed to seed."""

    def value(cell: CellKey, metric: str, seed: int) -> float:
        return known(cell)[metric] * (1 + 0.01 * math.sin(seed + len(cell.case)))

    return compare(table(value, seeds=range(1, 9)), resamples=400)


def text_of(comparison: Comparison, width: int = 80, full: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width)
    for part in scoreboard(comparison, full):
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def single(
    values: Sequence[float], metric: str = "timeouts", cell: CellKey = A100[0]
) -> Comparison:
    own = {name: values if name == metric else [1.0] * len(values) for name in DRAWN}
    return compare([cell_result(cell, own, range(1, len(values) + 1))], resamples=100)


def test_ratio_is_the_mean_and_its_students_interval_over_the_published_value() -> None:
    row = single([80.0, 82.0, 84.0]).cells[0]
    half = 4.302653 * 2 / math.sqrt(3)
    assert (row.mean, row.n, row.published, row.note) == (82, 3, 41, "")
    assert row.ci95 == pytest.approx(half)
    assert row.ratio == 2
    assert row.ratio_ci == pytest.approx(((82 - half) / 41, (82 + half) / 41))


def test_interval_of_a_ratio_ends_at_zero() -> None:
    row = single([0.0, 100.0]).cells[0]
    assert row.ratio_ci is not None
    assert row.ratio_ci[0] == 0


def test_one_seed_has_a_ratio_without_interval_and_says_so() -> None:
    comparison = single([82.0])
    row = comparison.cells[0]
    assert (row.ratio, row.ratio_ci, row.note) == (2, None, "one seed: no interval")
    assert "no claim is judged on cells of fewer than 3 seeds" in comparison.notes
    assert all(
        reading.ours.interval is None for claim in comparison.claims for reading in claim.findings
    )


def test_few_seeds_are_remarked_upon() -> None:
    assert "cover less than 95 %" in single([82.0, 83.0, 84.0]).notes[0]
    assert [note for note in single([1.0, 2, 3, 4, 5]).notes if "cover" in note] == []


def test_a_published_zero_gives_no_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    zero = dict.fromkeys(DRAWN, 0.0)
    monkeypatch.setattr("table_builder.published", lambda *_: zero)
    row = single([3.0, 4.0]).cells[0]
    assert (row.published, row.ratio, row.ratio_ci) == (0, None, None)
    assert "published as 0" in row.note


def test_cells_without_runs_or_without_published_value_are_shown_as_such() -> None:
    own = CellKey("A", 100, "CoDel")
    results = [
        *table(cells=A100[:1]),
        without_runs(A100[1]),
        *table(lambda cell, metric, seed: 1.0, cells=[own]),
    ]
    comparison = compare(results, resamples=50)
    notes = {row.case: row.note for row in comparison.cells}
    assert notes[A100[1].case] == "no usable run"
    assert notes["CoDel"] == "nothing published"
    assert A100[1] in comparison.missing
    assert A100[0] not in comparison.missing
    assert len(comparison.missing) == 55
    assert comparison.problems == ("x-seed1: missing", "x-seed2: missing")
    assert "CoDel" not in comparison.blocks[0].order
    shown = text_of(comparison)
    assert "not measured: B, 50 flows: every case" in shown
    assert "not measured: A, 100 flows: TCPF+RIO, TCPF(O)+RIO" in shown


@pytest.mark.parametrize(
    ("results", "told"),
    [
        ([], "no runs at all"),
        ([without_runs(A100[0])], "2 missing"),
        (
            table(lambda *_: 1.0, cells=[CellKey("smoke", 4, "NoMark+RED")]),
            "1 unpublished, such as smoke 4 NoMark+RED",
        ),
    ],
)
def test_nothing_to_compare_is_an_error_that_says_what_there_is(
    results: list[CellResult], told: str
) -> None:
    with pytest.raises(LabError, match=r"no published cell .*" + re.escape(told)):
        compare(results)


def test_the_published_table_measured_has_ratios_and_ranks_of_1(whole: Comparison) -> None:
    assert len(whole.cells) == 56 * 4
    assert all(row.ratio == pytest.approx(1, abs=0.01) for row in whole.cells)
    assert len(whole.blocks) == 32
    equal = 0.12 + 0.12 * 0.01, "goodput_cov"  # A 50: two cases are printed alike
    assert all(
        row.tau == pytest.approx(1, abs=0.03 if row.metric == equal[1] else 1e-9)
        for row in whole.blocks
    )
    assert whole.missing == ()
    assert whole.notes == ("400 resamples: the ends of the intervals are rough",)


def test_gains_are_the_published_factors_with_an_interval(whole: Comparison) -> None:
    assert len(whole.gains) == 16
    row = whole.gains[0]
    assert (row.config, row.flows, row.case, row.against) == ("A", 100, "TCPF+FRIO", "TB+RIO")
    assert row.published == pytest.approx(911 / 41)
    assert row.measured == pytest.approx(911 / 41, rel=0.02)
    assert row.note == ""
    low, high = row.interval or (0, 0)
    assert 21 < low < (row.measured or 0) < high < 24
    assert (row.seeds, row.missing) == (8, ())


def test_gain_over_no_timeouts_at_all_is_infinite_and_null_in_json() -> None:
    values = {A100[0].case: 0.0, "TB+RIO": 7.0, "NoMark+RED": 0.0}
    cells = [CellKey("A", 100, case) for case in values]
    comparison = compare(
        table(lambda cell, metric, seed: values[cell.case], cells=cells), resamples=20
    )
    token_bucket, red = comparison.gains[:2]
    assert token_bucket.measured == math.inf
    assert red.measured is None
    assert comparison_json(comparison)["gains"][0]["measured"] is None
    assert comparison_json(comparison)["gains"][0]["interval"] == [None, None]
    notes = [row["note"] for row in comparison_json(comparison)["gains"][:3]]
    assert [note.partition(":")[0] for note in notes] == ["infinite", "undefined", "missing"]
    assert "∞" in text_of(comparison)


def test_gains_of_missing_cells_name_them() -> None:
    comparison = compare(table(cells=A100[:1]), resamples=20)
    assert comparison.gains[0].measured is None
    assert comparison.gains[0].missing == ("A 100 TB+RIO",)


@pytest.mark.parametrize("requested", [A100, A100[:1]])
def test_only_requested_cells_are_shown(requested: list[CellKey]) -> None:
    everything = compare([*table(cells=requested[:1]), *map(without_runs, requested[1:])])
    shown = of_requested(everything)
    gains = [(row.config, row.flows) for row in shown.gains]
    assert gains == [("A", 100)] * (2 if len(requested) > 1 else 0)
    assert list(shown.missing) == requested[1:]
    names = set(map(str, requested))
    assert all(set(row.ours.missing) <= names for one in shown.claims for row in one.findings)
    others = len(CLAIMS) - len(shown.claims)
    assert others > 20
    assert shown.notes[-1] == f"claims that need cells that were not requested: {others}"
    assert (f"of {len(shown.claims)} claims" in text_of(shown)) == bool(shown.claims)


def test_all_claims_are_judged(whole: Comparison) -> None:
    assert [claim.id for claim in whole.claims] == [claim.id for claim in CLAIMS]
    assert {claim.ours.verdict for claim in whole.claims} <= {
        Verdict.HOLDS,
        Verdict.REFUTED,
        Verdict.NOISE,
    }
    agree = sum(claim.ours.verdict is claim.published.verdict for claim in whole.claims)
    assert agree > 0.8 * len(CLAIMS)


def test_the_seed_decides_the_intervals_and_nothing_else() -> None:
    generator = np.random.default_rng(3)
    noise = {(cell, s): generator.normal(1, 0.1) for cell in A100 for s in range(1, 7)}
    results = table(lambda c, m, s: known(c)[m] * noise[c, s], cells=A100)
    first, again, other = (compare(results, seed, 200) for seed in (1, 1, 2))
    assert first == again
    assert first.cells == other.cells
    assert [row.tau for row in first.blocks] == [row.tau for row in other.blocks]
    assert first.gains != other.gains


def test_json_has_plain_values_only(whole: Comparison) -> None:
    value = comparison_json(whole)
    assert list(value) == [
        "seed",
        "resamples",
        "conditions",
        "agreement",
        "cells",
        "blocks",
        "gains",
        "claims",
        "missing",
        "problems",
        "left_out",
        "notes",
    ]
    assert json.loads(json.dumps(value, allow_nan=False)) == value
    claim = next(row for row in value["claims"] if row["id"] == "thesis-4.1-two-orders")
    assert claim["published"] == {
        "verdict": "refuted",
        "holding": 0,
        "measured": 1,
        "checks": 1,
    }
    assert claim["sources"][0]["document"] == "thesis"
    assert claim["findings"][0]["published"]["value"] == pytest.approx(911 / 41)
    assert claim["findings"][0]["low"] == pytest.approx(10**1.5)
    assert claim["findings"][0]["high"] is None
    assert len(claim["findings"][0]["ours"]["interval"]) == 2


def test_scoreboard_marks_ties_and_reversed_pairs() -> None:
    places = {case: 10.0 * place for place, case in enumerate(CASES)}
    places["TCPF+RIO"] = places["TCPF+FRIO"] + 0.001
    places["NoMark+RED"] = 1000.0 * -1 + 1000.5  # lowest beyond noise, published highest

    def value(cell: CellKey, metric: str, seed: int) -> float:
        return 20 + places[cell.case] + math.sin(5 * seed + 2 * list(CASES).index(cell.case))

    comparison = compare(table(value, cells=A100), resamples=300)
    row = comparison.blocks[0]
    assert ("NoMark+RED", "TB+RIO") in row.reversed
    shown = " ".join(text_of(comparison, width=200).split())
    assert "≈" in shown
    assert "NoMark+RED < TB+RIO" in shown


def test_the_number_shown_is_the_one_that_decides(whole: Comparison) -> None:
    rows = {claim.id: telling(claim) for claim in whole.claims}
    doubles = rows["paper-6.2.3-timeouts-double"]
    assert doubles.ours.verdict is Verdict.REFUTED
    assert rows["paper-7-two-orders"].ours.verdict is Verdict.HOLDS
    assert rows["thesis-4.1-rio-alone"].ours.verdict is Verdict.HOLDS


def test_runs_on_disk_are_paired_by_the_seed_in_their_name(
    files: ExperimentFiles, cells: list[Cell], write_run: Callable[..., None]
) -> None:
    for seed in (1, 2, 3):
        write_run("NoMark+RED", 100, seed, reasons=("broken",) if seed == 2 else ())
        write_run("NoMark+RED", 50, seed)
    comparison = compare(collect(files, cells), resamples=200)
    red = {row.flows: row for row in comparison.cells if row.metric == "timeouts" and row.n}
    assert (red[100].n, red[100].mean) == (2, 1322)
    assert (red[50].n, red[50].mean) == (3, 500)
    assert any("2 to 3 seeds" in note for note in comparison.notes)
    assert "nomark+red-flows100-seed2: invalid: broken" in comparison.problems
    claim = next(row for row in comparison.claims if row.id == "tables-more-flows-worse")
    timeouts = next(row for row in claim.findings if "A 100 NoMark+RED" in row.label)
    assert timeouts.ours.value == pytest.approx(1322 / 500)
    assert timeouts.ours.seeds == 2


def test_runs_used_although_invalid_are_remarked_upon(
    files: ExperimentFiles, red: Cell, write_run: Callable[..., None]
) -> None:
    write_run("NoMark+RED", 100, 1, reasons=("broken",))
    comparison = compare(collect(files, [red], include_invalid=True), resamples=20)
    assert any("failed a check" in note for note in comparison.notes)


def first_column(comparison: Comparison) -> list[str]:
    groups = ratio_table(comparison.cells).groups
    return [
        text
        for group in groups
        for text in (group.heading, *(row[0].text for row in group.rows))
        if text
    ]


def test_ratios_stand_block_by_block_though_the_matrix_has_the_case_outermost() -> None:
    own = [CellKey("A", 100, "CoDel"), CellKey("smoke", 4, "CoDel")]
    cells = [
        *own,
        *(
            CellKey(config, flows, case)
            for case in ("TB+RIO", "TCPF+FRIO")
            for flows in (50, 100)
            for config in "BA"
        ),
    ]
    results = [
        *table(lambda cell, metric, seed: float(seed), cells=cells),
        *(without_runs(CellKey("C", 50, case)) for case in CASES),
        without_runs(CellKey("B", 100, "TCPF+RIO")),
    ]
    assert first_column(compare(results, resamples=20)) == [
        *("A, 100 flows", "TCPF+FRIO", "TB+RIO", "CoDel"),
        *("A, 50 flows", "TCPF+FRIO", "TB+RIO"),
        *("B, 100 flows", "TCPF+FRIO", "TCPF+RIO", "TB+RIO"),
        *("B, 50 flows", "TCPF+FRIO", "TB+RIO"),
        *("smoke, 4 flows", "CoDel"),
    ]


def test_runs_left_out_are_counted_with_the_first_of_each_kind() -> None:
    first, second = table(cells=A100[:2])
    results = [
        with_problems(first, Problem("x-seed7", "stale", ("made from another spec",))),
        with_problems(
            second,
            Problem("x-seed8", "invalid", ("drops differ",)),
            Problem("x-seed9", "unreadable", ("metrics.json: not JSON",)),
            Problem("x-seed10", "invalid", ("too short",)),
            Problem("tcpf+rio-flows100-seed1", "invalid", used=True),
        ),
    ]
    comparison = compare(results, resamples=20)
    assert comparison.left_out == (
        LeftOut("stale", 1, "A: x-seed7: stale: made from another spec"),
        LeftOut("invalid", 2, "A: x-seed8: invalid: drops differ"),
        LeftOut("unreadable", 1, "A: x-seed9: unreadable: metrics.json: not JSON"),
    )
    shown = text_of(comparison, width=120)
    assert "left out, 1 stale: A: x-seed7: stale: made from another spec" in shown
    assert "left out, 2 invalid, the first: A: x-seed8: invalid: drops differ" in shown
    assert comparison_json(comparison)["left_out"][1]["runs"] == 2


def test_conditions_stand_above_everything_and_once_for_all_that_share_them() -> None:
    results = table(cells=[*A100[:1], CellKey("B", 50, "TB+RIO"), CellKey("C", 50, "TB+RIO")])
    conditions = [("A", "60 s, SACK"), ("B", "60 s, no SACK"), ("C", "60 s, SACK")]
    comparison = compare(results, resamples=20, conditions=conditions)
    assert comparison.conditions == (
        Conditions(("A", "C"), "60 s, SACK"),
        Conditions(("B",), "60 s, no SACK"),
    )
    assert text_of(comparison).startswith("A, C: 60 s, SACK\nB: 60 s, no SACK\n")
    assert comparison_json(comparison)["conditions"][0] == {
        "configs": ["A", "C"],
        "text": "60 s, SACK",
    }


def test_conditions_and_stale_runs_come_from_the_experiments(
    source: Source,
    red: Cell,
    write_run: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for seed in (1, 2, 3):
        write_run("NoMark+RED", 100, seed)
    varied = replace(source, factor="minimum RTO", level="1 s", conditions="30 s")
    made = replace(source, cells=[red], stale={red.runs[2]: "kernel"})
    monkeypatch.setattr(campaign, "sources", lambda choice: (made, varied))
    comparison = campaign.comparison(cast(Choice, None))
    assert comparison.conditions == (Conditions(("A",), source.conditions),)
    assert [(row.state, row.runs) for row in comparison.left_out] == [("stale", 1)]
    assert red.runs[2] in comparison.left_out[0].first


# How near the published tables are, on cells whose answer is known.

A = [cell for cell in PUBLISHED_CELLS if cell.config == "A"]


def agreement(results: list[CellResult]) -> tuple[Agreement, ...]:
    return compare(results, resamples=200).agreement


def scaled(factor: Callable[[CellKey, str], float]) -> list[CellResult]:
    return table(lambda cell, metric, _: known(cell)[metric] * factor(cell, metric))


def test_published_numbers_measured_again_agree_perfectly() -> None:
    rows = agreement(table())
    assert [row.config for row in rows] == ["A", "B", "C", "D", "all"]
    for row in rows:
        cells = 56 if row.config == "all" else 14
        assert [one.value for one in row.errors[:4]] == [0, 0, 0, 0]
        assert [one.value for one in row.taus] == [1, 1]
        assert (row.near.value, row.near.interval, row.near.of) == (cells, (cells, cells), cells)


def test_an_error_is_the_root_mean_square_of_logarithms() -> None:
    rows = {r.config: r for r in agreement(scaled(lambda c, _: 2.0 if c.config == "A" else 1.0))}
    timeouts, loss, goodput, cov = rows["A"].errors[:4]
    assert (loss.value, goodput.value, cov.value) == pytest.approx((math.log(2),) * 3)
    expected = [math.log((2 * known(c)["timeouts"] + 3) / (known(c)["timeouts"] + 3)) for c in A]
    rms = math.sqrt(sum(x * x for x in expected) / len(expected))
    assert timeouts.value == pytest.approx(rms)
    assert rows["all"].errors[1].value == pytest.approx(math.log(2) / 2)  # of a quarter of cells
    few = sum(known(cell)["timeouts"] <= 5 for cell in A)
    assert (rows["A"].near.value, rows["all"].near.value) == (few, 42 + few)


def test_tau_is_that_of_the_worst_block() -> None:
    def turned(cell: CellKey, _: str) -> float:
        return known(cell)["timeouts"] ** -2.0 if (cell.config, cell.flows) == ("B", 50) else 1.0

    rows = {row.config: row for row in agreement(scaled(turned))}
    assert rows["A"].taus[0].value == 1
    assert rows["B"].taus[0].value == rows["all"].taus[0].value == -1
    assert (rows["B"].taus[0].of, rows["all"].taus[0].of) == (2, 8)


def test_second_readings_are_held_to_the_same_column() -> None:
    def with_them(cell: CellKey) -> CellResult:
        values = {m: [known(cell)[m]] * 3 for m in DRAWN}
        more = {n: [3 * known(cell)[column]] * 3 for n, column in SECOND_READINGS.items()}
        return cell_result(cell, values | more, (1, 2, 3))

    (row,) = agreement([with_them(cell) for cell in A])
    found = {one.metric: one.value for one in row.errors}
    assert found["loss_percent"] == 0
    assert [found[name] for name in SECOND_READINGS] == pytest.approx([math.log(3)] * 2)
    (without,) = agreement(table(cells=A))
    assert [(one.value, one.of) for one in without.errors[4:]] == [(None, 0)] * 2


def test_seeds_that_differ_give_intervals_and_one_seed_none() -> None:
    def wobbling(cell: CellKey, metric: str, seed: int) -> float:
        return known(cell)[metric] * (1 + 0.1 * math.sin(seed))

    (row,) = agreement(table(wobbling, cells=A))
    for one in row.errors[:4]:
        assert one.interval is not None
        assert one.interval[0] < one.interval[1]
    (alone,) = agreement(table(wobbling, seeds=(1,), cells=A))
    assert {one.interval for one in (*alone.errors, *alone.taus, alone.near)} == {None}


def test_it_is_in_the_json_and_on_the_terminal() -> None:
    comparison = compare(table(), resamples=50)
    found = comparison_json(comparison)["agreement"][-1]
    assert (found["config"], found["near"]["value"]) == ("all", 56)
    console = Console(file=io.StringIO(), width=80)
    for part in scoreboard(comparison):
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    assert "56 of 56" in console.file.getvalue()
