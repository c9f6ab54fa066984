from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.image import imread
from table_builder import cell_result, without_runs

from tcpf_lab.base.errors import LabError
from tcpf_lab.report.compare.statistics import CellKey
from tcpf_lab.report.document import draw_sweep, figures, sweep_figures
from tcpf_lab.report.figure import bar_chart, bars
from tcpf_lab.report.section import Cell, CellResult, Estimate, Section, Source, collect
from tcpf_lab.report.style import CASES, DISTINCT, METRICS, house_style
from tcpf_lab.results.layout import ExperimentFiles


def test_a_figure_has_the_same_bytes_twice_whatever_the_users_settings(
    files: ExperimentFiles, cells: list[Cell], write_all: Callable[[], None]
) -> None:
    write_all()
    results = collect(files, cells)
    once = bar_chart(results, "timeouts", "Configuration A", "60 s")
    with mpl.rc_context({"font.size": 31, "savefig.dpi": 30}):
        again = bar_chart(results, "timeouts", "Configuration A", "60 s")
    assert once == again
    assert set(once) == {"png", "pdf", "svg"}
    assert once["png"].startswith(b"\x89PNG")
    assert once["pdf"].startswith(b"%PDF")
    assert b"CreationDate" not in once["pdf"]


def test_a_figure_shows_the_colours_of_its_cases_and_leaves_a_margin(
    files: ExperimentFiles, cells: list[Cell], write_all: Callable[[], None]
) -> None:
    write_all()
    conditions = "60 s, " + "10 Mbit/s, 200 ms, and more than a line can hold, " * 3
    content = bar_chart(
        collect(files, cells), "loss_percent", "Configuration A", conditions, ("png",)
    )
    picture = np.rint(imread(io.BytesIO(content["png"]))[..., :3] * 255).astype(int)
    colour = [int(CASES["NoMark+RED"].colour[i : i + 2], 16) for i in (1, 3, 5)]
    assert (picture == colour).all(axis=2).mean() > 0.02
    edges = [picture[0], picture[-1], picture[:, 0], picture[:, -1]]
    assert all((edge == 255).all() for edge in edges), "something is cut off at the border"


def test_the_svg_has_no_date_and_an_id_for_every_bar(
    files: ExperimentFiles, cells: list[Cell], write_all: Callable[[], None]
) -> None:
    write_all()
    svg = bar_chart(collect(files, cells), "timeouts", "A", "60 s", ("svg",))["svg"].decode()
    assert sorted(re.findall(r'id="(mark-\d+)"', svg)) == [f"mark-{place}" for place in range(4)]
    assert "<dc:date>" not in svg
    assert "<text" not in svg, "glyphs are outlines: no font is needed to show it"


def test_bars_without_intervals_and_published_values_are_shown_to_their_top() -> None:
    made = [
        CellResult(
            Cell("mine", "A", flows, ("a-seed1",), published=False),
            1, 1, 1, {"timeouts": Estimate((value,), value, None, None)}, (),
        )
        for flows, value in ((10, 40.0), (50, 250.0))
    ]  # fmt: skip
    with house_style():
        figure = bars(made, METRICS["timeouts"], "one run")
    assert figure.axes[0].get_ylim()[1] > 250


def test_other_numbers_give_another_figure(
    files: ExperimentFiles, cells: list[Cell], write_run: Callable[..., None]
) -> None:
    write_run("NoMark+RED", 100, 1)
    one = bar_chart(collect(files, cells), "timeouts", "A", "60 s", ("svg",))
    write_run("NoMark+RED", 100, 2)
    assert bar_chart(collect(files, cells), "timeouts", "A", "60 s", ("svg",)) != one


def test_the_pdf_is_vector_with_the_font_inside(
    files: ExperimentFiles, cells: list[Cell], write_run: Callable[..., None]
) -> None:
    write_run("NoMark+RED", 100, 1)
    pdf = bar_chart(collect(files, cells), "goodput_cov", "A", "60 s", ("pdf",))["pdf"]
    assert b"/Subtype /Image" not in pdf
    assert re.search(rb"/FontName /\w+\+DejaVuSans\b", pdf)


def test_an_empty_figure_is_an_error_that_says_why(
    files: ExperimentFiles, cells: list[Cell]
) -> None:
    with pytest.raises(LabError, match="nothing to draw for timeouts: none of 4 cells") as caught:
        bar_chart(collect(files, cells), "timeouts", "Configuration A", "60 s")
    assert "`status`" in caught.value.hint


# Which figures a sweep has.

FILES = ExperimentFiles(Path("results"), "configA", "uml")


def cell(flows: int = 100, **settings: str) -> CellResult:
    return at(cell_result(CellKey("A", flows, "TB+RIO"), {}, (1, 2)), settings)


def at(found: CellResult, settings: dict[str, str]) -> CellResult:
    return replace(found, cell=replace(found.cell, settings=tuple(settings.items())))


def section(*results: CellResult) -> Section:
    return Section(Source(FILES, [one.cell for one in results], "A", "60 s"), results)


def test_one_axis_has_a_figure_per_metric() -> None:
    found = sweep_figures(section(cell(max="1 kB"), cell(max="2 kB"), cell()))
    assert [figure.name for figure in found] == [
        f"fig-configA-{slug}" for slug in ("timeouts", "loss", "goodput", "cov")
    ]
    assert {(figure.key, figure.flows) for figure in found} == {("max", 100)}


def test_each_number_of_flows_has_figures_of_its_own() -> None:
    found = sweep_figures(section(*(cell(n, max=size) for n in (100, 50) for size in "12")))
    assert len({figure.name for figure in found}) == len(found) == 8
    assert found[0].name == "fig-configA-timeouts-flows50"


def test_several_axes_one_value_none_and_no_runs_have_no_figure() -> None:
    two = section(cell(max="1 kB", sack="true"), cell(max="2 kB", sack="true"))
    empty = section(at(without_runs(CellKey("A", 100, "TB+RIO")), {"max": "1 kB"}))
    for one in (two, empty, section(cell()), section(cell(max="1 kB"))):
        assert sweep_figures(one) == ()
        assert list(draw_sweep(FILES, one)) == []


def test_cases_at_one_value_each_have_no_figure() -> None:
    one, other = cell(max="1 kB"), cell(max="2 kB")
    assert sweep_figures(section(one, replace(other, cell=replace(other.cell, case="B")))) == ()


def test_more_cases_than_can_be_told_apart_have_no_figure() -> None:
    def of_cases(count: int) -> Section:
        cells = [cell(max=size) for size in "12"]
        names = [f"case {number}" for number in range(count)]
        return section(
            *(replace(one, cell=replace(one.cell, case=name)) for name in names for one in cells)
        )

    assert sweep_figures(of_cases(DISTINCT))
    assert sweep_figures(of_cases(DISTINCT + 1)) == ()


def test_a_sweep_has_no_bars() -> None:
    assert list(figures(FILES, section(cell(max="1 kB"), cell()), "timeouts", "name")) == []
