"""What makes a figure readable: legends in full, marks on their own bar, one look for a case."""

from __future__ import annotations

import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.patches import Rectangle
from plot_runs import TINY, tiny, usual
from test_plots import figure, lines, texts

from tcpf_lab.base.errors import LabError
from tcpf_lab.report.figure import bars
from tcpf_lab.report.pages import pdf as module
from tcpf_lab.report.pages.html import REPLACEMENT
from tcpf_lab.report.pages.pdf import glyphs
from tcpf_lab.report.plots import groups
from tcpf_lab.report.plots.canvas import looks, render
from tcpf_lab.report.plots.runs import DrawnRun, grouped
from tcpf_lab.report.section import Cell, CellResult, Estimate
from tcpf_lab.report.style import METRICS, case_styles, house_style


def with_cases(names: list[str], found: Any = usual) -> list[DrawnRun]:
    written = [f"  {name}: {{queue: {{kind: bfifo, limit: 30 kB}}}}\n" for name in names]
    text = f"{TINY[: TINY.index('cases:')]}cases:\n{''.join(written)}"
    runs = tiny(text=f"{text}matrix: {{case: all, flows: 4, seed: 1..3}}\n", found=found)
    return [replace(run, cases=tuple(names)) for run in runs]


def placed(made: Figure) -> Figure:
    with house_style():
        render(made, ("png",))
    return made


@pytest.mark.parametrize("kind", ["bars", "throughput-delay"])
@pytest.mark.parametrize("cases", [2, 5, 13])
@pytest.mark.parametrize("letters", ["W", "i"])
def test_a_legend_is_within_its_figure_and_leaves_the_axes_their_room(
    kind: str, cases: int, letters: str
) -> None:
    names = [f"{'ABCDEFGHIJKLM'[case]}{letters * 24}" for case in range(cases)]
    made = placed(figure(kind, with_cases(names)))
    (legend,) = made.legends
    whole, box = made.bbox, legend.get_window_extent()
    assert 0 <= box.x0 <= box.x1 <= whole.x1
    assert box.y0 >= 0
    assert made.axes[0].get_window_extent().height / made.dpi > 1.8


def test_words_are_not_joined_by_lines() -> None:
    matrix = "matrix: {case: all, flows: 2, seed: 1..3, tcp.ecn: ['off', passive, classic]}\n"
    runs = tiny(text=TINY[: TINY.index("matrix:")] + matrix)
    made = figure("parameter", runs)
    assert [line for line in lines(made) if len({*line[:, 0]}) > 1] == []
    drawn = [line.get_xdata() for line in made.axes[0].lines if line.get_marker() in "<>"]
    assert np.ravel(drawn).round().tolist() == [0, 1, 2] * 2
    assert len(np.unique(drawn)) == 6, "points of two cases are on top of each other"


def test_what_differs_by_a_per_cent_is_drawn_close() -> None:
    def found(run: Any) -> Any:
        goodput = 1000.0 + 3 * (run.case_name == "Second")
        return [goodput] * run.flows, {"queueing_delay_mean_s": 0.019 + goodput / 1e7}

    made = figure("throughput-delay", [r for r in tiny(found=found) if r.flows == 2])
    for low, high in (sorted(made.axes[0].get_xlim()), made.axes[0].get_ylim()):
        assert (high - low) / high > 0.09


def test_bars_of_nothing_say_so() -> None:
    made = figure("bars", tiny(found=lambda run: (usual(run)[0], {"timeouts": 0.0})))
    assert texts(made).split("\n").count("0") >= 4
    assert made.axes[0].get_ylim() == (0, 1)


def test_a_published_value_stands_on_its_own_bar() -> None:
    results = [
        CellResult(
            Cell("A", case, 100, ("r",), True),
            1,
            1,
            1,
            {"timeouts": Estimate((9.0,), 9.0, 2.0, 40.0)},
            (),
        )
        for case in ("TCPF+FRIO", "TB+RIO", "NoMark+RED")
    ]
    made = bars(results, METRICS["timeouts"], "")
    (axes,) = made.axes
    points = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "D"]
    middles = {
        patch.get_x() + patch.get_width() / 2
        for patch in axes.patches
        if isinstance(patch, Rectangle) and patch.get_gid()
    }
    assert points == pytest.approx(sorted(middles))


def test_a_case_looks_the_same_without_the_others() -> None:
    names = ["zebra", "CoDel", "TB+RIO", "PIE"]
    runs = with_cases(names)
    every = looks(grouped(runs))
    for case in names:
        assert looks(grouped([run for run in runs if run.case == case])) == {case: every[case]}
    assert len({(look.colour, look.marker) for look in every.values()}) == 4


def test_letters_of_no_font_are_replaced_and_warned_of_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = [font for font in fontManager.ttflist if font.name == module.FONT]
    monkeypatch.setattr(fontManager, "ttflist", house)
    monkeypatch.setattr(module, "_warned", set())
    made, again = (
        figure("bars", tiny(text=TINY.replace("title: Tiny", f"title: {title}")))
        for title in ("輻制", "制")
    )
    with pytest.warns(UserWarning, match="no font here has 制 輻"):
        placed(made)
    assert f"{REPLACEMENT * 2}. n = 3" in texts(made)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        placed(again)
        assert glyphs("Größe ≈ 3 ± 1") == module.Glyphs((), frozenset())


def test_another_font_has_the_letters_that_ours_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    font = next(font for font in fontManager.ttflist if font.fname.endswith("STIXSizOneSymReg.ttf"))
    monkeypatch.setattr(fontManager, "ttflist", [font])
    letter = min(module._letters(font.fname) - module._own())
    assert glyphs(f"a{letter}") == module.Glyphs(("STIXSizeOneSym",), frozenset())


@pytest.mark.parametrize(("cells", "names"), [(2, 3), (2, 6), (1, 13), (6, 2)])
def test_lines_of_a_distribution_differ_in_colour_or_dash(cells: int, names: int) -> None:
    found = {(f"case {c}", f"g{n}"): [0.0, n + c, 20.0] for c in range(cells) for n in range(names)}
    with house_style():
        cells_looks = case_styles([cell for cell, _ in found])
        drawn = groups.draw_cdf({"": found}, cells_looks, "").axes[0].lines
    seen = {(line.get_color(), str(line._unscaled_dash_pattern)) for line in drawn}  # type: ignore[attr-defined]
    assert len(seen) == cells * names


def test_groups_without_packets_in_the_measured_time_are_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = [
        replace(run, found=run.found | {"groups": [{"name": "late"}]}) for run in tiny(flows="2")
    ]
    nothing = SimpleNamespace(delay_quantiles_s=np.full((1, 5), np.nan))
    monkeypatch.setattr(groups, "read_groups", lambda _files: nothing)
    with pytest.raises(LabError, match="no group has packets in the measured time"):
        figure("delay-cdf", runs)
