"""The same cells on two testbeds, with values that the tests make up."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from scipy import stats
from table_builder import Values, cell_result, without_runs

from tcpf_lab.base.errors import LabError
from tcpf_lab.report.compare.published import comparison_json
from tcpf_lab.report.compare.statistics import CellKey
from tcpf_lab.report.compare.testbeds import (
    Side,
    TwoTestbeds,
    compare_testbeds,
    side_by_side,
    welch_half_width,
)
from tcpf_lab.report.section import CellResult, Problem, Section, Source
from tcpf_lab.report.style import DRAWN
from tcpf_lab.results.layout import ExperimentFiles

RED, TAIL, FRIO = (
    CellKey("A", 100, case) for case in ("NoMark+RED", "NoMark+TailDrop", "TCPF+FRIO")
)


def values(seeds: int, **means: float) -> Values:
    """Values around a mean, 1 % apart; a metric that is not named is 50."""
    steps = np.arange(seeds) - (seeds - 1) / 2
    given = dict.fromkeys(DRAWN, 50.0) | means
    return {name: tuple(mean * (1 + 0.01 * steps)) for name, mean in given.items()}


def side(testbed: str, cells: Mapping[CellKey, Values], extra: Sequence[CellResult] = ()) -> Side:
    results = [
        cell_result(key, own, range(1, 1 + len(next(iter(own.values())))))
        for key, own in cells.items()
    ]
    results += extra
    files = ExperimentFiles(Path("results"), "configA", testbed)
    source = Source(files, [result.cell for result in results], "A", "60 s")
    return Side(testbed, f"{testbed}'s conditions", (Section(source, tuple(results)),))


def compared(ours: Mapping[CellKey, Values], theirs: Mapping[CellKey, Values]) -> TwoTestbeds:
    return compare_testbeds(side("uml", ours), side("vm", theirs))


@pytest.mark.parametrize("sizes", [(3, 3), (10, 4), (2, 7)])
def test_welch_is_what_scipy_says(sizes: tuple[int, int]) -> None:
    rng = np.random.default_rng(5)
    one, other = rng.normal(10, 1, sizes[0]), rng.normal(12, 5, sizes[1])
    expected = stats.ttest_ind(other, one, equal_var=False).confidence_interval(0.95)
    half = welch_half_width(list(one), list(other))
    gap = np.mean(other) - np.mean(one)
    assert half is not None
    assert (gap - half, gap + half) == pytest.approx((expected.low, expected.high))


def test_interval_needs_two_runs_on_each_side() -> None:
    assert welch_half_width([1.0], [1.0, 2.0]) is None
    assert welch_half_width([3.0, 3.0], [3.0, 3.0]) == 0
    tiny, none = [1e-200, 2e-200], [0.0, 0.0]
    assert welch_half_width(tiny, none) == 0  # their squares vanish
    assert welch_half_width([1e-150, 3e-150], none) == pytest.approx(1e-150 * 12.7062, rel=1e-5)


def test_interval_covers_what_it_says() -> None:
    """Of 1500 pairs of equal testbeds 95 % must agree."""
    rng = np.random.default_rng(8)
    agreed = 0
    for _ in range(1500):
        one, other = rng.normal(5, 1, 6), rng.normal(5, 3, 4)
        half = welch_half_width(list(one), list(other))
        assert half is not None
        agreed += abs(np.mean(one) - np.mean(other)) <= half
    assert agreed / 1500 == pytest.approx(0.95, abs=0.015)


def test_cell_agrees_if_every_metric_does() -> None:
    found = compared({RED: values(5)}, {RED: values(5, timeouts=50.4)})
    (cell,) = found.cells
    assert (cell.experiment, cell.config, cell.flows, cell.case) == ("configA", *vars(RED).values())
    assert cell.verdict == "agree"
    timeouts = cell.metrics[0]
    assert (timeouts.metric, timeouts.verdict) == ("timeouts", "agree")
    assert (timeouts.first.n, timeouts.first.mean, timeouts.second.mean) == (5, 50.0, 50.4)
    assert timeouts.difference == pytest.approx(0.4)
    assert timeouts.ratio == pytest.approx(1.008)
    assert timeouts.interval is not None
    assert sum(timeouts.interval) == pytest.approx(0.8)


def test_cell_differs_if_one_metric_does() -> None:
    (cell,) = compared({RED: values(5)}, {RED: values(5, goodput_cov=53.0)}).cells
    assert cell.verdict == "differ"
    assert [row.metric for row in cell.metrics if row.verdict == "differ"] == ["goodput_cov"]


def test_one_run_decides_nothing() -> None:
    found = compared({RED: values(1)}, {RED: values(5)})
    assert found.cells[0].verdict == "open"
    assert {row.interval for row in found.cells[0].metrics} == {None}
    assert "4 comparisons are open: two runs on each testbed are needed" in found.notes


def test_difference_beside_what_is_open_differs() -> None:
    ours, theirs = {RED: values(1), TAIL: values(5)}, {RED: values(5), TAIL: values(5, timeouts=80)}
    assert [cell.verdict for cell in compared(ours, theirs).cells] == ["open", "differ"]


def test_nothing_has_no_ratio() -> None:
    (cell,) = compared({RED: values(3, timeouts=0)}, {RED: values(3, timeouts=2)}).cells
    assert (cell.metrics[0].ratio, cell.metrics[0].verdict) == (None, "differ")
    (cell,) = compared({RED: values(3, timeouts=0)}, {RED: values(3, timeouts=0)}).cells
    assert (cell.metrics[0].difference, cell.metrics[0].verdict) == (0, "agree")


def test_orders_are_held_to_each_other_metric_by_metric() -> None:
    ours = {RED: values(2), TAIL: values(2, timeouts=60), FRIO: values(2, timeouts=70)}
    theirs = {RED: values(2, timeouts=9), TAIL: values(2, timeouts=8), FRIO: values(2, timeouts=10)}
    orders = compared(ours, theirs).orders
    assert [(row.metric, row.cases) for row in orders] == [(name, 3) for name in DRAWN]
    assert orders[0].tau == pytest.approx(1 / 3)
    assert [row.tau for row in orders[1:]] == [None, None, None]  # all cases are equal


def test_cells_that_one_lacks_are_listed_and_runs_left_out_are_counted() -> None:
    problem = Problem("x-seed1", "invalid", ("bottleneck_rate: slow",))
    invalid = without_runs(TAIL)
    invalid = CellResult(invalid.cell, 1, 0, 0, invalid.metrics, (problem,))
    found = compare_testbeds(side("uml", {RED: values(2)}, [invalid]), side("vm", {RED: values(2)}))
    assert found.missing == ("configA, 100 flows, NoMark+TailDrop: no usable run on uml or vm",)
    (left,), none = found.left_out
    assert (left.state, left.runs, none) == ("invalid", 1, ())
    assert left.first == "A: x-seed1: invalid: bottleneck_rate: slow"
    said = shown(found)
    assert "uml: left out, 1 invalid: A: x-seed1: invalid: bottleneck_rate: slow" in said


def test_nothing_in_common_is_an_error() -> None:
    with pytest.raises(LabError, match="no cell has a usable run on both uml and vm"):
        compared({RED: values(2)}, {TAIL: values(2)})


def shown(found: TwoTestbeds, width: int = 80) -> str:
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    for part in side_by_side(found):
        console.print(part)
    return console.export_text()


def test_table_fits_a_terminal() -> None:
    real = {
        "timeouts": 1322.0,
        "loss_percent": 9.1,
        "goodput_bytes_per_s": 11620,
        "goodput_cov": 0.1,
    }
    ours = {RED: values(10, **real), TAIL: values(10, **real), FRIO: values(10, timeouts=0.3)}
    theirs = {RED: values(10, **real), TAIL: values(3, **real), FRIO: values(10, timeouts=41)}
    text = shown(compared(ours, theirs))
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert all(any(case in line for line in lines) for case in ("NoMark+TailDrop", "TCPF+FRIO"))
    assert not any("…" in line for line in lines)
    assert "uml: uml's conditions" in text
    row = next(line for line in lines if line.strip().startswith("goodput"))
    assert row.split() == [
        "goodput",
        "11620",
        "±",
        "252",
        "11620",
        "±",
        "252",
        "0",
        "±",
        "331",
        "1.000",
        "agree",
    ]


def test_wide_numbers_do_not_fold_a_name() -> None:
    own = {
        "timeouts": (3.0, 40.0),
        "loss_percent": (8.2, 19.3),
        "goodput_bytes_per_s": (101000.0, 121000.0),
        "goodput_cov": (0.1, 0.5),
    }
    found = shown(compared({TAIL: own}, {TAIL: own}))
    assert max(map(len, found.splitlines())) <= 80
    assert "NoMark+TailDrop " in found
    assert "111000 ± 127062 111000 ± 127062" in found


def test_json_has_every_field_and_no_infinite_number() -> None:
    plain = json.loads(json.dumps(comparison_json(compared({RED: values(2)}, {RED: values(2)}))))
    assert plain["testbeds"] == ["uml", "vm"]
    (cell,) = plain["cells"]
    assert cell["verdict"] == "agree"
    assert set(cell["metrics"][0]) == {
        *("metric", "first", "second", "difference", "interval", "ratio", "verdict"),
    }
    assert math.isclose(
        cell["metrics"][0]["first"]["ci95"], 0.5 * 0.01 * 50 * 12.7062, rel_tol=1e-4
    )
