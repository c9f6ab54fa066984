"""Sentences of RR-4469 on the model: each has its numbers, and its verdict follows from them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tcpf_lab.papers.rio import model_figures
from tcpf_lab.papers.rio.model_page import shown
from tcpf_lab.papers.rio.router import solve
from tcpf_lab.report.claims.judge import Measured, PaperCheck, Verdict


def test_a_number_decides_by_its_range() -> None:
    below = PaperCheck("x", Measured((5.0,)), high=5, strict=True, unit="%")
    assert (below.verdict, below.range, shown(below)) == (
        Verdict.REFUTED,
        "below 5 %",
        "5.00 %",
    )
    assert PaperCheck("x", Measured((2.485,)), 2.48, 2.5).verdict is Verdict.HOLDS


@pytest.mark.full
def test_boundary_of_a_limit_is_where_the_loss_is_the_limit() -> None:
    first, second = model_figures.boundary(0.006)
    assert first[0] == 0
    assert (np.diff(second) > 0).all()
    for one, two in zip(first, second, strict=True):
        scenario = replace(model_figures.base(), in_probability=one, out_probability=two)
        assert abs(solve(scenario).p_in - 0.006) < 2e-5
