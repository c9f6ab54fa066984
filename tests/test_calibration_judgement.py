"""Which numbers a published claim reads: those that a calibration was fitted to, or others."""

from __future__ import annotations

import numpy as np
import pytest

from tcpf_lab.calibration.judgement import claims, part_of
from tcpf_lab.report.claims.judge import Check, Claim
from tcpf_lab.report.claims.terms import CLAIMS
from tcpf_lab.report.compare.statistics import CellKey
from tcpf_lab.report.section import Cell, CellResult, Estimate
from tcpf_lab.report.style import METRICS


def claim(*configs: str) -> Claim:
    """Give a claim on the first case of configurations, a check for each."""

    def check(config: str) -> Check:
        cell = CellKey(config, 100, "NoMark+RED")
        return Check(config, lambda look: look(cell, "timeouts"), low=0)

    return Claim("x", (), "s", tuple(map(check, configs)))


@pytest.mark.parametrize(
    ("configs", "fit", "part"),
    [
        ("A", "AB", "fit"),
        ("AB", "AB", "fit"),
        ("AC", "AB", "both"),
        ("CD", "AB", "test"),
        ("CD", "", "test"),
        ("ABCD", "ABCD", "fit"),
    ],
)
def test_a_claim_is_of_the_part_whose_cells_it_reads(configs: str, fit: str, part: str) -> None:
    assert part_of(claim(*configs), fit) == part


def test_every_published_claim_is_of_a_part() -> None:
    with np.errstate(all="raise"):  # 0 / 0 of a table is no news here
        parts = {one.id: part_of(one, ("A", "B")) for one in CLAIMS}
    assert {*parts.values()} == {"fit", "both", "test"}
    named = [parts[one.id] for one in CLAIMS if one.statement.startswith("C: ")]
    assert named
    assert set(named) == {"test"}


def measured(config: str) -> CellResult:
    """Give the runs of a published cell, two of them and the same."""
    metrics = {metric: Estimate((10.0, 10.0), 10.0, 0.0, None) for metric in METRICS}
    cell = Cell(config, "NoMark+RED", 100, ("x-seed1", "x-seed2"), published=True)
    return CellResult(cell, 2, 2, 2, metrics, ())


def test_claims_have_their_part_and_their_verdict_under_each_setting() -> None:
    results = {"x": [measured("A")], "y": [measured("A"), measured("C")]}
    found = {one["id"]: one for one in claims(results, fit=("A", "B"))}
    assert set(found) == {one.id for one in CLAIMS}
    assert all(set(one["verdicts"]) == {"x", "y"} for one in found.values())
    assert found["thesis-4.3-all-metrics"]["part"] == "test"
    assert "under" not in found["thesis-4.3-all-metrics"]
    assert {one["part"] for one in claims(results)} == {None}, "not known without `fit`"
