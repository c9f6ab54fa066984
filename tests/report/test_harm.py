"""Harm is paired by seed, of cells that differ in the flows of one group alone."""

from __future__ import annotations

from typing import Any

import pytest

from tcpf_lab.report.harm import Runs, harms
from tcpf_lab.report.section import Cell


def cell(a: str, b: str, case: str = "RED") -> Cell:
    settings = (("traffic.groups.a.flows", a), ("traffic.groups.b.flows", b))
    return Cell("x", case, int(a) + int(b), (), settings=settings)


def group(name: str, flows: int, rate: float, delay: float, loss: float) -> dict[str, Any]:
    delays = {"p50": delay, "p95": 2 * delay}
    numbers = {"throughput_bytes_per_s": rate, "queueing_delay_s": delays, "loss_percent": loss}
    return {"name": name, "flows": flows, **numbers}


def runs(a: int, b: int, *numbers: tuple[float, float, float]) -> Runs:
    return {
        seed: [group("a", a, 5, 1, 0), group("b", b, *own)] for seed, own in enumerate(numbers, 1)
    }


def test_harm_is_of_the_cell_without_the_group_and_of_the_same_seeds() -> None:
    cells = [
        (cell("0", "1"), runs(0, 1, (10, 1, 0), (20, 0, 0), (99, 9, 9))),
        (cell("2", "1"), runs(2, 1, (4, 4, 1), (5, 0, 0))),
        (cell("2", "1", "PIE"), runs(2, 1, (4, 4, 1))),
    ]
    (found,) = harms(cells)
    assert (found.cell, found.of, found.on) == (cells[1][0], "a", "b")
    assert found.by_seed["throughput_bytes_per_s"] == pytest.approx({1: 0.6, 2: 0.75})
    assert found.by_seed["queueing_delay_p50_s"] == found.by_seed["queueing_delay_p95_s"]
    assert found.by_seed["queueing_delay_p50_s"] == {1: 0.75, 2: 0}, "0 and 0: no harm"
    assert found.by_seed["loss_percent"] == {1: 1.0, 2: 0}
