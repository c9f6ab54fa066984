"""Lines and steps of a page: every panel shows all of what is drawn in it."""

from __future__ import annotations

import pytest

from tcpf_lab.papers.figures import Frame, draw
from tcpf_lab.report.claims.page import Point
from tcpf_lab.report.style import house_style


@pytest.mark.parametrize("steps", ["", "mid"])
@pytest.mark.parametrize("order", [("low", "high"), ("high", "low")])
def test_the_highest_panel_sets_the_axis_of_all(steps: str, order: tuple[str, str]) -> None:
    heights = {"low": 0.2, "high": 0.9}
    points = [
        Point("a", x, (heights[panel] * share,), panel)
        for panel in order
        for x, share in ((1.0, 0.5), (2.0, 1.0), (3.0, 0.1))
    ]
    with house_style():
        figure = draw(points, Frame(title="T", subtitle="S", x="x", y="y", steps=steps))
        figure.canvas.draw()
    drawn = [axes for axes in figure.axes if axes.lines]
    assert len(drawn) == 2
    for axes in drawn:
        assert axes.get_ylim()[0] <= 0
        assert axes.get_ylim()[1] > 0.9
