"""What the figures of a calibration show: the numbers behind their marks."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from tcpf_lab.calibration.figures import (
    Course,
    convergence_figure,
    influence_figure,
    profiles_figure,
)
from tcpf_lab.report.plots.canvas import render
from tcpf_lab.report.style import house_style

UNITS = (0.0, 0.25, 0.5, 0.75, 1.0)
RTO: dict[str, Any] = {
    "name": "minimum RTO",
    "values": (0.2, 0.3, 0.45, 0.67, 1.0),
    "units": UNITS,
    "expected": (50.0, 30.0, 20.0, 30.0, 50.0),
    "above": (55.0, 33.0, 21.0, 33.0, 55.0),
    "possible": (40.0, 24.0, 18.0, 24.0, 40.0),
    "pieces": ((0.275, 0.7525),),
    "verdict": "pinned down",
}
SIZE: dict[str, Any] = {
    **RTO,
    "name": "packet size",
    "values": ("576 B", "1500 B"),
    "units": (0.25, 0.75),
    "expected": (60.0, 20.0),
    "above": (65.0, 21.0),
    "possible": (50.0, 18.0),
    "pieces": (("1500 B",),),
}
LIMIT = 28.0


@pytest.fixture(autouse=True)
def _style():
    with house_style():
        yield


def profiles() -> Figure:
    return profiles_figure([RTO, SIZE], LIMIT, [0.0, None], "A and B")


def words(figure: Figure) -> set[str]:
    figure.draw_without_rendering()
    found = figure.findobj(mpl.text.Text)
    return {line for text in found if text.get_visible() for line in text.get_text().split("\n")}


def spans(axes) -> list[tuple[float, float]]:
    return [(p.get_x(), p.get_x() + p.get_width()) for p in axes.patches]


def test_panel_shows_curve_threshold_default_and_what_is_not_excluded() -> None:
    panel = next(axes for axes in profiles().axes if "minimum RTO" in axes.get_title(loc="left"))
    curves = [line.get_xydata().tolist() for line in panel.lines]
    assert list(map(list, zip(UNITS, RTO["expected"], strict=True))) in curves
    assert [[0.0, LIMIT], [1.0, LIMIT]] in curves
    assert [[0.5, 20.0]] in curves  # the least
    assert [[0.0, 0.0], [0.0, 1.0]] in curves  # the default
    # 0.275 is three quarters of the way from the first value to the second, 0.7525 a quarter
    # of that from the last but one to the last
    assert np.array(spans(panel)) == pytest.approx(np.array([[0.1875, 0.8125]]))


def test_levels_that_are_not_excluded_are_shaded() -> None:
    panel = next(axes for axes in profiles().axes if "packet size" in axes.get_title(loc="left"))
    assert np.array(spans(panel)) == pytest.approx(np.array([[0.55, 0.95]]))
    assert {"576 B", "1500 B", "pinned down"} <= words(profiles())


def test_texts_of_values_replace_the_numbers() -> None:
    texts = ["200 ms", "300 ms", "450 ms", "670 ms", "1 s"]
    figure = profiles_figure([{**RTO, "texts": texts}], LIMIT, [0.0], "A")
    assert {"200 ms", "450 ms", "1 s"} <= words(figure)
    assert {"0.2", "0.45", "1"} <= words(profiles())


def test_all_panels_have_one_scale_and_unused_ones_are_hidden() -> None:
    shown = [axes for axes in profiles().axes if axes.get_title(loc="left")]
    assert len(shown) == 2
    assert len({axes.get_ylim() for axes in shown}) == 1
    low, high = shown[0].get_ylim()
    assert low < 18.0 < LIMIT < high


def test_influence_puts_the_strongest_unknown_first() -> None:
    shares = [[0.1, 0.8, float("nan")], [0.0, 0.3, 0.45]]
    metrics = ["timeouts", "loss_percent"]
    figure = influence_figure(shares, ["weight", "RTO", "limit"], metrics, "A")
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["RTO", "limit", "weight"]
    cells = axes.collections[0].get_array()
    assert np.ma.filled(cells, -1).ravel().tolist() == [0.8, 0.3, -1, 0.45, 0.1, 0.0]
    assert {"timeouts", "loss", "0.80", "-"} <= words(figure)


def test_convergence_shows_every_point_and_the_least_so_far() -> None:
    nan = float("nan")
    misfits, whole = [400.0, nan, 300.0, 350.0, 120.0], [True, False, True, True, True]
    course = Course(misfits, whole, [0, 0, 0, 1, 1], 2)
    figure = convergence_figure(course, 112, 130.0, "A and B")
    axes = figure.axes[0]
    courses = [line.get_ydata() for line in axes.lines if len(line.get_xdata()) == 5]
    assert np.array_equal(courses[0], misfits, equal_nan=True)
    assert courses[2].tolist() == [400, 400, 300, 300, 120]
    assert "lacks cells" not in words(figure)
    assert [3.0, 300.0] in [line.get_xydata()[0].tolist() for line in axes.lines], "the default"
    rounds = [line.get_xdata()[0] for line in axes.lines if line.get_color() == "#cccccc"]
    assert rounds == [3.5]
    assert "number of residuals, 112" in words(figure)
    assert not any("$" in word for word in words(figure))


def test_points_that_lack_cells_are_rings_and_never_the_least_so_far() -> None:
    course = Course([400.0, 100.0, 300.0], [True, False, True], [0, 0, 0], None)
    figure = convergence_figure(course, 112, 130.0, "A and B")
    dots, rings, least = (
        line.get_ydata().tolist() for line in figure.axes[0].lines if len(line.get_xdata()) == 3
    )
    assert [n for n, v in enumerate(dots) if v == v] == [0, 2]
    assert [v for v in rings if v == v] == [100]
    assert least == [400, 400, 300]
    assert "lacks cells" in words(figure)
    assert "default" not in words(figure)


def test_files_are_the_same_twice() -> None:
    once, again = (render(profiles(), ["svg"]) for _ in range(2))
    assert once == again
    assert b"<svg" in once["svg"]
