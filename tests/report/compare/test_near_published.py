"""How near the published tables are, on cells whose answer is known."""

from __future__ import annotations

import io
import math
from collections.abc import Callable

import pytest
from rich.console import Console
from table_builder import cell_result, known, table

from tcpf_lab.report.compare.published import Agreement, compare, comparison_json
from tcpf_lab.report.compare.scoreboard import scoreboard
from tcpf_lab.report.compare.statistics import PUBLISHED_CELLS, CellKey
from tcpf_lab.report.section import CellResult
from tcpf_lab.report.style import DRAWN, SECOND_READINGS

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
